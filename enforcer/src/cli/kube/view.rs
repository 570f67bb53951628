//! `enforcer explain`: what the API server says of a pod, and why its resize is stuck.

use super::{Access, changes, follow::why, no_answer, wait_for};
use crate::{
    admin::model::Explanation,
    cgroup::printable,
    cli::{
        Failure,
        table::{Align, table},
    },
    inventory::Target,
    kube::{
        amounts::{Amounts, Kind},
        expectations::{Expected, expected},
        read,
        reasons::{Given, Kernel, Reason, Usage, reasons},
        resize::Resize,
        scheduler::{Figures, Rules, figures},
        state::{Level, PodName, PodState, Role},
    },
};
use serde::Serialize;
use std::fmt::Write as _;

/// A pod in the API server's view.
#[derive(Serialize)]
pub(in crate::cli) struct View {
    kubernetes: Kubernetes,
}

#[derive(Serialize)]
struct Kubernetes {
    pod: PodState,
    resize: Resize,
    scheduler: Figures,
    /// Which limits should be in force; none where that can't be told.
    expected: Option<Expected>,
    reasons: Vec<Reason>,
}

/// Asks the API server; `None` where nothing says that there is one.
pub(in crate::cli) fn view(
    what: &str,
    access: &Access,
    target: &Target,
    explanation: Option<&Explanation>,
) -> Result<Option<View>, Failure> {
    if !access.is_given() {
        return Ok(None);
    }
    view_of(what, access, target, explanation).map(Some)
}

/// Asks the API server, wherever one is found.
pub(in crate::cli) fn view_of(
    what: &str,
    access: &Access,
    target: &Target,
    explanation: Option<&Explanation>,
) -> Result<View, Failure> {
    let on = target.to_string();
    let name = PodName { namespace: target.namespace.clone(), name: target.name.clone() };
    wait_for(what, &on, async {
        let server = access.connect(what, &on).await?;
        let pod = read::pod(&server, &name).await.map_err(|error| no_answer(what, &on, &error))?;
        // What only helps is done without where it may not be read.
        let node = read::node(&server, &pod.node).await.ok();
        let kubelet = node.as_ref().and_then(|node| node.kubelet);
        let reasons = match explanation.map(kernel) {
            Some(kernel) => {
                let pods =
                    read::pods_of(&server, &pod.node).await.map(|listed| listed.items).unwrap_or_default();
                let (node, kernel) = (node.as_ref(), Some(&kernel));
                reasons(&Given { pod: &pod, node, pods: &pods, kernel, flapping: None })
            }
            None => why(&server, &pod).await,
        };
        let (resize, scheduler) = (Resize::of(&pod), figures(&pod, Rules::of(kubelet)));
        let expected = expected(&pod, kubelet);
        Ok(View { kubernetes: Kubernetes { pod, resize, scheduler, expected, reasons } })
    })
}

/// What the agent has read of its cgroups.
fn kernel(explanation: &Explanation) -> Kernel {
    let mut kernel = Kernel::default();
    for view in &explanation.containers {
        if let Some(limit) = view.pod_limit {
            kernel.pod = Some(Usage { current: None, limit, floor: None });
        }
        if let Some(limit) = view.limit {
            let usage = Usage { current: view.usage, limit, floor: view.floor };
            kernel.containers.insert(view.container.clone(), usage);
        }
    }
    kernel
}

impl View {
    /// For people.
    pub(in crate::cli) fn render(&self) -> String {
        let Kubernetes { pod, resize, scheduler, expected, reasons } = &self.kubernetes;
        let name = printable(&format!("pod/{}/{}", pod.name.namespace, pod.name.name));
        let mut text = format!(
            "Kubernetes has {name} on {} ({}, generation {})\n",
            printable(&pod.node),
            pod.qos.name(),
            pod.generation
        );
        let head = ["limits", "", "desired", "allocated", "actual"].map(String::from);
        let mut rows = vec![head];
        if let Some(level) = pod.own() {
            rows.extend(limits(pod, "the pod's own", level));
        }
        let told = pod.containers.iter().filter(|one| one.role != Role::Init);
        rows.extend(told.flat_map(|one| limits(pod, &one.name, &one.level)));
        text.push_str(&table(2, [Align::Left, Align::Left, Align::Right, Align::Right, Align::Right], &rows));
        let counts: Vec<_> = Kind::ALL
            .into_iter()
            .filter_map(|kind| Some(format!("{} of {kind}", kind.shown(scheduler.scheduler.get(kind)?))))
            .collect();
        // Writing to a String can't fail, here and below.
        if !counts.is_empty() {
            let _ = writeln!(text, "  the scheduler counts {}", counts.join(" and "));
        }
        if let Some(Expected { pod: of_pod, .. }) = expected {
            let _ = writeln!(text, "  the pod's cgroup should have memory.max {}", of_pod.memory);
        }
        if let Some(writer) = changes::writer(pod) {
            let _ = writeln!(text, "  {writer}");
        }
        let _ = writeln!(text, "  {}", changes::standing(resize));
        text.push_str(&changes::reasons(reasons, 2));
        text
    }
}

fn limits(pod: &PodState, name: &str, level: &Level) -> Vec<[String; 5]> {
    let allocated = pod.allocated_limits(level);
    let of = |amounts: Option<Amounts>, kind: Kind| {
        amounts.map_or_else(
            || "?".into(),
            |amounts| amounts.get(kind).map_or_else(|| "none".into(), |amount| kind.shown(amount)),
        )
    };
    let row = |kind: Kind| {
        let actual = level.actual.map(|actual| actual.limits);
        let cells = [Some(level.desired.limits), allocated, actual].map(|amounts| of(amounts, kind));
        let [desired, allocated, actual] = cells;
        [printable(name), kind.name().into(), desired, allocated, actual]
    };
    Kind::ALL.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        admin::fixture as admin,
        kube::fixture::{self, MIB, condition, shrink},
    };

    fn view(pod: PodState, kernel: Option<&Kernel>) -> View {
        let node = fixture::node(|_| {});
        let reasons = reasons(&Given { pod: &pod, node: Some(&node), pods: &[], kernel, flapping: None });
        let (resize, scheduler) = (Resize::of(&pod), figures(&pod, Rules::PerPod));
        let expected = expected(&pod, node.kubelet);
        View { kubernetes: Kubernetes { pod, resize, scheduler, expected, reasons } }
    }

    #[test]
    fn a_stuck_shrink_for_people() {
        let words = format!(
            "cannot decrease memory limits: attempting to set container \"main\" memory limit ({}) below current usage ({})",
            100 * MIB,
            130 * MIB
        );
        let pod = fixture::pod(|value| {
            shrink(value, &[condition("PodResizeInProgress", "Error", &words)]);
            value["spec"]["containers"][0]["resources"]["limits"]["memory"] = serde_json::json!("100Mi");
        });
        let kernel = kernel(&admin::explanation());
        let expected = format!(
            "Kubernetes has pod/shop/web-1 on node-a (Burstable, generation 4)\n  \
               limits          desired  allocated  actual\n  \
               proxy   memory    150Mi      150Mi   150Mi\n  \
               proxy   cpu        200m       200m    200m\n  \
               main    memory    100Mi      100Mi   400Mi\n  \
               main    cpu        500m       500m    500m\n  \
               side    memory    100Mi      100Mi   100Mi\n  \
               side    cpu        200m       200m    200m\n  \
               the scheduler counts 300Mi of memory and 300m of cpu\n  \
               the pod's cgroup should have memory.max 350Mi\n  \
               its resources were last resized by vpa-updater at 2026-11-30T00:20:00Z\n  \
               error since 2026-11-30T00:30:00Z (main memory limit 400Mi -> 100Mi)\n  \
               error-usage-page-cache: Usage of container main is above the new limit, and 90Mi of it can't be reclaimed: \
             the rest is page cache or can be swapped, but the kubelet counts all of it and reclaims none.\n      \
                 new limit: 100Mi\n      \
                 usage now: 120Mi\n      \
                 of which stays: 90Mi\n      \
                 the kubelet's figure (of the whole pod): 130Mi\n      \
                 the kubelet says: {words}\n      \
                 -> reclaim first: the agent does so where the pod asks for it, enforcer shrink does so at once; the \
             kubelet's next try passes then\n"
        );
        assert_eq!(view(pod, Some(&kernel)).render(), expected);
    }

    #[test]
    fn nothing_hostile_is_printed() {
        let hostile = "\u{1b}[2J\u{202e}";
        let pod = fixture::pod(|value| {
            shrink(value, &[condition("PodResizePending", "Deferred", hostile)]);
            for name in ["name", "namespace"] {
                value["metadata"][name] = serde_json::json!(hostile);
            }
            value["metadata"]["managedFields"][2]["manager"] = serde_json::json!(hostile);
            value["spec"]["containers"][0]["name"] = serde_json::json!(hostile);
            value["status"]["containerStatuses"][0]["name"] = serde_json::json!(hostile);
            value["spec"]["nodeName"] = serde_json::json!(hostile);
        });
        let view = view(pod, None);
        let text = view.render();
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        let json = crate::cli::json::line(&view);
        assert!(json.contains("\"kubernetes\"") && json.trim_end().is_ascii(), "{json}");
    }
}
