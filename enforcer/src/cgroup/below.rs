//! Ids of the cgroups below one.

use super::{Cgroup, CgroupError};
use enforcer_gate::CgroupId;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::unix::fs::DirEntryExt;

impl Cgroup {
    /// The ids of all descendants, nearest first, at most `count_max`. One that vanishes during the walk may or
    /// may not be among them.
    pub fn descendant_ids(&self, count_max: usize) -> Result<Vec<CgroupId>, CgroupError> {
        let mut ids = Vec::new();
        let mut folders = VecDeque::from([self.absolute().to_owned()]);
        while let Some(folder) = folders.pop_front() {
            let entries = match std::fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == ErrorKind::NotFound && folder != self.absolute() => continue,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(CgroupError::Gone { path: folder });
                }
                Err(error) => {
                    let errno = nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(0));
                    return Err(CgroupError::io(folder, "list", errno));
                }
            };
            for entry in entries.flatten() {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                if ids.len() >= count_max {
                    return Ok(ids);
                }
                ids.push(CgroupId::new(entry.ino()));
                folders.push_back(entry.path());
            }
        }
        Ok(ids)
    }
}
