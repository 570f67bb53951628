//! A shrink of a unit of systemd's, which has a limit of its own in mind.

use crate::debian::{Job, Scope, output, read, run};
use enforcer_vm_tests::case::{Case, Tier, nothing};

const TO: u64 = 48 << 20;

pub(super) fn cases() -> Vec<Case> {
    vec![Case { name: "shrink::a_unit_keeps_it_as_advised", tier: Tier::Debian, needs: nothing, run: kept }]
}

/// The advice is carried out to the letter: without it systemd would put its own back.
fn kept() {
    let scope = Scope::start("shrink-kept", &["MemoryMax=64M"], Job::Anon(8));
    let cgroup = scope.cgroup();
    let folder = tempfile::tempdir_in("/run").expect("a folder");
    let path = [cgroup.as_os_str(), "--to=48Mi".as_ref(), "--state-dir".as_ref(), folder.path().as_os_str()];
    let spans = ["--budget=3s", "--observe=500ms", "--window=1s", "--watch=500ms"].map(AsRef::as_ref);
    let shrunk = output("/bin/enforcer", ["shrink".as_ref()].iter().chain(&path).chain(&spans));
    let text = String::from_utf8(shrunk.stdout).expect("text");
    assert_eq!(shrunk.status.code(), Some(0), "{text}");
    assert_eq!(read(&cgroup, "memory.max"), TO.to_string());
    let (_, advice) = text.split_once("to keep this one: ").unwrap_or_else(|| panic!("no advice: {text}"));
    let mut words = advice.lines().next().expect("a command").split(' ');
    run(words.next().expect("a program"), words);
    run("systemctl", ["daemon-reload"]);
    run("systemctl", ["set-property", "--runtime", &scope.unit, "CPUWeight=50"]);
    assert_eq!(read(&cgroup, "memory.max"), TO.to_string());
}
