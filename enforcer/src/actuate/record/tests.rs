use super::*;
use proptest::prelude::*;

fn header(path: &str) -> Header {
    Header { pid: 7, boot_id: *b"0123456789abcdef", cgroup: CgroupId::new(42), path: path.into() }
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![Just(Limit::Max), (0..u64::MAX).prop_map(|n| Limit::Bytes(Bytes::new(n)))]
}

fn file() -> impl Strategy<Value = LimitFile> {
    prop_oneof![Just(LimitFile::High), Just(LimitFile::Max)]
}

fn record() -> impl Strategy<Value = Record> {
    prop_oneof![
        (file(), limit(), limit(), limit()).prop_map(|(file, found, before, ours)| Record::Intent {
            file,
            found,
            before,
            ours
        }),
        (file(), limit()).prop_map(|(file, left)| Record::Settled { file, left }),
        Just(Record::Finished),
    ]
}

fn journal(head: &Header, entries: &[Record]) -> Vec<u8> {
    let mut bytes = head.encode().unwrap();
    let (_, seed) = Header::decode(&bytes).unwrap();
    for (sequence, entry) in (0..).zip(entries) {
        bytes.extend(entry.encode(sequence, seed));
    }
    bytes.resize(JOURNAL_BYTES, 0);
    bytes
}

#[test]
fn another_version_and_another_program_are_told_apart() {
    let mut bytes = header("a").encode().unwrap();
    bytes[8] = 9;
    assert_eq!(Header::decode(&bytes), Err(HeaderError::Version(9)));
    bytes[0] = b'x';
    assert_eq!(Header::decode(&bytes), Err(HeaderError::Foreign));
    assert_eq!(Header::decode(b"enfjrnl\0"), Err(HeaderError::Damaged));
}

/// `enforcer/tests/formats/journal-1`: what is written today, byte by byte.
#[test]
fn a_journal_of_format_1_is_read_as_it_was_written() {
    let kept = include_bytes!("../../../tests/formats/journal-1");
    let limit = |mib| Limit::Bytes(Bytes::from_mib(mib));
    let (high, max) = (LimitFile::High, LimitFile::Max);
    let entries = [
        Record::Intent { file: high, found: Limit::Max, before: Limit::Max, ours: limit(90) },
        Record::Intent { file: high, found: Limit::Max, before: limit(90), ours: limit(80) },
        Record::Intent { file: max, found: limit(128), before: limit(128), ours: limit(100) },
        Record::Settled { file: max, left: limit(128) },
        Record::Settled { file: high, left: Limit::Max },
        Record::Finished,
    ];
    let head = header("kubepods.slice/kubepods-pod1d2c.slice/cri-containerd-0a.scope");
    let (read, seed) = Header::decode(kept).unwrap();
    assert_eq!((&read, &records(kept, seed)[..]), (&head, &entries[..]));
    assert!(journal(&head, &entries) == kept);
}

#[test]
fn a_path_that_is_too_long_does_not_fit() {
    assert!(header(&"x".repeat(PATH_BYTES_MAX)).encode().is_some());
    assert!(header(&"x".repeat(PATH_BYTES_MAX + 1)).encode().is_none());
}

#[test]
fn a_record_of_another_journal_or_another_place_is_not_taken() {
    let entry = Record::Finished;
    let mut bytes = journal(&header("a"), &[]);
    let (_, seed) = Header::decode(&bytes).unwrap();
    for foreign in [entry.encode(0, seed ^ 1), entry.encode(1, seed), [0; RECORD_BYTES]] {
        bytes[HEADER_BYTES..HEADER_BYTES + RECORD_BYTES].copy_from_slice(&foreign);
        assert_eq!(records(&bytes, seed), []);
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(path in "[a-z/]{0,300}", entries in proptest::collection::vec(record(), 0..20)) {
        let head = header(&path);
        let bytes = journal(&head, &entries);
        let (read, seed) = Header::decode(&bytes).unwrap();
        prop_assert_eq!(read, head);
        prop_assert_eq!(records(&bytes, seed), entries);
    }

    /// Whatever happens to the tail, what is read is a prefix of what was written.
    #[test]
    fn a_torn_tail_is_cut(entries in proptest::collection::vec(record(), 1..20), at: prop::sample::Index, junk: u8) {
        let mut bytes = journal(&header("a/b"), &entries);
        let end = HEADER_BYTES + entries.len() * RECORD_BYTES;
        let at = HEADER_BYTES + at.index(end - HEADER_BYTES);
        bytes[at..end].fill(junk);
        let (_, seed) = Header::decode(&bytes).unwrap();
        let read = records(&bytes, seed);
        prop_assert_eq!(&entries[..read.len()], &read[..]);
        prop_assert!(read.len() >= (at - HEADER_BYTES) / RECORD_BYTES);
    }

    #[test]
    fn one_changed_bit_of_the_header_shows(at in 0..PATH_AT + 3, bit in 0..8_u32) {
        let mut bytes = header("a/b").encode().unwrap();
        bytes[at] ^= 1 << bit;
        prop_assert!(Header::decode(&bytes).is_err());
    }

    #[test]
    fn any_bytes_decode_or_fail_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..HEADER_BYTES + 200)) {
        let _ = Header::decode(&bytes);
        let _ = records(&bytes, 1);
    }
}
