//! What can still be looked at after an OOM. Everything may be gone by then; nothing here fails.

use super::{
    assemble::Finished,
    inventory::Inventory,
    record::LimitAt,
    tell::{self, Seen, SeenCgroup},
};
use crate::{
    cgroup::{Cgroup, Mount, parse::Malformed},
    labels::labels,
    names::Place,
    probe::{OomOwner, Stat},
};
use enforcer_gate::{Bytes, CgroupId};
use std::{
    collections::{BTreeMap, BTreeSet},
    os::{
        fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::fs::{DirEntryExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

/// Cgroups that are walked at most, and how deep.
const WALK_MAX: usize = 65_536;
const DEPTH_MAX: usize = 64;

/// Every cgroup that is there.
pub(super) fn walk(mount: &Mount, inventory: &mut Inventory) {
    let Ok(root) = std::fs::metadata(mount.point()) else { return };
    inventory.seen(CgroupId::new(root.ino()), None, "".into());
    let mut left = vec![(mount.point().to_owned(), CgroupId::new(root.ino()), 0)];
    let mut count = 0;
    while let Some((path, id, depth)) = left.pop() {
        for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
            if count == WALK_MAX || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            count += 1;
            let child = CgroupId::new(entry.ino());
            inventory.seen(child, Some(id), entry.file_name());
            if depth < DEPTH_MAX {
                left.push((entry.path(), child, depth + 1));
            }
        }
    }
}

/// Looks at everything that an OOM is about. `now_ns`: `CLOCK_MONOTONIC`.
pub(super) fn look(finished: &Finished, inventory: &Inventory, mount: &Arc<Mount>, now_ns: u64) -> Seen {
    let mut seen = Seen::default();
    let mut open = BTreeMap::new();
    for id in tell::concerned(finished, inventory) {
        let path = inventory.path(id).or_else(|| path_of(mount, id));
        let cgroup = path.as_deref().and_then(|path| still(mount, path, id));
        let (pod, container) = path.as_deref().map(|path| labels(&Place::of(path))).unwrap_or_default();
        seen.cgroups.insert(id, SeenCgroup { path, gone: cgroup.is_none(), pod, container });
        open.extend(cgroup.map(|cgroup| (id, cgroup)));
    }
    for id in tell::lineage(finished, inventory) {
        let limit = open.get(&id).and_then(|cgroup| cgroup.limit("memory.max").ok());
        seen.limits.extend(limit.map(|limit| LimitAt { cgroup: id, limit }));
    }
    let Some(first) = finished.kills.first() else { return seen };
    if let Some(cgroup) = first.victim.cgroup.and_then(|id| open.get(&id)) {
        let victims: BTreeSet<u32> = finished.kills.iter().map(|kill| kill.victim.tgid).collect();
        seen.survivors = cgroup.read("cgroup.procs", |text| Ok(others(text, &victims))).ok();
    }
    if let OomOwner::Cgroup { id, .. } = first.owner
        && !tell::is_explained(finished)
        && let Some(cgroup) = open.get(&id)
    {
        seen.stat = cgroup.read("memory.stat", terms).ok().map(|terms| (now_ns, terms));
    }
    seen
}

/// The cgroup at a path, if it is still this one.
fn still(mount: &Arc<Mount>, path: &Path, id: CgroupId) -> Option<Cgroup> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    Cgroup::open_in(mount, path).ok().filter(|cgroup| cgroup.id() == id)
}

/// Where a living cgroup is, by its id alone (`open_by_handle_at(2)`; `FILEID_KERNFS` of
/// include/linux/exportfs.h).
fn path_of(mount: &Mount, id: CgroupId) -> Option<PathBuf> {
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        id: u64,
    }
    let mut handle = Handle { bytes: 8, kind: 0xfe, id: id.get() };
    let root = mount.as_fd().as_raw_fd();
    // SAFETY: the handle has the room that it says and outlives the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_open_by_handle_at, root, &raw mut handle, libc::O_PATH | libc::O_CLOEXEC)
    };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the call made it just now, for us.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let path = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
    path.strip_prefix(mount.point()).ok().map(Path::to_owned)
}

/// Processes that were no victims.
fn others(procs: &[u8], victims: &BTreeSet<u32>) -> u32 {
    let pids = procs.split(|byte| *byte == b'\n').filter_map(|line| {
        std::str::from_utf8(line).ok()?.parse::<u32>().ok().filter(|pid| !victims.contains(pid))
    });
    u32::try_from(pids.count()).unwrap_or(u32::MAX)
}

/// The terms that the kernel programs tell too.
#[expect(clippy::unnecessary_wraps, reason = "the shape of a parser")]
fn terms(text: &[u8]) -> Result<BTreeMap<String, Bytes>, Malformed> {
    let line = |line: &[u8]| {
        let (name, value) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        let term = Stat::ALL.iter().find(|term| term.name() == name)?;
        Some((term.name().to_owned(), Bytes::new(value.parse().ok()?)))
    };
    Ok(text.split(|byte| *byte == b'\n').filter_map(line).collect())
}

/// Whether a process runs the same program as this one; `None` where it is gone.
pub(super) fn is_ours(pid: u32) -> Option<bool> {
    let exe =
        |pid: &str| std::fs::metadata(format!("/proc/{pid}/exe")).ok().map(|meta| (meta.dev(), meta.ino()));
    Some(exe(&pid.to_string())? == exe("self")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_live_on_are_counted() {
        let victims = BTreeSet::from([2, 3]);
        for (text, expected) in [("1\n2\n3\n", 1), ("2\n3\n", 0), ("", 0), ("2\nx\n4\n5\n", 2)] {
            assert_eq!(others(text.as_bytes(), &victims), expected, "{text:?}");
        }
    }

    #[test]
    fn terms_of_the_file_have_the_kernels_names() {
        let text = b"anon 4096\nfile 8192\nkernel_stack 5\nslab 9\nslab_reclaimable 7\npgfault x\n";
        let found = terms(text).unwrap();
        let expected = [("anon", 4096), ("file", 8192), ("slab_reclaimable", 7)];
        assert_eq!(found, expected.map(|(name, bytes)| (name.to_owned(), Bytes::new(bytes))).into());
    }

    #[test]
    fn our_own_process_is_ours() {
        assert_eq!(is_ours(std::process::id()), Some(true));
        assert_eq!(is_ours(u32::MAX), None);
    }
}
