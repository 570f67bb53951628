//! Who holds a file's lock (flock(2)), as `/proc/locks` tells, or has it open.

use nix::sys::stat::{fstat, major, minor};
use std::{
    fs,
    io::Read as _,
    os::fd::{AsFd, AsRawFd as _},
    path::Path,
};

/// Bytes of `/proc/locks` that are looked through; a line has about 60.
const LOCKS_BYTES_MAX: u64 = 4 << 20;

/// The process that has this file locked, or one of them. `None` where that is not told: it is in another pid
/// namespace, or the file system shows a device number of its own (btrfs, overlay).
pub(crate) fn holder(file: impl AsFd) -> Option<u32> {
    let stat = fstat(file.as_fd()).ok()?;
    let mut text = String::new();
    fs::File::open("/proc/locks").ok()?.take(LOCKS_BYTES_MAX).read_to_string(&mut text).ok()?;
    let pid = find(&text, &format!("{:02x}:{:02x}:{}", major(stat.st_dev), minor(stat.st_dev), stat.st_ino))?;
    // Its child has the lock from it, and it alone once it has died.
    let lives = fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|mut files| files.next().is_some());
    let heir = || {
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())).ok()?;
        who_has_open(&path).first().copied()
    };
    Some(if lives { pid } else { heir().unwrap_or(pid) })
}

/// The processes but this one that have this file open, as `/proc/PID/fd` shows. A lock that was handed down to a child is
/// still told as its parent's (`/proc/locks`), also when that has died.
pub(super) fn who_has_open(file: &Path) -> Vec<u32> {
    // Links are shown without the links on their way.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.into());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_it = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|link| fs::read_link(link.path()).ok()).any(|to| to == file)
    };
    pids.filter(|pid| *pid != std::process::id()).filter(has_it).collect()
}

/// How a holder is named to people.
pub(crate) fn named(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".into(), |pid| format!("pid {pid}"))
}

/// `1: FLOCK  ADVISORY  WRITE 1234 00:1b:5678 0 EOF`; a line with an arrow is of one that waits (`lock_get_status` in
/// `fs/locks.c`).
fn find(locks: &str, file: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, pid) = (words.next()?, words.nth(2)?);
        let found = kind == "FLOCK" && words.next()? == file;
        pid.parse().ok().filter(|pid| found && *pid > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_waits_is_not_the_holder() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 00:1b:42 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 8 00:1b:42 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 9 00:1b:42 0 EOF\n\
                     4: FLOCK  ADVISORY  READ  10 00:1b:421 0 EOF\n\
                     5: FLOCK  ADVISORY  READ  0 00:1b:43 0 EOF\n";
        for (file, pid) in [("00:1b:42", Some(9)), ("00:1b:421", Some(10)), ("00:1b:43", None)] {
            assert_eq!(find(locks, file), pid, "{file}");
        }
        assert_eq!(find("cut: FLOCK", "00:1b:42"), None);
    }
}
