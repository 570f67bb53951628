//! Each reason, from what kubelets and API servers say.

use super::*;
use crate::kube::{
    fixture::{self, MIB, condition, mib, named, shrink},
    flapping,
};
use serde_json::{Value, json};

/// An hour after the condition came.
const NOW_US: u64 = 1_796_002_200_000_000;

struct World {
    pod: PodState,
    node: NodeState,
    pods: Vec<PodState>,
    kernel: Option<Kernel>,
}

impl World {
    fn of(edit: impl FnOnce(&mut Value)) -> Self {
        Self { pod: fixture::pod(edit), node: fixture::node(|_| {}), pods: Vec::new(), kernel: None }
    }

    fn stuck(kind: &str, reason: &str, message: &str) -> Self {
        Self::of(|value| shrink(value, &[condition(kind, reason, message)]))
    }

    fn usage(mut self, container: Option<&str>, current: u64, limit: u64, floor: Option<u64>) -> Self {
        let usage =
            Usage { current: Some(mib(current)), limit: Limit::Bytes(mib(limit)), floor: floor.map(mib) };
        let kernel = self.kernel.get_or_insert_default();
        match container {
            Some(name) => drop(kernel.containers.insert(name.into(), usage)),
            None => kernel.pod = Some(usage),
        }
        self
    }

    fn reasons(&self) -> Vec<Reason> {
        let given = Given {
            pod: &self.pod,
            node: Some(&self.node),
            pods: &self.pods,
            kernel: self.kernel.as_ref(),
            flapping: None,
        };
        reasons(&given)
    }

    /// The only reason, which has this code.
    fn only(&self, code: Code) -> Reason {
        let found = self.reasons();
        assert_eq!(found.iter().map(|reason| reason.code).collect::<Vec<_>>(), [code], "{found:?}");
        let [reason] = <[Reason; 1]>::try_from(found).expect("one");
        assert!(reason.what.ends_with('.') && !reason.todo.is_empty(), "{reason:?}");
        reason
    }
}

fn evidence<'a>(reason: &'a Reason, name: &str) -> &'a str {
    let found = reason.evidence.iter().find(|(found, _)| found == name);
    found.map_or_else(|| panic!("no {name}: {reason:?}"), |(_, value)| value.as_str())
}

#[test]
fn codes_are_unique_and_written_alike() {
    let names: std::collections::BTreeSet<_> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(names.len(), Code::ALL.len());
    assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')));
}

#[test]
fn nothing_is_wrong_with_a_pod_at_rest_or_on_its_way() {
    assert_eq!(World::of(|_| {}).reasons(), []);
    assert_eq!(World::stuck("PodResizeInProgress", "", "").reasons(), []);
}

#[test]
fn deferred_says_what_lacks_and_who_holds_it() {
    let words = format!(
        "Node didn't have enough resource: memory, requested: {}, used: {}, capacity: {}",
        600 * MIB,
        3200 * MIB,
        3584 * MIB
    );
    let mut world = World::stuck("PodResizePending", "Deferred", &words);
    let holding = |name: &str, memory: &str| {
        named(name, |value| {
            value["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!(memory);
            value["status"]["containerStatuses"][0]["allocatedResources"]["memory"] = json!(memory);
        })
    };
    world.pods = (1..=7).map(|n| holding(&format!("pod-{n}"), &format!("{n}00Mi"))).collect();
    world.pods.push(world.pod.clone());
    world.pods.push(named("ended", |value| value["status"]["phase"] = json!("Failed")));
    let reason = world.only(Code::DeferredMemory);
    assert_eq!(reason.what, "The node lacks 216Mi of memory requests for it.");
    assert_eq!(evidence(&reason, "requested by the others"), "3.1Gi");
    assert_eq!(evidence(&reason, "held by shop/pod-7"), "900Mi", "its other containers are counted too");
    assert_eq!(evidence(&reason, "held by others"), "2 more pods");
    let cpu = "Node didn't have enough resource: cpu, requested: 2000, used: 2500, capacity: 3800";
    let reason = World::stuck("PodResizePending", "Deferred", cpu).only(Code::DeferredCpu);
    assert_eq!(reason.what, "The node lacks 700m of cpu requests for it.");
    let reason = World::stuck("PodResizePending", "Deferred", "odd words").only(Code::DeferredOther);
    assert_eq!(evidence(&reason, "the kubelet says"), "odd words");
    let cut = "Node didn't have enough resource: memory, requested: 99999999999999999999999";
    let reason = World::stuck("PodResizePending", "Deferred", cut).only(Code::DeferredMemory);
    assert_eq!(reason.what, "The node has not enough memory requests left for it.");
}

#[test]
fn infeasible_says_which_policy() {
    for (words, code) in [
        ("InPlacePodVerticalScaling is disabled", Code::InfeasibleFeatureOff),
        ("InPlacePodLevelResourcesVerticalScaling is disabled", Code::InfeasiblePodLevelOff),
        ("In-place resize of static-pods is not supported", Code::InfeasibleStaticPod),
        ("In-place resize of containers with swap is not supported.", Code::InfeasibleSwap),
        (
            "Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"static\"",
            Code::InfeasibleCpuManager,
        ),
        (
            "Resize is infeasible for Guaranteed Pods alongside Memory Manager policy \"static\"",
            Code::InfeasibleMemoryManager,
        ),
        ("Memory-backed emptyDir volume resize is disabled", Code::InfeasibleMemoryVolume),
        ("odd words", Code::InfeasibleOther),
    ] {
        let reason = World::stuck("PodResizePending", "Infeasible", words).only(code);
        assert_eq!(evidence(&reason, "the kubelet says"), words);
        assert_eq!(evidence(&reason, "the kubelet's version"), "1.35");
    }
    let words = format!(
        "Node didn't have enough capacity: memory, requested: {}, capacity: {}",
        8192 * MIB,
        3584 * MIB
    );
    let reason = World::stuck("PodResizePending", "Infeasible", &words).only(Code::InfeasibleCapacity);
    assert_eq!(
        (evidence(&reason, "asked for"), evidence(&reason, "the node has for pods")),
        ("8Gi", "3.5Gi")
    );
}

/// As a kubelet says it; the usage is the pod's.
fn too_low() -> String {
    format!(
        "cannot decrease memory limits: attempting to set container \"main\" memory limit ({}) below current usage ({})",
        200 * MIB,
        310 * MIB
    )
}

#[test]
fn usage_above_the_limit_is_told_apart_by_what_it_is_made_of() {
    let world = || World::stuck("PodResizeInProgress", "Error", &too_low());
    let reason = world().only(Code::ErrorUsage);
    assert_eq!(evidence(&reason, "the kubelet's figure (of the whole pod)"), "310Mi");
    let reason = world().usage(Some("main"), 250, 400, Some(20)).only(Code::ErrorUsagePageCache);
    assert!(reason.what.contains("20Mi of it can't be reclaimed"), "{reason:?}");
    assert_eq!((evidence(&reason, "usage now"), evidence(&reason, "of which stays")), ("250Mi", "20Mi"));
    let reason = world().usage(Some("main"), 250, 400, Some(240)).only(Code::ErrorUsageResident);
    assert!(reason.todo.contains("more than 240Mi"), "{reason:?}");
    let reason = world().usage(Some("main"), 150, 400, Some(120)).only(Code::ErrorUsageStale);
    assert_eq!(evidence(&reason, "usage now"), "150Mi");
    // The pod's and a container's are told each.
    let both = format!(
        "cannot decrease memory limits: [attempting to set pod memory limit ({}) below current usage ({}), {}]",
        350 * MIB,
        360 * MIB,
        too_low().trim_start_matches("cannot decrease memory limits: ")
    );
    let world = World::stuck("PodResizeInProgress", "Error", &both).usage(None, 360, 650, Some(100));
    let found: Vec<_> = world
        .reasons()
        .iter()
        .map(|reason| (reason.code, evidence(reason, "new limit").to_owned()))
        .collect();
    assert_eq!(found, [(Code::ErrorUsagePageCache, "350Mi".into()), (Code::ErrorUsage, "200Mi".into())]);
}

#[test]
fn other_errors() {
    for (words, code) in [
        ("cannot decrease memory limits: missing container \"main\" memory usage", Code::ErrorNoUsage),
        ("unable to read memory usage for pod \"web-1_shop(1)\"", Code::ErrorNoUsage),
        ("failed to update container: runc: write memory.max: device or resource busy", Code::ErrorRuntime),
        ("attempting to set nonsense", Code::ErrorRuntime),
        ("attempting to set container \"main", Code::ErrorRuntime),
    ] {
        let reason = World::stuck("PodResizeInProgress", "Error", words).only(code);
        assert_eq!(evidence(&reason, "the kubelet says"), words);
    }
}

#[test]
fn refusals_of_the_api_server() {
    let of = |status, message: &str| {
        of_refusal(&Refusal { status, reason: "Forbidden".into(), message: message.into() })
    };
    let quota = "pods \"web-1\" is forbidden: exceeded quota: team, requested: limits.memory=1Gi,requests.memory=1Gi, \
                 used: limits.memory=3Gi,requests.memory=2Gi, limited: limits.memory=3584Mi,requests.memory=2560Mi";
    let reason = of(403, quota);
    assert_eq!(reason.code, Code::RefusedQuota);
    assert_eq!(evidence(&reason, "quota"), "team");
    assert_eq!(evidence(&reason, "more asked for"), "limits.memory=1Gi,requests.memory=1Gi");
    assert_eq!(evidence(&reason, "used"), "limits.memory=3Gi,requests.memory=2Gi");
    assert_eq!(evidence(&reason, "at most"), "limits.memory=3584Mi,requests.memory=2560Mi");
    for (status, message, code) in [
        (403, "maximum memory usage per Container is 1Gi, but limit is 2Gi", Code::RefusedLimitRange),
        (
            403,
            "memory max limit to request ratio per Pod is 2, but provided ratio is 3.0",
            Code::RefusedLimitRange,
        ),
        (
            422,
            "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing",
            Code::RefusedQosChange,
        ),
        (
            422,
            "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
            Code::RefusedRemoval,
        ),
        (
            403,
            "node didn't have enough allocatable resources: memory, requested: 8589934592, allocatable: 3758096384",
            Code::RefusedNodeCapacity,
        ),
        (
            403,
            "pod update requires features X which are not available on node \"node-a\"",
            Code::RefusedNodeFeature,
        ),
        (422, "spec: Forbidden: Pod running on node without support for resize", Code::RefusedNodeFeature),
        (422, "Forbidden: static pods cannot be resized", Code::RefusedStaticPod),
        (
            403,
            "pods \"web-1\" is forbidden: User \"system:serviceaccount:x:y\" cannot patch resource \"pods/resize\" in API group",
            Code::RefusedNotAllowed,
        ),
        (
            403,
            "ValidatingAdmissionPolicy 'enforcer-own-node' with binding 'b' denied request: x",
            Code::RefusedPolicy,
        ),
        (
            422,
            "spec.containers[0].resources.requests: Invalid value: \"300Mi\": must be less than or equal to memory limit",
            Code::RefusedInvalid,
        ),
        (403, "odd words", Code::RefusedOther),
    ] {
        let reason = of(status, message);
        assert_eq!(reason.code, code, "{message}");
        assert_eq!(evidence(&reason, "the API server says"), message);
    }
    // Cut or hostile words do not end it.
    assert_eq!(of(403, "exceeded quota: ").code, Code::RefusedQuota);
    assert_eq!(of(403, "exceeded quota: x, limited: ").code, Code::RefusedQuota);
}

#[test]
fn a_kubelet_that_does_not_act() {
    let unseen = |value: &mut Value| {
        shrink(value, &[]);
        value["status"]["observedGeneration"] = json!(3);
    };
    let mut world = World::of(unseen);
    let reason = world.only(Code::KubeletBehind);
    assert_eq!((evidence(&reason, "generation"), evidence(&reason, "observed")), ("4", "3"));
    world.node = fixture::node(|value| {
        value["status"]["conditions"][1] = json!({"type": "Ready", "status": "Unknown",
            "message": "Kubelet stopped posting node status.", "lastTransitionTime": "2026-11-30T00:40:00Z"});
    });
    let codes: Vec<_> = world.reasons().iter().map(|reason| reason.code).collect();
    assert_eq!(codes, [Code::KubeletBehind, Code::NodeSilent]);
    assert_eq!(evidence(&world.reasons()[1], "since"), "2026-11-30T00:40:00Z");
    world.node = fixture::node(|value| {
        value["status"]["conditions"][1]["status"] = json!("False");
        value["status"]["conditions"][1]["message"] = json!("PLEG is not healthy");
    });
    assert_eq!(evidence(&world.reasons()[1], "the kubelet says"), "PLEG is not healthy");
    // It is nobody's business where nothing is in flight.
    world.pod = fixture::pod(|_| {});
    assert_eq!(world.reasons(), []);
}

#[test]
fn what_nobody_explains() {
    let reason = World::of(|value| shrink(value, &[])).only(Code::Unexplained);
    assert_eq!(evidence(&reason, "differs"), "main memory limit 400Mi -> 200Mi");
}

#[test]
fn a_restart_for_the_change() {
    let world = World::of(|value| {
        shrink(value, &[condition("PodResizeInProgress", "", "")]);
        value["spec"]["containers"][0]["resizePolicy"][1]["restartPolicy"] = json!("RestartContainer");
    });
    let reason = world.only(Code::RestartContainer);
    assert!(reason.what.starts_with("Container main is restarted"), "{reason:?}");
}

#[test]
fn a_container_without_a_limit() {
    let edit = |value: &mut Value| {
        shrink(value, &[condition("PodResizeInProgress", "", "")]);
        let limits =
            value["spec"]["containers"][1]["resources"]["limits"].as_object_mut().expect("an object");
        limits.remove("memory");
    };
    let reason = World::of(edit).only(Code::ContainerWithoutLimit);
    assert_eq!(evidence(&reason, "without a limit"), "side");
}

fn own_decrease(value: &mut Value) {
    value["spec"]["resources"] = json!({"limits": {"memory": "210Mi"}});
    value["status"]["resources"] = json!({"limits": {"memory": "400Mi"}});
    value["status"]["conditions"] = json!([condition("PodResizeInProgress", "", "")]);
}

#[test]
fn the_pods_own_limit_is_compared_with_nothing() {
    let reason = World::of(own_decrease).only(Code::UncheckedPodDecrease);
    assert_eq!(evidence(&reason, "change"), "pod memory limit 400Mi -> 210Mi");
    let reason = World::of(own_decrease).usage(None, 240, 400, None).only(Code::UncheckedPodDecrease);
    assert!(reason.what.contains("240Mi in use") && reason.what.contains("are killed"), "{reason:?}");
    // With a container's memory, or one that takes the pod's, the kubelet compares.
    let with_container = |value: &mut Value| {
        own_decrease(value);
        value["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("150Mi");
    };
    assert_eq!(World::of(with_container).reasons(), []);
    let inherits = |value: &mut Value| {
        own_decrease(value);
        for list in ["spec", "status"] {
            let key = if list == "spec" { "containers" } else { "containerStatuses" };
            let limits = value[list][key][1]["resources"]["limits"].as_object_mut().expect("an object");
            limits.remove("memory");
        }
    };
    assert_eq!(World::of(inherits).reasons(), []);
}

#[test]
fn the_pods_cgroup_left_behind() {
    let restarted = |value: &mut Value| {
        value["spec"]["containers"][0]["resizePolicy"][1]["restartPolicy"] = json!("RestartContainer");
    };
    let reason = World::of(restarted).usage(None, 100, 750, None).only(Code::PodCgroupLeftBehind);
    assert_eq!((evidence(&reason, "pod's memory.max"), evidence(&reason, "should be")), ("750Mi", "650Mi"));
    assert_eq!(evidence(&reason, "restarted for a resize"), "main");
    assert_eq!(World::of(restarted).usage(None, 100, 650, None).reasons(), []);
    // Without the kernel's word the kubelet's is taken.
    let said = |value: &mut Value| value["status"]["resources"] = json!({"limits": {"memory": "750Mi"}});
    World::of(said).only(Code::PodCgroupLeftBehind);
    assert_eq!(World::of(said).usage(None, 100, 650, None).reasons(), []);
}

#[test]
fn flapping_names_the_writers() {
    let mut tracker = flapping::Tracker::default();
    for (at, (mib, manager)) in
        [(400, ""), (200, "vpa"), (400, "helm"), (200, "vpa"), (400, "helm")].into_iter().enumerate()
    {
        let pod = fixture::pod(|value| {
            value["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!(format!("{mib}Mi"));
            value["metadata"]["managedFields"][2]["manager"] = json!(manager);
        });
        tracker.note(&pod, NOW_US + at as u64);
    }
    let world = World::of(|_| {});
    let found = tracker.of(&world.pod.uid, "main", NOW_US + 9).expect("flaps");
    let given = Given { pod: &world.pod, node: None, pods: &[], kernel: None, flapping: Some(&found) };
    let found = reasons(&given);
    assert_eq!(found[0].code, Code::Flapping);
    assert_eq!(evidence(&found[0], "writers"), "helm, vpa");
    assert_eq!(evidence(&found[0], "between"), "200Mi, 400Mi");
    assert_eq!(evidence(&found[0], "turns"), "3");
}

#[test]
fn other_peoples_words_are_bounded() {
    let long = format!(
        "{}{}",
        "attempting to set pod memory limit (1) below current usage (2), ".repeat(200),
        "x".repeat(9000)
    );
    let found = World::stuck("PodResizeInProgress", "Error", &long).reasons();
    assert!(found.len() <= 16, "{}", found.len());
    assert!(found.iter().flat_map(|reason| &reason.evidence).all(|(_, value)| value.len() <= 1024));
}
