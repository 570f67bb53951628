use super::*;
use crate::overhead::{fit::Verdict, measured::measured};
use clap::Parser;
use std::io::Write as _;

/// The command line of `check` by itself.
#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

const CLASS: &str = "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: NAME}\nhandler: HANDLER\n\
                     overhead: {podFixed: {memory: MEMORY, cpu: CPU}}\n";

fn class(name: &str, handler: &str, memory: &str, cpu: &str) -> String {
    CLASS.replace("NAME", name).replace("HANDLER", handler).replace("MEMORY", memory).replace("CPU", cpu)
}

fn kept(run: &Run) -> tempfile::NamedTempFile {
    file(&json::line(run))
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("is written");
    file
}

/// How it ends with these classes, this measurement and more words.
fn ended(classes: &str, run: &Run, more: &[&str]) -> Result<Exit, Failure> {
    let (classes, measured) = (file(classes), kept(run));
    let [classes, measured] = [&classes, &measured].map(|file| file.path().display().to_string());
    let words = ["check", "--file", &classes, "--measured", &measured];
    let line = Line::try_parse_from(words.iter().chain(more)).expect("makes sense");
    super::run(&line.options)
}

/// Pods of 8 MiB and 2m.
fn of(handler: &str) -> Run {
    Run { handler: handler.into(), ..measured(8, "") }
}

#[test]
fn exit_codes_say_how_it_is() {
    let run = of("h");
    for (memory, cpu, expected) in [
        ("9Mi", "3m", Exit::Done),
        ("8Mi", "3m", Exit::TooSmall),
        ("9Mi", "1m", Exit::TooSmall),
        ("64Mi", "3m", Exit::TooLarge),
        ("9Mi", "300m", Exit::TooLarge),
        ("64Mi", "0", Exit::TooSmall),
    ] {
        let found = ended(&class("a", "h", memory, cpu), &run, &[]);
        assert_eq!(found, Ok(expected), "{memory} {cpu}");
    }
    let with = |verdict| {
        let mut run = of("h");
        run.result.as_mut().expect("enough").acceptance.verdict = verdict;
        run
    };
    let both = class("a", "h", "9Mi", "3m") + "---\n" + &class("b", "h", "64Mi", "3m");
    assert_eq!(ended(&both, &run, &[]), Ok(Exit::TooLarge));
    assert_eq!(ended(&both, &run, &["--runtime-class", "a"]), Ok(Exit::Done));
    assert_eq!(ended(&both, &with(Verdict::Inconclusive), &[]), Ok(Exit::Inconclusive));
    assert_eq!(ended(&both, &with(Verdict::Unexplained), &[]), Ok(Exit::Unexplained));
    let small = class("a", "h", "1Mi", "3m");
    assert_eq!(ended(&small, &with(Verdict::Unexplained), &["--json"]), Ok(Exit::TooSmall));
    let partial = Run { partial: Some("stopped".into()), ..of("h") };
    assert_eq!(ended(&both, &partial, &[]), Ok(Exit::Inconclusive));
    let none = Run { result: None, ..of("h") };
    assert_eq!(ended(&both, &none, &[]), Ok(Exit::Inconclusive));
}

#[test]
fn what_is_not_meant_is_refused() {
    let classes = class("a", "h", "9Mi", "3m") + "---\n" + &class("b", "other", "9Mi", "3m");
    for (run, more, why) in [
        (
            of("h"),
            &["--runtime-class", "c"][..],
            "there is no RuntimeClass c in the file, but a (h), b (other)",
        ),
        (of("h"), &["--runtime-class", "b"], "the measurement is of handler h, the class is of other"),
        (of("third"), &[], "no RuntimeClass in the file has the measurement's handler third"),
        (of(""), &[], "default handler, whose name it does not have"),
    ] {
        let error = ended(&classes, &run, more).expect_err(why);
        assert_eq!(error.exit, Exit::Usage);
        assert!(error.reasons[0].why.contains(why), "{error:?}");
    }
    assert_eq!(ended(&classes, &of(""), &["--runtime-class", "a"]), Ok(Exit::Done));
    assert_eq!(ended(&classes, &of("h"), &[]), Ok(Exit::Done), "the other one is of another handler");
    let empty = ended("kind: Pod\n", &of("h"), &[]).expect_err("no class");
    assert!(empty.reasons[0].why.contains("no RuntimeClass in the file"), "{empty:?}");
    let broken = ended("a: [", &of("h"), &[]).expect_err("no YAML");
    assert_eq!(broken.exit, Exit::Usage);
    // What is to be measured must be one handler.
    let found = declared(&classes).expect("is read");
    let error = pick(&found, None, None, false).expect_err("two handlers");
    assert!(error.reasons[0].why.contains("several handlers: a (h), b (other)"), "{error:?}");
    assert_eq!(pick(&found, Some("b"), None, false).expect("one").len(), 1);
}

#[test]
fn people_and_scripts_are_told_the_same() {
    let run = of("h");
    let mut needs = Needs::of(&run).expect("enough");
    needs.in_pod = Bytes::from_mib(20);
    let found = declared(&class("a", "h", "8Mi", "300m")).expect("is read");
    let declared = &found.classes[0];
    let checked = check(declared, &needs, Bytes::ZERO);
    let classes = [Class { name: &declared.name, handler: &declared.handler, checked }];
    let text = told(false, &run, Some(needs), &classes);
    for line in [
        "RuntimeClass a, handler h",
        "  memory       8Mi        8.01Mi  too small: 10Mi would do",
        "  cpu         300m            2m  too large: 3m would do",
        "holds 20Mi beyond them that can't be reclaimed (p99), and podFixed leaves 8Mi for it",
        "accepted: within 15 %",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&told(true, &run, Some(needs), &classes)).expect("is JSON");
    assert_eq!(json["measurement"]["verdict"], "accepted");
    let class = &json["classes"][0];
    assert_eq!((&class["memory"]["size"], &class["cpu"]["size"]), (&"too_small".into(), &"too_large".into()));
    assert_eq!(class["oom"], serde_json::json!({"ground": "kept", "holds": 20 << 20, "room": 8 << 20}));
}
