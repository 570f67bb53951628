//! A working set of mapped file pages, as a program's text and data are.

use super::files;
use crate::args::Args;
use crate::life::Life;
use crate::memory::Memory;
use crate::say;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

/// Maps a file and reads every page each period.
pub(crate) fn run(mut args: Args, mut life: Life) -> Result<()> {
    let (path, size) = (args.needed("file")?, args.needed_size("size")?);
    let period = args.span("period")?.unwrap_or(Duration::from_millis(100));
    args.finish()?;
    let file = files::clean(Path::new(&path), size)?;
    let memory = Memory::map_file(&file, size)?;
    memory.read_all();
    say::ready(size);
    while life.wait(period) {
        memory.read_all();
    }
    Ok(())
}
