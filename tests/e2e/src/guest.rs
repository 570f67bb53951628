//! The guest's programs and files.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub(crate) const MIB: i64 = 1 << 20;

/// What a program says and how it ends.
pub(crate) fn output<I: IntoIterator<Item: AsRef<OsStr>>>(program: &str, args: I) -> Output {
    Command::new(program).args(args).stdin(Stdio::null()).output().expect("start it")
}

/// Runs a program that must succeed.
#[track_caller]
pub(crate) fn run<I: IntoIterator<Item: AsRef<OsStr>>>(program: &str, args: I) {
    let output = output(program, args);
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A file of a cgroup.
#[track_caller]
pub(crate) fn read(cgroup: &Path, file: &str) -> String {
    let text = std::fs::read_to_string(cgroup.join(file));
    text.unwrap_or_else(|error| panic!("{}/{file}: {error}", cgroup.display())).trim().to_owned()
}

#[track_caller]
pub(crate) fn bytes(cgroup: &Path, file: &str) -> i64 {
    read(cgroup, file).parse().expect("a number")
}

#[track_caller]
pub(crate) fn mib(cgroup: &Path, file: &str) -> i64 {
    bytes(cgroup, file) / MIB
}

/// How many processes were killed for memory in the cgroup and below.
#[track_caller]
pub(crate) fn kills(cgroup: &Path) -> u64 {
    let events = read(cgroup, "memory.events");
    let count = events.lines().find_map(|line| line.strip_prefix("oom_kill ")).expect("a count");
    count.parse().expect("a number")
}

/// Runs a test that waits for things.
pub(crate) fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(test)
}
