//! Files: clean cache, dirty cache, tmpfs.

use crate::args::Args;
use crate::life::Life;
use crate::memory::{Memory, PAGE, Random};
use crate::say;
use anyhow::{Context, Result};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

/// Clean page cache, charged to whoever reads first: what others left in the cache is dropped before.
pub(crate) fn cache(mut args: Args, mut life: Life) -> Result<()> {
    let (path, size) = (args.needed("file")?, args.needed_size("size")?);
    let (anon, reread) = (args.size("anon")?.unwrap_or(0), args.span("reread")?);
    args.finish()?;
    let _anon = Memory::filled(anon, false)?;
    let mut file = clean(Path::new(&path), size)?;
    say::ready(anon + read(&mut file, size)?);
    match reread {
        None => life.rest(),
        Some(period) => {
            while life.wait(period) {
                read(&mut file, size)?;
            }
        }
    }
    Ok(())
}

/// Page cache that has to be written before it can go; rewritten so that writeback never ends it.
pub(crate) fn dirty(mut args: Args, mut life: Life) -> Result<()> {
    let (path, size) = (args.needed("file")?, args.needed_size("size")?);
    let period = args.span("period")?.unwrap_or(Duration::from_secs(1));
    args.finish()?;
    let mut file = open(Path::new(&path))?;
    write(&mut file, size)?;
    say::ready(size);
    while life.wait(period) {
        file.rewind()?;
        write(&mut file, size)?;
    }
    Ok(())
}

/// A file on a tmpfs, deleted while open so that it goes with the process.
pub(crate) fn tmpfs(mut args: Args, mut life: Life) -> Result<()> {
    let (dir, size) = (args.needed("dir")?, args.needed_size("size")?);
    let anon = args.size("anon")?.unwrap_or(0);
    args.finish()?;
    let _anon = Memory::filled(anon, false)?;
    let path = Path::new(&dir).join(format!("workload-{}", std::process::id()));
    let mut file = open(&path)?;
    fs::remove_file(&path).with_context(|| format!("deleting {}", path.display()))?;
    write(&mut file, size)?;
    say::ready(anon + size);
    life.rest();
    Ok(())
}

/// A file of `size` bytes whose pages are neither dirty nor in memory.
pub(super) fn clean(path: &Path, size: usize) -> Result<File> {
    let mut file = open(path)?;
    if file.metadata()?.len() != size as u64 {
        file.set_len(0)?;
        write(&mut file, size)?;
    }
    file.sync_all().with_context(|| format!("writing out {}", path.display()))?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).context("dropping the cache")?;
    Ok(file)
}

fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).with_context(|| format!("opening {}", path.display()))
}

fn write(file: &mut File, size: usize) -> Result<()> {
    let mut random = Random::new();
    let mut page = [0; PAGE];
    let mut left = size;
    while left > 0 {
        random.fill(&mut page);
        let part = left.min(PAGE);
        file.write_all(&page[..part]).context("writing")?;
        left -= part;
    }
    Ok(())
}

/// Reads the file's first `size` bytes; how many there were.
pub(super) fn read(file: &mut File, size: usize) -> Result<usize> {
    file.rewind()?;
    let mut buffer = vec![0; 64 * 1024];
    let mut done = 0;
    while done < size {
        match file.read(&mut buffer).context("reading")? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}
