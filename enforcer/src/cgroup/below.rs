//! The cgroups below one: their ids, and who lives in them.

use super::{Cgroup, CgroupError};
use enforcer_gate::CgroupId;
use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::os::unix::fs::DirEntryExt;
use std::path::PathBuf;

impl Cgroup {
    /// The ids of all descendants, nearest first, at most `count_max`. One that vanishes during the walk may or
    /// may not be among them.
    pub fn descendant_ids(&self, count_max: usize) -> Result<Vec<CgroupId>, CgroupError> {
        Ok(self.descendants(count_max)?.into_iter().map(|(id, _)| id).collect())
    }

    /// The ids of the processes of this cgroup and of its nearest `count_max` descendants.
    pub fn processes(&self, count_max: usize) -> Result<BTreeSet<u32>, CgroupError> {
        let below = self.descendants(count_max)?.into_iter().map(|(_, folder)| folder);
        let files = std::iter::once(self.absolute().to_owned()).chain(below);
        // One that went away has none; a threaded one can't be read, and those of its domain are listed there.
        let texts = files.filter_map(|folder| std::fs::read_to_string(folder.join("cgroup.procs")).ok());
        Ok(texts
            .flat_map(|text| text.lines().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
            .collect())
    }

    /// The cgroups right below, as paths below the mount, at most `count_max`. One that vanishes meanwhile may or may not
    /// be among them.
    pub fn children(&self, count_max: usize) -> Result<Vec<PathBuf>, CgroupError> {
        let entries = std::fs::read_dir(self.absolute()).map_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                return CgroupError::Gone { path: self.absolute().into() };
            }
            let errno = nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(0));
            CgroupError::io(self.absolute().to_owned(), "list", errno)
        })?;
        let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        Ok(folders.take(count_max).map(|entry| self.path().join(entry.file_name())).collect())
    }

    /// The ids and folders of all descendants, nearest first, at most `count_max`.
    fn descendants(&self, count_max: usize) -> Result<Vec<(CgroupId, PathBuf)>, CgroupError> {
        let mut found = Vec::new();
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
                if found.len() >= count_max {
                    return Ok(found);
                }
                found.push((CgroupId::new(entry.ino()), entry.path()));
                folders.push_back(entry.path());
            }
        }
        Ok(found)
    }
}
