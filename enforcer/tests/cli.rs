//! The real binary, as people and scripts meet it.

use serde_json::Value;
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

struct Answer {
    code: i32,
    out: String,
    err: String,
}

fn enforcer<I: IntoIterator<Item: AsRef<OsStr>>>(args: I) -> Answer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_enforcer"));
    let output = command.args(args).stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    let answer = Answer {
        code: output.status.code().expect("no signal ended it"),
        out: text(output.stdout),
        err: text(output.stderr),
    };
    assert!(!answer.err.contains("panicked"), "{}", answer.err);
    answer
}

/// A command line that is wrong: 64, nothing on standard output, and what is wrong on standard error.
fn wrong(args: &[&str], says: &str) {
    let answer = enforcer(args);
    assert_eq!((answer.code, answer.out.as_str()), (64, ""), "{args:?}: {}", answer.err);
    assert!(answer.err.contains(says), "{args:?}: {}", answer.err);
    assert!(answer.err.starts_with("error: ") || says == "Usage", "{args:?}: {}", answer.err);
}

/// A folder of its own for each test.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a folder");
    dir
}

fn json(text: &str) -> Value {
    assert!(text.is_ascii(), "{text}");
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn wrong_words_get_64_and_what_is_wrong() {
    wrong(&[], "Usage");
    wrong(&["shrunk"], "unrecognized subcommand 'shrunk'");
    wrong(&["floor", "a", "b"], "unexpected argument 'b'");
    wrong(&["floor", "--window", "2"], "the unit is missing (us, ms, s, m or h), as in 10s or 500ms");
    wrong(&["floor", "--window", ""], "it is empty or longer than 64 bytes");
    wrong(&["record", "a", "--out", "/x"], "arguments were not provided: --duration <TIME>\n");
    wrong(
        &["record", "a", "--duration", "1s", "--out", "/x", "--interval", "999us"],
        "999us is too short a time; give 1ms or more",
    );
    wrong(&["shrink", "a"], "arguments were not provided: --to <QUANTITY>\n");
    wrong(&["shrink", "a", "--to", "1Gi", "--watch", "30d"], "is no unit");
    wrong(
        &["shrink", "a", "--to", "1Gi", "--window", "1000h", "--budget", "0s"],
        "'1000h' for '--window <TIME>': 1000h is too long a time; give 168h or less",
    );
    for option in ["--window", "--observe", "--watch", "--budget"] {
        let says = format!("'0s' for '{option} <TIME>': 0us is too short a time; give 1");
        wrong(&["shrink", "a", "--to", "1Gi", option, "0s"], &says);
    }
    wrong(&["shrink", "a", "--to", "1Gi", "--headroom", "2Ti"], "2Ti is too much; give 1Ti or less");
    wrong(&["floor", "--window", "0s"], "'0s' for '--window <TIME>': 0us is too short");
    wrong(&["replay", "/x", "--to", "1Gi", "--window", "0s"], "'0s' for '--window <TIME>': 0us is too short");
    wrong(
        &["record", "a", "--duration", "0s", "--out", "/x"],
        "'0s' for '--duration <TIME>': 0us is too short",
    );
    wrong(&["replay"], "<TRACE>");
    wrong(&["replay", "/x", "--window", "1s"], "--to <QUANTITY>");
    wrong(&["replay", "/nowhere/at/all"], "can't replay /nowhere/at/all\n  No such file");
    wrong(&["config"], "Usage");
    wrong(&["config", "check", "a", "b"], "unexpected argument 'b'");
    wrong(&["config", "check", "--set"], "a value is required for '--set <KEY=VALUE>'");
    wrong(&["completions", "cobol"], "invalid value 'cobol'");
}

#[test]
fn every_wrong_quantity_is_explained() {
    for (quantity, says) in [
        ("0", "it is zero, which no process survives"),
        ("1", "1 B is less than a page, and the kernel rounds a limit down to whole pages of 4096 bytes"),
        ("4095", "4095 B is less than a page"),
        ("12x", "\"x\" is no suffix"),
        ("1e3", "1000 B is less than a page"),
        ("9999999Ti", "more than the highest limit"),
        ("", "it is empty; give a quantity such as 256Mi"),
        ("99999999999999999999", "more than 64 bits of bytes can hold"),
    ] {
        wrong(&["replay", "/x", "--to", quantity], says);
        wrong(&["shrink", "a", "--to", quantity], says);
    }
    wrong(&["replay", "/x", "--to=-1"], "it is negative");
    wrong(&["shrink", "a", "--to", "-1"], "it is negative");
}

#[test]
fn hostile_arguments_are_escaped_and_bounded() {
    let long = "a".repeat(100_000);
    for hostile in ["\u{1b}[2J\u{7}", "\u{202e}txt.exe", long.as_str()] {
        for args in [vec![hostile], vec!["floor", "--window", hostile], vec!["replay", hostile]] {
            let answer = enforcer(&args);
            assert_eq!(answer.code, 64);
            assert!(!answer.err.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{:?}", answer.err);
            assert!(answer.err.len() < 8192, "{} bytes", answer.err.len());
        }
    }
    let raw = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff\xfe\x1b");
    for args in
        [vec![raw], vec![OsStr::new("replay"), raw], vec![OsStr::new("floor"), OsStr::new("--window"), raw]]
    {
        assert_eq!(enforcer(&args).code, 64);
    }
}

#[test]
fn errors_are_fields_with_json() {
    let answer = enforcer(["replay", "/no\u{1b}where", "--json"]);
    let error = &json(&answer.err)["error"];
    assert_eq!(error["exit"], 64);
    assert_eq!(error["what"], "can't replay");
    assert_eq!(error["on"], "/no\\u{1b}where");
    assert!(error["reasons"][0]["why"].as_str().expect("text").starts_with("No such file"), "{error}");
    let answer = enforcer(["floor", "--window", "1x", "--json"]);
    let error = &json(&answer.err)["error"];
    assert!(error["reasons"][0]["why"].as_str().expect("text").contains("is no unit"), "{error}");
}

/// What `enforcer check` says about a need of this very node.
fn state_of(need: &str) -> (String, String) {
    let report = json(&enforcer(["check", "--json"]).out);
    let findings = report["node"].as_array().expect("a list");
    let finding = findings.iter().find(|finding| finding["need"] == need).expect("judged");
    let text = |key: &str| finding[key].as_str().expect("text").to_owned();
    (text("state"), text("do"))
}

#[test]
fn check_says_whether_this_node_will_do() {
    let answer = enforcer(["check", "--json"]);
    let report = json(&answer.out);
    let missing =
        report["node"].as_array().expect("a list").iter().any(|finding| finding["state"] == "missing");
    assert_eq!(report["supported"], !missing);
    assert_eq!(answer.code, if missing { 69 } else { 0 });
    let text = enforcer(["check"]);
    assert_eq!(text.code, answer.code);
    let mut lines = text.out.lines();
    let verdict = lines.next().unwrap_or_default();
    assert_eq!(verdict.starts_with("this node can't do the job: it lacks "), missing, "{}", text.out);
    assert_eq!(lines.next().is_some_and(|line| line.starts_with("  do first: ")), missing, "{}", text.out);
}

#[test]
fn what_needs_cgroups_says_what_is_missing_here() {
    let (state, todo) = state_of("cgroup_v2_memory");
    let out = scratch("needs").join("trace");
    let out = out.to_str().expect("text");
    for args in [
        vec!["floor", "no/such/cgroup"],
        vec!["shrink", "no/such/cgroup", "--to", "1Gi"],
        vec!["record", "no/such/cgroup", "--duration", "1s", "--out", out],
    ] {
        let answer = enforcer(&args);
        if state == "missing" {
            assert_eq!(answer.code, 69, "{args:?}: {}", answer.err);
            assert!(
                answer.err.contains("cgroup v2 memory: ") && answer.err.contains(&todo),
                "{}",
                answer.err
            );
        } else {
            assert_eq!(answer.code, 64, "{args:?}: {}", answer.err);
            assert!(answer.err.contains("no/such/cgroup: no such cgroup"), "{}", answer.err);
        }
        assert!(answer.err.contains("no/such/cgroup"), "{}", answer.err);
    }
}

#[test]
fn nothing_is_left_to_recover_from_an_empty_folder() {
    let dir = scratch("recover");
    let args = ["recover", "--state-dir", dir.to_str().expect("text"), "--json"];
    let answer = enforcer(args);
    let able = ["root", "cgroup_v2_memory"].iter().all(|need| state_of(need).0 != "missing");
    if able {
        assert_eq!((answer.code, answer.out.as_str()), (0, "[]\n"), "{}", answer.err);
    } else {
        let error = &json(&answer.err)["error"];
        assert_eq!((answer.code, error["what"].as_str()), (69, Some("can't recover from")), "{error}");
        assert!(error["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()), "{error}");
    }
}

#[test]
fn completions_and_manual_pages_name_every_command() {
    let commands = ["check", "ps", "floor", "shrink", "resize", "record", "replay", "recover"];
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let answer = enforcer(["completions", shell]);
        assert_eq!(answer.code, 0);
        assert!(commands.iter().all(|command| answer.out.contains(command)), "{shell}");
    }
    let page = enforcer(["man"]);
    assert!(page.code == 0 && page.out.contains(".TH enforcer 1"));
    let dir = scratch("man");
    let answer = enforcer([OsStr::new("man"), OsStr::new("--out"), dir.as_os_str()]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    for command in commands {
        let page = std::fs::read_to_string(dir.join(format!("enforcer-{command}.1"))).expect("a page");
        assert!(page.contains("\\-\\-json"), "{command}");
    }
    let pages = std::fs::read_dir(&dir).expect("is there").map(|entry| entry.expect("is there").file_name());
    let of_help: Vec<_> = pages.filter(|name| name.to_string_lossy().contains("help")).collect();
    assert!(of_help.is_empty(), "{of_help:?}");
    assert_eq!(enforcer(["man", "--out", "/proc/nowhere"]).code, 1);
}

#[test]
fn what_is_to_be_resized_and_how_is_read_before_anything_is_asked() {
    wrong(&["resize", "a"], "required arguments were not provided");
    for (option, value, says) in [
        ("--memory", "0", "it is zero"),
        ("--memory", "12x", "is no suffix"),
        ("--cpu", "-1", "no amount of CPU"),
        ("--cpu", "0", "more than zero"),
        ("--cpu-weight", "0", "not in 1..=10000"),
        ("--cpu-shares", "1", "not in 2..=262144"),
    ] {
        wrong(&["resize", "a", option, value], says);
    }
    wrong(&["resize", "a", "--cpu-weight", "5", "--cpu-shares", "5"], "cannot be used with");
    wrong(&["resize", "a", "--cpu", "1", "--via", "docker"], "possible values: cri, cgroup, kube");
    wrong(&["resize", "a", "--cpu", "1", "--via", "kube"], "with --via kube a target is pod/NAMESPACE/NAME");
    for words in [&["shrink", "--to=1Mi"][..], &["resize", "--cpu=1"], &["floor"]] {
        wrong(&[words, &["pod/a/B"]].concat(), "a pod's name is made of a-z");
        wrong(&[words, &["pod/a/b", "--cri=x"]].concat(), "neither unix:///path nor an absolute path");
    }
}

#[test]
fn a_runtime_that_is_not_there_or_does_not_answer_is_told_as_such() {
    wrong(&["ps", "--cri", "run/x.sock"], "run/x.sock: neither unix:///path nor an absolute path");
    wrong(&["ps", "--cri", "/proc/self/status"], "there is something else than a socket");
    wrong(&["ps", "--deadline", "0s"], "0us is too short a time");
    let dir = scratch("cri");
    let socket = dir.join("cri.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("listens");
    let address = format!("unix://{}", socket.display());
    let ps = || enforcer(["ps", "--deadline=200ms", "--json", "--cri", &address]);
    let answer = ps();
    assert_eq!((answer.code, answer.out.as_str()), (69, ""), "{}", answer.err);
    let reason = &json(&answer.err)["error"]["reasons"][0];
    let why = reason["why"].as_str().expect("text");
    assert!(why.contains("cri.sock: no answer to Version within 200ms"), "{why}");
    assert!(reason["do"].as_str().expect("text").contains("hangs or is stopped"), "{reason}");
    drop(listener);
    let answer = ps();
    assert_eq!((answer.code, answer.out.as_str()), (69, ""), "{}", answer.err);
    assert!(answer.err.contains("can't connect: Connection refused"), "{}", answer.err);
}

#[test]
fn help_is_no_error() {
    for args in [&["--help"][..], &["--version"], &["floor", "--help"], &["help", "replay"]] {
        let answer = enforcer(args);
        assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{args:?}");
        assert!(!answer.out.is_empty());
    }
}

#[test]
fn damaged_traces_are_refused_with_the_line() {
    let dir = scratch("traces");
    let path = dir.join("trace");
    let header = r#"{"trace_version":1,"kind":"shrink","enforcer":"0","kernel":"6","cgroup":"a","cgroup_id":1,"policy":{}}"#;
    let end = r#"{"at_us":1,"end":{"dropped":0}}"#;
    for (text, says) in [
        (String::new(), "line 1: the trace is cut short"),
        ("{}\n".into(), "line 1: it is not a trace"),
        ("{\"trace_version\":9}\n".into(), "line 1: trace version 9; this enforcer reads version 1"),
        (format!("{header}\n{{\"at_us\":1}}\n{end}\n"), "line 2: "),
        (format!("{header}\n{end}\n{end}\n"), "line 3: something follows the closing entry"),
        (format!("{}\n", header.replace("shrink", "samples")), "it holds readings, not a shrink"),
        (
            format!("{}\n{end}\n", header.replace("{}", "{\"cpus\":0}")),
            "line 1: the policy does not hold: cpus is 0",
        ),
        ("\u{1b}[2J\n".into(), "line 1: it is not a trace"),
        ("notes\n".into(), "line 1: it is not a trace"),
        ("{\"trace_version\":1,\"\\u001b[2J\":0}\n".into(), "line 1: unknown field `\\u{1b}[2J`"),
    ] {
        std::fs::write(&path, &text).expect("writes");
        let answer = enforcer([OsStr::new("replay"), path.as_os_str()]);
        assert_eq!((answer.code, answer.out.as_str()), (64, ""), "{text}: {}", answer.err);
        assert!(answer.err.contains(says), "{text}: {}", answer.err);
        assert!(!answer.err.contains('\u{1b}'));
    }
    std::fs::write(&path, format!("{header}\n{end}\n")).expect("writes");
    let answer = enforcer([OsStr::new("replay"), path.as_os_str()]);
    assert!(
        answer.code == 0 && answer.out.contains("0 inputs, 0 commands the same, 0 not"),
        "{}",
        answer.out
    );
    let answer = enforcer([OsStr::new("replay"), path.as_os_str(), OsStr::new("--to"), OsStr::new("1Mi")]);
    assert!(answer.code == 64 && answer.err.contains("the trace holds no reading"), "{}", answer.err);
}

#[test]
fn what_is_no_trace_is_told_what_a_trace_is() {
    let dir = scratch("no-trace");
    let file = dir.join("notes");
    std::fs::write(&file, "notes\n").expect("writes");
    for path in [&file, &dir.join("nowhere"), &dir] {
        let answer = enforcer([OsStr::new("replay"), path.as_os_str()]);
        assert_eq!(answer.code, 64, "{}", answer.err);
        let advice = "    -> name a trace: what enforcer record CGROUP --duration 1m --out FILE or";
        assert!(answer.err.contains(advice), "{path:?}: {}", answer.err);
    }
    std::fs::write(&file, "{\"trace_version\":9}\n").expect("writes");
    let answer = enforcer([OsStr::new("replay"), file.as_os_str()]);
    assert!(answer.err.contains("    -> replay it with the enforcer that recorded it"), "{}", answer.err);
}

#[test]
fn a_trace_that_is_cut_is_replayed_as_far_as_it_goes() {
    let path = scratch("cut").join("trace");
    let header = r#"{"trace_version":1,"kind":"shrink","enforcer":"0","kernel":"6","cgroup":"a","cgroup_id":1,"policy":{}}"#;
    std::fs::write(&path, format!("{header}\n{{\"at_us\":1,\"timeout\":{{}}}}\n{{\"at_us\":2,\"ti"))
        .expect("writes");
    let replay = |more: &[&str]| {
        enforcer([OsStr::new("replay"), path.as_os_str()].into_iter().chain(more.iter().map(OsStr::new)))
    };
    let answer = replay(&[]);
    assert!(answer.code == 0 && answer.out.contains("the trace is cut short at line 3"), "{}", answer.out);
    assert!(answer.out.contains("1 inputs"), "{}", answer.out);
    let answer = replay(&["--json"]);
    assert!(answer.code == 0 && answer.out.contains("\"cut_at_line\":3"), "{}", answer.out);
    let answer = replay(&["--to=1Mi"]);
    assert_eq!(answer.code, 64);
    for says in ["the trace holds no reading", "the trace is cut short at line 3"] {
        assert!(answer.err.contains(says), "{}", answer.err);
    }
}

#[test]
fn output_that_is_lost_is_a_failure() {
    let dir = scratch("full");
    let path = dir.join("trace");
    let header = r#"{"trace_version":1,"kind":"shrink","enforcer":"0","kernel":"6","cgroup":"a","cgroup_id":1,"policy":{}}"#;
    std::fs::write(&path, format!("{header}\n{{\"at_us\":1,\"end\":{{\"dropped\":0}}}}\n")).expect("writes");
    for args in [
        &["replay", path.to_str().expect("text")][..],
        &["oom", "--store", dir.to_str().expect("text")],
        &["man"],
        &["completions", "zsh"],
        &["check"],
        &["check", "--json"],
        &["config", "default"],
        &["--help"],
        &["--version"],
    ] {
        let full = || std::fs::File::options().write(true).open("/dev/full").expect("opens");
        let mut command = Command::new(env!("CARGO_BIN_EXE_enforcer"));
        let output = command.args(args).stdout(full()).output().expect("the program starts");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {err}");
        assert!(err.contains("standard output") && err.contains("No space left"), "{args:?}: {err}");
        let status = command.stderr(full()).status().expect("the program starts");
        assert_eq!(status.code(), Some(1), "{args:?}");
    }
}

#[test]
fn a_configuration_is_checked_and_the_default_one_is_fine() {
    let dir = scratch("config");
    let (good, bad, open) = (dir.join("good.toml"), dir.join("bad.toml"), dir.join("open.toml"));
    let default = enforcer(["config", "default"]);
    assert_eq!((default.code, default.err.as_str()), (0, ""));
    std::fs::write(&good, &default.out).expect("writes");
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let answer = enforcer(["config", "check", &text(&good)]);
    assert_eq!((answer.code, answer.out), (0, format!("ok: {}\n", text(&good))), "{}", answer.err);
    let answer = enforcer(["config", "check", &text(&good), "--json", "--set", "guard.mode=enforce"]);
    assert_eq!(json(&answer.out), serde_json::json!({"ok": true, "file": text(&good), "warnings": []}));

    std::fs::write(&open, "").expect("writes");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&open, mode).expect("is ours");
    let answer = enforcer(["config", "check", &text(&open)]);
    let says = format!("ok: {0}\nwarning: everybody can change {0}", text(&open));
    assert!(answer.code == 0 && answer.out.starts_with(&says), "{}", answer.out);

    std::fs::write(&bad, "[guard]\nmode = \"enforced\"\n[polciy]\n").expect("writes");
    let args = ["config", "check", &text(&bad), "--set", "policy.interval=10"];
    let answer = enforcer(args);
    assert_eq!((answer.code, answer.out.as_str()), (64, ""));
    let expected = format!(
        "error: the configuration is wrong\n  \
         {0}:2:8: guard.mode: \"enforced\" is none of them\n    -> give one of \"off\", \"audit\", \"enforce\"\n  \
         {0}:3:1: polciy: there is no such section\n    -> did you mean [policy]?\n  \
         --set policy.interval: the unit is missing (us, ms, s, m or h), as in 10s or 500ms\n    \
         -> give a time such as \"10s\" or \"1m30s\", from 1s to 168h\n",
        text(&bad)
    );
    assert_eq!(answer.err, expected);
    let answer = enforcer(args.into_iter().chain(["--json"]));
    let error = &json(&answer.err)["error"];
    assert_eq!((answer.code, &error["exit"], &error["more"]), (64, &64.into(), &0.into()));
    let reasons = error["reasons"].as_array().expect("a list");
    assert_eq!(reasons.len(), 3);
    assert_eq!(
        reasons[1],
        serde_json::json!({
            "source": text(&bad), "line": 3, "column": 1, "key": "polciy",
            "why": "there is no such section", "do": "did you mean [policy]?",
        })
    );
    let set = reasons[2].as_object().expect("fields");
    assert!(set["source"] == "--set" && set["key"] == "policy.interval" && !set.contains_key("line"));

    let none = dir.join("none.toml");
    wrong(&["config", "check", &text(&none)], "it can't be read: No such file");
    wrong(&["config", "check", &text(&dir)], "it can't be read: Is a directory");
}

/// As a shell runs it, after its `limit`.
fn limited(limit: &str, words: &str) -> std::process::Output {
    let script = format!("ulimit {limit} && exec \"$0\" {words}");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_enforcer")]).output().expect("a shell")
}

#[test]
fn a_limit_on_files_is_an_error_with_advice() {
    let file = scratch("fsize").join("page");
    let output = limited("-f 1", &format!("man > {}", file.display()));
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("File too large") && err.contains("ulimit -f unlimited"), "{err}");
}

#[test]
fn a_small_stack_is_no_obstacle() {
    for words in ["check", "man", "shrink --help", "completions fish"] {
        let output = limited("-s 64", words);
        let code = enforcer(words.split(' ')).code;
        assert_eq!(output.status.code(), Some(code), "{words}: {:?}", output.status);
    }
}

#[test]
fn a_reader_that_has_gone_is_no_panic() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_enforcer"));
    let mut child = command
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

/// A trace of this repository, recorded on a real kernel by `traces/record.sh`.
fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces").join(name)
}

#[test]
fn real_shrinks_come_out_the_same() {
    for (name, verdict) in
        [("committed", "committed"), ("refused", "refused"), ("rolled-back", "rolled_back")]
    {
        let trace = recorded(&format!("{name}.trace"));
        let answer = enforcer([OsStr::new("replay"), trace.as_os_str(), OsStr::new("--json")]);
        assert_eq!(answer.code, 0, "{name}: {} {}", answer.out, answer.err);
        let report = json(&answer.out);
        assert_eq!(report["commands"]["diverged"], 0, "{name}: {report}");
        assert_eq!(report["certificate"]["verdict"], verdict, "{name}: {report}");
        let text = enforcer([OsStr::new("replay"), trace.as_os_str()]);
        assert!(text.out.contains(" commands the same, 0 not\n"), "{name}: {}", text.out);
    }
}

#[test]
fn a_changed_trace_diverges_on_its_line() {
    let text = std::fs::read_to_string(recorded("committed.trace")).expect("is there");
    let line = text.lines().position(|line| line.contains("\"commit\"")).expect("a commit") + 1;
    let path = scratch("changed").join("trace");
    std::fs::write(&path, text.replace("\"commit\":{\"max\":26214400", "\"commit\":{\"max\":4096"))
        .expect("writes");
    let answer = enforcer([OsStr::new("replay"), path.as_os_str()]);
    assert_eq!(answer.code, 1, "{} {}", answer.out, answer.err);
    assert!(answer.out.contains(&format!("  line {line}: recorded Command")), "{}", answer.out);
}

#[test]
fn real_readings_are_rehearsed() {
    let trace = recorded("bursts.trace");
    let ask = |to: &str| {
        let words = ["--to", to, "--window=1500ms", "--json"].map(OsStr::new);
        let answer = enforcer([OsStr::new("replay"), trace.as_os_str()].into_iter().chain(words));
        (answer.code, json(&answer.out))
    };
    // 8 MiB at rest and 24 MiB in the bursts, which the readings catch.
    let (code, report) = ask("16Mi");
    assert_eq!((code, &report["certificate"]["verdict"]), (2, &Value::from("refused")), "{report}");
    let safe = report["certificate"]["safe_minimum"].as_u64().expect("a number");
    assert!((24 << 20..40 << 20).contains(&safe), "{report}");
    assert_eq!(ask(&safe.to_string()).0, 0, "the safe minimum itself is let in");
    let words = ["--to", "40Mi", "--window=1h"].map(OsStr::new);
    let answer = enforcer([OsStr::new("replay"), trace.as_os_str()].into_iter().chain(words));
    assert_eq!(answer.code, 64);
    assert!(answer.err.contains("the trace is too short: it covers "), "{}", answer.err);
}

/// The first reading of a real recording, again and again: 160 times in 16 s, with so much more anonymous memory.
fn recording(path: &Path, mib_more: impl Fn(u64) -> u64) {
    let real = std::fs::read_to_string(recorded("bursts.trace")).expect("is there");
    let mut lines = real.lines();
    let mut text = lines.next().expect("a header").to_owned() + "\n";
    let reading = json(lines.next().expect("a reading"));
    for n in 0..160 {
        let mut entry = reading.clone();
        entry["at_us"] = (979 + n * 99_900).into();
        for field in [&["current"][..], &["stat", "anon"], &["stat", "active_anon"]] {
            let value = field.iter().fold(&mut entry["sample"], |value, key| &mut value[key]);
            *value = (value.as_u64().expect("a number") + (mib_more(n) << 20)).into();
        }
        text.push_str(&entry.to_string());
        text.push('\n');
    }
    std::fs::write(path, text + "{\"at_us\":16000000,\"end\":{\"dropped\":0}}\n").expect("writes");
}

#[test]
fn a_rehearsal_judges_by_the_whole_trace_or_says_how_much() {
    let path = scratch("whole").join("trace");
    recording(&path, |n| if n < 100 { 0 } else { 30 });
    let ask = |more: &[&str]| {
        let words = ["--to=32Mi"].iter().chain(more).map(OsStr::new);
        enforcer([OsStr::new("replay"), path.as_os_str()].into_iter().chain(words))
    };
    for whole in [&[][..], &["--window=16s"]] {
        let answer = ask(whole);
        assert_eq!(answer.code, 2, "it grew in second 10: {} {}", answer.out, answer.err);
        assert!(!answer.out.contains("WARNING"), "{}", answer.out);
        let report = json(&ask(&[whole, &["--json"]].concat()).out);
        assert_eq!((&report["judged"], &report["covers"]), (&15_884_100.into(), &15_884_100.into()));
    }
    let part = ask(&["--window=2500ms"]);
    assert_eq!(part.code, 0, "{} {}", part.out, part.err);
    assert!(part.out.contains("WARNING: judged by the first 2."), "{}", part.out);
    let report = json(&ask(&["--window=2500ms", "--json"]).out);
    assert!(report["judged"].as_u64() < report["covers"].as_u64(), "{report}");
    let more = ask(&["--window=17s"]);
    assert!(more.code == 64 && more.err.contains("too short: it covers 15.8s"), "{}", more.err);
    // A process lives in the cgroup from the second second on.
    let text = std::fs::read_to_string(&path).expect("is there");
    let empty = |(n, line): (usize, &str)| match n {
        1..10 => line.replace("\"populated\":true", "\"populated\":false") + "\n",
        _ => line.to_owned() + "\n",
    };
    std::fs::write(&path, text.lines().enumerate().map(empty).collect::<String>()).expect("writes");
    assert_eq!(ask(&[]).code, 2, "the cgroup was empty at first");
}

#[test]
fn oom_records_that_are_not_there_are_said_to_be_missing() {
    let dir = scratch("oom-none");
    let answer = enforcer([OsStr::new("oom"), OsStr::new("--store"), dir.join("none").as_os_str()]);
    assert_eq!(answer.code, 1, "{}", answer.err);
    assert!(
        answer.err.contains("the agent (enforcer run) makes it, or enforcer oom record"),
        "{}",
        answer.err
    );
    let empty = enforcer([OsStr::new("oom"), OsStr::new("--store"), dir.as_os_str()]);
    assert_eq!((empty.code, empty.out.as_str()), (0, "no OOM was recorded\n"), "{}", empty.err);
    wrong(&["oom", "--since", "5"], "the unit is missing");
    wrong(&["oom", "--follow", "record"], "cannot be used with");
}

#[test]
fn what_is_no_oom_record_is_noted_and_escaped() {
    let dir = scratch("oom-stranger").join("a\u{1b}[2J");
    std::fs::create_dir(&dir).expect("a folder");
    std::fs::write(dir.join("0000000000000001.seg"), "not one of ours").expect("writes");
    let answer = enforcer([OsStr::new("oom"), OsStr::new("--store"), dir.as_os_str()]);
    assert_eq!((answer.code, answer.out.as_str()), (0, "no OOM was recorded\n"));
    assert!(answer.err.contains("0000000000000001.seg was not read: it does not begin"), "{}", answer.err);
    assert!(!answer.err.contains('\u{1b}'), "{:?}", answer.err);
}
