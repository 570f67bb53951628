//! A small disk that can be filled.

use nix::mount::{MsFlags, mount, umount};
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
