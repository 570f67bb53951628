//! `enforcer status --node`: a node as the scheduler counts it.

use super::{Access, no_answer, wait_for};
use crate::{
    cgroup::{printable, shown},
    cli::{
        Exit, Failure, json, print,
        table::{Align, table},
    },
    kube::{
        amounts::{Amounts, Kind},
        node::NodeState,
        read,
        resize::Resize,
        scheduler::{Figures, NodeSum, Rules},
        state::{PodName, PodState},
    },
};
use serde::Serialize;
use std::fmt::Write as _;

const WHAT: &str = "can't tell how the node is taken";

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    sum: &'a NodeSum,
    capacity: Amounts,
    over_memory: u64,
    over_cpu: u64,
    /// Pods with a resize that is not done.
    resizing: Vec<Resizing<'a>>,
    #[serde(skip_serializing_if = "is_none_left_out")]
    left_out: u64,
}

#[derive(Serialize)]
struct Resizing<'a> {
    #[serde(flatten)]
    pod: &'a PodName,
    resize: Resize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_none_left_out(count: &u64) -> bool {
    *count == 0
}

/// Asks the API server for the node and its pods.
pub(in crate::cli) fn of_node(access: &Access, name: &str, as_json: bool) -> Result<Exit, Failure> {
    let name = if name.is_empty() { own_name()? } else { name.to_owned() };
    let (node, listed) = wait_for(WHAT, &name, async {
        let server = access.connect(WHAT, &name).await?;
        let failed = |error| no_answer(WHAT, &name, &error);
        let node = read::node(&server, &name).await.map_err(failed)?;
        Ok::<_, Failure>((node, read::pods_of(&server, &name).await.map_err(failed)?))
    })?;
    let sum = NodeSum::of(&node, &listed.items, Rules::of(node.kubelet));
    let report = Report {
        sum: &sum,
        capacity: node.capacity,
        over_memory: sum.over(Kind::Memory),
        over_cpu: sum.over(Kind::Cpu),
        resizing: resizing(&listed.items),
        left_out: listed.left_out,
    };
    print(&if as_json { json::line(&report) } else { render(&node, &report) })?;
    Ok(Exit::Done)
}

/// As the kubelet calls the node where it was told nothing else.
fn own_name() -> Result<String, Failure> {
    if let Ok(name) = std::env::var("NODE_NAME")
        && !name.is_empty()
    {
        return Ok(name);
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    host.map(|name| name.to_lowercase()).ok_or_else(|| {
        Failure::new(Exit::Usage, WHAT, "", &"this host's name can't be told", "name the node: --node NAME")
    })
}

fn resizing(pods: &[PodState]) -> Vec<Resizing<'_>> {
    let not_done = pods
        .iter()
        .filter(|pod| pod.holds_room())
        .map(|pod| Resizing { pod: &pod.name, resize: Resize::of(pod) });
    not_done.filter(|one| one.resize != Resize::None).collect()
}

fn render(node: &NodeState, report: &Report<'_>) -> String {
    let Report { sum, capacity: _, over_memory, over_cpu, resizing, left_out } = report;
    let version = node.kubelet.map_or_else(|| "of an unknown version".into(), |version| version.to_string());
    let mut text = format!("node {}, kubelet {version}, pods: {}\n\n", printable(&node.name), sum.pods.len());
    let head = ["requests of memory", "desired", "allocated", "actual", "scheduler"].map(String::from);
    for kind in Kind::ALL {
        let mut head = head.clone();
        head[0] = format!("requests of {kind}");
        let row = |name: String, figures: &Figures| {
            let cell =
                |amounts: &Amounts| amounts.get(kind).map_or_else(|| "-".into(), |amount| kind.shown(amount));
            let Figures { desired, allocated, actual, scheduler } = figures;
            [name, cell(desired), cell(allocated), cell(actual), cell(scheduler)]
        };
        let mut rows = vec![head];
        rows.extend(sum.pods.iter().map(|(name, figures)| {
            row(format!("{}/{}", shown(&name.namespace), shown(&name.name)), figures)
        }));
        rows.push(row("in all".into(), &sum.sum));
        let allocatable = sum.allocatable.get(kind).map_or_else(|| "-".into(), |amount| kind.shown(amount));
        rows.push(["the node has for pods".into(), String::new(), String::new(), String::new(), allocatable]);
        text.push_str(&table(
            2,
            [Align::Left, Align::Right, Align::Right, Align::Right, Align::Right],
            &rows,
        ));
        let over = if kind == Kind::Memory { *over_memory } else { *over_cpu };
        if over > 0 {
            // Writing to a String can't fail, here and below.
            let _ = writeln!(text, "  {} of {kind} more than the node has for pods", kind.shown(over));
        }
        text.push('\n');
    }
    for Resizing { pod, resize } in resizing {
        let name = printable(&format!("pod/{}/{}", pod.namespace, pod.name));
        let _ = writeln!(text, "{name}: {}", super::changes::standing(resize));
    }
    if *left_out > 0 {
        let _ = writeln!(text, "{left_out} pods could not be read");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::fixture::{self, condition, named, shrink};
    use serde_json::json;

    #[test]
    fn a_node_for_people() {
        let node = fixture::node(|_| {});
        let grows = named("grows", |value| {
            value["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!("4Gi");
            shrink(value, &[condition("PodResizePending", "Deferred", "x")]);
        });
        let pods = [grows, named("rests\u{1b}", |_| {})];
        let sum = NodeSum::of(&node, &pods, Rules::of(node.kubelet));
        let report = Report {
            sum: &sum,
            capacity: node.capacity,
            over_memory: sum.over(Kind::Memory),
            over_cpu: sum.over(Kind::Cpu),
            resizing: resizing(&pods),
            left_out: 0,
        };
        assert_eq!(
            render(&node, &report),
            "node node-a, kubelet 1.35, pods: 2\n\n  \
               requests of memory     desired  allocated  actual  scheduler\n  \
               shop/grows               4.2Gi      300Mi   300Mi      4.2Gi\n  \
               shop/rests\\u{1b}         300Mi      300Mi   300Mi      300Mi\n  \
               in all                   4.5Gi      600Mi   600Mi      4.5Gi\n  \
               the node has for pods                                  3.5Gi\n  \
               1012Mi of memory more than the node has for pods\n\n  \
               requests of cpu        desired  allocated  actual  scheduler\n  \
               shop/grows                300m       300m    300m       300m\n  \
               shop/rests\\u{1b}          300m       300m    300m       300m\n  \
               in all                    600m       600m    600m       600m\n  \
               the node has for pods                                  3800m\n\n\
             pod/shop/grows: deferred since 2026-11-30T00:30:00Z (main memory limit 400Mi -> 200Mi, main memory request \
             100Mi -> 4Gi)\n"
        );
    }
}
