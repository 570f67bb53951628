//! Disks that are full or hang.

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::mount::{MsFlags, mount, umount};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A tmpfs of its own, gone when it is dropped.
pub(crate) struct Disk(TempDir);

impl Disk {
    pub(crate) fn of(kib: u64) -> Self {
        let folder = tempfile::Builder::new().prefix("disk").tempdir().expect("make a folder");
        let options = format!("size={kib}k,mode=700");
        mount(Some("tmpfs"), folder.path(), Some("tmpfs"), MsFlags::empty(), Some(options.as_str()))
            .expect("mount a tmpfs");
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills it up to so many bytes with a file.
    pub(crate) fn leave(&self, bytes: u64) -> PathBuf {
        let free = nix::sys::statvfs::statvfs(self.path()).expect("statvfs");
        let size = free.blocks_available() * free.fragment_size() - bytes;
        let path = self.path().join("filler");
        std::fs::write(&path, vec![1; usize::try_from(size).expect("fits")]).expect("fill the disk");
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = umount(self.path());
    }
}

/// The guest's scratch disk: a file system on a block device.
pub(crate) const DATA: &str = "/data";

/// The scratch disk without a free block, until this is dropped.
pub(crate) struct Full(PathBuf);

impl Full {
    pub(crate) fn fill() -> Self {
        let path = Path::new(DATA).join("filler");
        let file = File::create(&path).expect("make a file");
        let full = Self(path);
        let (mut length, mut step) = (0, 1_i64 << 30);
        while step >= 4096 {
            match fallocate(&file, FallocateFlags::empty(), length, step) {
                Ok(()) => length += step,
                Err(Errno::ENOSPC) => step /= 2,
                Err(errno) => panic!("fill the disk: {errno}"),
            }
        }
        full
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// The scratch disk hangs: whoever writes to it waits until this is dropped.
pub(crate) struct Hung(File);

impl Hung {
    pub(crate) fn hang() -> Self {
        let disk = File::open(DATA).expect("open the disk");
        freeze(&disk, FIFREEZE).expect("freeze it");
        Self(disk)
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        freeze(&self.0, FITHAW).expect("thaw it");
    }
}

// include/uapi/linux/fs.h
const FIFREEZE: libc::c_ulong = 0xc004_5877;
const FITHAW: libc::c_ulong = 0xc004_5878;

fn freeze(disk: &File, request: libc::c_ulong) -> nix::Result<()> {
    // SAFETY: both take no argument that the kernel looks at.
    Errno::result(unsafe { libc::ioctl(disk.as_raw_fd(), request, 0) }).map(drop)
}
