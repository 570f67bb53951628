//! The agent on a node with a real kubelet: what it finds, what its guard does to a kubelet's writes, and whether what a
//! kubelet does by rights looks like drift to it.

use super::cluster::{LogsOnFailure, version};
use super::guest::{MIB, block_on, bytes, kills, output, read};
use super::kubelet::{grown, restarted, two_in_400};
use super::pod::{LONG, Pod, actual_memory, condition, container, is_settled, limits, restarts};
use enforcer_vm_tests::agent_rig::{Agent, says, text};
use serde_json::{Value, json};
use std::time::Duration;

/// Guards, and shrinks nothing by itself.
const GUARDS: [&str; 2] = ["guard.mode=enforce", "agent.reading_interval=1s"];
/// Longer than the sentinel gives a limit that seems to have drifted, and a reading more.
const SETTLED: Duration = Duration::from_secs(15);

fn told(what: &str, text: &str) {
    println!("MEASURED {} with the agent, {what}: {text}", version());
}

fn guarded() -> Value {
    json!({"labels": {"enforcer.dev/policy": "guard"}})
}

/// What it said of a kind.
fn said_of(agent: &Agent, kind: &str) -> Vec<String> {
    let all = agent.said_so_far();
    let of_kind = all.iter().filter(|said| said["kind"] == kind);
    of_kind.map(|said| format!("{} {}", said["target"], text(said))).collect()
}

fn tell_all(agent: &Agent, what: &str) {
    for said in agent.said_so_far() {
        told(what, &format!("{}: {} {}", said["kind"], said["target"], text(&said)));
    }
}

/// It knows the kubelet's pods by the names that the API has; what a kubelet writes, up and down, of memory and CPU,
/// is neither refused nor drift.
pub(crate) fn resizes() {
    block_on(async {
        let _logs = LogsOnFailure;
        let agent = Agent::ready(&GUARDS);
        let containers = vec![container("app", &limits(160, 200)), container("side", &limits(64, 100))];
        let pod = Pod::run_with("seen", containers, guarded(), json!({})).await;
        pod.is_led("app").await;
        pod.lead("app", "grow 10Mi").await;
        let view = agent.seen("app", "read", |view| view.limit.is_some()).await;
        assert_eq!((view.target(), view.policy.as_str()), ("pod/default/seen:app".into(), "guard"));
        assert_eq!(std::path::Path::new("/sys/fs/cgroup").join(&view.cgroup), pod.scope("app"));
        let listed = output("/bin/enforcer", ["ps", "--deadline=60s"]).stdout;
        let listed = String::from_utf8(listed).expect("text");
        assert!(listed.contains("default/seen  app ") && listed.contains("default/seen  side "), "{listed}");
        let settled =
            |memory: &'static str| move |pod: &Value| actual_memory(pod, "app") == memory && is_settled(pod);
        for (memory, cpu, is_as_read) in [(200, 400, "200Mi"), (120, 150, "120Mi"), (121, 155, "121Mi")] {
            let limits = json!({
                "limits": {"memory": format!("{memory}Mi"), "cpu": format!("{cpu}m")},
                "requests": {"cpu": format!("{}m", cpu / 2)},
            });
            pod.resize(&json!({"containers": [{"name": "app", "resources": limits}]})).await;
            let (_, took) = pod.until("is resized", LONG, settled(is_as_read)).await;
            told("resize", &format!("to {memory} MiB and {cpu}m took {:.1} s", took.as_secs_f64()));
            tokio::time::sleep(SETTLED).await;
            let of = |cgroup: &std::path::Path| {
                ["memory.max", "memory.swap.max", "cpu.max", "cpu.weight"]
                    .map(|file| read(cgroup, file))
                    .join(", ")
            };
            told("resize", &format!("container {}; pod {}", of(&pod.scope("app")), of(&pod.slice())));
            let view = agent.seen("app", "read", |view| view.limit == view.runtime_limit).await;
            told("resize", &format!("drift {:?}", view.drift));
        }
        tell_all(&agent, "resize");
        for kind in ["drift", "guard", "mended"] {
            assert_eq!(said_of(&agent, kind), [""; 0]);
        }
        pod.end().await;
        agent.end();
    });
}

/// 400 -> 210 MiB with 240 in use: refused to the kubelet, which says so, and nobody dies.
pub(crate) fn pod_level() {
    block_on(async {
        let _logs = LogsOnFailure;
        let agent = Agent::ready(&GUARDS);
        let pod = two_in_400("kept", guarded()).await;
        let slice = pod.slice();
        agent.seen("two", "guarded", |view| view.policy == "guard" && view.usage.is_some()).await;
        pod.resize(&json!({"resources": {"limits": {"memory": "210Mi"}}})).await;
        let said = agent.heard("the verdict", |said| says(said, "guard", "denied"));
        told("pod level", &format!("{} {}", said["target"], text(&said)));
        let ended = |object: &Value| {
            restarts(object, "one") + restarts(object, "two") > 0
                || condition(object, "PodResizeInProgress").is_some_and(|(reason, _)| reason == "Error")
        };
        let (object, took) = pod.until("is refused", LONG, ended).await;
        told(
            "pod level",
            &format!("{:?} after {:.1} s", condition(&object, "PodResizeInProgress"), took.as_secs_f64()),
        );
        // Its next tries.
        tokio::time::sleep(Duration::from_secs(45)).await;
        for event in pod.events().await {
            told("pod level", &event);
        }
        tell_all(&agent, "pod level");
        assert_eq!((bytes(&slice, "memory.max"), kills(&slice)), (400 * MIB, 0));
        let object = pod.now().await;
        assert_eq!(restarts(&object, "one") + restarts(&object, "two"), 0);
        pod.end().await;
        agent.end();
    });
}

/// What grew after the kubelet looked keeps its limit.
pub(crate) fn growth() {
    block_on(async {
        let _logs = LogsOnFailure;
        let agent = Agent::ready(&GUARDS);
        for index in 0..3 {
            let name = format!("alive-{index}");
            let pod =
                Pod::run_with(&name, vec![container("app", &limits(200, 200))], guarded(), json!({})).await;
            let fared = grown(&pod, 3 * index).await;
            told("growth", &fared.text);
            assert!(!fared.killed, "{}", fared.text);
            assert_eq!(bytes(&pod.scope("app"), "memory.max"), 200 * MIB);
            for event in pod.events().await {
                told("growth", &event);
            }
            pod.end().await;
        }
        tell_all(&agent, "growth");
        agent.end();
    });
}

/// What it sees of a pod's limit that its kubelet left as it was.
pub(crate) fn restart() {
    block_on(async {
        let _logs = LogsOnFailure;
        let agent = Agent::ready(&GUARDS);
        let (pod, _) = restarted("left", guarded()).await;
        let view = agent
            .seen("app", "with its new limit", |view| {
                view.limit.is_some_and(|limit| limit.to_string().starts_with("120"))
            })
            .await;
        tokio::time::sleep(SETTLED).await;
        told(
            "restart",
            &format!("limit {:?}, of the pod {:?}, drift {:?}", view.limit, view.pod_limit, view.drift),
        );
        tell_all(&agent, "restart");
        pod.end().await;
        agent.end();
    });
}
