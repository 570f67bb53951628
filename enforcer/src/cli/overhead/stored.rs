//! `enforcer overhead report` and `enforcer overhead compare`: what was measured before.

use super::{Form, report};
use crate::{
    cgroup::shown,
    cli::{
        Exit, Failure, json,
        options::Json,
        print,
        table::{Align, table},
    },
    overhead::{
        fit::Interval,
        model::{Outcome, Run, Term},
        run::VERSION,
    },
};
use enforcer_gate::Bytes;
use serde::Serialize;
use std::{
    fs::File,
    io::{Error, ErrorKind, Read as _},
    path::{Path, PathBuf},
};

const REPORT: &str = "can't show a measurement";
const COMPARE: &str = "can't compare measurements";
const FROM: &str = "name what enforcer overhead measure --output json has written";
/// Most bytes of a measurement that are read: some 50,000 readings of a pod.
const FILE_BYTES_MAX: u64 = 128 << 20;

/// Shows a measurement that was kept with --output json
///
/// Nothing is measured anew, and neither root nor a runtime is needed.
#[derive(Debug, clap::Args)]
pub(super) struct ReportOptions {
    /// The measurement
    file: PathBuf,
    /// What to print: a table, JSON with every sample, a `RuntimeClass`, or a page with charts
    #[arg(long, value_name = "FORM", default_value = "table")]
    output: Form,
}

/// Puts two measurements side by side: two runtimes, or two runs of one
#[derive(Debug, clap::Args)]
pub(super) struct CompareOptions {
    /// The first measurement
    one: PathBuf,
    /// The other one
    other: PathBuf,
    #[command(flatten)]
    json: Json,
}

pub(super) fn report(options: &ReportOptions) -> Result<Exit, Failure> {
    let run = read(REPORT, &options.file)?;
    print(&options.output.of(&run))?;
    Ok(Exit::Done)
}

/// What is looked at first.
#[derive(serde::Deserialize)]
struct Versioned {
    version: u32,
}

/// What `measure --output json` has written.
pub(super) fn read(what: &str, path: &Path) -> Result<Run, Failure> {
    let fail = |exit, error: &dyn std::fmt::Display, todo| Failure::new(exit, what, path, &error, todo);
    let mut text = String::new();
    let file = File::open(path).map_err(|error| fail(Exit::Failed, &error, FROM))?;
    let whole = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).and_then(|bytes| {
        let too_long = u64::try_from(bytes).is_ok_and(|bytes| bytes > FILE_BYTES_MAX);
        if too_long { Err(Error::new(ErrorKind::FileTooLarge, "it is larger than 128 MiB")) } else { Ok(()) }
    });
    whole.map_err(|error| fail(Exit::Failed, &error, FROM))?;
    let version = serde_json::from_str::<Versioned>(&text).map(|document| document.version);
    match version {
        Ok(VERSION) => {}
        Ok(other) => {
            let why = format!("its version is {other}, this program reads {VERSION}");
            return Err(fail(Exit::Failed, &why, "use the program that wrote it"));
        }
        Err(error) => return Err(fail(Exit::Failed, &format!("no measurement: {error}"), FROM)),
    }
    serde_json::from_str(&text).map_err(|error| fail(Exit::Failed, &format!("no measurement: {error}"), FROM))
}

/// One of the two, in short.
#[derive(Debug, Serialize)]
struct Side<'a> {
    file: String,
    runtime: &'a str,
    handler: &'a str,
    kernel: &'a str,
    partial: Option<&'a str>,
    result: Option<&'a Outcome>,
}

impl<'a> Side<'a> {
    fn of(file: &Path, run: &'a Run) -> Self {
        Self {
            file: shown(file),
            runtime: &run.runtime,
            handler: &run.handler,
            kernel: &run.kernel,
            partial: run.partial.as_deref(),
            result: run.result.as_ref(),
        }
    }
}

pub(super) fn compare(options: &CompareOptions) -> Result<Exit, Failure> {
    let one = read(COMPARE, &options.one)?;
    let other = read(COMPARE, &options.other)?;
    let sides = [Side::of(&options.one, &one), Side::of(&options.other, &other)];
    print(&if options.json.json { json::line(&sides) } else { side_by_side(&sides) })?;
    Ok(Exit::Done)
}

fn side_by_side(sides: &[Side<'_>; 2]) -> String {
    let row = |name: &str, each: [String; 2], apart: String| {
        let [one, other] = each;
        [name.to_owned(), one, other, apart]
    };
    let texts = |of: &dyn Fn(&Side<'_>) -> String| [of(&sides[0]), of(&sides[1])];
    let mut rows = vec![
        row("", texts(&|side| side.file.clone()), "DIFFERENCE".into()),
        row("runtime", texts(&|side| shown(side.runtime)), String::new()),
        row("handler", texts(&|side| report::handler(side.handler)), String::new()),
        row("kernel", texts(&|side| shown(side.kernel)), String::new()),
    ];
    let mut bytes = |name: &str, of: &dyn Fn(&Outcome) -> Bytes| {
        let each = [0, 1].map(|side| sides[side].result.map(of));
        if each == [Some(Bytes::ZERO); 2] {
            return;
        }
        let text = |bytes: Option<Bytes>| bytes.map_or_else(|| "-".into(), |bytes| bytes.to_string());
        rows.push(row(name, each.map(text), apart(each)));
    };
    for term in Term::ALL {
        bytes(term.name(), &|result| result.terms.get(&term).copied().unwrap_or_default());
    }
    bytes("total, mean", &|result| result.total.mean);
    bytes("total, p50", &|result| result.total.p50);
    bytes("total, p95", &|result| result.total.p95);
    bytes("not reclaimable", &|result| result.kept.mean);
    bytes("podFixed", &|result| result.pod_fixed);
    let slope = |side: &Side<'_>| {
        side.result.map_or_else(
            || "-".into(),
            |result| {
                let Interval { value, low, high } = result.acceptance.slope;
                format!("{} ({} to {})", report::signed(value), report::signed(low), report::signed(high))
            },
        )
    };
    rows.push(row("the node misses", texts(&slope), whether_apart(sides)));
    let verdict = |side: &Side<'_>| {
        let whole = side.result.map_or("too few readings", |result| result.acceptance.verdict.name());
        if side.partial.is_some() { format!("{whole}, PARTIAL") } else { whole.into() }
    };
    rows.push(row("verdict", texts(&verdict), String::new()));
    table(0, [Align::Left, Align::Right, Align::Right, Align::Right], &rows)
}

/// The second less the first.
fn apart(each: [Option<Bytes>; 2]) -> String {
    let [Some(one), Some(other)] = each else { return String::new() };
    if other >= one {
        format!("+{}", other.saturating_sub(one))
    } else {
        format!("-{}", one.saturating_sub(other))
    }
}

/// Whether the intervals of both have nothing in common.
fn whether_apart(sides: &[Side<'_>; 2]) -> String {
    let [Some(one), Some(other)] =
        [0, 1].map(|side| sides[side].result.map(|result| result.acceptance.slope))
    else {
        return String::new();
    };
    if one.high < other.low || other.high < one.low { "apart".into() } else { "not told apart".into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::measured::measured;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("is written");
        file
    }

    #[test]
    fn what_is_written_is_read() {
        let run = measured(8, "");
        let file = file(&json::line(&run));
        assert_eq!(read(REPORT, file.path()).expect("is read"), run);
    }

    #[test]
    fn what_is_no_measurement_is_refused() {
        for (text, why) in [
            ("", "no measurement"),
            ("{}", "no measurement: missing field `version`"),
            (r#"{"version":9}"#, "its version is 9, this program reads 1"),
            (r#"{"version":1}"#, "no measurement: missing field"),
        ] {
            let error = read(REPORT, file(text).path()).expect_err(text);
            let error = format!("{error:?}");
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(read(REPORT, Path::new("/nowhere")).is_err());
    }

    #[test]
    fn two_are_told_apart_or_not() {
        let (one, other) = (measured(8, ""), measured(20, ""));
        let text = |one: &Run, other: &Run| {
            side_by_side(&[Side::of(Path::new("a"), one), Side::of(Path::new("b"), other)])
        };
        let apart = text(&one, &other);
        assert!(apart.contains("+12Mi") && apart.lines().any(|line| line.ends_with(" apart")), "{apart}");
        let same = text(&one, &one);
        assert!(same.contains("not told apart"), "{same}");
        let none = Run { result: None, ..one.clone() };
        assert!(text(&one, &none).contains("too few readings"));
    }
}
