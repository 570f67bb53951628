//! Anonymous memory.

use crate::args::Args;
use crate::life::Life;
use crate::memory::Memory;
use crate::say;
use anyhow::Result;

/// Of a fixed size in the end. Prints `grown <bytes>` when a rate brought it there.
pub(crate) fn anon(mut args: Args, mut life: Life) -> Result<()> {
    let size = args.needed_size("size")?;
    let rate = args.size("rate")?;
    let start = args.size("start")?.unwrap_or(if rate.is_some() { 0 } else { size });
    let thp = args.flag("thp");
    args.finish()?;
    let mut memory = Memory::reserve(size, thp)?;
    grow(&mut memory, start, rate, size, &mut life);
    Ok(())
}

/// Without an end unless one is set.
pub(crate) fn leak(mut args: Args, mut life: Life) -> Result<()> {
    let rate = args.needed_size("rate")?;
    let start = args.size("start")?.unwrap_or(0);
    let size = args.size("size")?.unwrap_or(1 << 40);
    args.finish()?;
    let mut memory = Memory::reserve(size, false)?;
    grow(&mut memory, start, Some(rate), size, &mut life);
    Ok(())
}

fn grow(memory: &mut Memory, start: usize, rate: Option<usize>, size: usize, life: &mut Life) {
    memory.grow_to(start);
    say::ready(memory.touched());
    if let Some(rate) = rate
        && memory.grow_at(rate, size, &mut |span| life.wait(span))
    {
        say::line(format_args!("grown {}", memory.touched()));
    }
    life.rest();
}
