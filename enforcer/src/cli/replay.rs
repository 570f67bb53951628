//! `enforcer replay`: the gate over a recorded trace.

use super::{
    Exit, Failure, certificate,
    failure::Reason,
    json,
    options::{self, Json},
};
use crate::{
    cgroup::shown,
    trace::{
        DIVERGENCES_MAX, Divergence, Header, Kind, LineError, ReadError, Reader, RehearseError, ReplayError,
        Replayed, rehearse, replay,
    },
};
use enforcer_gate::{Bytes, Certificate, Micros, Verdict};
use serde::Serialize;
use std::{
    fmt::Write as _,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
};

const WHAT: &str = "can't replay";
const A_TRACE: &str = "name a trace: what enforcer record CGROUP --duration 1m --out FILE or enforcer shrink CGROUP \
                       --to 256Mi --trace FILE has written";

/// Runs the same gate over a recorded trace
///
/// Without --to, over the trace of a shrink: the commands must come out as recorded, else the first lines where
/// they differ are shown and the exit code is 1. With --to, a dry run over the readings of any trace. Of a trace that is
/// cut short, what is whole is replayed. Needs neither root nor cgroups.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The trace, from enforcer record or from enforcer shrink --trace
    trace: PathBuf,
    /// Ask for this limit instead of what was recorded
    #[arg(long, value_name = "QUANTITY", value_parser = options::target)]
    to: Option<Bytes>,
    /// How much of the trace to look at before the verdict [default: as the trace says]
    #[arg(long, value_name = "TIME", value_parser = options::span, requires = "to")]
    window: Option<Micros>,
    #[command(flatten)]
    json: Json,
}

#[derive(Serialize)]
struct Report<'a> {
    trace: String,
    cgroup: String,
    kernel: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    commands: Option<Commands<'a>>,
    /// Where the trace ends before its closing entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_at_line: Option<u64>,
    certificate: Option<&'a Certificate>,
}

#[derive(Serialize)]
struct Commands<'a> {
    inputs: u64,
    same: u64,
    diverged: u64,
    divergences: &'a [Divergence],
    dropped: u64,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let path = &options.trace;
    let wrong = |error: &dyn std::fmt::Display| Failure::new(Exit::Usage, WHAT, path, error, A_TRACE);
    let file = File::open(path).map_err(|error| wrong(&error))?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(|error| no_header(path, &error))?;
    let header = reader.header().clone();
    match options.to {
        None => {
            let replayed = replay(&header, reader.by_ref()).map_err(|error| again(path, &error))?;
            show(options, &header, replayed.certificate.as_ref(), Some(&replayed), reader.cut());
            Ok(if replayed.diverged == 0 { Exit::Done } else { Exit::Failed })
        }
        Some(target) => {
            let mut policy = header.policy.clone();
            policy.observe_window = options.window.unwrap_or(policy.observe_window);
            let policy = options::checked(policy)?;
            let rehearsal = rehearse(reader.by_ref(), target, policy)
                .map_err(|error| rehearsed(path, &error, reader.cut()))?;
            show(options, &header, Some(&rehearsal.certificate), None, reader.cut());
            Ok(if rehearsal.certificate.verdict == Verdict::Feasible { Exit::Done } else { Exit::Refused })
        }
    }
}

fn no_header(path: &Path, error: &ReadError) -> Failure {
    let todo = match error {
        ReadError::Line { fault: LineError::Version(_), .. } => {
            "replay it with the enforcer that recorded it"
        }
        ReadError::Line { .. } | ReadError::NoHeader | ReadError::Io { .. } | ReadError::AfterEnd { .. } => {
            A_TRACE
        }
    };
    Failure::new(Exit::Usage, WHAT, path, error, todo)
}

fn again(path: &Path, error: &ReplayError<ReadError>) -> Failure {
    let todo = match error {
        ReplayError::NotAShrink => "for example: enforcer replay TRACE --to 256Mi",
        ReplayError::Read(_) | ReplayError::Policy(_) | ReplayError::Misplaced(_) => "",
    };
    Failure::new(Exit::Usage, WHAT, path, &error, todo)
}

fn rehearsed(path: &Path, error: &RehearseError<ReadError>, cut: Option<u64>) -> Failure {
    let todo = match error {
        RehearseError::TooShort { .. } => "record longer, or look at less of it with --window",
        RehearseError::Read(_) | RehearseError::Policy(_) | RehearseError::Empty => "",
    };
    let mut failure = Failure::new(Exit::Usage, WHAT, path, &error, todo);
    failure.reasons.extend(cut.map(|line| Reason { why: cut_at(line), todo: String::new() }));
    failure
}

fn cut_at(line: u64) -> String {
    format!("the trace is cut short at line {line}: what comes before it is all there is")
}

fn show(
    options: &Options,
    header: &Header,
    certificate: Option<&Certificate>,
    replayed: Option<&Replayed>,
    cut: Option<u64>,
) {
    let text = if options.json.json {
        json::line(&Report {
            trace: shown(&options.trace),
            cgroup: shown(&header.cgroup),
            kernel: shown(&header.kernel),
            commands: replayed.map(|replayed| Commands {
                inputs: replayed.inputs,
                same: replayed.commands,
                diverged: replayed.diverged,
                divergences: &replayed.divergences,
                dropped: replayed.dropped,
            }),
            cut_at_line: cut,
            certificate,
        })
    } else {
        render(header, certificate, replayed, cut)
    };
    super::print(&text);
}

fn render(
    header: &Header,
    certificate: Option<&Certificate>,
    replayed: Option<&Replayed>,
    cut: Option<u64>,
) -> String {
    let kind = match header.kind {
        Kind::Shrink => "a shrink",
        Kind::Samples => "readings",
    };
    let (by, kernel) = (shown(&header.enforcer), shown(&header.kernel));
    let mut text = format!("{kind}, recorded by enforcer {by} on kernel {kernel}\n");
    if let Some(line) = cut {
        text.push_str(&cut_at(line));
        text.push('\n');
    }
    if let Some(replayed) = replayed {
        // Writing to a String can't fail, here and below.
        let _ = writeln!(
            text,
            "{} inputs, {} commands the same, {} not",
            replayed.inputs, replayed.commands, replayed.diverged
        );
        for Divergence { line, recorded, replayed, .. } in &replayed.divergences {
            let word = |command: &Option<_>| command.as_ref().map_or("nothing".into(), |c| format!("{c:?}"));
            let _ = writeln!(text, "  line {line}: recorded {}", shown(word(recorded)));
            let _ = writeln!(
                text,
                "  {:>width$}  replayed {}",
                "",
                shown(word(replayed)),
                width = 5 + line.ilog10() as usize
            );
        }
        if replayed.diverged > DIVERGENCES_MAX as u64 {
            let _ = writeln!(text, "  and {} more", replayed.diverged - DIVERGENCES_MAX as u64);
        }
        if replayed.dropped > 0 {
            let _ = writeln!(
                text,
                "  the recorder lost {} entries: differences may be due to that",
                replayed.dropped
            );
        }
        if certificate.is_none() {
            let _ = writeln!(text, "  the gate did not come to an end");
        }
    }
    if let Some(certificate) = certificate {
        text.push_str(&certificate::render(Path::new(&header.cgroup), certificate));
    }
    text
}
