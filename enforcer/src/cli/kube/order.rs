//! `--via kube`: has the kubelet do it, by a patch of `pods/resize`, and follows it.

use super::{Following, changes, follow, no_answer, no_patch, wait_for};
use crate::{
    cgroup::{printable, shown},
    cli::{Exit, Failure, json, print},
    inventory::Target,
    kube::{
        amounts::Amounts,
        connect::Server,
        patch::{self, Outcome, ResizePatch, Want},
        read,
        reasons::{Reason, of_refusal},
        resize::Resize,
        state::{ContainerState, Life, PodName, PodState, Role},
    },
    resize::{Ask, CpuLimit, CpuShare},
};
use enforcer_gate::{Limit, Micros};
use serde::Serialize;
use std::fmt::Write as _;

/// How often the pod is looked at again after a conflict.
const CONFLICTS_MAX: usize = 5;

/// What is to be done.
pub(in crate::cli) struct Order<'a> {
    /// As in "can't resize".
    pub(in crate::cli) what: &'static str,
    /// As it was named.
    pub(in crate::cli) target: &'a str,
    pub(in crate::cli) ask: Ask,
    /// Nothing may go up.
    pub(in crate::cli) only_down: bool,
    pub(in crate::cli) dry_run: bool,
    pub(in crate::cli) following: &'a Following,
    pub(in crate::cli) json: bool,
}

/// How it came out.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    #[serde(flatten)]
    pub(super) pod: &'a PodName,
    pub(super) container: &'a str,
    pub(super) exit: u8,
    pub(super) dry_run: bool,
    /// What was sent.
    pub(super) patch: &'a serde_json::Value,
    /// How it stands now; none where the API server refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resize: Option<Resize>,
    pub(super) reasons: Vec<Reason>,
    pub(super) took: Micros,
}

/// Patches and follows.
pub(in crate::cli) fn carry_out(order: &Order<'_>) -> Result<Exit, Failure> {
    let usage = |why: &dyn std::fmt::Display, todo: &str| {
        Failure::new(Exit::Usage, order.what, order.target, why, todo)
    };
    let target = Target::parse(order.target)
        .map_err(|error| usage(&error, "with --via kube a target is pod/NAMESPACE/NAME[:CONTAINER]"))?;
    let limits = limits(&order.ask).map_err(|why| usage(&why, "leave it out, or use --via cri"))?;
    let name = PodName { namespace: target.namespace.clone(), name: target.name.clone() };
    wait_for(order.what, order.target, async {
        let server = order.following.access.connect(order.what, order.target).await?;
        let began = std::time::Instant::now();
        let failed = |error| no_answer(order.what, order.target, &error);
        let pod = read::pod(&server, &name).await.map_err(failed)?;
        let container = container(&pod, &target).map_err(|(why, todo)| usage(&why, &todo))?.clone();
        if order.only_down {
            is_shrink(&container, limits).map_err(|why| usage(&why, "enforcer resize raises limits too"))?;
        }
        let want = Want { container: Some(container.name.clone()), limits };
        let sent = send(order, &server, pod, &want).await?;
        let took = || Micros::new(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
        let (exit, resize, reasons) = match &sent.outcome {
            Outcome::Patched(pod) if order.dry_run => (Exit::Done, Some(Resize::of(pod)), Vec::new()),
            Outcome::Patched(pod) => {
                if !order.json {
                    crate::cli::output::aside("the API server has taken it; the kubelet comes next\n");
                }
                follow::follow(order, &server, &container.name, pod).await?
            }
            Outcome::Refused(refusal) => (Exit::Refused, None, vec![of_refusal(refusal)]),
            Outcome::Conflict => {
                let why = "the pod changed under each try";
                let todo = "look who else changes it: enforcer explain names the last writer";
                return Err(Failure::new(Exit::Failed, order.what, order.target, &why, todo));
            }
            Outcome::Gone => {
                return Err(Failure::new(Exit::Failed, order.what, order.target, &"the pod is gone", ""));
            }
            Outcome::Unavailable { why, .. } => return Err(no_answer(order.what, order.target, why)),
        };
        let report = Report {
            pod: &name,
            container: &container.name,
            exit: exit.code(),
            dry_run: order.dry_run,
            patch: &sent.patch.body,
            resize,
            reasons,
            took: took(),
        };
        print(&if order.json { json::line(&report) } else { render(&report) })?;
        Ok(exit)
    })
}

struct Sent {
    patch: ResizePatch,
    outcome: Outcome,
}

/// Sends the patch; after a conflict over the pod as it is then, as long as nobody has decided anew.
async fn send(order: &Order<'_>, server: &Server, mut pod: PodState, want: &Want) -> Result<Sent, Failure> {
    let generation = pod.generation;
    let mut tried = 0;
    loop {
        let patch = patch::plan(&pod, std::slice::from_ref(want));
        let patch = patch.map_err(|error| no_patch(order.what, order.target, &error))?;
        let outcome = patch::send(server, &patch, order.dry_run).await;
        tried += 1;
        if outcome != Outcome::Conflict || tried == CONFLICTS_MAX {
            return Ok(Sent { patch, outcome });
        }
        let found = read::pod(server, &pod.name).await;
        pod = found.map_err(|error| no_answer(order.what, order.target, &error))?;
        if pod.generation != generation {
            return Ok(Sent { patch, outcome });
        }
    }
}

/// The container that is meant: of a pod with one that is the one.
fn container<'a>(pod: &'a PodState, target: &Target) -> Result<&'a ContainerState, (String, String)> {
    let can: Vec<_> = pod.containers.iter().filter(|one| one.role != Role::Init).collect();
    let names = || can.iter().take(16).map(|one| shown(&one.name)).collect::<Vec<_>>().join(", ");
    if pod.life == Life::Ended {
        return Err(("the pod has ended".into(), "name one that runs".into()));
    }
    if let Some(name) = &target.container {
        // An init container is refused with its own words.
        let missing = || ("the pod has no such container".into(), format!("it has {}", names()));
        return pod.container(name).ok_or_else(missing);
    }
    if let [one] = can[..] {
        return Ok(one);
    }
    let first = can.first().map(|one| shown(&one.name)).unwrap_or_default();
    Err((format!("it has several containers: {}", names()), format!("name one: {target}:{first}")))
}

/// The limits that are asked for, in the API's terms.
fn limits(ask: &Ask) -> Result<Amounts, &'static str> {
    let memory = match ask.memory {
        Some(Limit::Max) => return Err("the API server takes no limit away"),
        Some(Limit::Bytes(bytes)) => Some(bytes),
        None => None,
    };
    let cpu = match ask.cpu {
        Some(CpuLimit::Max) => return Err("the API server takes no limit away"),
        Some(CpuLimit::Milli(milli)) => Some(milli),
        None => None,
    };
    match ask.share {
        Some(CpuShare::Weight(_) | CpuShare::Shares(_)) => {
            Err("the weight against others follows from the request, which is not changed by this way")
        }
        None => Ok(Amounts { memory, cpu }),
    }
}

fn is_shrink(container: &ContainerState, limits: Amounts) -> Result<(), String> {
    match (container.level.desired.limits.memory, limits.memory) {
        (Some(from), Some(to)) if to >= from => Err(format!("its limit is {from}, which is not above {to}")),
        _ => Ok(()),
    }
}

fn render(report: &Report<'_>) -> String {
    let Report { pod, container, dry_run, patch, resize, reasons, took, exit: _ } = report;
    let name = printable(&format!("pod/{}/{}:{container}", pod.namespace, pod.name));
    let said = match (dry_run, resize) {
        (_, None) => "refused by the API server".into(),
        (true, Some(_)) => "the API server would take it (nothing was changed)".into(),
        (false, Some(Resize::None)) => format!("done, in {took}"),
        (false, Some(resize)) => changes::standing(resize),
    };
    let mut text = format!("{name}: {said}\n");
    if *dry_run || resize.is_none() {
        // Writing to a String can't fail.
        let _ = writeln!(text, "  patch of pods/resize: {}", printable(&patch.to_string()));
    }
    text.push_str(&changes::reasons(reasons, 2));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::fixture;
    use serde_json::json;

    #[test]
    fn the_container_that_is_meant() {
        let pod = fixture::pod(|_| {});
        let of =
            |text: &str| container(&pod, &Target::parse(text).expect("a target")).map(|one| one.name.clone());
        assert_eq!(of("pod/shop/web-1:side"), Ok("side".into()));
        let (why, todo) = of("pod/shop/web-1").expect_err("there are three");
        assert_eq!(why, "it has several containers: proxy, main, side");
        assert_eq!(todo, "name one: pod/shop/web-1:proxy");
        assert!(of("pod/shop/web-1:none").is_err());
        let single = fixture::pod(|value| {
            value["spec"]["containers"].as_array_mut().expect("a list").pop();
            value["spec"]["initContainers"] = json!([]);
        });
        let target = Target::parse("pod/shop/web-1").expect("a target");
        assert_eq!(container(&single, &target).map(|one| one.name.as_str()), Ok("main"));
    }

    #[test]
    fn what_the_api_has_no_word_for_is_refused() {
        assert!(limits(&Ask { memory: Some(Limit::Max), ..Ask::default() }).is_err());
        assert!(limits(&Ask { cpu: Some(CpuLimit::Max), ..Ask::default() }).is_err());
        assert!(limits(&Ask { share: Some(CpuShare::Weight(7)), ..Ask::default() }).is_err());
        let ask = Ask { memory: Some(Limit::Bytes(fixture::mib(7))), ..Ask::default() };
        assert_eq!(limits(&ask).map(|limits| limits.memory), Ok(Some(fixture::mib(7))));
        let pod = fixture::pod(|_| {});
        let main = pod.container("main").expect("is there");
        let to = |n: u64| Amounts { memory: Some(fixture::mib(n)), cpu: None };
        assert!(is_shrink(main, to(399)).is_ok() && is_shrink(main, to(400)).is_err());
    }
}
