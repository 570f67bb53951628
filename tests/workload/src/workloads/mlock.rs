//! Memory that reclaim can't take.

use crate::args::Args;
use crate::life::Life;
use crate::memory::Memory;
use crate::say;
use anyhow::Result;

/// Locks `--size` bytes.
pub(crate) fn run(mut args: Args, mut life: Life) -> Result<()> {
    let size = args.needed_size("size")?;
    args.finish()?;
    let mut memory = Memory::filled(size, false)?;
    memory.lock()?;
    say::ready(memory.touched());
    life.rest();
    Ok(())
}
