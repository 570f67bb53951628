//! `enforcer ps`: the node's pods and containers.

mod report;

use super::{
    Exit, Failure, failure, json,
    options::{self, Json},
};
use crate::{
    cgroup::Mount,
    cri::{self, Client, CriError, message::VersionResponse},
    inventory::{Inventory, Listing, Locator, Lost, Survey},
};
use enforcer_gate::Micros;
use report::Report;
use std::{sync::Arc, time::Duration};

const WHAT: &str = "can't list pods and containers";

/// Lists the node's pods and containers, with the cgroups in which they really are and the limits in force there
///
/// Asks the container runtime over its own socket (CRI v1: containerd, CRI-O, cri-dockerd) and changes nothing. MEMORY
/// LIMIT is what the runtime has, IN FORCE the lowest memory.max between the container's cgroup and that of its
/// processes.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    cri: options::Cri,
    /// Also containers that do not run, and pods that have ended
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let socket = cri::find(options.cri.cri.as_deref()).map_err(|error| failure::cri(WHAT, &error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Failed, WHAT, "", &error, ""))?;
    let deadline = duration(options.cri.deadline);
    let asked: Result<_, CriError> = runtime.block_on(async {
        let client = Client::connect(&socket, deadline).await?;
        let version = client.version().await?;
        Ok((client, version))
    });
    let (client, version) = asked.map_err(|error| failure::cri(WHAT, &error))?;
    failure::require(WHAT, "", &options::TO_READ)?;
    let mount = Mount::discover().map_err(|error| Failure::cgroup(WHAT, "", &error))?;
    let locator = Locator::new(Arc::new(mount));
    let survey = Survey::new(client.clone(), locator.clone());
    let listing = runtime.block_on(survey.all()).map_err(|error| failure::cri(WHAT, &error))?;
    let report = report(options.all, &client, &version, listing, &locator);
    super::print(&if options.json.json { json::line(&report) } else { report.render() })?;
    Ok(Exit::Done)
}

fn report(
    all: bool,
    client: &Client,
    version: &VersionResponse,
    listing: Listing,
    locator: &Locator,
) -> Report {
    let lost: Lost = listing.lost;
    let mut inventory = Inventory::default();
    inventory.replace(listing);
    Report::new(client.socket(), version, &inventory, lost, locator.mount(), all)
}

fn duration(micros: Micros) -> Duration {
    Duration::from_micros(micros.get())
}
