//! A tree of plain files in the shape of a cgroup2 mount.

use super::{Cgroup, CgroupError, Mount};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

pub(crate) struct Fixture {
    dir: tempfile::TempDir,
    mount: Arc<Mount>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with_options(true, false)
    }

    pub(crate) fn with_options(recursive_protection: bool, hugetlb_accounting: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mount = Arc::new(Mount::at(dir.path(), recursive_protection, hugetlb_accounting).unwrap());
        fs::write(dir.path().join("cgroup.controllers"), "memory\n").unwrap();
        Self { dir, mount }
    }

    pub(crate) fn point(&self) -> &Path {
        self.dir.path()
    }

    /// Makes a cgroup and those above it, each with the files of an idle one.
    pub(crate) fn cgroup(&self, path: &str) {
        let mut at = PathBuf::new();
        for name in Path::new(path) {
            at.push(name);
            let dir = self.point().join(&at);
            if dir.exists() {
                continue;
            }
            fs::create_dir(&dir).unwrap();
            for (file, text) in [
                ("cgroup.controllers", "memory\n"),
                ("cgroup.events", "populated 1\nfrozen 0\n"),
                ("cgroup.stat", "nr_descendants 0\nnr_dying_descendants 0\n"),
                ("memory.current", "0\n"),
                ("memory.max", "max\n"),
                ("memory.high", "max\n"),
                ("memory.min", "0\n"),
                ("memory.low", "0\n"),
                ("memory.reclaim", ""),
                ("memory.swap.max", "max\n"),
                ("memory.swap.current", "0\n"),
                ("memory.zswap.max", "max\n"),
                ("memory.stat", "anon 0\nfile 0\n"),
                ("memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n"),
                ("memory.events.local", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n"),
                (
                    "memory.pressure",
                    "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n\
                     full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
                ),
            ] {
                fs::write(dir.join(file), text).unwrap();
            }
        }
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        fs::write(self.point().join(path), text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.point().join(path)).unwrap()
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.point().join(path)).unwrap();
    }

    pub(crate) fn open(&self, path: impl AsRef<Path>) -> Result<Cgroup, CgroupError> {
        Cgroup::open_in(&self.mount, path.as_ref())
    }
}
