//! `enforcer explain`: why a container is at its limit.

mod report;
mod why;

use super::{Exit, Failure, ask::Admin, failure::Reason, json, options::Json};
use crate::inventory::Target;
pub(super) use report::render;

const WHAT: &str = "can't explain";
/// What can be had where no agent answers.
const WITHOUT: &str =
    "without an agent enforcer ps tells limits and usage, and enforcer floor CGROUP how low one could go";

/// Why a container is at its memory limit, how low that could go, what is in flight, what blocks it, and what happened
/// to it lately
///
/// Asks the agent of this node. A whole pod has each of its containers explained.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The pod or container, as pod/NAMESPACE/NAME[:CONTAINER]
    #[arg(value_name = "TARGET", value_parser = Target::parse)]
    target: Target,
    #[command(flatten)]
    admin: Admin,
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let target = &options.target;
    let asked = options.admin.ask(WHAT, async |client| client.explain(target).await);
    let explanation = asked.map_err(|failure| on(failure, target))?;
    super::print(&if options.json.json { json::line(&explanation) } else { render(&explanation) })?;
    Ok(Exit::Done)
}

fn on(mut failure: Failure, target: &Target) -> Failure {
    failure.on = target.to_string();
    if failure.exit == Exit::Unsupported {
        failure.reasons.push(Reason { why: WITHOUT.into(), todo: String::new() });
    }
    failure
}
