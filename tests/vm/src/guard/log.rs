//! What the guard told, read back by `enforcer guard log`.

use super::command::{ENFORCER, Standing, enforcer, path};
use super::{BUSY, MIB, Tenant, write};
use crate::disk::Disk;
use enforcer::guard::Found;
use enforcer_vm_tests::scratch::MOUNT;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

fn store() -> TempDir {
    tempfile::Builder::new().prefix("guard-store").tempdir().expect("make a folder")
}

/// A guard that refuses 32 MiB for the tenant.
fn standing(store: &Path, more: &[&OsStr]) -> Standing {
    let words = ["--mode=enforce", "--margin=24Mi", "--json", "--store"].map(OsStr::new);
    Standing::start(words.into_iter().chain([store.as_os_str()]).chain(more.iter().copied()))
}

fn shown(store: &Path, more: &[&str]) -> String {
    let words = ["guard", "log", "--store"].map(OsStr::new).into_iter().chain([store.as_os_str()]);
    let output = enforcer(words.chain(more.iter().map(OsStr::new)));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && error.is_empty(), "{error}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(line: &str) -> Value {
    assert!(line.is_ascii(), "{line:?}");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn kept(store: &Path, more: &[&str]) -> Vec<Value> {
    shown(store, &[&["--json"], more].concat()).lines().map(json).collect()
}

fn verdicts(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter_map(|line| line.get("verdict")).collect()
}

fn sum(lines: &[Value], of: fn(&Value) -> &Value) -> u64 {
    lines.iter().filter_map(|line| of(line).as_u64()).sum()
}

/// What was told is there after `kill -9`, the next guard goes on in the same store, and one that ends says so.
pub(super) fn killed() {
    let store = store();
    let tenant = Tenant::new("log\t\u{1b}[2J");
    let cgroup = &tenant.cgroup;
    let mut guard = standing(store.path(), &[path(cgroup)]);
    assert_eq!(write(cgroup, "memory.max", b"32M\n"), BUSY);
    let told = guard.json();
    guard.signal(Signal::SIGKILL);
    let pid = guard.child.id();
    assert_eq!(guard.end().1, None, "killed");
    let lines = kept(store.path(), &[]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    let began = &lines[0]["began"];
    assert_eq!((&began["pid"], &began["mode"]), (&pid.into(), &"enforce".into()), "{began}");
    assert_eq!((&began["margin"], &began["files"]), (&(24 * MIB).into(), &serde_json::json!(["memory.max"])));
    let escaped = "log\\t\\u{1b}[2J";
    assert!(began["cgroups"][0].as_str().expect("a path").contains(escaped), "{began}");
    let record = &lines[1]["verdict"];
    assert_eq!(record, &told, "as it was told");
    for (field, value) in [
        ("verdict", Value::from("denied")),
        ("reason", "no lease".into()),
        ("mode", "enforce".into()),
        ("file", "memory.max".into()),
        ("cgroup_id", cgroup.id().into()),
        ("text", "32M\\n".into()),
        ("margin", (24 * MIB).into()),
    ] {
        assert_eq!(record[field], value, "{field} of {record}");
    }
    assert_eq!(
        (&record["asked"]["bytes"], &record["limit"]["bytes"]),
        (&(32 * MIB).into(), &(64 * MIB).into())
    );
    assert!(record["usage"].as_u64().expect("a number") >= 24 * MIB, "{record}");
    assert_eq!(record["writer"]["pid"], std::process::id(), "{record}");
    assert!(record["cgroup"].as_str().expect("a path").contains(escaped), "{record}");
    let now_us = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros();
    let age_us = now_us - u128::from(record["wall_us"].as_u64().expect("a number"));
    assert!(age_us < 600_000_000, "{age_us} us ago");

    let mut guard = standing(store.path(), &[path(cgroup)]);
    assert_eq!(write(cgroup, "memory.max", b"31M"), BUSY);
    let second = guard.json();
    guard.signal(Signal::SIGINT);
    assert_eq!(guard.end(), (String::new(), Some(0)));
    let lines = kept(store.path(), &[]);
    assert_eq!(verdicts(&lines), [&told, &second]);
    assert_eq!(lines.last().map(|line| &line["ended"]["why"]), Some(&"told to stop".into()), "{lines:?}");
}

pub(super) fn filters() {
    let store = store();
    let (one, other) = (Tenant::new("one"), Tenant::new("other"));
    let mut guard = standing(store.path(), &[path(&one.cgroup), path(&other.cgroup)]);
    assert_eq!(write(&one.cgroup, "memory.max", b"32M"), BUSY);
    assert_eq!(write(&other.cgroup, "memory.max", b"32M"), BUSY);
    assert!(write(&one.cgroup, "memory.max", b"12x").is_err(), "the kernel refuses it");
    for _ in 0..3 {
        guard.json();
    }
    let own = one.cgroup.path().strip_prefix(MOUNT).expect("below the mount").to_str().expect("text");
    let absolute = one.cgroup.path().to_str().expect("text");
    for (arguments, count) in [
        (&[][..], 3),
        (&["--denied"], 2),
        (&["--cgroup", own], 2),
        (&["--cgroup", absolute, "--denied"], 1),
        (&["--cgroup", "nobody"], 0),
        (&["--since", "1h"], 3),
        (&["--since", "1us"], 0),
    ] {
        let lines = kept(store.path(), arguments);
        assert_eq!(verdicts(&lines).len(), count, "{arguments:?}: {lines:?}");
    }
    let table = shown(store.path(), &["--denied", "--cgroup", own]);
    let mut lines = table.lines();
    assert!(lines.next().is_some_and(|head| head.starts_with("TIME")), "{table}");
    assert!(lines.next().is_some_and(|row| row.contains(" began (enforce): memory.max of ")), "{table}");
    let row = lines.next().expect("a row");
    for part in ["denied", own, "memory.max", "64Mi", "32Mi", "no lease (it must stay 24Mi above usage)"] {
        assert!(row.contains(part), "{part:?} is not in {row:?}");
    }
    // Whoever follows is told what is there, and then what comes.
    let mut follower = Command::new(ENFORCER)
        .args(["guard", "log", "--follow", "--json", "--denied", "--store"])
        .arg(store.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start enforcer");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe"));
    let mut next = || {
        let mut line = String::new();
        lines.read_line(&mut line).expect("read");
        json(&line)
    };
    assert!(next()["began"].is_object() && next()["verdict"].is_object() && next()["verdict"].is_object());
    assert_eq!(write(&one.cgroup, "memory.max", b"31M"), BUSY);
    assert_eq!(next()["verdict"]["text"], "31M");
    follower.kill().expect("end the follower");
    follower.wait().expect("wait for the follower");
    let missing = enforcer(["guard", "log", "--store", "/nobody"]);
    assert_eq!(missing.status.code(), Some(1));
    let error = String::from_utf8_lossy(&missing.stderr);
    assert!(error.contains("the agent (enforcer run) makes it, or enforcer guard"), "{error}");
}

pub(super) fn one_writer() {
    let store = store();
    let tenant = Tenant::new("writer");
    let guard = standing(store.path(), &[path(&tenant.cgroup)]);
    let second = enforcer([
        OsStr::new("guard"),
        OsStr::new("--store"),
        store.path().as_os_str(),
        path(&tenant.cgroup),
    ]);
    assert_eq!(second.status.code(), Some(1));
    let error = String::from_utf8_lossy(&second.stderr);
    for part in ["another process writes to it", "--store", "--no-store"] {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
    assert!(error.contains(store.path().to_str().expect("text")) && second.stdout.is_empty(), "{error}");
    assert_eq!(Found::all().expect("list them").len(), 1, "the second was never loaded");
    let unlogged = Standing::start([OsStr::new("--no-store"), path(&tenant.cgroup)]);
    assert_eq!(Found::all().expect("list them").len(), 2);
    unlogged.signal(Signal::SIGINT);
    assert_eq!(unlogged.end().1, Some(0));
    assert_eq!(write(&tenant.cgroup, "memory.max", b"32M"), BUSY, "the first is none the worse for it");
    guard.signal(Signal::SIGINT);
    assert_eq!(guard.end().1, Some(0));
    // The other guard's look at what it sees, an empty write, is there as well.
    assert_eq!(verdicts(&kept(store.path(), &["--denied"])).len(), 1);
}

pub(super) fn full_disk() {
    const COUNT: u64 = 40;
    let disk = Disk::of(1024);
    let store = disk.path().join("store");
    let tenant = Tenant::new("full");
    let mut guard = standing(&store, &[path(&tenant.cgroup)]);
    let filler = disk.leave(0);
    for _ in 0..COUNT {
        assert_eq!(write(&tenant.cgroup, "memory.max", b"32M"), BUSY, "it stands all the same");
    }
    let (mut told, mut failing) = (0, 0);
    while told < COUNT || failing == 0 {
        let line = guard.json();
        told += u64::from(line["verdict"] == "denied");
        if let Some(why) = line["keeps_nothing"].as_str() {
            assert!(why.contains("No space left"), "{why}");
            failing += 1;
        }
    }
    std::fs::remove_file(filler).expect("make room");
    assert_eq!(write(&tenant.cgroup, "memory.max", b"31M"), BUSY);
    let lost = loop {
        let line = guard.json();
        failing += u64::from(line["keeps_nothing"].is_string());
        if line["lost"].is_object() {
            break line;
        }
    };
    assert_eq!(failing, 1, "it is said once");
    guard.signal(Signal::SIGINT);
    let (rest, code) = guard.end();
    assert_eq!(code, Some(0), "{rest}");
    let lines = kept(&store, &[]);
    let unstored = sum(&lines, |line| &line["lost"]["unstored"]);
    assert!(unstored > 0 && lines.contains(&lost), "{lines:?}");
    assert_eq!(verdicts(&lines).len() as u64 + unstored, COUNT + 1);
    assert_eq!(json(rest.trim_end())["not_kept"], unstored, "{rest}");
}

/// What is told from then on is kept all the same.
pub(super) fn removed() {
    let outer = store();
    let store = outer.path().join("store");
    let tenant = Tenant::new("removed");
    let mut guard = standing(&store, &[path(&tenant.cgroup)]);
    std::fs::remove_dir_all(&store).expect("remove it");
    let told: Vec<Value> = (0..3)
        .map(|_| {
            assert_eq!(write(&tenant.cgroup, "memory.max", b"32M"), BUSY);
            guard.json()
        })
        .collect();
    assert!(Found::all().expect("list them").iter().all(Found::is_armed));
    guard.signal(Signal::SIGINT);
    assert_eq!(guard.end(), (String::new(), Some(0)));
    assert_eq!(verdicts(&kept(&store, &[])), told.iter().collect::<Vec<_>>());
}
