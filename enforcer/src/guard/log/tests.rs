//! Records through the store and back, and a store that fails.

use super::fixture::{began, verdict};
use super::*;
use crate::guard::{Reason, Verdict};
use crate::store::{Bounds, Kind, PAYLOAD_BYTES_MAX, Payload as _, Reader, Record, StoreError};
use enforcer_gate::{Bytes, Limit};
use std::path::Path;

fn denied() -> VerdictRecord {
    VerdictRecord {
        asked: Some(Limit::Bytes(Bytes::from_mib(16))),
        lease: Some(Bytes::from_mib(20)),
        place: Some(crate::names::Place::of(Path::new("kubepods/pod1d2c-3333"))),
        pod: Some("prod/web-0".into()),
        ..verdict(Verdict::Denied, Reason::UnderLease)
    }
}

fn read(folder: &Path) -> Vec<Stored> {
    let mut reader = Reader::open(folder).unwrap();
    let mut all = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        all.push(Stored::decode(&record).unwrap().expect("it is ours"));
    }
    assert_eq!(reader.faults().count, 0);
    all
}

#[test]
fn each_record_comes_back_from_the_store() {
    for stored in [
        Stored::Verdict(Box::new(denied())),
        Stored::Verdict(Box::new(verdict(Verdict::Allowed, Reason::NoValue))),
        Stored::Began(began()),
        Stored::Lost(Lost { wall_us: 1, dropped: 2, unstored: 3 }),
        Stored::Ended(Ended { wall_us: 1, pid: 2, why: "told to stop".into() }),
    ] {
        let (kind, payload) = stored.encode().unwrap();
        assert!((16..32).contains(&kind.0), "{kind:?}");
        assert_eq!(Stored::decode(&Record { number: 1, kind, payload }).unwrap(), Some(stored));
    }
    let other = Record { number: 1, kind: Kind(1), payload: b"{".to_vec() };
    assert_eq!(Stored::decode(&other).unwrap(), None);
}

#[test]
fn a_log_of_format_1_is_read_as_it_was_written() {
    let placed = VerdictRecord { container: Some("app".into()), ..denied() };
    crate::store::fixture::check_kept(
        "guard-1.seg",
        &[
            Stored::Began(began()),
            Stored::Verdict(Box::new(placed)),
            Stored::Verdict(Box::new(verdict(Verdict::Allowed, Reason::NoValue))),
            Stored::Lost(Lost { wall_us: 1, dropped: 2, unstored: 3 }),
            Stored::Ended(Ended { wall_us: 1, pid: 2, why: "told to stop".into() }),
        ],
    );
}

#[test]
fn a_record_has_the_documented_shape() {
    let json = serde_json::to_value(Stored::Verdict(Box::new(denied()))).unwrap();
    let record = &json["verdict"];
    assert_eq!(record["version"], 1);
    assert_eq!((&record["verdict"], &record["reason"]), (&"denied".into(), &"under the lease".into()));
    assert_eq!(record["asked"]["bytes"], 16 << 20);
    assert_eq!((&record["limit"], &record["lease"]), (&"max".into(), &(20 << 20).into()));
    assert_eq!((&record["writer"]["pid"], &record["writer"]["comm"]), (&12.into(), &"sh\\u{1b}".into()));
    assert_eq!((&record["pod"], &record["place"]["role"]), (&"prod/web-0".into(), &"pod".into()));
    let unknown = serde_json::to_value(verdict(Verdict::Denied, Reason::Unavailable)).unwrap();
    assert!(unknown.get("asked").is_none() && unknown["source"] == "too long a text", "{unknown}");
    let json = serde_json::to_value(Stored::Began(began())).unwrap();
    assert_eq!(
        (&json["began"]["mode"], &json["began"]["below"][0]),
        (&"enforce".into(), &"/sys/fs/cgroup/b".into())
    );
}

#[test]
fn a_record_of_a_newer_version_is_still_read() {
    let (kind, payload) = Stored::Verdict(Box::new(denied())).encode().unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&payload).unwrap();
    json["reason"] = "an unheard-of reason".into();
    json["more"] = 1.into();
    let payload = serde_json::to_vec(&json).unwrap();
    let Ok(Some(Stored::Verdict(record))) = Stored::decode(&Record { number: 1, kind, payload }) else {
        panic!("it is a verdict")
    };
    assert_eq!((record.known_reason(), record.known_verdict()), (None, Some(Verdict::Denied)));
}

#[test]
fn the_longest_beginning_fits_into_the_store() {
    let longest = vec!["\\".repeat(crate::cgroup::SHOWN_BYTES_MAX); 256];
    let standing = Standing { cgroups: longest.clone(), below: longest, ..began().standing };
    let (_, payload) = Stored::Began(Began { standing, ..began() }).encode().unwrap();
    assert!(payload.len() <= PAYLOAD_BYTES_MAX, "{}", payload.len());
}

#[test]
fn what_is_kept_is_in_the_store_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("guard");
    let mut log = Log::open(&folder, Bounds::default()).unwrap();
    log.begin(began().standing);
    let stored = Stored::Verdict(Box::new(denied()));
    log.keep(stored.clone());
    // Also beside the writer, and so after a kill -9. The names are looked for anew: there is no such pod here.
    let all = read(&folder);
    assert!(matches!(&all[0], Stored::Began(found) if found.standing == began().standing), "{all:?}");
    assert!(matches!(&all[1], Stored::Verdict(found) if found.reason == denied().reason), "{all:?}");
    assert_eq!(log.end("told to stop", 0), 0);
    assert!(matches!(&read(&folder)[2..], [Stored::Ended(ended)] if ended.why == "told to stop"));
}

#[test]
fn verdicts_that_the_kernel_dropped_are_noted_once() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("guard");
    let mut log = Log::open(&folder, Bounds::default()).unwrap();
    log.beat(5);
    log.beat(5);
    log.beat(7);
    assert_eq!(log.end("told to stop", 7), 0);
    let dropped: Vec<u64> = read(&folder)
        .iter()
        .filter_map(|stored| if let Stored::Lost(lost) = stored { Some(lost.dropped) } else { None })
        .collect();
    assert_eq!(dropped, [5, 2]);
}

#[test]
fn a_store_has_one_guard() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("guard");
    let _log = Log::open(&folder, Bounds::default()).unwrap();
    let error = Log::open(&folder, Bounds::default()).expect_err("it has one");
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
}

/// A disk that is full or hangs at the start.
#[test]
fn a_store_that_comes_late_is_told_of_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("guard");
    std::fs::write(&folder, "in its place").unwrap();
    let mut log = Log::opening(&folder, Bounds::default()).unwrap();
    log.begin(began().standing);
    log.keep(Stored::Verdict(Box::new(denied())));
    log.beat(0);
    let mut news = log.news();
    while !matches!(news[..], [News::Failing(_)]) {
        assert!(news.is_empty(), "{news:?}");
        log.beat(0);
        news = log.news();
    }
    std::fs::remove_file(&folder).unwrap();
    while news.len() < 3 {
        log.beat(0);
        news.extend(log.news());
    }
    let [_, News::Keeping, News::Lost(lost)] = &news[..] else { panic!("{news:?}") };
    assert_eq!((lost.unstored, lost.dropped), (2, 0));
    assert_eq!(log.end("told to stop", 0), 2, "those that came too early");
    assert!(matches!(read(&folder)[..], [Stored::Lost(_), Stored::Ended(_)]));
}

#[test]
fn a_folder_that_is_lost_stops_nobody_and_is_said_once() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("guard");
    let mut log = Log::open(&folder, Bounds::default()).unwrap();
    log.begin(began().standing);
    log.catch_up();
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "in its place").unwrap();
    for _ in 0..3 {
        log.keep(Stored::Verdict(Box::new(denied())));
    }
    log.catch_up();
    let news = log.news();
    assert!(matches!(&news[..], [News::Failing(_)]), "{news:?}");
    log.beat(0);
    // Three verdicts, and that it ended.
    assert_eq!(log.end("told to stop", 0), 4);
}
