//! `enforcer overhead`: what a pod costs beyond its containers.

mod by_size;
mod check;
mod clean;
mod html;
mod measure;
mod report;
mod stored;

use super::{Exit, Failure, failure, json, options};
use crate::{
    cgroup::Mount,
    cri::{self, Client},
    overhead::{model::Run, run::OverheadError},
};
use clap::{Subcommand, ValueEnum};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// Measures what a pod costs beyond its containers, for `overhead.podFixed` of a `RuntimeClass`
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Measure(measure::Options),
    Report(stored::ReportOptions),
    Compare(stored::CompareOptions),
    Check(check::Options),
    Model(by_size::Options),
    Clean(clean::Options),
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.command {
        Command::Measure(options) => measure::run(options),
        Command::Report(options) => stored::report(options),
        Command::Compare(options) => stored::compare(options),
        Command::Check(options) => check::run(options),
        Command::Model(options) => by_size::run(options),
        Command::Clean(options) => clean::run(options),
    }
}

/// How a measurement is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Table,
    Json,
    Yaml,
    Html,
}

impl Form {
    /// The measurement in this form.
    fn of(self, run: &Run) -> String {
        match self {
            Self::Table => report::table(run),
            Self::Json => json::line(run),
            Self::Yaml => report::yaml(run),
            Self::Html => html::page(run),
        }
    }
}

/// What making a pod, or fetching an image, may take: so many deadlines of a call.
const MAKING: u32 = 6;

fn tokio(what: &str) -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::new(Exit::Failed, what, "", &error, ""))
}

/// The runtime's socket, and the cgroups.
fn node(what: &str, cri: &options::Cri) -> Result<(PathBuf, Arc<Mount>), Failure> {
    let socket = cri::find(cri.cri.as_deref()).map_err(|error| failure::cri(what, &error))?;
    failure::require(what, "", &options::TO_READ)?;
    let mount = Mount::discover().map_err(|error| Failure::cgroup(what, "", &error))?;
    Ok((socket, Arc::new(mount)))
}

async fn client(what: &str, cri: &options::Cri, socket: &std::path::Path) -> Result<Client, Failure> {
    let deadline = Duration::from_micros(cri.deadline.get()) * MAKING;
    Client::connect(socket, deadline).await.map_err(|error| failure::cri(what, &error))
}

fn failed(what: &str, error: &OverheadError) -> Failure {
    match error {
        OverheadError::Cri(error) => failure::cri(what, error),
        OverheadError::Cgroup(error) => Failure::cgroup(what, "", error),
        OverheadError::Kubelet { .. } | OverheadError::NoProgram { .. } | OverheadError::Busy => {
            Failure::new(Exit::Unsupported, what, "", error, error.advice())
        }
        OverheadError::Image(_)
        | OverheadError::Registry(_)
        | OverheadError::Proc(_)
        | OverheadError::NoCgroup { .. }
        | OverheadError::Lock { .. }
        | OverheadError::Left { .. }
        | OverheadError::Both { .. } => {
            let todo = failure::of_the_process(error).unwrap_or_else(|| error.advice().into());
            Failure::new(Exit::Failed, what, "", &crate::chain::chain(error), todo)
        }
    }
}
