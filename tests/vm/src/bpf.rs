//! What the kernel has of BPF, by its own numbers.

use std::collections::BTreeSet;

/// Commands of bpf(2) (include/uapi/linux/bpf.h).
const PROG_GET_NEXT_ID: libc::c_int = 11;
const MAP_GET_NEXT_ID: libc::c_int = 12;
const LINK_GET_NEXT_ID: libc::c_int = 31;

/// Programs, maps and links: never the same number twice in a boot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Loaded {
    pub(crate) programs: BTreeSet<u32>,
    pub(crate) maps: BTreeSet<u32>,
    pub(crate) links: BTreeSet<u32>,
}

impl Loaded {
    /// All that there is now.
    pub(crate) fn now() -> Self {
        Self { programs: all(PROG_GET_NEXT_ID), maps: all(MAP_GET_NEXT_ID), links: all(LINK_GET_NEXT_ID) }
    }

    /// What is there and was not before.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let new = |now: &BTreeSet<u32>, then: &BTreeSet<u32>| now.difference(then).copied().collect();
        Self {
            programs: new(&self.programs, &before.programs),
            maps: new(&self.maps, &before.maps),
            links: new(&self.links, &before.links),
        }
    }
}

#[repr(C)]
struct NextId {
    start: u32,
    next: u32,
    open_flags: u32,
}

fn all(command: libc::c_int) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut asked = NextId { start: 0, next: 0, open_flags: 0 };
    loop {
        // SAFETY: the kernel reads and writes the twelve bytes that it is told of.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut asked, size_of::<NextId>()) };
        if result != 0 {
            let error = std::io::Error::last_os_error();
            assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "bpf({command}): {error}");
            return found;
        }
        found.insert(asked.next);
        asked.start = asked.next;
    }
}
