//! `enforcer pause`, `enforcer resume`, `enforcer reload`: what a running agent is told.

use super::{
    Exit, Failure,
    ask::{Admin, EXITS},
    failure::Reason,
    json,
    options::Json,
};
use crate::{
    admin::{AskError, Client, model::Done},
    cgroup::printable,
};
use std::time::{Duration, Instant};

/// Stops all actuation of the agent, and lifts every brake
///
/// Shrinks that are under way are taken back, and none begins until enforcer resume. Limits that were committed stay.
/// The agent goes on to listen, record and answer. It returns once every brake is lifted; where that takes longer than
/// --deadline the agent is paused all the same, what is still being taken back is told, and the exit code is 1. Keep
/// --deadline above the agent's `agent.settle_timeout` (10 s where it is not set).
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 paused and every brake is lifted, 1 paused, and not all is taken back yet; or the agent ends, \
                        64 wrong usage, 69 no agent runs, or none that answers in time or lets this user in."
)]
#[command(mut_arg("deadline", |arg| arg.default_value("30s").help("How long to wait until every brake is lifted")))]
pub(super) struct PauseOptions {
    #[command(flatten)]
    ask: Ask,
}

/// Lets the agent change limits again
#[derive(Debug, clap::Args)]
#[command(after_help = EXITS)]
pub(super) struct ResumeOptions {
    #[command(flatten)]
    ask: Ask,
}

/// Has the agent read its configuration again
///
/// Where that holds an error the agent keeps the configuration that it has, and the exit code is 64.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 the new configuration is in force, 1 the agent ends or its answer makes no sense, 64 the configuration \
                        holds an error, or wrong usage, 69 no agent runs, or none that answers in time or lets this user in."
)]
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
    let Ask { admin, json } = &options.ask;
    let done = admin.ask("can't pause the agent", async |client| paused(client, admin.deadline()).await)?;
    if done.under_way.is_empty() {
        return say(&done, json);
    }
    let todo = "wait, and ask again; enforcer status tells how far it is";
    let reason = |why: String| Reason { why, todo: String::new() };
    let mut reasons: Vec<_> = done.under_way.into_iter().map(reason).collect();
    if let Some(last) = reasons.last_mut() {
        last.todo = todo.into();
    }
    let what = format!("paused, but not all is taken back within {}", admin.deadline);
    Err(Failure { exit: Exit::Failed, what, on: String::new(), reasons })
}

/// The agent tells what is still under way after some seconds, and waits for more of it where it is asked again.
async fn paused(client: &Client, within: Duration) -> Result<Done, AskError> {
    let began = Instant::now();
    loop {
        let done = client.pause().await?;
        if done.under_way.is_empty() || began.elapsed() >= within {
            return Ok(done);
        }
    }
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
    say(&ask.admin.ask(what, call)?, &ask.json)
}

fn say(done: &Done, json: &Json) -> Result<Exit, Failure> {
    super::print(&if json.json { json::line(done) } else { format!("{}\n", printable(&done.text)) })?;
    Ok(Exit::Done)
}
