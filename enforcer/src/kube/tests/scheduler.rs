//! What a pod counts for, by the rules of both versions.

use super::*;
use crate::kube::fixture::{self, condition, mib, named};
use serde_json::{Value, json};

const BOTH: [Rules; 2] = [Rules::PerContainer, Rules::PerPod];

/// Memory in MiB, as the scheduler counts it.
fn counts(edit: impl FnOnce(&mut Value)) -> [u64; 2] {
    let pod = fixture::pod(edit);
    BOTH.map(|rules| figures(&pod, rules).scheduler.memory.map_or(0, enforcer_gate::Bytes::get) >> 20)
}

/// Of container `at`: MiB that are desired, allocated and actual.
fn requests(value: &mut Value, at: usize, [desired, allocated, actual]: [u64; 3]) {
    let memory = |mib: u64| json!(format!("{mib}Mi"));
    value["spec"]["containers"][at]["resources"]["requests"]["memory"] = memory(desired);
    value["status"]["containerStatuses"][at]["allocatedResources"]["memory"] = memory(allocated);
    value["status"]["containerStatuses"][at]["resources"]["requests"]["memory"] = memory(actual);
}

#[test]
fn versions_have_their_rules() {
    let of = |text| Rules::of(Version::parse(text));
    assert_eq!(of("v1.35.8"), Rules::PerContainer);
    assert_eq!(of("v1.36.2"), Rules::PerContainer);
    assert_eq!(of("v1.37.0"), Rules::PerPod);
    assert_eq!(of(""), Rules::PerPod);
}

#[test]
fn without_a_resize_it_is_the_sum() {
    assert_eq!(counts(|_| {}), [300, 300]);
    let all = figures(&fixture::pod(|_| {}), Rules::PerPod);
    assert_eq!(all.desired, all.scheduler);
    assert_eq!((all.allocated, all.actual), (all.desired, all.desired));
    assert_eq!(all.desired.cpu.map(crate::resize::MilliCpu::get), Some(300));
}

#[test]
fn the_greatest_of_the_three_counts() {
    assert_eq!(
        counts(|value| requests(value, 0, [50, 100, 100])),
        [300, 300],
        "a shrink frees nothing before its end"
    );
    assert_eq!(counts(|value| requests(value, 0, [50, 50, 100])), [300, 300]);
    assert_eq!(counts(|value| requests(value, 0, [50, 50, 50])), [250, 250]);
    assert_eq!(counts(|value| requests(value, 0, [200, 100, 100])), [400, 400], "growth counts at once");
    // One grows while another shrinks: each on its own, or the sums.
    let swap = |value: &mut Value| {
        requests(value, 0, [200, 100, 100]);
        requests(value, 1, [20, 100, 100]);
    };
    assert_eq!(counts(swap), [400, 320]);
}

#[test]
fn what_is_infeasible_is_not_counted() {
    let infeasible = |value: &mut Value| {
        requests(value, 0, [5000, 100, 100]);
        value["status"]["conditions"] = json!([condition("PodResizePending", "Infeasible", "x")]);
    };
    assert_eq!(counts(infeasible), [300, 300]);
    let deferred = |value: &mut Value| {
        requests(value, 0, [5000, 100, 100]);
        value["status"]["conditions"] = json!([condition("PodResizePending", "Deferred", "x")]);
    };
    assert_eq!(counts(deferred), [5200, 5200]);
}

#[test]
fn init_containers_sidecars_and_overhead() {
    let init = |memory: &str| json!({"name": "init", "resources": {"requests": {"memory": memory}}});
    let after = |value: &mut Value| {
        value["spec"]["initContainers"].as_array_mut().expect("a list").push(init("150Mi"));
    };
    assert_eq!(counts(after), [300, 300], "less than what runs later");
    let after = |value: &mut Value| {
        value["spec"]["initContainers"].as_array_mut().expect("a list").push(init("250Mi"));
    };
    assert_eq!(counts(after), [350, 350], "it runs beside the sidecar before it");
    let before = |value: &mut Value| {
        value["spec"]["initContainers"].as_array_mut().expect("a list").insert(0, init("350Mi"));
    };
    assert_eq!(counts(before), [350, 350], "the sidecar comes later");
    assert_eq!(counts(|value| value["spec"]["overhead"] = json!({"memory": "120Mi"})), [420, 420]);
}

#[test]
fn a_pods_own_resources_stand_for_its_containers() {
    let own = |value: &mut Value| value["spec"]["resources"] = json!({"requests": {"memory": "600Mi"}});
    assert_eq!(counts(own), [600, 600]);
    let pod = fixture::pod(own);
    assert_eq!(figures(&pod, Rules::PerPod).scheduler.cpu.map(crate::resize::MilliCpu::get), Some(300));
    let limits_only = |value: &mut Value| value["spec"]["resources"] = json!({"limits": {"memory": "600Mi"}});
    assert_eq!(counts(limits_only), [300, 300]);
    let resized = |value: &mut Value| {
        value["spec"]["resources"] = json!({"requests": {"memory": "400Mi"}});
        value["status"]["resources"] = json!({"requests": {"memory": "700Mi"}});
        value["status"]["allocatedResources"] = json!({"memory": "500Mi"});
    };
    assert_eq!(counts(resized), [700, 700]);
    // A newer kubelet says what a pod comes to also where the spec has nothing of its own.
    let said = |value: &mut Value| {
        value["status"]["resources"] = json!({"requests": {"memory": "450Mi"}});
        value["status"]["allocatedResources"] = json!({"memory": "310Mi"});
    };
    assert_eq!(counts(said), [300, 450]);
}

#[test]
fn a_node_is_summed_without_what_has_ended_or_is_elsewhere() {
    let node = fixture::node(|_| {});
    let pods = [
        named("small", |value| requests(value, 0, [50, 50, 50])),
        named("grows", |value| requests(value, 0, [4000, 100, 100])),
        named("ended", |value| value["status"]["phase"] = json!("Succeeded")),
        named("elsewhere", |value| value["spec"]["nodeName"] = json!("node-b")),
        named("leaving", |value| value["metadata"]["deletionTimestamp"] = json!("2026-11-30T00:00:00Z")),
    ];
    let sum = NodeSum::of(&node, &pods, Rules::PerPod);
    let names: Vec<_> = sum.pods.iter().map(|(name, _)| name.name.as_str()).collect();
    assert_eq!(names, ["grows", "leaving", "small"]);
    assert_eq!(sum.sum.scheduler.memory, Some(mib(4200 + 300 + 250)));
    assert_eq!(sum.sum.allocated.memory, Some(mib(300 + 300 + 250)));
    assert_eq!(sum.over(Kind::Memory), (4750 - 3584) << 20);
    assert_eq!(sum.over(Kind::Cpu), 0);
}
