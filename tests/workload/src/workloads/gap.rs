//! The adversary: allocates exactly when somebody has checked and not yet committed.

use crate::args::{Args, Usage};
use crate::cgroup;
use crate::life::Life;
use crate::memory::Memory;
use crate::say;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Waits until a limit of its cgroup goes down, then touches the burst in one go and keeps it. Prints
/// `gap <bytes>`. The files are read every `--poll`, not awaited by inotify, which would tell only after
/// a blocking write has ended.
pub(crate) fn run(mut args: Args, mut life: Life) -> Result<()> {
    let (base, burst) = (args.size("base")?.unwrap_or(0), args.needed_size("burst")?);
    let watch = args.text("watch")?.map(PathBuf::from);
    let files: &[&str] = match args.text("on")?.as_deref() {
        Some("high") => &["memory.high"],
        Some("max") => &["memory.max"],
        None | Some("any") => &["memory.high", "memory.max"],
        Some(other) => return Err(Usage(format!("--on {other:?}: want high, max or any")).into()),
    };
    let delay = args.span("delay")?.unwrap_or(Duration::ZERO);
    let poll = args.span("poll")?.unwrap_or(Duration::from_micros(200));
    args.finish()?;
    let dir = match watch {
        Some(dir) => dir,
        None => cgroup::own()?,
    };
    let _base = Memory::filled(base, false)?;
    let mut heap = Memory::reserve(burst, false)?;
    let limits = Limits::new(&dir, files);
    say::ready(base);
    while !limits.went_down() {
        if !life.wait(poll) {
            return Ok(());
        }
    }
    if !life.wait(delay) {
        return Ok(());
    }
    heap.grow_to(burst);
    say::line(format_args!("gap {}", base + heap.touched()));
    life.rest();
    Ok(())
}

struct Limits(Vec<(PathBuf, u64)>);

impl Limits {
    fn new(dir: &Path, files: &[&str]) -> Self {
        let before = |file: PathBuf| {
            let limit = cgroup::limit(&file);
            (file, limit)
        };
        Self(files.iter().map(|file| before(dir.join(file))).collect())
    }

    fn went_down(&self) -> bool {
        self.0.iter().any(|(file, before)| cgroup::limit(file) < *before)
    }
}
