//! Programs that are published as Go modules and nowhere as packages: built once.

use crate::run;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// The Go command: the one on the path, else where its own archive goes.
pub(crate) fn go() -> Result<PathBuf> {
    for path in ["go", "/usr/local/go/bin/go"] {
        if run::output(Command::new(path).arg("version")).is_ok() {
            return Ok(path.into());
        }
    }
    bail!("Go is missing, with which this is built: 1.26 or newer, golang-go of a Debian that has it, say")
}
