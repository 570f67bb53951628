//! Stores as earlier versions wrote them, for tests.

use super::{Bounds, Payload, Reader, Writer, files};
use std::{fmt::Debug, fs::Permissions, os::unix::fs::PermissionsExt as _, path::Path};

/// A store that is one segment of `enforcer/tests/formats` holds exactly these records, byte by byte as they would be written
/// today, and takes another one.
#[track_caller]
pub(crate) fn check_kept<T: Payload + PartialEq + Debug>(file: &str, expected: &[T]) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(file);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).expect("its mode");
    let segment = files::segment_path(folder.path(), 1);
    std::fs::copy(&kept, &segment).expect("copy it");
    let length = || std::fs::metadata(&segment).expect("is there").len();
    let before = length();
    let mut reader = Reader::open(folder.path()).expect("can be read");
    for expected in expected {
        let record = reader.next_record().expect("can be read").expect("a record");
        assert_eq!(T::decode(&record).expect("is whole").as_ref(), Some(expected));
        assert_eq!(expected.encode().expect("fits"), (record.kind, record.payload), "{expected:?}");
    }
    assert_eq!((reader.next_record().expect("can be read"), reader.faults().count), (None, 0));
    let mut writer = Writer::open(folder.path(), Bounds::default()).expect("can be written");
    let (kind, payload) = expected[0].encode().expect("fits");
    assert_eq!(writer.append(kind, &payload).expect("is taken"), expected.len() as u64 + 1);
    assert!(length() > before, "it goes on in the same segment");
    assert_eq!(reader.next_record().expect("can be read").map(|record| record.payload), Some(payload));
}
