//! An open file of a cgroup that is read again and again.

use super::{CgroupError, parse::Malformed};
use nix::{
    errno::Errno,
    fcntl::{OFlag, ResolveFlag, openat2},
    sys::{stat::Mode, uio::pread},
};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

/// Most bytes of one file that are read; `memory.stat` has about 2 KiB.
pub const FILE_BYTES_MAX: usize = 64 * 1024;

/// Opens `name` below `dir` without following links or leaving the mount.
pub(crate) fn open_beneath(dir: BorrowedFd<'_>, name: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let how = nix::fcntl::OpenHow::new().flags(flags | OFlag::O_CLOEXEC).mode(Mode::empty()).resolve(
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_XDEV,
    );
    // EAGAIN: a rename or mount elsewhere raced with the check for `..`; see openat2(2).
    let mut tries = 0;
    loop {
        match openat2(dir, name, how) {
            Err(Errno::EAGAIN | Errno::EINTR) if tries < 64 => tries += 1,
            result => return result,
        }
    }
}

/// One file, held open. A read starts at offset 0 and so makes the kernel render the file anew; a descriptor
/// goes on meaning the same cgroup after its path is re-used.
#[derive(Debug)]
pub struct StatFile {
    fd: OwnedFd,
    path: PathBuf,
}

impl StatFile {
    /// Opens the file `name` of the folder `dir`, whose own path is `dir_path`.
    pub(crate) fn open(dir: BorrowedFd<'_>, dir_path: &Path, name: &str) -> Result<Self, CgroupError> {
        let path = dir_path.join(name);
        match open_beneath(dir, Path::new(name), OFlag::O_RDONLY) {
            Ok(fd) => Ok(Self { fd, path }),
            Err(errno) => Err(CgroupError::io(path, "open", errno)),
        }
    }

    /// As [`Self::open`], but `None` where there is no such file: controllers and kernels differ.
    pub(crate) fn open_optional(
        dir: BorrowedFd<'_>,
        dir_path: &Path,
        name: &str,
    ) -> Result<Option<Self>, CgroupError> {
        match Self::open(dir, dir_path, name) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.is_gone() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a host-wide file.
    pub(crate) fn open_host(path: &Path) -> Result<Self, CgroupError> {
        let open = nix::fcntl::open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty());
        match open {
            Ok(fd) => Ok(Self { fd, path: path.into() }),
            Err(errno) => Err(CgroupError::Io { path: path.into(), call: "open", source: errno.into() }),
        }
    }

    /// As [`Self::open_host`], but `None` where there is no such file.
    pub(crate) fn open_host_optional(path: &Path) -> Result<Option<Self>, CgroupError> {
        match Self::open_host(path) {
            Ok(file) => Ok(Some(file)),
            Err(CgroupError::Io { source, .. }) if source.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The file's path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the whole file into `buffer`, whose length is the bound, and gives back the part that was filled.
    ///
    /// One system call: the kernel renders the file in one piece, so its lines belong together.
    pub fn read<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], CgroupError> {
        let count = loop {
            match pread(&self.fd, buffer, 0) {
                Ok(count) => break count,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(CgroupError::io(&self.path, "read", errno)),
            }
        };
        if count == buffer.len() {
            return Err(CgroupError::TooLong { path: self.path.clone(), bytes_max: buffer.len() });
        }
        Ok(&buffer[..count])
    }

    /// Reads and parses the file.
    pub fn parse<T>(
        &self,
        buffer: &mut [u8],
        parse: impl FnOnce(&[u8]) -> Result<T, Malformed>,
    ) -> Result<T, CgroupError> {
        parse(self.read(buffer)?).map_err(|fault| CgroupError::Malformed { path: self.path.clone(), fault })
    }
}

impl AsFd for StatFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
