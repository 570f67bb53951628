//! What the API says of a resize, and what is made of it.

use super::*;
use crate::kube::{
    fixture::{self, MIB, condition, shrink},
    state::{Life, Qos, Source},
};
use serde_json::{Value, json};

fn check(edit: impl FnOnce(&mut Value), name: &str, changes: &[&str]) -> Resize {
    let resize = Resize::of(&fixture::pod(edit));
    assert_eq!(resize.name(), name, "{resize:?}");
    let found: Vec<_> = resize.changes().iter().map(ToString::to_string).collect();
    assert_eq!(found, changes, "{resize:?}");
    resize
}

#[test]
fn a_pod_is_read_with_all_three_values() {
    let pod = fixture::pod(|_| {});
    assert_eq!((pod.name.namespace.as_str(), pod.name.name.as_str(), pod.generation), ("shop", "web-1", 3));
    assert_eq!((pod.qos, pod.source, pod.life), (Qos::Burstable, Source::Api, Life::Running));
    let names: Vec<_> = pod.containers.iter().map(|one| (one.name.as_str(), one.role)).collect();
    assert_eq!(names, [("proxy", Role::Sidecar), ("main", Role::Regular), ("side", Role::Regular)]);
    let main = pod.container("main").expect("is there");
    assert_eq!((main.id.as_str(), main.running, main.restarts), ("id-of-main", true, 1));
    assert_eq!(main.level.desired.limits.memory, Some(fixture::mib(400)));
    assert_eq!(
        main.level.allocated.and_then(|amounts| amounts.cpu).map(crate::resize::MilliCpu::get),
        Some(100)
    );
    assert_eq!(main.level.actual.and_then(|actual| actual.limits.memory), Some(fixture::mib(400)));
    let writer = pod.last_resize.clone().expect("somebody wrote");
    assert_eq!((writer.manager.as_str(), writer.at_us), ("vpa-updater", Some(1_795_998_000_000_000)));
    assert_eq!(pod.allocated_limits(&main.level), Some(main.level.desired.limits));
}

#[test]
fn nothing_in_flight() {
    check(|_| {}, "none", &[]);
    // A page or less, and what cpu.weight loses, is no change.
    let near = |value: &mut Value| {
        value["status"]["containerStatuses"][0]["resources"]["limits"]["memory"] =
            json!((400 * MIB - 1).to_string());
        value["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"] = json!("78m");
    };
    check(near, "none", &[]);
}

#[test]
fn asked_actuating_stuck() {
    let change = ["main memory limit 400Mi -> 200Mi"];
    let unseen = |value: &mut Value| {
        shrink(value, &[]);
        value["status"]["observedGeneration"] = json!(3);
    };
    let resize = check(unseen, "in flight", &change);
    assert!(matches!(resize, Resize::InFlight { phase: Phase::Asked, since_us: None, .. }));
    assert!(resize.changes()[0].is_shrink());
    let resize =
        check(|value| shrink(value, &[condition("PodResizeInProgress", "", "")]), "in flight", &change);
    let since = 1_795_998_600_000_000;
    assert!(
        matches!(resize, Resize::InFlight { phase: Phase::Actuating, since_us: Some(at), .. } if at == since)
    );
    let resize = check(|value| shrink(value, &[]), "in flight", &change);
    assert!(matches!(resize, Resize::InFlight { phase: Phase::Unexplained, .. }));
    let words = "cannot decrease memory limits: [attempting to set container \"main\" memory limit ...]";
    let stuck =
        check(|value| shrink(value, &[condition("PodResizeInProgress", "Error", words)]), "error", &change);
    assert!(matches!(stuck, Resize::Error { condition, .. } if condition.message == words));
}

#[test]
fn pending_comes_before_in_progress() {
    let deferred = condition("PodResizePending", "Deferred", "Node didn't have enough resource: memory");
    let both = [condition("PodResizeInProgress", "Error", "x"), deferred];
    check(|value| shrink(value, &both), "deferred", &["main memory limit 400Mi -> 200Mi"]);
    let infeasible =
        [condition("PodResizePending", "Infeasible", "In-place resize of static-pods is not supported")];
    check(|value| shrink(value, &infeasible), "infeasible", &["main memory limit 400Mi -> 200Mi"]);
    // One that does not hold says nothing.
    let over = |value: &mut Value| {
        let mut over = condition("PodResizePending", "Deferred", "");
        over["status"] = json!("False");
        value["status"]["conditions"] = json!([over]);
    };
    check(over, "none", &[]);
}

#[test]
fn what_was_admitted_follows_from_what_is_pending() {
    let of = |conditions: &[Value]| {
        let pod = fixture::pod(|value| shrink(value, conditions));
        let main = pod.container("main").expect("is there");
        pod.allocated_limits(&main.level).map(|limits| limits.memory)
    };
    let (two, four) = (Some(Some(fixture::mib(200))), Some(Some(fixture::mib(400))));
    let pending = condition("PodResizePending", "Deferred", "");
    let progress = condition("PodResizeInProgress", "", "");
    assert_eq!(of(&[]), two);
    assert_eq!(of(std::slice::from_ref(&progress)), two);
    assert_eq!(of(std::slice::from_ref(&pending)), four, "it was not admitted");
    assert_eq!(of(&[pending, progress]), None, "one before it is on its way");
    let unseen = fixture::pod(|value| value["metadata"]["generation"] = json!(9));
    assert_eq!(unseen.allocated_limits(&unseen.containers[0].level), None);
}

#[test]
fn pod_level_and_several_at_once() {
    let edit = |value: &mut Value| {
        value["spec"]["resources"] = json!({"limits": {"memory": "300Mi"}, "requests": {"memory": "300Mi"}});
        value["status"]["resources"] =
            json!({"limits": {"memory": "600Mi"}, "requests": {"memory": "300Mi"}});
        value["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("2");
        value["spec"]["containers"][1]["resources"]["limits"]["memory"] = json!("90Mi");
        value["spec"]["initContainers"][0]["resources"]["limits"]["memory"] = json!("160Mi");
    };
    check(
        edit,
        "in flight",
        &[
            "pod memory limit 600Mi -> 300Mi",
            "proxy memory limit 150Mi -> 160Mi",
            "main cpu limit 500m -> 2000m",
            "side memory limit 100Mi -> 90Mi",
        ],
    );
    // One that does not run takes it when it starts.
    let stopped = |value: &mut Value| {
        value["spec"]["containers"][1]["resources"]["limits"]["memory"] = json!("90Mi");
        value["status"]["containerStatuses"][1]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    };
    check(stopped, "none", &[]);
}

#[test]
fn static_guaranteed_and_restarting_pods_are_told() {
    let is_static = |edit: &dyn Fn(&mut Value)| fixture::pod(|value| edit(value)).source == Source::Static;
    assert!(is_static(
        &|value| value["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"})
    ));
    assert!(is_static(
        &|value| value["metadata"]["annotations"] = json!({"kubernetes.io/config.source": "file"})
    ));
    assert!(!is_static(
        &|value| value["metadata"]["annotations"] = json!({"kubernetes.io/config.source": "api"})
    ));
    let qos = |limits: &Value, requests: &Value| {
        let pod = fixture::pod(|value| {
            value["status"].as_object_mut().expect("an object").remove("qosClass");
            value["spec"]["initContainers"] = json!([]);
            value["spec"]["containers"] =
                json!([{"name": "a", "resources": {"limits": limits, "requests": requests}}]);
        });
        pod.qos
    };
    let full = json!({"memory": "1Mi", "cpu": "1"});
    assert_eq!(qos(&full, &full), Qos::Guaranteed);
    assert_eq!(
        qos(&full, &json!({"memory": "1Mi"})),
        Qos::Guaranteed,
        "a request that is not said is the limit"
    );
    assert_eq!(qos(&full, &json!({"memory": "1Ki"})), Qos::Burstable);
    assert_eq!(qos(&json!({"memory": "1Mi"}), &json!({})), Qos::Burstable);
    assert_eq!(qos(&json!({}), &json!({"cpu": "0"})), Qos::BestEffort);
    let pod = fixture::pod(|value| {
        value["spec"]["containers"][0]["resizePolicy"][1]["restartPolicy"] = json!("RestartContainer");
    });
    let main = pod.container("main").expect("is there");
    assert!(main.restart_on.memory && !main.restart_on.cpu);
}

#[test]
fn what_is_missing_long_or_hostile_is_bounded() {
    let bare = crate::kube::resources::pod(&k8s_openapi::api::core::v1::Pod::default());
    assert_eq!((bare.life, bare.qos, Resize::of(&bare)), (Life::Unknown, Qos::BestEffort, Resize::None));
    let long = "ä\u{1b}".repeat(4000);
    let pod = fixture::pod(|value| {
        shrink(value, &[condition("PodResizePending", "Deferred", &long)]);
        value["metadata"]["name"] = json!(long);
        let many: Vec<_> = (0..500).map(|n| json!({"name": format!("c{n}")})).collect();
        value["spec"]["containers"] = json!(many);
    });
    assert!(pod.name.name.len() <= crate::kube::state::TEXT_BYTES_MAX);
    assert!(pod.pending.is_some_and(|pending| pending.message.len() <= crate::kube::state::TEXT_BYTES_MAX));
    assert_eq!((pod.containers.len(), pod.containers_left_out), (128, 373));
}
