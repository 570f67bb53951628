//! `enforcer oom`: the OOM flight recorder.

mod filter;
mod list;
mod record;
mod show;

use super::{Exit, Failure, records::ShowOptions};
use crate::oom::STORE_DEFAULT;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Shows the OOM kills that enforcer oom record has recorded
///
/// One row for each OOM: when, who was killed (and how many more), what the first victim had in memory, whose limit
/// was hit, and what to do about it. Exit code 1 where there is no store.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: ListOptions,
}

#[derive(Debug, Subcommand)]
enum Command {
    Record(record::Options),
}

/// Where the records are.
#[derive(Debug, Args)]
struct Store {
    /// Where the records are
    #[arg(long, value_name = "DIR", default_value = STORE_DEFAULT)]
    store: PathBuf,
}

/// What is shown, and how.
#[derive(Debug, Args)]
struct ListOptions {
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    show: ShowOptions,
    /// Only those that hit a limit of, or killed in, this cgroup or one below it
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// Only those of this pod: its name, NAMESPACE/NAME, pod/NAMESPACE/NAME, or the beginning of its UID
    #[arg(long, value_name = "POD")]
    pod: Option<String>,
    /// Only those that killed this process: its id, or part of its name
    #[arg(long, value_name = "PROCESS")]
    victim: Option<String>,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.command {
        Some(Command::Record(options)) => record::run(options),
        None => list::run(&options.list),
    }
}
