//! Where a process is.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

/// The cgroup of a process below the mount, without a slash in front, from the text of its `/proc/PID/cgroup`
/// (cgroups(7)). Names need not be UTF-8; `None` where it has none of cgroup v2.
pub fn membership(text: &[u8]) -> Option<&Path> {
    let path = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"0::/"))?;
    Some(Path::new(OsStr::from_bytes(path)))
}
