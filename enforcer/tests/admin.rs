//! The commands that ask a running agent, over a real socket and in a real terminal.

#[path = "support/agent.rs"]
mod agent;
#[path = "support/pty.rs"]
mod pty;

use agent::Agent;
use enforcer::admin::{
    Request,
    model::{Part, PartState},
};
use enforcer::inventory::Target;
use nix::sys::signal::Signal;
use pty::{Pty, shown};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

struct Answer {
    code: i32,
    out: String,
    err: String,
}

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let socket = dir.path().join("admin.sock");
    (dir, socket)
}

fn command(socket: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_enforcer"));
    command.args(args).arg("--socket").arg(socket).arg("--deadline").arg("1m");
    command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
    command
}

fn enforcer(socket: &Path, args: &[&str]) -> Answer {
    let output = command(socket, args).stdin(Stdio::null()).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Answer {
        code: output.status.code().expect("no signal"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

#[test]
fn status_says_how_the_agent_does() {
    let (_dir, socket) = place();
    let agent = Agent::start(&socket, 1);
    let answer = enforcer(&socket, &["status"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{}", answer.out);
    assert!(answer.out.starts_with("enforcer 0.1.0 (process 42), up 2h2m, Linux 6.12.1"), "{}", answer.out);
    let failed = Part { name: "metrics".into(), state: PartState::Failed, why: "the port is taken".into() };
    agent.says().status.parts.push(failed);
    let answer = enforcer(&socket, &["status", "--json"]);
    let status: Value = serde_json::from_str(&answer.out).expect("is JSON");
    assert_eq!((answer.code, &status["parts"][2]["state"]), (1, &"failed".into()));
}

#[test]
fn explain_tells_why() {
    let (_dir, socket) = place();
    let _agent = Agent::start(&socket, 2);
    let answer = enforcer(&socket, &["explain", "pod/shop/web-1"]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert!(answer.out.starts_with("pod/shop/web-1:main\n"), "{}", answer.out);
    assert!(answer.out.contains("Its limit is 128Mi, which is what the runtime has."), "{}", answer.out);
    let answer = enforcer(&socket, &["explain", "pod/shop/web-1:main", "--json"]);
    let explanation: Value = serde_json::from_str(&answer.out).expect("is JSON");
    assert_eq!(explanation["containers"][0]["safe_minimum"], 48 << 20);
    let answer = enforcer(&socket, &["explain", "pod/shop/none"]);
    assert_eq!((answer.code, answer.out.as_str()), (64, ""));
    assert!(
        answer.err.contains("the runtime has no pod pod/shop/none\n    -> enforcer ps lists them"),
        "{}",
        answer.err
    );
    let answer = enforcer(&socket, &["explain", "pod/shop"]);
    assert!(
        answer.code == 64 && answer.err.contains("where a namespace and a name belong"),
        "{}",
        answer.err
    );
}

#[test]
fn explain_takes_a_cgroup() {
    let (_dir, socket) = place();
    let agent = Agent::start(&socket, 2);
    agent.says().containers[1].cgroup = "kubepods.slice/b.slice/c.scope".into();
    for (path, container) in
        [("/sys/fs/cgroup/kubepods.slice/b.slice/c.scope", Some("main")), ("kubepods.slice/b.slice/", None)]
    {
        let answer = enforcer(&socket, &["explain", path]);
        assert!(
            answer.code == 0 && answer.out.starts_with("pod/shop/web-1:main\n"),
            "{}{}",
            answer.out,
            answer.err
        );
        let target =
            Target { namespace: "shop".into(), name: "web-1".into(), container: container.map(Into::into) };
        assert_eq!(agent.says().asked.last(), Some(&Request::Explain(target)));
    }
    let answer = enforcer(&socket, &["explain", "web-1\u{1b}"]);
    assert_eq!((answer.code, answer.out.as_str()), (64, ""));
    assert!(
        answer
            .err
            .starts_with("error: can't explain web-1\\u{1b}\n  it is the cgroup of no container that runs")
            && answer.err.contains("enforcer ps"),
        "{}",
        answer.err
    );
}

#[test]
fn top_as_json_is_one_document() {
    let (_dir, socket) = place();
    let _agent = Agent::start(&socket, 3);
    let answer = enforcer(&socket, &["top", "--json", "--sort", "name"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
    assert_eq!(answer.out.lines().count(), 1, "{}", answer.out);
    let document: Value = serde_json::from_str(&answer.out).expect("is JSON");
    assert_eq!(document["status"]["pid"], 42);
    assert_eq!(document["containers"][2]["pod"], "web-2");
    let wrong = enforcer(&socket, &["top", "--json", "--interval", "3s"]);
    assert_eq!(wrong.code, 64, "{}", wrong.err);
}

#[test]
fn pause_resume_and_reload_arrive() {
    let (_dir, socket) = place();
    let agent = Agent::start(&socket, 1);
    let answer = enforcer(&socket, &["pause"]);
    assert_eq!((answer.code, answer.out.as_str()), (0, "paused: 1 shrink was taken back\n"));
    assert!(
        enforcer(&socket, &["status"]).out.contains("\npaused: no limit is changed until enforcer resume\n")
    );
    let answer = enforcer(&socket, &["resume", "--json"]);
    assert_eq!((answer.code, answer.out.as_str()), (0, "{\"paused\":false,\"text\":\"resumed\"}\n"));
    let answer = enforcer(&socket, &["reload"]);
    assert!(answer.code == 64 && answer.err.contains("line 3: there is no key"), "{}", answer.err);
    let asked = agent.says().asked.clone();
    assert_eq!(asked, [Request::Pause, Request::Status, Request::Resume, Request::Reload]);
}

#[test]
fn a_pause_waits_for_what_is_under_way_and_says_what_is_left() {
    let (_dir, socket) = place();
    let agent = Agent::start(&socket, 1);
    agent.says().under_way = vec!["pod/a/b:c: 2Mi -> 1Mi, restoring, for 5s".into(); 3];
    let answer = enforcer(&socket, &["pause"]);
    assert_eq!(
        (answer.code, answer.out.as_str()),
        (0, "paused: 1 shrink was taken back\n"),
        "{}",
        answer.err
    );
    assert_eq!(agent.says().asked, vec![Request::Pause; 4]);
    // No time is left after the first answer.
    agent.says().under_way = vec!["pod/a/b:c: 2Mi -> 1Mi, restoring, for \u{1b}".into(); 1000];
    let answer = Command::new(env!("CARGO_BIN_EXE_enforcer"))
        .args(["pause", "--deadline", "300ms", "--socket"])
        .arg(&socket)
        .output()
        .expect("it starts");
    let err = String::from_utf8(answer.stderr).expect("text");
    assert_eq!(answer.status.code(), Some(1), "{err}");
    assert_eq!(
        err,
        "error: paused, but not all is taken back within 300ms\n  pod/a/b:c: 2Mi -> 1Mi, restoring, for \\u{1b}\n    \
         -> wait, and ask again; enforcer status tells how far it is\n"
    );
    let help =
        Command::new(env!("CARGO_BIN_EXE_enforcer")).args(["pause", "--help"]).output().expect("starts");
    let help = String::from_utf8(help.stdout).expect("text");
    assert!(help.contains("[default: 30s]") && help.contains("agent.settle_timeout"), "{help}");
}

#[test]
fn without_an_agent_each_command_says_what_to_do() {
    let (_dir, socket) = place();
    for args in
        [&["status"][..], &["explain", "pod/a/b"], &["pause"], &["resume"], &["reload"], &["top", "--once"]]
    {
        let answer = enforcer(&socket, args);
        assert_eq!((answer.code, answer.out.as_str()), (69, ""), "{args:?}");
        assert!(
            answer.err.contains("no agent runs") && answer.err.contains("enforcer run"),
            "{}",
            answer.err
        );
        assert_eq!(answer.err.contains("enforcer ps"), args[0] == "explain", "{}", answer.err);
    }
    let answer = enforcer(&socket, &["explain", "pod/a/b", "--json"]);
    let failure: Value = serde_json::from_str(&answer.err).expect("is JSON");
    assert_eq!((&failure["error"]["exit"], &failure["error"]["on"]), (&69.into(), &"pod/a/b".into()));
}

#[test]
fn top_once_is_plain_text() {
    let (_dir, socket) = place();
    let _agent = Agent::start(&socket, 300);
    let answer = enforcer(&socket, &["top", "--once", "--sort", "name"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
    assert_eq!(answer.out.matches("shop/web-").count(), 300 + 1, "{}", answer.out);
    assert!(!answer.out.contains('\u{1b}') && answer.out.lines().all(|line| line.chars().count() <= 80));
    let answer = enforcer(&socket, &["top"]);
    assert!(answer.code == 64 && answer.err.contains("--once"), "{}", answer.err);
}

/// Starts it and waits for the list.
fn top(socket: &Path, columns: u16, lines: u16) -> (Pty, pty::Modes) {
    let (pty, before) = Pty::start(command(socket, &["top", "--interval", "100ms"]), columns, lines, true);
    let shown = pty.sees("shop/web-0:main");
    assert!(shown.alternate && !shown.cursor, "{shown:?}");
    assert_ne!(pty.modes(), before);
    (pty, before)
}

#[test]
fn top_lives_through_keys_and_an_agent_that_goes_and_comes_back() {
    let (_dir, socket) = place();
    let agent = Agent::start(&socket, 3);
    let (mut pty, before) = top(&socket, 80, 24);
    pty.sees("sh (process 77) was killed");
    pty.press("?");
    pty.sees("this help");
    pty.press("q");
    pty.press("j\r");
    pty.until("the second container explained", |shown| {
        shown.text.contains("pod/shop/web-1:main\n") && shown.text.contains("Its limit is 128Mi")
    });
    pty.press("\u{1b}");
    pty.sees("sort: pressure");
    pty.press("p");
    pty.sees("sort: usage");
    pty.press("P");
    pty.sees("pause all actuation of the agent?");
    pty.press("y");
    pty.sees("PAUSED: no limit is changed");
    assert!(agent.says().status.paused);
    drop(agent);
    let shown = pty.sees("no answer since");
    assert!(shown.text.contains("shop/web-2:main"), "{}", shown.text);
    let agent = Agent::start(&socket, 5);
    pty.until("the agent's return", |shown| {
        !shown.text.contains("no answer")
            && !shown.text.contains("PAUSED")
            && shown.text.contains("web-4:main")
    });
    pty.resize(120, 30);
    pty.sees("   SAFE");
    pty.resize(30, 5);
    pty.sees("too small: 40x10 is the least");
    pty.resize(80, 24);
    pty.sees("shop/web-0:main");
    pty.press("q");
    pty.until("the screen from before", |shown| !shown.alternate && shown.cursor);
    let (after, pty) = pty.after_end();
    let (status, _) = pty.end();
    assert_eq!((status.code(), after), (Some(0), before));
    drop(agent);
}

#[test]
fn whatever_ends_top_the_terminal_is_as_before() {
    let (_dir, socket) = place();
    let _agent = Agent::start(&socket, 1);
    for end in ["\u{3}", "TERM", "INT"] {
        let (mut pty, before) = top(&socket, 80, 24);
        match end {
            "TERM" => pty.signal(Signal::SIGTERM),
            "INT" => pty.signal(Signal::SIGINT),
            keys => pty.press(keys),
        }
        pty.until("the screen from before", |shown| !shown.alternate && shown.cursor);
        let (after, pty) = pty.after_end();
        let (status, _) = pty.end();
        assert_eq!((status.code(), after), (Some(0), before), "{end}");
    }
}

#[test]
fn a_terminal_that_takes_nothing_does_not_keep_top_from_ending() {
    let (_dir, socket) = place();
    let _agent = Agent::start(&socket, 300);
    let (pty, before) = Pty::start(command(&socket, &["top", "--interval", "100ms"]), 250, 100, false);
    // A whole screen is more than a terminal holds.
    pty.until_waiting(3000);
    pty.signal(Signal::SIGTERM);
    let (after, pty) = pty.after_end();
    let (status, _) = pty.end();
    assert_eq!((status.code(), after), (Some(1), before));
}

#[test]
fn no_color_is_heeded() {
    let (_dir, socket) = place();
    let _agent = Agent::start(&socket, 1);
    for (no_color, coloured) in [("", true), ("1", false)] {
        let mut command = command(&socket, &["top"]);
        command.env("NO_COLOR", no_color);
        let (mut pty, _) = Pty::start(command, 80, 24, true);
        pty.sees("shop/web-0:main");
        pty.press("q");
        let (_, bytes) = pty.end();
        let text = String::from_utf8(bytes).expect("text");
        let any = ["\u{1b}[38;", "\u{1b}[48;"].iter().any(|colour| text.contains(colour));
        assert_eq!(any, coloured, "{text:?}");
        assert!(shown(text.as_bytes()).cursor);
    }
}
