//! A program that looks idle between its bursts, such as a managed heap between collections.

use crate::args::Args;
use crate::life::Life;
use crate::memory::Memory;
use crate::say;
use anyhow::Result;

/// Allocates the burst every period and holds it for duty. With `--keep` the burst's pages stay and are
/// written again, so that only their age changes.
pub(crate) fn run(mut args: Args, mut life: Life) -> Result<()> {
    let base = args.needed_size("base")?;
    let burst = args.needed_size("burst")?;
    let (period, duty) = (args.span("period")?, args.span("duty")?);
    let (keep, report) = (args.flag("keep"), args.flag("report"));
    let period = period.unwrap_or(std::time::Duration::from_secs(1));
    let duty = duty.unwrap_or(period / 10).min(period);
    args.finish()?;
    let _base = Memory::filled(base, false)?;
    let mut heap = Memory::reserve(burst, false)?;
    if keep {
        heap.grow_to(burst);
    }
    say::ready(base + heap.touched());
    let mut count = 0_u64;
    while life.wait(period.checked_sub(duty).unwrap()) {
        heap.grow_to(burst);
        heap.rewrite();
        count += 1;
        if report {
            say::line(format_args!("burst {count}"));
        }
        if !life.wait(duty) {
            break;
        }
        if !keep {
            heap.drop_pages()?;
        }
    }
    Ok(())
}
