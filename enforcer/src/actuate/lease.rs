//! Keeps two sessions from each other's cgroups, whatever state directory each of them has.
//!
//! The locks are on the cgroups' own `memory.reclaim`: one kernel has one such file, whatever container, mount or state
//! directory it is reached from; the lock goes with the last process that has it open; and only who may write the file
//! can open it at all, so nobody inside a container can keep its limit from being lowered (a folder or a limit file can be
//! opened by everyone, and locked).

use super::{ActuateError, holder::holder, overlap::pod};
use crate::cgroup::Cgroup;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg, OFlag},
};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

/// A cgroup of one's own. The restorer shares it, so that it lasts until a killed session is undone.
#[derive(Debug)]
pub(super) struct Lease(Vec<Flock<OwnedFd>>);

impl Lease {
    /// Takes the cgroup, up to its pod, for itself, and shares what is above. Two sessions that
    /// [`overlap`](super::overlap::overlap) want one of these for itself and the other at all.
    ///
    /// Fails at once with [`ActuateError::InProgress`] where another has it.
    pub(super) fn take(cgroup: &Cgroup) -> Result<Self, ActuateError> {
        let top = pod(cgroup.path());
        let top = top.as_deref().unwrap_or(cgroup.path());
        let mut locks = Vec::new();
        for level in std::iter::once(cgroup.clone()).chain(cgroup.ancestors()?) {
            let how = if level.path().starts_with(top) {
                FlockArg::LockExclusiveNonblock
            } else {
                FlockArg::LockSharedNonblock
            };
            let file = level.open_file("memory.reclaim", OFlag::O_WRONLY)?;
            match Flock::lock(file, how) {
                Ok(lock) => locks.push(lock),
                Err((file, Errno::EWOULDBLOCK)) => {
                    return Err(ActuateError::InProgress { pid: holder(&file), path: level.path().into() });
                }
                Err((_, errno)) => return Err(ActuateError::system("lock memory.reclaim", errno)),
            }
        }
        Ok(Self(locks))
    }

    /// The descriptors that keep it.
    pub(super) fn raw(&self) -> impl Iterator<Item = RawFd> {
        self.0.iter().map(|lock| lock.as_raw_fd())
    }
}

/// Fails with [`ActuateError::InProgress`] where a session is at work on the cgroup or in its way; the answer may be
/// another one a moment later.
pub fn check_free(cgroup: &Cgroup) -> Result<(), ActuateError> {
    Lease::take(cgroup).map(drop)
}

/// The process of a session, or of a restorer, other than this one's that is at work on the cgroup. Goes by `/proc/locks` and
/// takes no lock, so it is in nobody's way. `None` where nobody is, or the process is in another pid namespace.
pub fn at_work(cgroup: &Cgroup) -> Option<u32> {
    who_has(cgroup).filter(|pid| *pid != std::process::id())
}

/// Whether any session, or a restorer, is at work on the cgroup, as `/proc/locks` tells.
pub fn is_held(cgroup: &Cgroup) -> bool {
    who_has(cgroup).is_some()
}

fn who_has(cgroup: &Cgroup) -> Option<u32> {
    holder(cgroup.open_file("memory.reclaim", OFlag::O_WRONLY).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::fixture::Fixture;

    #[test]
    fn those_in_each_others_way_exclude_each_other_and_no_others() {
        let tree = Fixture::new();
        let all = [
            "a",
            "a/b",
            "a/c",
            "kubepods",
            "kubepods/pod1",
            "kubepods/pod1/x/y",
            "kubepods/pod1/z",
            "kubepods/pod2/x",
        ];
        for path in all {
            tree.cgroup(path);
        }
        for one in all {
            let lease = Lease::take(&tree.open(one).unwrap()).unwrap();
            for other in all {
                let expected = super::super::overlap::overlap(one.as_ref(), other.as_ref());
                let taken = Lease::take(&tree.open(other).unwrap());
                assert_eq!(taken.is_err(), expected, "{one} {other}: {taken:?}");
            }
            drop(lease);
        }
    }
}
