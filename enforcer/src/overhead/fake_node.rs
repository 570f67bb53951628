//! A node of plain files with one pod, for the tests of what reads one: a shim, pause and one container.

use super::{helpers::Sandbox, look::Subject, sample::Proc};
use crate::cgroup::{Mount, fixture::Fixture};
use std::{fs, path::PathBuf, sync::Arc};

pub(crate) const POD: &str = "kubepods.slice/kubepods-pod1.slice";
pub(crate) const SHIM: u32 = 70;
pub(crate) const MIB: u64 = 1 << 20;

pub(crate) struct Node {
    folder: tempfile::TempDir,
    pub(crate) tree: Fixture,
}

/// The cgroup of the container with this letter in its id.
pub(crate) fn scope(id: char) -> String {
    let id = String::from(id).repeat(64);
    format!("{POD}/cri-containerd-{id}.scope")
}

impl Node {
    pub(crate) fn new() -> Self {
        let node = Self { folder: tempfile::tempdir().expect("a folder"), tree: Fixture::new() };
        let sandbox = "a".repeat(64);
        let shim = ["/usr/bin/containerd-shim-runc-v2", "-id", &sandbox];
        node.process(SHIM, 1, &shim, "system.slice/c.service");
        node.process(71, SHIM, &["/pause"], &scope('a'));
        node.process(72, SHIM, &["/app"], &scope('b'));
        for path in [scope('a'), scope('b')] {
            node.tree.cgroup(&path);
        }
        node.uses(POD, 40, 10, 20);
        node.uses(&scope('a'), 2, 1, 0);
        node.uses(&scope('b'), 30, 8, 18);
        node.used(900, 500);
        node
    }

    pub(crate) fn proc(&self) -> Proc {
        Proc::at(self.folder.path())
    }

    pub(crate) fn mount(&self) -> Arc<Mount> {
        self.tree.open(POD).expect("is there").mount().clone()
    }

    /// What a cgroup has, in MiB: in all, anonymous, of files; the rest is the kernel's.
    pub(crate) fn uses(&self, path: &str, current: u64, anon: u64, file: u64) {
        self.tree.write(&format!("{path}/memory.current"), &format!("{}\n", current * MIB));
        let kernel = (current - anon - file) * MIB;
        let stat = format!("anon {}\nfile {}\nkernel {kernel}\n", anon * MIB, file * MIB);
        self.tree.write(&format!("{path}/memory.stat"), &stat);
    }

    /// CPU time of the pod and of its container, in microseconds.
    pub(crate) fn used(&self, pod: u64, app: u64) {
        for (path, used) in [(POD, pod), (scope('b').as_str(), app)] {
            self.tree.write(&format!("{path}/cpu.stat"), &format!("usage_usec {used}\nuser_usec 1\n"));
        }
    }

    fn process(&self, pid: u32, parent: u32, argv: &[&str], cgroup: &str) {
        let folder = self.folder(pid);
        fs::create_dir_all(folder.join("task")).expect("makes it");
        let stat = format!("{pid} (a) S {parent} 7 7 0 -1 0 1 2 3 4 50 60 70 80 20 0 1 0 {pid} 9 9");
        let rollup = "x [rollup]\nPss_Anon: 4096 kB\nPss_File: 1024 kB\nPss_Shmem: 0 kB\n";
        for (name, text) in [
            ("stat", stat.as_str()),
            ("cmdline", &argv.join("\0")),
            ("cgroup", &format!("0::/{cgroup}\n")),
            ("smaps_rollup", rollup),
            ("status", "VmPTE:\t 64 kB\nThreads:\t2\n"),
        ] {
            fs::write(folder.join(name), text).expect("writes");
        }
        std::os::unix::fs::symlink(argv[0], folder.join("exe")).expect("links");
    }

    /// A process's folder.
    pub(crate) fn folder(&self, pid: u32) -> PathBuf {
        self.folder.path().join(pid.to_string())
    }

    /// The pod.
    pub(crate) fn subject() -> Subject {
        let sandbox = Sandbox {
            id: "a".repeat(64),
            first: Some(71),
            containers: vec!["b".repeat(64)],
            processes: vec![72],
            cgroup: POD.into(),
        };
        Subject { sandbox, apps: vec![scope('b').into()] }
    }
}
