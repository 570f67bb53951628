//! A cgroup of one's own, gone when it is dropped.

use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Where the guest (or a cgroup v2 host) has its cgroups.
pub const MOUNT: &str = "/sys/fs/cgroup";
/// Names of all scratch cgroups begin so; what is left of it after a run is a leak.
pub const PREFIX: &str = "enforcer-scratch";
/// Killing what is in a cgroup may take so long under emulation.
const EMPTY: Duration = Duration::from_mins(2);

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A cgroup below the mount's root (or below another), removed with everything in it on drop. Panics where
/// the kernel refuses: there is no test without it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A new cgroup with the memory controller.
    pub fn new(name: &str) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self::at(Path::new(MOUNT).join(format!("{PREFIX}-{}-{number}-{name}", std::process::id())))
    }

    /// A new cgroup below this one, to which it passes the controllers memory and pids.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        self.write("cgroup.subtree_control", "+memory +pids");
        Self::at(self.path.join(name))
    }

    fn at(path: PathBuf) -> Self {
        fs::create_dir(&path).unwrap_or_else(|error| panic!("make {}: {error}", path.display()));
        Self { path }
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel's id of it: the folder's inode.
    pub fn id(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(&self.path).unwrap_or_else(|error| panic!("stat {}: {error}", self.path.display())).ino()
    }

    /// A file's text.
    pub fn read(&self, file: &str) -> String {
        let path = self.path.join(file);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
    }

    /// A file's text without the line's end.
    pub fn limit(&self, file: &str) -> String {
        self.read(file).trim().to_owned()
    }

    /// The number behind `key` in a flat keyed file.
    pub fn counter(&self, file: &str, key: &str) -> u64 {
        let text = self.read(file);
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{file} has no {key}: {text}"))
    }

    /// Processes that were OOM-killed for this cgroup's own limit.
    pub fn kills(&self) -> u64 {
        self.counter("memory.events.local", "oom_kill")
    }

    /// Writes a file.
    pub fn write(&self, file: &str, value: &str) {
        let path = self.path.join(file);
        fs::write(&path, value)
            .unwrap_or_else(|error| panic!("write {value} to {}: {error}", path.display()));
    }

    /// Writes a file that not every kernel has.
    pub fn write_if_there(&self, file: &str, value: &str) {
        if self.path.join(file).exists() {
            self.write(file, value);
        }
    }

    /// Processes in it.
    pub fn pids(&self) -> Vec<u32> {
        self.read("cgroup.procs").lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Kills everything in it and waits until it is empty.
    pub fn clear(&self) {
        let kill = self.path.join("cgroup.kill");
        drop(fs::write(&kill, "1"));
        let began = Instant::now();
        // cgroup.events tells of it, but a removed cgroup tells nothing: a bounded look is simpler here.
        while fs::read_to_string(self.path.join("cgroup.events"))
            .is_ok_and(|text| text.contains("populated 1"))
        {
            if began.elapsed() > EMPTY {
                // A second panic would end all tests, and hide the first.
                assert!(std::thread::panicking(), "{} does not become empty", self.path.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::write(self.path.join("cgroup.freeze"), "0"));
        self.clear();
        remove(&self.path);
    }
}

/// Removes a cgroup and all below it, in which nothing runs any more.
pub(crate) fn remove(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let began = Instant::now();
    while let Err(error) = fs::remove_dir(path) {
        // A process that was just killed may still hold it.
        if error.kind() == std::io::ErrorKind::NotFound || began.elapsed() > EMPTY {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A swap device in use, no longer so when this is dropped.
#[derive(Debug)]
pub struct Swap {
    path: CString,
}

impl Swap {
    /// Panics where the kernel does not take it: there is no test without it.
    pub fn on(path: &str) -> Self {
        let path = CString::new(path).expect("a path without NUL");
        // SAFETY: the kernel reads the path up to its NUL.
        let result = unsafe { libc::swapon(path.as_ptr(), 0) };
        assert_eq!(result, 0, "swapon {path:?}: {}", std::io::Error::last_os_error());
        Self { path }
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        // SAFETY: the kernel reads the path up to its NUL.
        let result = unsafe { libc::swapoff(self.path.as_ptr()) };
        if result != 0 {
            eprintln!("swapoff {:?}: {}", self.path, std::io::Error::last_os_error());
        }
    }
}
