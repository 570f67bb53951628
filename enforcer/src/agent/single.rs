//! One agent a node, whatever sockets and folders each of them has.
//!
//! The lock is on `memory.reclaim` of the root cgroup: one kernel has one such file, only who may write it can open it at
//! all, so nobody else can keep the agent from starting, and no shrink locks that of the root. It goes with the process,
//! and nothing is left behind; no program that the agent starts inherits it.

use super::StartError;
use crate::{
    actuate::{holder, named},
    cgroup::{CgroupError, Mount, shown},
};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg, OFlag, openat},
    sys::stat::Mode,
};
use std::{os::fd::OwnedFd, path::PathBuf};

const FILE: &str = "memory.reclaim";

/// This is the node's agent, while it lives.
#[derive(Debug)]
pub(super) struct Single {
    _lock: Flock<OwnedFd>,
}

impl Single {
    /// Fails at once where another one is.
    pub(super) fn take(mount: &Mount) -> Result<Self, StartError> {
        let path = mount.point().join(FILE);
        let io = |call| {
            let path = path.clone();
            move |errno: Errno| StartError::Cgroup(CgroupError::Io { path, call, source: errno.into() })
        };
        let file = openat(mount, FILE, OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW, Mode::empty())
            .map_err(io("open"))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Self { _lock: lock }),
            Err((file, Errno::EWOULDBLOCK)) => Err(StartError::Another(Another { path, pid: holder(&file) })),
            Err((_, errno)) => Err(io("lock")(errno)),
        }
    }
}

/// The agent that has the node.
#[derive(Debug, thiserror::Error)]
#[error("another agent runs on this node: {} has {} locked", named(*.pid), shown(path))]
pub struct Another {
    path: PathBuf,
    /// Its process, where that is known.
    pub pid: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_second_one_is_told_who_has_it_and_no_program_inherits_it() {
        let tree = tempfile::tempdir().expect("a folder");
        std::fs::write(tree.path().join(FILE), "").expect("a file");
        let mount = Mount::at(tree.path(), true, false).expect("is there");
        let first = Single::take(&mount).expect("nobody has it");
        let error = Single::take(&mount).expect_err("it is taken");
        let StartError::Another(another) = &error else { panic!("{error:?}") };
        // A file system with a device number of its own does not tell.
        assert!(another.pid.is_none_or(|pid| pid == std::process::id()), "{another:?}");
        assert!(error.to_string().contains("another agent runs on this node"), "{error}");
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("starts");
        drop(first);
        let again = Single::take(&mount);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(again.is_ok(), "{again:?}");
    }

    #[test]
    fn a_root_without_the_file_is_told() {
        let tree = tempfile::tempdir().expect("a folder");
        let mount = Mount::at(tree.path(), true, false).expect("is there");
        let error = Single::take(&mount).expect_err("no file").to_string();
        assert!(error.contains(FILE), "{error}");
    }
}
