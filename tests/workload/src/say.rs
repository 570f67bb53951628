//! Lines on standard output. A reader that has gone is no reason to die half-way.

use std::fmt;
use std::io::{self, Write};

/// The initial state is reached, with so many bytes touched.
pub(crate) fn ready(bytes: usize) {
    line(format_args!("ready {bytes}"));
}

/// One line, flushed.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
