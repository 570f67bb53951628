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
        DIVERGENCES_MAX, Divergence, Entry, Header, Kind, LineError, ReadError, Reader, RehearseError,
        ReplayError, Replayed, Stretch, rehearse, replay,
    },
};
use enforcer_gate::{Bytes, Certificate, Micros, Policy, Reason as Why, Verdict};
use serde::Serialize;
use std::{
    fmt::Write as _,
    fs::File,
    io::{BufReader, Seek as _},
    path::{Path, PathBuf},
};

const WHAT: &str = "can't replay";
const A_TRACE: &str = "name a trace: what enforcer record CGROUP --duration 1m --out FILE or enforcer shrink CGROUP \
                       --to 256Mi --trace FILE has written";
const TWICE: &str = "with --to it is read twice: name a file, not a pipe";

/// Runs the same gate over a recorded trace
///
/// Without --to, over the trace of a shrink: the commands must come out as recorded, else the first lines where
/// they differ are shown and the exit code is 1. With --to, a dry run over all readings of any trace. Of a trace that is
/// cut short, what is whole is replayed. Needs neither root nor cgroups.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The trace, from enforcer record or from enforcer shrink --trace
    trace: PathBuf,
    /// Ask for this limit instead of what was recorded
    #[arg(long, value_name = "QUANTITY", value_parser = options::target)]
    to: Option<Bytes>,
    /// How much of the trace to judge by, from its first reading on [default: all of it]
    #[arg(long, value_name = "TIME", value_parser = options::window, requires = "to")]
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
    /// With --to: from the first reading to the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    covers: Option<Micros>,
    /// With --to: from the first reading to the last that the verdict stands on.
    #[serde(skip_serializing_if = "Option::is_none")]
    judged: Option<Micros>,
    /// With --to: how long after the first reading the cgroup had other limits, which may have cut its need short.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits_changed_after: Option<Micros>,
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

/// What came of it, to be shown.
#[derive(Default)]
struct Found<'a> {
    certificate: Option<&'a Certificate>,
    replayed: Option<&'a Replayed>,
    judged: Option<Reach>,
    cut: Option<u64>,
}

/// How much of the trace a dry run stands on.
#[derive(Clone, Copy)]
struct Reach {
    covers: Micros,
    judged: Micros,
    limits_changed_after: Option<Micros>,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let path = &options.trace;
    let wrong = |error: &dyn std::fmt::Display| Failure::new(Exit::Usage, WHAT, path, error, A_TRACE);
    let file = File::open(path).map_err(|error| wrong(&error))?;
    let read = |file| Reader::new(BufReader::new(file)).map_err(|error| no_header(path, &error));
    let mut reader = read(&file)?;
    let header = reader.header().clone();
    let Some(target) = options.to else {
        let replayed = replay(&header, reader.by_ref()).map_err(|error| again(path, &error))?;
        let certificate = replayed.certificate.as_ref();
        let found = Found { certificate, replayed: Some(&replayed), cut: reader.cut(), ..Found::default() };
        show(options, &header, &found)?;
        return Ok(if replayed.diverged == 0 { Exit::Done } else { Exit::Failed });
    };
    let stretch = Stretch::of(reader.by_ref());
    let cut = reader.cut();
    let fail = |error| rehearsed(path, &error, cut);
    let stretch =
        stretch.map_err(|error| fail(RehearseError::Read(error)))?.ok_or(fail(RehearseError::Empty))?;
    (&file).rewind().map_err(|error| Failure::new(Exit::Usage, WHAT, path, &error, TWICE))?;
    let policy = options::checked(window(&header.policy, &stretch, options.window)?)?;
    let before = |item: &Result<(u64, Entry), _>| matches!(item, Ok((_, e)) if e.at_us < stretch.first);
    let rehearsal = rehearse(read(&file)?.skip_while(before), target, policy).map_err(fail)?;
    let judged = Some(Reach {
        covers: stretch.covers(),
        judged: rehearsal.covers,
        limits_changed_after: rehearsal.limits_changed_after,
    });
    show(
        options,
        &header,
        &Found { certificate: Some(&rehearsal.certificate), judged, cut, ..Found::default() },
    )?;
    Ok(if rehearsal.certificate.verdict == Verdict::Feasible { Exit::Done } else { Exit::Refused })
}

/// The trace's thresholds, with all of it as the window unless less is asked for.
fn window(recorded: &Policy, stretch: &Stretch, asked: Option<Micros>) -> Result<Policy, Failure> {
    let least = recorded.sample_interval;
    if let Some(asked) = asked.filter(|asked| *asked < least) {
        let why = format!("--window is {asked}, less than the trace's {least} between two readings");
        return Err(Failure::new(Exit::Usage, WHAT, "", &why, format!("give {least} or more")));
    }
    let observe_window = stretch.window(asked).clamp(least, Policy::SPAN_MAX.max(least));
    Ok(Policy { observe_window, ..recorded.clone() })
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

fn show(options: &Options, header: &Header, found: &Found<'_>) -> Result<(), Failure> {
    let Found { certificate, replayed, judged, cut } = *found;
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
            covers: judged.map(|judged| judged.covers),
            judged: judged.map(|judged| judged.judged),
            limits_changed_after: judged.and_then(|judged| judged.limits_changed_after),
            cut_at_line: cut,
            certificate,
        })
    } else {
        render(header, found)
    };
    super::print(&text)
}

/// Why the verdict stands on less than it seems.
fn warnings(certificate: &Certificate, judged: Reach) -> String {
    let Reach { covers, judged, limits_changed_after } = judged;
    // That is no matter of time.
    if matches!(certificate.verdict, Verdict::Refused(Why::NotAShrink { .. })) {
        return String::new();
    }
    let part = (judged < covers).then(|| {
        format!("WARNING: judged by the first {judged} of {covers} alone; what came later may need more\n")
    });
    let held = limits_changed_after.map(|after| {
        format!("WARNING: after {after} its limits were others, which may have cut its need short\n")
    });
    part.into_iter().chain(held).collect()
}

fn render(header: &Header, found: &Found<'_>) -> String {
    let Found { certificate, replayed, judged, cut } = *found;
    let kind = match header.kind {
        Kind::Shrink => "a shrink",
        Kind::Samples => "readings",
    };
    let (by, kernel) = (shown(&header.enforcer), shown(&header.kernel));
    let mut text = format!("{kind}, recorded by enforcer {by} on kernel {kernel}\n");
    if judged.is_some() {
        text.push_str("judged now, by its readings alone: nothing is changed\n");
    }
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
        text.extend(judged.map(|judged| warnings(certificate, judged)));
        text.push_str(&certificate::render(Path::new(&header.cgroup), certificate));
    }
    text
}
