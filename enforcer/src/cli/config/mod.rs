//! `enforcer config`: the agent's configuration.

mod check;
mod report;

pub(super) use report::wrong;

use super::{Exit, Failure};
use crate::config::default_file;
use clap::{Args, Subcommand};

/// Checks the configuration of the agent, or prints the default one
#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Options),
    /// Prints a file with every key at its default, what it means and what it may be
    Default,
}

/// Keys that are set on the command line.
#[derive(Debug, Args)]
pub(super) struct Set {
    /// Sets a key over the file, as in --set policy.default=guard, with quotes or without; the last one of a key counts
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.command {
        Command::Check(options) => check::run(options),
        Command::Default => super::print(&default_file()).map(|()| Exit::Done),
    }
}
