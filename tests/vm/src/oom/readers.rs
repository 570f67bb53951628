//! Reading beside the recorder.

use super::rig::{ENFORCER, Recording, fall, json, limited, ooms, shown, store, victims};
use enforcer_vm_tests::scratch::MOUNT;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

pub(super) fn follow() {
    let store = store();
    let mut recording = Recording::start(store.path());
    let cgroup = limited("follow", "8M");
    let first = fall(&cgroup);
    let told = recording.oom_of(&cgroup);
    let mut follower = Command::new(ENFORCER)
        .args(["oom", "--follow", "--json", "--since", "1h", "--cgroup"])
        .arg(cgroup.path())
        .arg("--store")
        .arg(store.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("enforcer starts");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe"));
    let mut next = || loop {
        let mut line = String::new();
        lines.read_line(&mut line).expect("read");
        let mut line = json(&line);
        if let Some(oom) = line.get_mut("oom") {
            return oom.take();
        }
    };
    assert_eq!(next(), told, "what is there already");
    let second = fall(&cgroup);
    assert_eq!(victims(&next()), [u64::from(second)], "what comes");
    assert_eq!(victims(&told), [u64::from(first)]);
    follower.kill().expect("end the follower");
    follower.wait().expect("wait for the follower");
}

pub(super) fn filters() {
    let store = store();
    let recording = Recording::start(store.path());
    let (one, other) = (limited("one", "8M"), limited("other", "8M"));
    let (first, second) = (fall(&one), fall(&other));
    recording.stop();
    assert_eq!(ooms(store.path()).len(), 2);
    let own = one.path().strip_prefix(MOUNT).expect("below the mount").to_str().expect("text").to_owned();
    let first = first.to_string();
    for (arguments, count) in [
        (&["--victim", first.as_str()][..], 1),
        (&["--victim", "worklo"], 2),
        (&["--victim", "nobody"], 0),
        (&["--cgroup", own.as_str()], 1),
        (&["--cgroup", "/"], 2),
        (&["--since", "1h"], 2),
        (&["--since", "1us"], 0),
        (&["--pod", "x"], 0),
    ] {
        let shown = shown(store.path(), arguments.iter().copied().chain(["--json"]));
        let found = shown.lines().filter(|line| json(line).get("oom").is_some()).count();
        assert_eq!(found, count, "{arguments:?}: {shown}");
    }
    let table = shown(store.path(), ["--victim", &second.to_string()]);
    let mut lines = table.lines();
    assert!(lines.next().is_some_and(|head| head.starts_with("TIME")), "{table}");
    let row = lines.find(|line| line.contains(&format!("enforcer-worklo[{second}]"))).expect("a row");
    assert!(row.contains("8Mi") && row.contains("the cgroup's own limit of 8Mi was hit"), "{table}");
}
