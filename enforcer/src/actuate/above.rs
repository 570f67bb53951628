//! A limit above the session's cgroup that somebody else lowers after it: a pod's, which the kubelet sets to the sum of its
//! containers' limits. Giving a container its limit back is of no use where the pod's stays.

use super::{
    limit_fd::LimitFd,
    settle::{Ours, Settled, settle},
};
use crate::cgroup::{Cgroup, CgroupError};
use enforcer_gate::{Limit, LimitFile};
use nix::errno::Errno;

/// `memory.max` of the cgroup above, and what it held when the session began.
#[derive(Debug)]
pub(super) struct Above {
    fd: LimitFd,
    found: Limit,
}

impl Above {
    pub(super) fn open(cgroup: &Cgroup) -> Result<Self, CgroupError> {
        let fd = LimitFd::open(cgroup, LimitFile::Max)?;
        let io = |errno| CgroupError::io(cgroup.absolute().join("memory.max"), "read", errno);
        let found = fd.read().map_err(io)?;
        Ok(Self { fd, found })
    }

    /// The same file, opened anew: whoever blocks in a write of one holds up nobody with another.
    pub(super) fn again(&self, cgroup: &Cgroup) -> Result<Self, CgroupError> {
        Ok(Self { fd: LimitFd::open(cgroup, LimitFile::Max)?, found: self.found })
    }

    /// Takes over a descriptor of another process, and what it found.
    pub(super) fn from_fd(fd: LimitFd, found: Limit) -> Self {
        Self { fd, found }
    }

    pub(super) fn fd(&self) -> &LimitFd {
        &self.fd
    }

    pub(super) fn found(&self) -> Limit {
        self.found
    }

    /// Raises it to what it was, where it holds less now. Never lowers.
    fn raise(&self) -> Result<(), Errno> {
        if self.fd.read()? < self.found { self.fd.write(self.found) } else { Ok(()) }
    }
}

/// As [`settle`] for `memory.max`, and before that the limit above goes up. It does so only where there is something to be
/// put back: without that, what somebody else did above is theirs.
pub(super) fn settle_below(above: Option<&Above>, max: &LimitFd, ours: Ours, found: Limit) -> Settled {
    if let Some(above) = above
        && max.read().is_ok_and(|now| ours.has(now) && now < found)
    {
        // What can't be raised there must not keep this one down.
        let _ = above.raise();
    }
    settle(max, ours, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::fixture::Fixture;
    use enforcer_gate::Bytes;

    const fn bytes(n: u64) -> Limit {
        Limit::Bytes(Bytes::new(n))
    }

    /// The pod has `pod_found` and then `pod`, the container `found` and then `now`; what both hold in the end.
    fn settled(pod_found: &str, pod: &str, now: &str, ours: u64) -> (String, String) {
        let tree = Fixture::new();
        tree.cgroup("pod");
        tree.cgroup("pod/app");
        let line = |text: &str| format!("{text}\n");
        tree.write("pod/memory.max", &line(pod_found));
        tree.write("pod/app/memory.max", &line(now));
        let above = Above::open(&tree.open("pod").unwrap()).unwrap();
        tree.write("pod/memory.max", &line(pod));
        let max = LimitFd::open(&tree.open("pod/app").unwrap(), LimitFile::Max).unwrap();
        let ours = Ours { written: Some(bytes(ours)), pending: None };
        settle_below(Some(&above), &max, ours, bytes(819_200));
        let first = |file| tree.read(file).trim_end().to_owned();
        (first("pod/memory.max"), first("pod/app/memory.max"))
    }

    #[test]
    fn the_pod_goes_up_with_its_container_and_only_then() {
        assert_eq!(settled("819200", "409600", "409600", 409_600), ("819200".into(), "819200".into()));
        let not_ours = settled("819200", "409600", "204800", 409_600);
        assert_eq!(not_ours, ("409600".into(), "204800".into()), "the container's is somebody else's");
        let higher = settled("819200", "999999", "409600", 409_600);
        assert_eq!(higher, ("999999".into(), "819200".into()), "the pod's was raised meanwhile");
        assert_eq!(settled("409600", "409600", "409600", 409_600), ("409600".into(), "819200".into()));
    }
}
