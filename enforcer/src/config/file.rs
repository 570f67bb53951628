//! Reading a configuration's file.

use std::{
    fs::{Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

/// Most bytes that a file may have.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;

/// Which file it was, and of when: two that differ are different contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    device: u64,
    inode: u64,
    bytes: u64,
    /// `st_ctime`, in seconds and nanoseconds.
    changed: (i64, i64),
}

impl Version {
    /// What is there now, behind all symbolic links; nothing where there is none.
    pub fn of(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().as_ref().map(Self::from)
    }
}

impl From<&Metadata> for Version {
    fn from(of: &Metadata) -> Self {
        Self { device: of.dev(), inode: of.ino(), bytes: of.len(), changed: (of.ctime(), of.ctime_nsec()) }
    }
}

/// What a file holds, up to one byte more than it may.
pub(super) struct Read {
    pub(super) bytes: Vec<u8>,
    /// Who else can change it; `None` where only its reader and root can.
    pub(super) open_to: Option<&'static str>,
    pub(super) version: Version,
}

pub(super) fn read(path: &Path) -> io::Result<Read> {
    // Not blocking: a named pipe would have whoever opens it wait for its other end.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if metadata.file_type().is_fifo() {
        return Err(io::Error::other("it is a pipe and no file"));
    }
    let (open_to, version) = (open_to(&metadata), Version::from(&metadata));
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(Read { bytes, open_to, version })
}

fn open_to(found: &Metadata) -> Option<&'static str> {
    let is_ours = found.uid() == 0 || found.uid() == nix::unistd::geteuid().as_raw();
    // The members of root's group are root's own choice.
    let group = found.mode() & 0o020 != 0 && found.gid() != 0;
    match (found.mode() & 0o002 != 0, group, is_ours) {
        (true, ..) => Some("everybody"),
        (false, true, _) => Some("its group"),
        (false, false, false) => Some("its owner, who is not root,"),
        (false, false, true) => None,
    }
}
