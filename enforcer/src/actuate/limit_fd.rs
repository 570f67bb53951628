//! A limit file of one cgroup, held open for reading and writing.

use crate::cgroup::{Cgroup, CgroupError, parse};
use enforcer_gate::{Bytes, Limit, LimitFile};
use nix::{errno::Errno, fcntl::OFlag, sys::uio::pread, unistd::write};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

/// A limit file. Neither reading nor writing allocates.
///
/// The kernel serialises calls on one open file (`of->mutex` in `fs/kernfs/file.c`): whoever must not wait for a
/// blocked write needs a `LimitFd` of its own.
#[derive(Debug)]
pub(super) struct LimitFd {
    file: LimitFile,
    fd: OwnedFd,
}

impl LimitFd {
    /// Opens the file for both. `O_NONBLOCK` makes the kernel (6.16) set the limit and leave the rest; older
    /// ones take no notice of it.
    pub(super) fn open(cgroup: &Cgroup, file: LimitFile) -> Result<Self, CgroupError> {
        let fd = cgroup.open_file(file.name(), OFlag::O_RDWR | OFlag::O_NONBLOCK)?;
        Ok(Self { file, fd })
    }

    /// Takes over a descriptor that was opened by [`Self::open`] in another process.
    pub(super) fn from_fd(file: LimitFile, fd: OwnedFd) -> Self {
        Self { file, fd }
    }

    pub(super) fn file(&self) -> LimitFile {
        self.file
    }

    pub(super) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub(super) fn read(&self) -> Result<Limit, Errno> {
        let mut text = [0; 32];
        let count = retry(|| pread(&self.fd, &mut text, 0))?;
        parse::limit(&text[..count]).map_err(|_| Errno::EBADMSG)
    }

    /// One write. It may return early when a signal comes; whether the limit is in force is for [`Self::read`]
    /// to say.
    pub(super) fn write(&self, limit: Limit) -> Result<(), Errno> {
        let mut text = [0; 20];
        write(&self.fd, limit_text(limit, &mut text)).map(drop)
    }

    /// One write of text that may not be in memory yet, which is why it can't be a slice.
    pub(super) fn write_raw(&self, text: *const u8, len: usize) -> Result<(), Errno> {
        // SAFETY: the kernel checks the range itself and fails with EFAULT where it can't be read.
        let written = unsafe { libc::write(self.fd.as_raw_fd(), text.cast(), len) };
        Errno::result(written).map(drop)
    }
}

/// A file that holds one number, for reading without allocating.
#[derive(Debug)]
pub(super) struct NumberFd(OwnedFd);

impl NumberFd {
    pub(super) fn open(cgroup: &Cgroup, name: &str) -> Result<Self, CgroupError> {
        cgroup.open_file(name, OFlag::O_RDONLY).map(Self)
    }

    /// Takes over a descriptor that was opened by [`Self::open`] in another process.
    pub(super) fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    pub(super) fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(super) fn read(&self) -> Result<Bytes, Errno> {
        let mut text = [0; 32];
        let count = retry(|| pread(&self.0, &mut text, 0))?;
        parse::number(&text[..count]).map(Bytes::new).map_err(|_| Errno::EBADMSG)
    }
}

fn retry<T>(mut call: impl FnMut() -> nix::Result<T>) -> nix::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

/// What the file takes, in a buffer of the caller's.
pub(super) fn limit_text(limit: Limit, text: &mut [u8; 20]) -> &[u8] {
    let Limit::Bytes(bytes) = limit else { return b"max" };
    let mut rest = bytes.get();
    let mut start = text.len();
    loop {
        start -= 1;
        text[start] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            return &text[start..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_text_is_what_display_gives(bytes: u64) {
            let mut text = [0; 20];
            let text = limit_text(Limit::Bytes(Bytes::new(bytes)), &mut text);
            let digits = bytes.to_string();
            prop_assert_eq!(text, digits.as_bytes());
        }
    }

    #[test]
    fn the_ends_of_the_range_fit() {
        let text = |limit| limit_text(limit, &mut [0; 20]).to_owned();
        assert_eq!(text(Limit::Max), b"max");
        assert_eq!(text(Limit::Bytes(Bytes::ZERO)), b"0");
        assert_eq!(text(Limit::Bytes(Bytes::new(u64::MAX))), b"18446744073709551615");
    }
}
