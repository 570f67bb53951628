//! `enforcer recover`: settles what killed runs left.

use super::{
    Exit, Failure, failure, json,
    options::{self, Json},
};
use crate::{
    actuate::{Recovered, RecoveredFile, RecoveredRun, RecoveredValue, StateDir, recover},
    cgroup::shown,
    node::Need,
};
use enforcer_gate::Limit;
use serde::Serialize;

const WHAT: &str = "can't recover from";

/// Settles what runs left that were killed together with their restorer
///
/// Puts a file back where boot and cgroup are still the same and it holds exactly the value that the run wrote, and
/// only ever raises. Whatever somebody else wrote since stays. Exit code 1 where something is left to be settled.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    state_dir: options::StateDirectory,
    #[command(flatten)]
    json: Json,
}

#[derive(Serialize)]
struct Report {
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct Run {
    cgroup: String,
    cgroup_id: u64,
    pid: u32,
    journal: String,
    result: &'static str,
    why: String,
    files: Vec<Of>,
    /// Somebody has to look again.
    open: bool,
}

#[derive(Serialize)]
struct Of {
    file: &'static str,
    found: Limit,
    ours: Limit,
    result: &'static str,
    superseded_by: Option<Limit>,
    errno: i32,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let path = &options.state_dir.state_dir;
    failure::require(WHAT, path, &[Need::Root, Need::CgroupV2Memory])?;
    let state = StateDir::find(path).map_err(|error| failure::actuate(WHAT, path, &error))?;
    let runs = state.as_ref().map(recover).unwrap_or_default();
    let text = if options.json.json {
        json::line(&Report { runs: runs.iter().map(fields).collect() })
    } else if runs.is_empty() {
        let there = if state.is_some() { "" } else { ": there is no such folder" };
        format!("{}: nothing is left to settle{there}\n", shown(path))
    } else {
        runs.iter().map(|run| run.describe() + "\n").collect()
    };
    super::print(&text)?;
    Ok(exit(&runs))
}

/// What a journal that can't be read had lowered stays lowered: that is no success.
fn exit(runs: &[Recovered]) -> Exit {
    let is_left = |run: &Recovered| run.is_open() || matches!(run.result, RecoveredRun::Unreadable { .. });
    if runs.iter().any(is_left) { Exit::Failed } else { Exit::Done }
}

fn fields(run: &Recovered) -> Run {
    let (result, why, files) = match &run.result {
        RecoveredRun::Running => ("running", String::new(), Vec::new()),
        RecoveredRun::Restorer { pid } => {
            ("restorer", format!("pid {pid} has not put it back yet"), Vec::new())
        }
        RecoveredRun::OtherBoot => ("other_boot", String::new(), Vec::new()),
        RecoveredRun::Gone => ("gone", String::new(), Vec::new()),
        RecoveredRun::Unreadable { why, .. } => ("unreadable", shown(why), Vec::new()),
        RecoveredRun::OtherVersion { why } => ("other_version", shown(why), Vec::new()),
        RecoveredRun::Failed(why) => ("failed", shown(why), Vec::new()),
        RecoveredRun::Files(files) => ("files", String::new(), files.iter().map(file).collect()),
    };
    Run {
        cgroup: shown(&run.cgroup),
        cgroup_id: run.id.get(),
        pid: run.pid,
        journal: shown(&run.journal),
        result,
        why,
        files,
        open: run.is_open(),
    }
}

fn file(file: &RecoveredFile) -> Of {
    let (result, superseded_by, errno) = match file.result {
        RecoveredValue::Restored => ("restored", None, 0),
        RecoveredValue::AsFound => ("as_found", None, 0),
        RecoveredValue::Superseded { by } => ("superseded", Some(by), 0),
        RecoveredValue::Failed { errno } => ("failed", None, errno),
    };
    Of { file: file.file.name(), found: file.found, ours: file.ours, result, superseded_by, errno }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enforcer_gate::CgroupId;

    #[test]
    fn what_was_lowered_by_nobody_knows_whom_is_no_success() {
        let run = |result| Recovered {
            journal: "/s/1.journal".into(),
            cgroup: "a".into(),
            id: CgroupId::ZERO,
            pid: 1,
            result,
        };
        let unreadable = || RecoveredRun::Unreadable {
            why: "the header is damaged".into(),
            moved_to: "/s/1.unreadable".into(),
        };
        for (result, code) in [
            (RecoveredRun::Gone, Exit::Done),
            (RecoveredRun::Running, Exit::Done),
            (RecoveredRun::Failed("no".into()), Exit::Failed),
            (unreadable(), Exit::Failed),
        ] {
            let runs = [run(RecoveredRun::OtherBoot), run(result)];
            assert_eq!(exit(&runs), code, "{runs:?}");
        }
        let said = run(unreadable()).describe();
        assert!(said.contains("memory.high") && said.contains("memory.max"), "{said}");
    }
}
