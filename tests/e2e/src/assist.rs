//! The agent beside a kubelet that lowers limits: what could go through does, and what turns out to be too low goes back,
//! in the kernel and in the API.

use super::cluster::{LogsOnFailure, NODE, version};
use super::guest::{MIB, block_on, bytes, kills, read};
use super::pod::{LONG, Pod, actual_memory, container, is_settled, limits, restarts};
use enforcer_vm_tests::agent_rig::{Agent, says, text};
use serde_json::{Value, json};
use std::time::Instant;

fn told(what: &str, text: &str) {
    println!("MEASURED {} with the agent's help, {what}: {text}", version());
}

fn agent() -> Agent {
    let node = format!("kubernetes.node={NODE}");
    Agent::ready(&[
        "kubernetes.enabled=true",
        &node,
        "kubernetes.kubeconfig=/opt/kubernetes/super-admin.conf",
        "kubernetes.take_back=true",
        "guard.mode=enforce",
        "agent.reading_interval=1s",
        "gate.budget=600s",
    ])
}

pub(crate) async fn cared_for(name: &str) -> Pod {
    let labels = json!({"labels": {"enforcer.dev/policy": "guard"}});
    let pod = Pod::run_with(name, vec![container("app", &limits(160, 200))], labels, json!({})).await;
    pod.is_led("app").await;
    pod.lead("app", "grow 10Mi").await;
    pod
}

fn desired(object: &Value) -> &str {
    object["spec"]["containers"][0]["resources"]["limits"]["memory"].as_str().unwrap_or_default()
}

pub(crate) async fn events_of(pod: &Pod, reason: &str) -> Vec<String> {
    let began = Instant::now();
    loop {
        let found: Vec<_> =
            pod.events().await.into_iter().filter(|event| event.starts_with(reason)).collect();
        if !found.is_empty() {
            return found;
        }
        assert!(began.elapsed() < LONG, "no event {reason}: {:?}", pod.events().await);
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}

/// The status may say that it is done before the pod's cgroup has it.
async fn follows(pod: &Pod, mib: i64) {
    let began = Instant::now();
    while bytes(&pod.slice(), "memory.max") != mib * MIB {
        assert!(began.elapsed() < LONG, "{}", bytes(&pod.slice(), "memory.max"));
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// What the kubelet alone refuses for ever for the sake of clean cache.
pub(crate) fn page_cache() {
    block_on(async {
        let _logs = LogsOnFailure;
        let agent = agent();
        let pod = cared_for("way").await;
        pod.lead("app", "cache 120Mi").await;
        let scope = pod.scope("app");
        assert!(bytes(&scope, "memory.current") > 120 * MIB);
        agent.seen("app", "guarded", |view| view.policy == "guard" && view.usage.is_some()).await;
        pod.resize_memory("app", 100).await;
        let lower = |pod: &Value| actual_memory(pod, "app") == "100Mi" && is_settled(pod);
        let (_, took) = pod.until("goes through", LONG, lower).await;
        told("page cache", &format!("through after {:.1} s", took.as_secs_f64()));
        let verdict = agent.heard("the verdict", |said| says(said, "verdict", "to 100Mi: committed"));
        told("page cache", text(&verdict));
        told("page cache", &events_of(&pod, "ShrinkSafe").await.join("; "));
        let limits = (bytes(&scope, "memory.max"), bytes(&pod.slice(), "memory.max"));
        assert_eq!(limits, (100 * MIB, 100 * MIB));
        assert_eq!(read(&scope, "memory.high"), "max", "the brake is off");
        assert_eq!((kills(&pod.slice()), restarts(&pod.now().await, "app")), (0, 0));
        let drift = agent.said_so_far().iter().filter(|said| said["kind"] == "drift").count();
        assert_eq!(drift, 0);
        // Asked, admitted, reported, the runtime's and the kernel's: all are one.
        let began = Instant::now();
        let figures = ["desired", "admitted", "reported", "allocated", "limit"];
        let all = figures.map(|figure| format!("enforcer_container_memory_{figure}_bytes{{"));
        loop {
            let (_, metrics) = agent.page("/metrics");
            let of_pod = metrics.lines().filter(|line| line.contains("pod=\"way\""));
            let of_pod: Vec<_> = of_pod.filter(|line| line.ends_with(" 104857600")).collect();
            if all.iter().all(|name| of_pod.iter().any(|line| line.starts_with(name))) {
                break;
            }
            assert!(began.elapsed() < LONG, "{of_pod:#?}");
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        }
        pod.end().await;
        agent.end();
    });
}

/// The stop switch takes the hands off: what the kubelet has lowered by then is the kubelet's, and stays.
pub(crate) fn paused() {
    block_on(async {
        let _logs = LogsOnFailure;
        let agent = agent();
        let pod = cared_for("paused").await;
        let scope = pod.scope("app");
        agent.seen("app", "guarded", |view| view.policy == "guard" && view.usage.is_some()).await;
        pod.resize_memory("app", 100).await;
        let lower = |pod: &Value| actual_memory(pod, "app") == "100Mi" && is_settled(pod);
        pod.until("goes through", LONG, lower).await;
        follows(&pod, 100).await;
        let flying = agent.status().await.in_flight;
        assert!(flying.iter().any(|flight| flight.state == "watching"), "{flying:?}");
        assert_ne!(read(&scope, "memory.high"), "max", "there is a brake");
        assert_eq!(agent.ask(&["pause"]).0, Some(0));
        assert_eq!(read(&scope, "memory.high"), "max");
        let said = agent.heard("how it ended", |said| says(said, "verdict", "refused"));
        assert!(text(&said).contains("cancelled"), "{said}");
        let limits = (bytes(&scope, "memory.max"), bytes(&pod.slice(), "memory.max"));
        assert_eq!(limits, (100 * MIB, 100 * MIB), "both are the kubelet's");
        assert_eq!((kills(&pod.slice()), restarts(&pod.now().await, "app")), (0, 0));
        pod.end().await;
        agent.end();
    });
}

/// Its need rises right after the kubelet has lowered the limit.
pub(crate) fn take_back() {
    block_on(async {
        let _logs = LogsOnFailure;
        let agent = agent();
        let pod = cared_for("back").await;
        let scope = pod.scope("app");
        agent.seen("app", "guarded", |view| view.policy == "guard" && view.usage.is_some()).await;
        pod.resize_memory("app", 100).await;
        let lower = |pod: &Value| actual_memory(pod, "app") == "100Mi" && is_settled(pod);
        pod.until("goes through", LONG, lower).await;
        follows(&pod, 100).await;
        let began = Instant::now();
        pod.tell("app", "grow 110Mi");
        let higher =
            |pod: &Value| desired(pod) == "160Mi" && actual_memory(pod, "app") == "160Mi" && is_settled(pod);
        pod.until("has its limit back", LONG, higher).await;
        told(
            "take-back",
            &format!("spec and status agree again {:.1} s after", began.elapsed().as_secs_f64()),
        );
        let limits = (bytes(&scope, "memory.max"), bytes(&pod.slice(), "memory.max"));
        assert_eq!(limits, (160 * MIB, 160 * MIB));
        assert_eq!((kills(&pod.slice()), restarts(&pod.now().await, "app")), (0, 0));
        let said = agent.heard("the end of it", |said| says(said, "verdict", "restored"));
        told("take-back", text(&said));
        let events = events_of(&pod, "ShrinkTakenBack").await;
        assert_eq!(events.len(), 1, "{events:?}");
        told("take-back", &events.join("; "));
        pod.end().await;
        agent.end();
    });
}

/// What is needed can't be taken: refused, with the safe minimum on the pod, and nobody dies.
pub(crate) fn refused() {
    block_on(async {
        let _logs = LogsOnFailure;
        let agent = agent();
        let pod = cared_for("needed").await;
        pod.lead("app", "grow 110Mi").await;
        let scope = pod.scope("app");
        agent.seen("app", "guarded", |view| view.policy == "guard" && view.usage.is_some()).await;
        pod.resize_memory("app", 100).await;
        let event = events_of(&pod, "ShrinkRefused").await.join("; ");
        assert!(event.contains("safe minimum"), "{event}");
        told("refused", &event);
        assert_eq!(bytes(&scope, "memory.max"), 160 * MIB);
        assert_eq!((kills(&pod.slice()), restarts(&pod.now().await, "app")), (0, 0));
        pod.end().await;
        agent.end();
    });
}
