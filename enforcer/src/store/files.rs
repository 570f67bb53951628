//! The files of a store: names, listing, opening.

use super::{
    StoreError,
    header::{HEAD_BYTES_MAX, HeadError, Header},
};
use std::{
    fs::{File, OpenOptions},
    io::Read as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Most segments that are looked at; the writer keeps fewer.
pub(super) const SEGMENT_COUNT_MAX: usize = 4096;
const ENDING: &str = ".seg";
/// What a segment is called until its head is on disk.
const UNFINISHED: &str = ".new";

pub(super) fn segment_path(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{segment:016x}{ENDING}"))
}

pub(super) fn unfinished_path(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{segment:016x}{UNFINISHED}"))
}

/// What a name in the folder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Segment(u64),
    Unfinished,
    Other,
}

fn named(name: &str) -> Named {
    if name.len() == 16 + UNFINISHED.len() && name.ends_with(UNFINISHED) {
        return Named::Unfinished;
    }
    let number = name.strip_suffix(ENDING).filter(|digits| {
        digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    });
    match number.map(|digits| u64::from_str_radix(digits, 16)) {
        Some(Ok(number)) => Named::Segment(number),
        Some(Err(_)) | None => Named::Other,
    }
}

/// What lies in a folder.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The numbers of its segments, oldest first.
    pub(super) segments: Vec<u64>,
    /// Segments that a crash left without a head.
    pub(super) unfinished: Vec<PathBuf>,
}

pub(super) fn list(folder: &Path) -> Result<Listing, StoreError> {
    let mut listing = Listing::default();
    for entry in std::fs::read_dir(folder).map_err(StoreError::io(folder, "list"))? {
        let entry = entry.map_err(StoreError::io(folder, "list"))?;
        match entry.file_name().to_str().map_or(Named::Other, named) {
            Named::Segment(number) => listing.segments.push(number),
            Named::Unfinished => listing.unfinished.push(entry.path()),
            Named::Other => {}
        }
    }
    listing.segments.sort_unstable();
    let surplus = listing.segments.len().saturating_sub(SEGMENT_COUNT_MAX);
    listing.segments.drain(..surplus);
    Ok(listing)
}

/// Opens a segment for reading; `None` where it is gone. What is no plain file is an error.
pub(super) fn open(path: &Path) -> Result<Option<File>, StoreError> {
    // Not blocking: opening a named pipe could wait for ever.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io(path, "open")(error)),
    };
    if file.metadata().map_err(StoreError::io(path, "look at"))?.is_file() {
        Ok(Some(file))
    } else {
        Err(StoreError::io(path, "read")(std::io::Error::other("it is no plain file")))
    }
}

/// The head of an opened segment whose name says that it is `segment`; `Ok(Err)` says what is wrong with it.
pub(super) fn header(
    file: &File,
    path: &Path,
    segment: u64,
) -> Result<Result<Header, HeadError>, StoreError> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES_MAX);
    file.take(HEAD_BYTES_MAX as u64).read_to_end(&mut bytes).map_err(StoreError::io(path, "read"))?;
    Ok(Header::decode(&bytes).and_then(|header| {
        if header.segment == segment { Ok(header) } else { Err(HeadError::Elsewhere(header.segment)) }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let segment = segment_path(Path::new(""), 0x1f);
        assert_eq!(segment, Path::new("000000000000001f.seg"));
        for (name, expected) in [
            ("000000000000001f.seg", Named::Segment(0x1f)),
            ("ffffffffffffffff.seg", Named::Segment(u64::MAX)),
            ("000000000000001F.seg", Named::Other),
            ("1f.seg", Named::Other),
            ("+00000000000001f.seg", Named::Other),
            ("000000000000001f.new", Named::Unfinished),
            ("lock", Named::Other),
            ("", Named::Other),
        ] {
            assert_eq!(named(name), expected, "{name}");
        }
    }
}
