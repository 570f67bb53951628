//! What may happen to a store's files, and what a reader then says.

use super::header::{Header, VERSION};
use super::*;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SMALL: Bounds = Bounds { segment_bytes: 256, total_bytes: 64 << 10 };

fn folder() -> TempDir {
    // Where syncing costs nothing, if there is such a place.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    // Whatever the umask says: a store is not trusted where others can write.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    folder
}

fn payload(number: u64) -> Vec<u8> {
    (0..number % 40).map(|at| (number * 31 + at).to_le_bytes()[0]).collect()
}

/// A store with these many records, each with the payload of its number.
fn filled(count: u64, bounds: Bounds) -> TempDir {
    let folder = folder();
    let mut writer = Writer::open(folder.path(), bounds).unwrap();
    append(&mut writer, count);
    folder
}

fn append(writer: &mut Writer, count: u64) {
    for _ in 0..count {
        let number = writer.next_number();
        assert_eq!(writer.append(Kind(7), &payload(number)).unwrap(), number);
    }
}

/// What can be read; every record is as it was appended, and they come in order.
#[track_caller]
fn read(folder: &Path) -> (Vec<u64>, Faults) {
    let mut reader = Reader::open(folder).unwrap();
    let mut numbers = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        assert_eq!(record.kind, Kind(7), "record {}", record.number);
        assert_eq!(record.payload, payload(record.number), "record {}", record.number);
        assert!(numbers.last().is_none_or(|last| *last < record.number), "{numbers:?}");
        numbers.push(record.number);
    }
    (numbers, reader.faults().clone())
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let listing = files::list(folder).unwrap();
    listing.segments.iter().map(|number| files::segment_path(folder, *number)).collect()
}

fn newest(folder: &Path) -> PathBuf {
    segments(folder).pop().unwrap()
}

#[test]
fn records_come_back_in_order_over_many_segments_and_restarts() {
    let folder = filled(30, SMALL);
    append(&mut Writer::open(folder.path(), SMALL).unwrap(), 30);
    let (numbers, faults) = read(folder.path());
    assert_eq!(numbers, (1..=60).collect::<Vec<_>>());
    assert_eq!(faults, Faults::default());
    assert!(segments(folder.path()).len() > 3);
}

#[test]
fn a_restart_goes_on_in_the_same_segment() {
    let folder = filled(3, SMALL);
    append(&mut Writer::open(folder.path(), SMALL).unwrap(), 1);
    assert_eq!(segments(folder.path()).len(), 1);
}

#[test]
fn the_oldest_go_where_the_bound_is_reached() {
    let bounds = Bounds { segment_bytes: 1024, total_bytes: 8 << 10 };
    let folder = filled(2000, bounds);
    let (numbers, faults) = read(folder.path());
    assert_eq!((numbers.last(), faults.count), (Some(&2000), 0));
    assert!((50..400).contains(&numbers.len()), "{} records are kept", numbers.len());
    let size: u64 = segments(folder.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(size <= bounds.total_bytes, "{size} bytes");
    // The numbers go on although the first ones are long gone.
    assert_eq!(Writer::open(folder.path(), bounds).unwrap().next_number(), 2001);
}

#[test]
fn bounds_that_can_not_hold_are_refused() {
    for (segment_bytes, total_bytes) in [(0, 1 << 20), (1 << 20, (2 << 20) - 1)] {
        let bounds = Bounds { segment_bytes, total_bytes };
        let refused = Writer::open(folder().path(), bounds).unwrap_err();
        assert!(matches!(refused, StoreError::Bounds { .. }), "{refused}");
    }
}

#[test]
fn cut_at_any_byte_it_is_read_up_to_there_and_written_on() {
    let whole = filled(6, Bounds::default());
    let bytes = std::fs::read(newest(whole.path())).unwrap();
    for length in 0..bytes.len() {
        let folder = folder();
        let path = folder.path().join(newest(whole.path()).file_name().unwrap());
        std::fs::write(&path, &bytes[..length]).unwrap();
        let (before, faults) = read(folder.path());
        assert_eq!(before, (1..=before.len() as u64).collect::<Vec<_>>(), "{length} bytes");
        assert!(before.len() < 6 && faults.count <= 1, "{length} bytes: {faults:?}");
        let mut writer = Writer::open(folder.path(), Bounds::default()).unwrap();
        append(&mut writer, 2);
        let (after, _) = read(folder.path());
        assert_eq!(after, (1..=before.len() as u64 + 2).collect::<Vec<_>>(), "{length} bytes");
        assert_eq!(std::fs::read(&path).unwrap()[..length], bytes[..length], "what was there stays");
    }
}

#[test]
fn any_changed_bit_costs_at_most_what_it_is_in() {
    let whole = filled(6, Bounds::default());
    let name = newest(whole.path()).file_name().unwrap().to_owned();
    let bytes = std::fs::read(whole.path().join(&name)).unwrap();
    let folder = folder();
    let path = folder.path().join(&name);
    let (mut one, mut rest) = (0, 0);
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &changed).unwrap();
        // `read` holds each record against what was appended. A last byte that is wrong is an unwritten tail.
        let (numbers, _) = read(folder.path());
        assert!(numbers.len() < 6, "bit {bit}");
        if numbers.len() == 5 && numbers.last() == Some(&6) {
            one += 1;
        } else {
            rest += 1;
        }
    }
    assert!(one > 0 && rest > 0, "{one} changes cost one record, {rest} what followed");
}

#[test]
fn a_segment_of_another_format_or_a_stranger_is_passed_over_and_named() {
    let folder = filled(30, SMALL);
    let second = segments(folder.path())[1].clone();
    std::fs::write(&second, Header::of_the_next_version()).unwrap();
    std::fs::write(folder.path().join("notes"), "mine").unwrap();
    nix::unistd::mkfifo(
        &files::segment_path(folder.path(), 99),
        nix::sys::stat::Mode::from_bits_truncate(0o600),
    )
    .unwrap();
    let (numbers, faults) = read(folder.path());
    assert!(numbers.first() == Some(&1) && numbers.last() == Some(&30) && numbers.len() < 30);
    let [Fault::Segment { path, why }, Fault::Segment { why: other, .. }] = &faults.first[..] else {
        panic!("{faults:?}")
    };
    assert_eq!(path, &second);
    assert!(why.contains(&format!("format {}", VERSION + 1)), "{why}");
    assert!(other.contains("no plain file"), "{other}");
}

#[test]
fn a_store_of_another_format_takes_nothing_and_stays_as_it_is() {
    let folder = filled(30, SMALL);
    let newer = files::segment_path(folder.path(), 77);
    std::fs::write(&newer, Header::of_the_next_version()).unwrap();
    let before = segments(folder.path());
    let error = Writer::open(folder.path(), SMALL).unwrap_err();
    assert!(
        matches!(&error, StoreError::Version { path, version } if *path == newer && *version == VERSION + 1)
    );
    assert!(error.to_string().contains("move the folder away, or name another"), "{error}");
    assert_eq!(segments(folder.path()), before);
    assert_eq!(read(folder.path()).0.len(), 30, "what is known can be read");
    // One whose head is damaged is nobody's format.
    let mut damaged = Header::of_the_next_version();
    damaged[20] ^= 1;
    std::fs::write(&newer, damaged).unwrap();
    append(&mut Writer::open(folder.path(), SMALL).unwrap(), 1);
}

#[test]
fn a_copied_segment_is_no_second_truth() {
    let folder = filled(30, SMALL);
    let all = segments(folder.path());
    std::fs::copy(&all[0], files::segment_path(folder.path(), 1000)).unwrap();
    let (numbers, faults) = read(folder.path());
    assert_eq!((numbers.len(), faults.count), (30, 1), "{faults:?}");
}

#[test]
fn there_is_one_writer() {
    let folder = folder();
    let first = Writer::open(folder.path(), SMALL).unwrap();
    let second = Writer::open(folder.path(), SMALL).unwrap_err();
    assert!(matches!(second, StoreError::Locked { .. }), "{second}");
    drop(first);
    Writer::open(folder.path(), SMALL).unwrap();
}

#[test]
fn a_folder_that_others_can_write_to_is_not_trusted() {
    let folder = folder();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let error = Writer::open(folder.path(), SMALL).unwrap_err();
    assert!(error.to_string().contains("somebody else can write"), "{error}");
}

#[test]
fn a_record_that_is_too_long_leaves_the_store_as_it_was() {
    let folder = filled(1, Bounds::default());
    let mut writer = Writer::open(folder.path(), Bounds::default()).unwrap();
    let refused = writer.append(Kind(7), &vec![0; PAYLOAD_BYTES_MAX + 1]).unwrap_err();
    assert!(matches!(refused, StoreError::TooLong { .. }), "{refused}");
    append(&mut writer, 1);
    assert_eq!(read(folder.path()).0, [1, 2]);
}

#[test]
fn a_reader_beside_the_writer_misses_nothing() {
    const COUNT: u64 = 3000;
    let bounds = Bounds { segment_bytes: 2048, total_bytes: 8 << 20 };
    let folder = folder();
    let mut writer = Writer::open(folder.path(), bounds).unwrap();
    let path = folder.path().to_owned();
    let reading = std::thread::spawn(move || {
        let mut follower = Follower::open(&path).unwrap();
        for number in 1..=COUNT {
            let record = follower.next_record().unwrap();
            assert_eq!((record.number, &record.payload), (number, &payload(number)));
        }
        follower.reader().faults().clone()
    });
    append(&mut writer, COUNT);
    assert_eq!(reading.join().unwrap(), Faults::default());
}

#[test]
fn what_a_crash_left_half_made_is_cleared_away() {
    let folder = filled(1, SMALL);
    let left = files::unfinished_path(folder.path(), 2);
    std::fs::write(&left, "half").unwrap();
    assert_eq!(read(folder.path()).0, [1]);
    Writer::open(folder.path(), SMALL).unwrap();
    assert!(!left.exists());
}

#[test]
fn no_folder_is_said_to_be_missing() {
    let folder = folder();
    let error = Reader::open(&folder.path().join("none")).unwrap_err();
    assert!(error.is_missing() && error.to_string().contains("none: can't list"), "{error}");
    assert!(Follower::open(&folder.path().join("none")).unwrap_err().is_missing());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn garbage_after_the_end_is_no_record(garbage in proptest::collection::vec(any::<u8>(), 1..400)) {
        let folder = filled(4, Bounds::default());
        let path = newest(folder.path());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend(garbage);
        std::fs::write(&path, bytes).unwrap();
        prop_assert_eq!(read(folder.path()).0, [1, 2, 3, 4]);
        append(&mut Writer::open(folder.path(), Bounds::default()).unwrap(), 1);
        let (numbers, faults) = read(folder.path());
        prop_assert_eq!(numbers, [1, 2, 3, 4, 5]);
        prop_assert_eq!(faults.count, 1, "the tail is told");
    }

    /// Any damage whatever to the bytes of a store: what is read is what was appended.
    #[test]
    fn nothing_is_misread(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(), moved in any::<prop::sample::Index>(),
    ) {
        let folder = filled(40, SMALL);
        let all = segments(folder.path());
        for (at, byte) in edits {
            let path = &all[at.index(all.len())];
            let mut bytes = std::fs::read(path).unwrap();
            let place = at.index(bytes.len());
            bytes[place] = byte;
            std::fs::write(path, bytes).unwrap();
        }
        let path = &all[cut.index(all.len())];
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..cut.index(bytes.len())]).unwrap();
        std::fs::rename(&all[moved.index(all.len())], files::segment_path(folder.path(), 77)).unwrap();
        let _ = read(folder.path());
        append(&mut Writer::open(folder.path(), SMALL).unwrap(), 3);
        let (numbers, _) = read(folder.path());
        prop_assert!(numbers.len() >= 3);
    }
}

#[test]
fn what_is_appended_after_a_removal_can_be_read() {
    let folder = folder();
    let store = folder.path().join("store");
    let mut writer = Writer::open(&store, SMALL).unwrap();
    append(&mut writer, 3);
    std::fs::remove_file(newest(&store)).unwrap();
    append(&mut writer, 3);
    assert_eq!(read(&store).0, [4, 5, 6]);
    std::fs::remove_dir_all(&store).unwrap();
    append(&mut writer, 3);
    assert_eq!(read(&store).0, [7, 8, 9]);
    // One who comes meanwhile is the writer then.
    std::fs::remove_dir_all(&store).unwrap();
    let mut second = Writer::open(&store, SMALL).unwrap();
    append(&mut second, 2);
    assert!(matches!(writer.append(Kind(7), &[]), Err(StoreError::Locked { .. })));
    append(&mut second, 1);
    drop(second);
    append(&mut writer, 1);
    assert_eq!(read(&store).0, [1, 2, 3, 10]);
}

#[test]
fn a_segment_that_was_removed_is_not_written_on() {
    let folder = folder();
    let mut writer = Writer::open(folder.path(), SMALL).unwrap();
    append(&mut writer, 2);
    std::fs::remove_file(newest(folder.path())).unwrap();
    append(&mut writer, 2);
    assert_eq!(read(folder.path()).0, [3, 4]);
}

/// As many bytes.
struct Long(usize);

impl Payload for Long {
    fn decode(record: &Record) -> Result<Option<Self>, serde_json::Error> {
        Ok(Some(Self(record.payload.len())))
    }

    fn encode(&self) -> Result<(Kind, Vec<u8>), serde_json::Error> {
        Ok((Kind(7), vec![0; self.0]))
    }
}

#[test]
fn what_is_not_taken_is_counted_until_it_is_told() {
    let folder = folder();
    let mut keeper = Keeper::open(folder.path(), Bounds::default()).unwrap();
    keeper.keep(&Long(1)).unwrap();
    for _ in 0..2 {
        assert!(keeper.keep(&Long(PAYLOAD_BYTES_MAX + 1)).is_err());
    }
    assert!(keeper.note_lost(|_| Long(PAYLOAD_BYTES_MAX + 1)).is_none());
    assert_eq!(keeper.unstored(), 2, "it is not told yet");
    assert!(keeper.trouble().is_some_and(|why| why.contains("longer than")), "{:?}", keeper.trouble());
    let note = keeper.note_lost(|unstored| Long(usize::try_from(unstored).unwrap()));
    assert_eq!((note.map(|note| note.0), keeper.unstored(), keeper.trouble()), (Some(2), 0, None));
    keeper.sync().unwrap();
    let mut reader = Reader::open(folder.path()).unwrap();
    for length in [1, 2] {
        assert_eq!(reader.next_record().unwrap().map(|record| record.payload.len()), Some(length));
    }
}
