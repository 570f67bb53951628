//! Putting one file back: the only way in which a limit is ever raised here.

use super::limit_fd::LimitFd;
use enforcer_gate::{Limit, LimitFile, OutcomeKind};
use nix::errno::Errno;

/// The values that a file can hold because of us: the one in force, and the one whose write was about to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ours {
    pub(super) written: Option<Limit>,
    pub(super) pending: Option<Limit>,
}

impl Ours {
    pub(super) fn has(self, value: Limit) -> bool {
        self.written == Some(value) || self.pending == Some(value)
    }
}

/// What came of putting a file back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// It held our value and holds the old one now.
    Restored,
    /// It held the old value already.
    AsFound,
    /// It holds what somebody else wrote, which stays.
    Superseded(Limit),
    /// The cgroup is no more.
    Gone,
    /// A call failed.
    Failed(Errno),
}

/// What is to be done about a file that holds `now`, pure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Raise,
    AsFound,
    Leave,
}

fn judge(now: Limit, ours: Ours, found: Limit) -> Verdict {
    if now == found {
        Verdict::AsFound
    } else if ours.has(now) && found > now {
        Verdict::Raise
    } else {
        Verdict::Leave
    }
}

/// Writes `found` if the file holds a value of ours and `found` is higher.
///
/// The kernel offers no compare-and-swap on a limit: somebody else's write that lands in the few microseconds
/// between this read and this write is lost.
pub(super) fn settle(fd: &LimitFd, ours: Ours, found: Limit) -> Settled {
    let outcome = fd.read().and_then(|now| match judge(now, ours, found) {
        Verdict::AsFound => Ok(Settled::AsFound),
        Verdict::Leave => Ok(Settled::Superseded(now)),
        Verdict::Raise => {
            fd.write(found)?;
            let now = fd.read()?;
            Ok(if now == found { Settled::Restored } else { Settled::Superseded(now) })
        }
    });
    match outcome {
        Ok(settled) => settled,
        Err(Errno::ENODEV) => Settled::Gone,
        Err(errno) => Settled::Failed(errno),
    }
}

impl Settled {
    pub(super) fn outcome(self, file: LimitFile) -> OutcomeKind {
        match self {
            Self::Restored | Self::AsFound => OutcomeKind::Done,
            Self::Superseded(found) => OutcomeKind::Superseded { file, found },
            Self::Gone => OutcomeKind::Gone,
            Self::Failed(errno) => failed(file, "put back", errno),
        }
    }
}

/// A failed call on a limit file as an outcome.
pub(super) fn failed(file: LimitFile, what: &str, errno: Errno) -> OutcomeKind {
    if errno == Errno::ENODEV {
        return OutcomeKind::Gone;
    }
    OutcomeKind::Failed {
        what: format!("can't {what} {}: {}", file.name(), errno.desc()),
        errno: errno as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::fixture::Fixture;
    use enforcer_gate::Bytes;
    use proptest::prelude::*;

    fn bytes(n: u64) -> Limit {
        Limit::Bytes(Bytes::new(n))
    }

    fn ours(written: u64) -> Ours {
        Ours { written: Some(bytes(written)), pending: None }
    }

    #[test]
    fn only_our_value_is_replaced_and_only_by_a_higher_one() {
        let tree = Fixture::new();
        tree.cgroup("a");
        let fd = LimitFd::open(&tree.open("a").unwrap(), LimitFile::Max).unwrap();
        for (holds, ours, found, settled, then) in [
            ("4096\n", ours(4096), bytes(8192), Settled::Restored, "8192"),
            ("8192\n", ours(4096), bytes(8192), Settled::AsFound, "8192\n"),
            ("max\n", ours(4096), bytes(8192), Settled::Superseded(Limit::Max), "max\n"),
            ("1024\n", ours(4096), bytes(8192), Settled::Superseded(bytes(1024)), "1024\n"),
            ("4096\n", ours(4096), bytes(1024), Settled::Superseded(bytes(4096)), "4096\n"),
            ("4096\n", Ours::default(), bytes(8192), Settled::Superseded(bytes(4096)), "4096\n"),
            ("x\n", ours(4096), bytes(8192), Settled::Failed(Errno::EBADMSG), "x\n"),
        ] {
            tree.write("a/memory.max", holds);
            // A plain file, unlike the kernel's, keeps a write position and an old tail.
            let fresh = LimitFd::open(&tree.open("a").unwrap(), LimitFile::Max).unwrap();
            let got = settle(&fresh, ours, found);
            let expected = if settled == Settled::Restored { "8192\n" } else { then };
            assert_eq!((got, tree.read("a/memory.max").as_str()), (settled, expected), "{holds:?}");
        }
        drop(fd);
    }

    proptest! {
        #[test]
        fn a_raise_is_always_from_ours_and_always_up(now: u64, written: u64, pending: u64, found: u64) {
            let ours = Ours { written: Some(bytes(written)), pending: Some(bytes(pending)) };
            if judge(bytes(now), ours, bytes(found)) == Verdict::Raise {
                prop_assert!(now == written || now == pending);
                prop_assert!(found > now);
            }
        }
    }
}
