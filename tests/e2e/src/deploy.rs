//! The agent as the manifests of deploy/kubernetes have it: a pod that the kubelet runs from the image of `cargo xtask
//! image`, not privileged, with the rights of its service account.
//!
//! Without controllers and without a network for pods, two things differ from a cluster's: the pod is made from the
//! `DaemonSet`'s template here, and has the node's network and the API server's address told.

use super::api;
use super::assist::{cared_for, events_of};
use super::cluster::{ADDRESS, LogsOnFailure, MOUNTED, NODE, version};
use super::guest::{MIB, block_on, bytes, kills, output, read, run};
use super::pod::{LONG, Pod, actual_memory, is_settled, restarts};
use enforcer_vm_tests::agent_rig::page;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What `cargo xtask e2e` puts into the guest.
const IMAGE: &str = "/opt/enforcer/image.tar";
const MANIFEST: &str = "/opt/enforcer/enforcer.yaml";

const SPACE: &str = "/api/v1/namespaces/enforcer";
const NAME: &str = "enforcer-guest";
/// Where the pod's admin socket is on the node.
const ADMIN: &str = "/run/enforcer/admin.sock";
/// The kubelet looks at a pod again within one to one and a half minutes, and only then brings a changed `ConfigMap`.
const SYNC: Duration = Duration::from_mins(4);

fn told(what: &str, text: &str) {
    println!("MEASURED {} agent as a pod, {what}: {text}", version());
}

fn kubectl(words: &[&str]) {
    let config = format!("--kubeconfig={MOUNTED}/super-admin.conf");
    run(&format!("{MOUNTED}/bin/kubectl"), [config.as_str()].iter().chain(words));
}

/// `enforcer status` on the node, which speaks to the pod's socket.
fn status() -> Value {
    let answer = output("/bin/enforcer", ["status", "--json", "--deadline", "60s"]);
    serde_json::from_slice(&answer.stdout).unwrap_or(Value::Null)
}

async fn until(what: &str, is_so: impl Fn(&Value) -> bool) -> Duration {
    let began = Instant::now();
    loop {
        let status = status();
        if is_so(&status) {
            return began.elapsed();
        }
        assert!(began.elapsed() < SYNC, "{what}: {status:#}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Image, manifests, and what a controller would make: the namespace's certificate of the API server.
async fn install() {
    run("ctr", ["--namespace=k8s.io", "images", "import", IMAGE]);
    kubectl(&["apply", "-f", MANIFEST]);
    let authority = read(Path::new(MOUNTED), "pki/ca.crt");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": authority},
    });
    api::create(&format!("{SPACE}/configmaps"), &map).await;
}

/// Another configuration, from the one that there is.
async fn configure(change: impl FnOnce(&str) -> String) {
    let path = format!("{SPACE}/configmaps/enforcer");
    let map = api::get(&path).await;
    let text = change(map["data"]["enforcer.toml"].as_str().expect("a configuration"));
    let (code, answer) = api::try_patch(&path, &json!({"data": {"enforcer.toml": text}})).await;
    assert_eq!(code, 200, "{answer:#}");
}

/// A pod as the `DaemonSet` would have one on this node.
async fn start() -> Value {
    let set = api::get("/apis/apps/v1/namespaces/enforcer/daemonsets/enforcer").await;
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
    pod["metadata"] = set["spec"]["template"]["metadata"].clone();
    pod["spec"] = set["spec"]["template"]["spec"].clone();
    pod["metadata"]["name"] = NAME.into();
    pod["spec"]["nodeName"] = NODE.into();
    pod["spec"]["hostNetwork"] = true.into();
    let env = pod["spec"]["containers"][0]["env"].as_array_mut().expect("a list");
    env.push(json!({"name": "KUBERNETES_SERVICE_HOST", "value": ADDRESS}));
    env.push(json!({"name": "KUBERNETES_SERVICE_PORT", "value": "6443"}));
    api::create(&format!("{SPACE}/pods"), &pod).await
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Until the API server says so.
async fn pod_until(what: &str, is_so: impl Fn(&str, &Value) -> bool) -> Duration {
    let began = Instant::now();
    let mut watch = api::watch(&format!("{SPACE}/pods?fieldSelector=metadata.name={NAME}")).await;
    let mut last = Value::Null;
    loop {
        let left = SYNC.saturating_sub(began.elapsed());
        let Some((kind, pod)) = watch.next(left).await else {
            let log =
                output("sh", ["-c", &format!("tail -n 40 /var/log/pods/enforcer_{NAME}_*/enforcer/*.log")]);
            panic!("the pod {what}: {:#}\n{}", last["status"], String::from_utf8_lossy(&log.stdout));
        };
        if is_so(&kind, &pod) {
            return began.elapsed();
        }
        last = pod;
    }
}

/// Once: what a cluster is given, with an interval and a budget that an emulated machine can keep.
async fn installed() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    if INSTALLED.get().is_none() {
        install().await;
        configure(|text| {
            let often = text.replace("[agent]\n", "[agent]\nreading_interval = \"1s\"\n");
            format!("{often}\n[guard]\nmode = \"enforce\"\n[gate]\nbudget = \"600s\"\n")
        })
        .await;
        INSTALLED.set(()).expect("once");
    }
}

/// The agent of this node runs.
async fn ready() {
    installed().await;
    start().await;
    let took = pod_until("is ready", |_, pod| is_ready(pod)).await;
    told("made to ready", &format!("{:.1} s", took.as_secs_f64()));
}

/// Has the kubelet lower a limit that it alone would not for the sake of page cache.
async fn lowered(pod: &Pod) {
    pod.lead("app", "cache 120Mi").await;
    assert!(bytes(&pod.scope("app"), "memory.current") > 120 * MIB);
    pod.resize_memory("app", 100).await;
    let lower = |pod: &Value| actual_memory(pod, "app") == "100Mi" && is_settled(pod);
    let (_, took) = pod.until("goes through", LONG, lower).await;
    told("page cache", &format!("through after {:.1} s", took.as_secs_f64()));
}

fn is_alive_and_well(pod: &Value, workload: &Pod) {
    assert_eq!((kills(&workload.slice()), restarts(pod, "app")), (0, 0));
}

/// Told to end with a shrink in flight, it leaves nothing on the node.
async fn ended() {
    let path = format!("{SPACE}/pods/{NAME}");
    let (code, answer) =
        api::call("DELETE", &path, "application/json", String::new()).await.expect("an answer");
    assert!((200..300).contains(&code), "{answer:#}");
    let took = pod_until("is gone", |kind, _| kind == "DELETED").await;
    told("deleted to gone", &format!("{:.1} s", took.as_secs_f64()));
    assert!(!Path::new(ADMIN).exists(), "its socket is gone");
}

pub(crate) fn helps() {
    block_on(async {
        let _logs = LogsOnFailure;
        ready().await;
        let status = status();
        for part in status["parts"].as_array().expect("parts") {
            assert!(["ready", "off"].contains(&part["state"].as_str().unwrap_or_default()), "{part}");
        }
        let workload = cared_for("tended").await;
        let scope = workload.scope("app");
        // From the API by its own account, from the runtime, from the kernel.
        let limit = format!(" {}", 160 * MIB);
        let has = |figure: &str, metrics: &str| {
            let name = format!("enforcer_container_memory_{figure}_bytes{{");
            let lines = metrics.lines().filter(|line| line.starts_with(&name) && line.ends_with(&limit));
            lines.filter(|line| line.contains("pod=\"tended\"")).count() == 1
        };
        let began = Instant::now();
        while !["desired", "allocated", "limit"].iter().all(|figure| has(figure, &page("/metrics").1)) {
            assert!(began.elapsed() < LONG, "{}", page("/metrics").1);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        lowered(&workload).await;
        assert_ne!(read(&scope, "memory.high"), "max", "it watches with a brake on");
        ended().await;
        assert_eq!(read(&scope, "memory.high"), "max");
        assert_eq!(bytes(&scope, "memory.max"), 100 * MIB, "that one is the kubelet's");
        is_alive_and_well(&workload.now().await, &workload);
        workload.end().await;
    });
}

/// One key of the `ConfigMap` stops all actuation, and the same key lets it go on; nobody starts anything anew.
pub(crate) fn pauses() {
    block_on(async {
        let _logs = LogsOnFailure;
        ready().await;
        let workload = cared_for("told").await;
        lowered(&workload).await;
        // Its own account may. What the verdict is depends on how fast this machine is.
        told("event", &events_of(&workload, "Shrink").await.join("; "));
        is_alive_and_well(&workload.now().await, &workload);
        workload.end().await;
        configure(|text| text.replace("paused = false", "paused = true")).await;
        let took = until("paused", |status| status["paused"] == true).await;
        told("paused by the ConfigMap", &format!("after {:.1} s", took.as_secs_f64()));
        configure(|text| text.replace("paused = true", "paused = false")).await;
        let took = until("resumed", |status| status["paused"] == false).await;
        told("resumed by the ConfigMap", &format!("after {:.1} s", took.as_secs_f64()));
        ended().await;
    });
}
