//! Where a container's process is, by /proc, checked against who it is asked for.

use super::{
    home,
    model::{Home, Located, NoHome},
};
use crate::cgroup::{Cgroup, CgroupError, Mount};
use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Longest /proc/PID/cgroup: a path of 4096 bytes for each hierarchy of cgroup v1.
const BYTES_MAX: u64 = 128 * 1024;
/// Looks at a process that moves while it is looked at.
const LOOKS_MAX: usize = 4;

/// Looks for the cgroups of processes.
#[derive(Debug, Clone)]
pub struct Locator {
    mount: Arc<Mount>,
    proc: PathBuf,
}

/// Whose cgroup is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The container's id.
    pub id: &'a str,
    /// That of its pod's sandbox; its own for a sandbox.
    pub sandbox: &'a str,
    /// Its first process.
    pub pid: u32,
    /// Where the runtime says that it is, below the mount.
    pub word: Option<&'a Path>,
}

impl Locator {
    /// For this node.
    pub fn new(mount: Arc<Mount>) -> Self {
        Self { mount, proc: "/proc".into() }
    }

    /// With a /proc and a hierarchy of the caller's making.
    #[cfg(test)]
    pub(crate) fn in_tree(mount: Arc<Mount>, proc: &Path) -> Self {
        Self { mount, proc: proc.into() }
    }

    /// The hierarchy.
    pub fn mount(&self) -> &Arc<Mount> {
        &self.mount
    }

    /// The cgroups of a container. The process is looked at before and after its cgroup was, so both belong together.
    pub fn home(&self, wanted: Wanted<'_>) -> Result<Home, NoHome> {
        let mut own = self.own(wanted.pid)?;
        for _ in 0..LOOKS_MAX {
            let scope = home::scope(&own, wanted.id, wanted.sandbox, wanted.word)?;
            let scope = self.located(&scope);
            let processes = self.located(&own);
            let again = self.own(wanted.pid)?;
            if again == own {
                return Ok(Home { scope: scope?, processes: processes? });
            }
            own = again;
        }
        Err(NoHome::Unreadable("its process moves from cgroup to cgroup".into()))
    }

    /// The cgroup at a path below the mount.
    pub fn located(&self, path: &Path) -> Result<Located, NoHome> {
        match Cgroup::open_in(&self.mount, path) {
            Ok(cgroup) => Ok(Located { path: cgroup.path().into(), id: cgroup.id() }),
            Err(CgroupError::NoSuch { .. } | CgroupError::Gone { .. }) => Err(NoHome::Gone),
            Err(error) => Err(NoHome::Unreadable(error.to_string())),
        }
    }

    fn own(&self, pid: u32) -> Result<PathBuf, NoHome> {
        let file = self.proc.join(pid.to_string()).join("cgroup");
        let mut text = Vec::new();
        let read = File::open(file).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut text));
        match read {
            Ok(_) => home::own(&text).ok_or(NoHome::Gone),
            Err(error) if is_gone(&error) => Err(NoHome::Gone),
            Err(error) => Err(NoHome::Unreadable(error.to_string())),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_leads_to_its_containers_cgroups_and_to_no_others() {
        let tree = tempfile::tempdir().expect("a folder");
        let proc = tempfile::tempdir().expect("a folder");
        let scope = "kubepods.slice/kubepods-pod1.slice/cri-containerd-abc.scope";
        std::fs::create_dir_all(tree.path().join(scope).join("container")).expect("makes it");
        let process = |pid: u32, own: &str| {
            let folder = proc.path().join(pid.to_string());
            std::fs::create_dir_all(&folder).expect("makes it");
            std::fs::write(folder.join("cgroup"), own).expect("writes");
        };
        process(1, &format!("0::/{scope}/container\n"));
        process(2, "0::/system.slice/cron.service\n");
        process(3, "0::/kubepods.slice/cri-containerd-abc.scope\n");
        let locator =
            Locator::in_tree(Arc::new(Mount::at(tree.path(), true, true).expect("a tree")), proc.path());
        let home = |pid| locator.home(Wanted { id: "abc", sandbox: "pause", pid, word: None });
        let found = home(1).expect("its own");
        assert_eq!(found.scope.path, Path::new(scope));
        assert_eq!(found.processes.path, Path::new(scope).join("container"));
        assert_ne!(found.scope.id, found.processes.id);
        assert_eq!(home(2), Err(NoHome::Elsewhere("system.slice/cron.service".into())));
        assert_eq!(home(3), Err(NoHome::Gone), "its cgroup is not there");
        assert_eq!(home(4), Err(NoHome::Gone), "no such process");
    }
}
