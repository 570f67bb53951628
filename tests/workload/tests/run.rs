//! The workloads as programs: what they print, and that they end with their standard input.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_enforcer-workload"));
        let mut child = command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { stdin: child.stdin.take(), child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("one more line").expect("text")
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().expect("open"), "{line}").expect("writes");
    }

    fn anonymous_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("alive");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Ends standard input; the lines that were left.
    fn end(mut self) -> Vec<String> {
        drop(self.stdin.take());
        let rest = self.lines.map(|line| line.expect("text")).collect();
        assert!(self.child.wait().expect("ends").success());
        rest
    }
}

#[test]
fn anon_is_there_when_ready() {
    let mut anon = Running::start(&["anon", "--size", "8Mi"]);
    assert_eq!(anon.line(), "ready 8388608");
    assert!(anon.anonymous_kib() >= 8192, "{} KiB", anon.anonymous_kib());
    assert_eq!(anon.end(), [""; 0]);
}

#[test]
fn anon_grows_at_a_rate() {
    let mut anon = Running::start(&["anon", "--start", "1Mi", "--size", "2Mi", "--rate", "16Mi"]);
    assert_eq!(anon.line(), "ready 1048576");
    assert_eq!(anon.line(), "grown 2097152");
    anon.end();
}

#[test]
fn bursts_come_and_go() {
    let mut bursts = Running::start(&[
        "bursts", "--base", "1Mi", "--burst", "16Mi", "--period", "60ms", "--duty", "20ms", "--report",
    ]);
    assert_eq!(bursts.line(), "ready 1048576");
    assert_eq!(bursts.line(), "burst 1");
    assert_eq!(bursts.line(), "burst 2");
    bursts.end();
}

#[test]
fn files_are_read_written_and_mapped() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("files");
    std::fs::create_dir_all(&dir).expect("a folder");
    let file = dir.join("file");
    let file = file.to_str().expect("text");
    for args in [
        ["cache", "--file", file, "--size", "1Mi"],
        ["dirty", "--file", file, "--size", "1Mi"],
        ["mapped", "--file", file, "--size", "1Mi"],
        ["tmpfs", "--dir", dir.to_str().expect("text"), "--size", "1Mi"],
    ] {
        let mut running = Running::start(&args);
        assert_eq!(running.line(), "ready 1048576", "{args:?}");
        running.end();
    }
    std::fs::remove_dir_all(&dir).expect("gone");
}

#[test]
fn threads_forks_and_probes() {
    let mut threads = Running::start(&["threads", "--n", "3", "--size", "1Mi"]);
    assert_eq!(threads.line(), "ready 3145728");
    threads.end();

    let mut forks = Running::start(&["forks", "--n", "3", "--size", "64Ki"]);
    assert_eq!(forks.line(), "ready 0");
    let last = forks.end().pop().expect("a summary");
    assert!(last.starts_with("forks started ") && last.ends_with(" left 0"), "{last}");

    let mut probe = Running::start(&["probe", "--period", "1ms", "--timeout", "60s", "--report"]);
    assert_eq!(probe.line(), "ready 0");
    assert!(probe.line().starts_with("probe ok us "));
    let last = probe.end().pop().expect("a summary");
    assert!(last.starts_with("probe runs ") && last.contains(" timeouts 0 "), "{last}");
}

#[test]
fn children_that_end_by_themselves_are_no_kills() {
    let mut kills = Running::start(&["kill-loop", "--n", "3", "--parallel", "2", "--size", "64Ki"]);
    assert_eq!(kills.line(), "ready 0");
    assert_eq!(kills.line(), "kill-loop killed 0 other 3");
    kills.end();
}

#[test]
fn steps_are_led() {
    let mut steps = Running::start(&["steps"]);
    assert_eq!(steps.line(), "ready 0");
    for (say, answer) in [
        ("grow 1Mi", "ok 1048576"),
        ("grow 64Ki", "ok 1114112"),
        ("touch", "ok 1114112"),
        ("free", "ok 0"),
        ("report", "ok 0"),
        ("jump", "error want grow S, lock S, cache S (with --file), kill PID, free, touch or report"),
    ] {
        steps.say(say);
        assert_eq!(steps.line(), answer, "{say}");
    }
    steps.end();
}

#[test]
fn the_gap_waits_for_a_lower_limit() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gap");
    std::fs::create_dir_all(&dir).expect("a folder");
    std::fs::write(dir.join("memory.high"), "max\n").expect("writes");
    std::fs::write(dir.join("memory.max"), "1000000\n").expect("writes");
    let mut gap = Running::start(&[
        "gap",
        "--base",
        "64Ki",
        "--burst",
        "1Mi",
        "--on",
        "high",
        "--watch",
        dir.to_str().expect("text"),
    ]);
    assert_eq!(gap.line(), "ready 65536");
    std::fs::write(dir.join("memory.max"), "500000\n").expect("writes");
    std::fs::write(dir.join("memory.high"), "400000\n").expect("writes");
    assert_eq!(gap.line(), "gap 1114112");
    gap.end();
    std::fs::remove_dir_all(&dir).expect("gone");
}

#[test]
fn wrong_words_exit_64() {
    for args in [&[][..], &["anon"], &["anon", "10Mi"], &["nothing"], &["gap", "--burst", "1", "--on", "x"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_enforcer-workload"));
        let output = command.args(args).stdin(Stdio::null()).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn help_is_no_mistake() {
    for words in [&["--help"][..], &["-h"], &["anon", "--help"]] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_enforcer-workload")).args(words).output().expect("starts");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}");
        assert!(text.contains("ready BYTES") && text.contains("\n  kill-loop "), "{text}");
    }
}
