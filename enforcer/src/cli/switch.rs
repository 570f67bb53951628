//! `enforcer pause`, `enforcer resume`, `enforcer reload`: what a running agent is told.

use super::{Exit, Failure, ask::Admin, json, options::Json};
use crate::{
    admin::{AskError, Client, model::Done},
    cgroup::printable,
};

/// Stops all actuation of the agent, and lifts every brake
///
/// Shrinks that are under way are taken back, and none begins until enforcer resume. Limits that were committed stay.
/// The agent goes on to listen, record and answer. It returns once every brake is lifted.
#[derive(Debug, clap::Args)]
pub(super) struct PauseOptions {
    #[command(flatten)]
    ask: Ask,
}

/// Lets the agent change limits again
#[derive(Debug, clap::Args)]
pub(super) struct ResumeOptions {
    #[command(flatten)]
    ask: Ask,
}

/// Has the agent read its configuration again
///
/// Where that holds an error the agent keeps the configuration that it has, and the exit code is 64.
#[derive(Debug, clap::Args)]
pub(super) struct ReloadOptions {
    #[command(flatten)]
    ask: Ask,
}

#[derive(Debug, clap::Args)]
struct Ask {
    #[command(flatten)]
    admin: Admin,
    #[command(flatten)]
    json: Json,
}

pub(super) fn pause(options: &PauseOptions) -> Result<Exit, Failure> {
    tell(&options.ask, "can't pause the agent", Client::pause)
}

pub(super) fn resume(options: &ResumeOptions) -> Result<Exit, Failure> {
    tell(&options.ask, "can't let the agent go on", Client::resume)
}

pub(super) fn reload(options: &ReloadOptions) -> Result<Exit, Failure> {
    tell(&options.ask, "can't have the configuration read again", Client::reload)
}

fn tell(
    ask: &Ask,
    what: &str,
    call: impl AsyncFnOnce(&Client) -> Result<Done, AskError>,
) -> Result<Exit, Failure> {
    let done = ask.admin.ask(what, call)?;
    super::print(&if ask.json.json { json::line(&done) } else { format!("{}\n", printable(&done.text)) })?;
    Ok(Exit::Done)
}
