//! Which limits the kubelet should have in force.

use super::*;
use crate::kube::fixture::{self, condition, mib, shrink};
use serde_json::{Value, json};

fn of(edit: impl FnOnce(&mut Value)) -> Option<Expected> {
    expected(&fixture::pod(edit), Version::parse("v1.37.0"))
}

fn pod_memory(edit: impl FnOnce(&mut Value)) -> Limit {
    of(edit).expect("it can be told").pod.memory
}

fn limited(n: u64) -> Limit {
    Limit::Bytes(mib(n))
}

#[test]
fn the_pods_limit_is_the_sum_of_its_containers() {
    let found = of(|_| {}).expect("it can be told");
    assert_eq!(found.pod, PodExpected { memory: limited(650), cpu: Some(MilliCpu::new(900)) });
    let names: Vec<_> = found.containers.iter().map(|(name, one)| (name.as_str(), one.memory)).collect();
    assert_eq!(names, [("proxy", limited(150)), ("main", limited(400)), ("side", limited(100))]);
    assert_eq!(pod_memory(|value| shrink(value, &[])), limited(450));
    assert_eq!(pod_memory(|value| value["spec"]["overhead"] = json!({"memory": "130Mi"})), limited(780));
}

#[test]
fn one_without_a_limit_leaves_the_pod_without_one() {
    let without = |value: &mut Value| {
        let limits =
            value["spec"]["containers"][1]["resources"]["limits"].as_object_mut().expect("an object");
        limits.remove("memory");
    };
    let found = of(without).expect("it can be told");
    assert_eq!((found.pod.memory, found.pod.cpu), (Limit::Max, Some(MilliCpu::new(900))));
    assert_eq!(found.containers[2].1.memory, Limit::Max);
    let with_overhead = |value: &mut Value| {
        without(value);
        value["spec"]["overhead"] = json!({"memory": "130Mi"});
    };
    assert_eq!(pod_memory(with_overhead), Limit::Max, "overhead alone is no limit");
}

#[test]
fn a_pods_own_limit_stands_for_the_sum() {
    let own = |value: &mut Value| {
        value["spec"]["resources"] = json!({"limits": {"memory": "210Mi"}});
        let limits =
            value["spec"]["containers"][1]["resources"]["limits"].as_object_mut().expect("an object");
        limits.remove("memory");
    };
    let found = of(own).expect("it can be told");
    assert_eq!((found.pod.memory, found.pod.cpu), (limited(210), Some(MilliCpu::new(900))));
    assert_eq!(found.containers[2].1.memory, limited(210), "a container without a limit has the pod's");
    assert_eq!(found.containers[1].1.memory, limited(400));
}

#[test]
fn init_containers_count_by_the_version() {
    let init = |value: &mut Value| {
        let list = value["spec"]["initContainers"].as_array_mut().expect("a list");
        list.push(json!({"name": "init", "resources": {"limits": {"memory": "900Mi", "cpu": "1"}}}));
    };
    assert_eq!(pod_memory(init), limited(1050), "with the sidecar before it");
    let unlimited = |value: &mut Value| {
        let list = value["spec"]["initContainers"].as_array_mut().expect("a list");
        list.push(json!({"name": "init"}));
    };
    assert_eq!(pod_memory(unlimited), Limit::Max);
    let older = expected(&fixture::pod(unlimited), Version::parse("v1.35.8")).expect("it can be told");
    assert_eq!(older.pod.memory, limited(650), "its limit is taken with the sidecar's before it");
    let first = |value: &mut Value| {
        let list = value["spec"]["initContainers"].as_array_mut().expect("a list");
        list.insert(0, json!({"name": "init"}));
    };
    let older = expected(&fixture::pod(first), Version::parse("v1.35.8")).expect("it can be told");
    assert_eq!(older.pod.memory, Limit::Max, "no sidecar is before it");
}

#[test]
fn no_class_no_limit() {
    let best_effort = |value: &mut Value| {
        value["status"]["qosClass"] = json!("BestEffort");
        value["spec"]["initContainers"] = json!([]);
        value["spec"]["containers"] = json!([{"name": "main"}]);
    };
    assert_eq!(of(best_effort).expect("it can be told").pod, PodExpected { memory: Limit::Max, cpu: None });
}

#[test]
fn what_is_pending_is_not_in_force() {
    let pending = condition("PodResizePending", "Deferred", "x");
    assert_eq!(pod_memory(|value| shrink(value, std::slice::from_ref(&pending))), limited(650));
    let both = [pending, condition("PodResizeInProgress", "", "")];
    assert_eq!(of(|value| shrink(value, &both)), None);
    assert_eq!(of(|value| value["status"]["phase"] = json!("Failed")), None);
}
