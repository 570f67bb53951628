//! `enforcer explain`: why a container is at its limit.

mod place;
mod report;
mod why;

use super::{Exit, Failure, ask::Admin, failure::Reason, json, kube, options::Json};
use crate::{
    admin::{AskError, model::Explanation},
    cgroup::shown,
    inventory::Target,
};
use place::{PlaceError, owner};
pub(super) use report::render;

const WHAT: &str = "can't explain";
/// What can be had where no agent answers.
const WITHOUT: &str =
    "without an agent enforcer ps tells limits and usage, and enforcer floor CGROUP how low one could go";

/// Why a container is at its memory limit, how low that could go, what is in flight, what blocks it, and what happened
/// to it lately
///
/// Asks the agent of this node, and the API server where KUBECONFIG, --kubeconfig or a service account says that there is
/// one: what is desired, allocated and actual, how a resize stands, and why it is stuck. A whole pod has each of its
/// containers explained. A cgroup stands for the container whose
/// it is, or in whose it is; the one right above a pod's containers (the pod's slice) for the pod.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 done, 1 the agent ends or its answer makes no sense, 64 there is no such pod, container or cgroup, or \
                        wrong usage, 69 no agent runs, or none that answers in time or lets this user in."
)]
pub(super) struct Options {
    /// The pod or container, as pod/NAMESPACE/NAME[:CONTAINER]; or its cgroup, absolute or below the cgroup mount
    #[arg(value_name = "TARGET", value_parser = named)]
    target: Named,
    /// Ask the API server alone, also from where no agent runs
    #[arg(long)]
    no_agent: bool,
    #[command(flatten)]
    access: kube::Access,
    #[command(flatten)]
    admin: Admin,
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    if options.no_agent {
        return by_api(options);
    }
    let target = match &options.target {
        Named::Target(target) => target.clone(),
        Named::Cgroup(path) => of_cgroup(&options.admin, path)?,
    };
    let asked = options.admin.ask(WHAT, async |client| client.explain(&target).await);
    let asked = asked.map_err(|failure| on(failure, target.to_string()));
    let view = kube::view(WHAT, &options.access, &target, asked.as_ref().ok());
    let (told, left) = match (asked, view) {
        (Ok(explanation), Ok(view)) => (text(options, Some(&explanation), view.as_ref()), None),
        // One of the two is better than none; of the other is told.
        (Ok(explanation), Err(failure)) => (text(options, Some(&explanation), None), Some(failure)),
        (Err(failure), Ok(Some(view))) => (text(options, None, Some(&view)), Some(failure)),
        (Err(failure), Ok(None)) => return Err(failure),
        (Err(mut failure), Err(other)) => {
            failure.reasons.extend(other.reasons);
            return Err(failure);
        }
    };
    super::print(&told)?;
    if let Some(failure) = left {
        failure.print(options.json.json);
    }
    Ok(Exit::Done)
}

fn by_api(options: &Options) -> Result<Exit, Failure> {
    let target = match &options.target {
        Named::Target(target) => target,
        Named::Cgroup(path) => {
            let todo = "name a pod or container, as pod/NAMESPACE/NAME[:CONTAINER]";
            let why = "the API server knows no cgroups";
            return Err(Failure::new(Exit::Usage, WHAT, shown(path), &why, todo));
        }
    };
    let view = kube::view_of(WHAT, &options.access, target, None)?;
    super::print(&text(options, None, Some(&view)))?;
    Ok(Exit::Done)
}

fn text(options: &Options, explanation: Option<&Explanation>, view: Option<&kube::View>) -> String {
    if options.json.json {
        return explanation.map(json::line).into_iter().chain(view.map(json::line)).collect();
    }
    let parts: Vec<_> = explanation.map(render).into_iter().chain(view.map(kube::View::render)).collect();
    parts.join("\n")
}

/// How a target is named.
#[derive(Debug, Clone)]
enum Named {
    Target(Target),
    Cgroup(String),
}

fn named(text: &str) -> Result<Named, String> {
    if Target::is_meant(text) {
        return Target::parse(text).map(Named::Target).map_err(|error| error.to_string());
    }
    match text {
        "" => Err("it is empty; give pod/NAMESPACE/NAME[:CONTAINER] or a cgroup".into()),
        path => Ok(Named::Cgroup(path.into())),
    }
}

fn of_cgroup(admin: &Admin, path: &str) -> Result<Target, Failure> {
    let asked = admin.ask(WHAT, async |client| Ok::<_, AskError>(client.containers().await?));
    let views = asked.map_err(|failure| on(failure, shown(path)))?;
    owner(path, &views)
        .map_err(|error: PlaceError| Failure::new(Exit::Usage, WHAT, path, &error, error.advice()))
}

fn on(mut failure: Failure, target: String) -> Failure {
    failure.on = target;
    if failure.exit == Exit::Unsupported {
        failure.reasons.push(Reason { why: WITHOUT.into(), todo: String::new() });
    }
    failure
}
