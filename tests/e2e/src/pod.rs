//! Pods whose containers do as the test says, and what there is of them: in the API, in the kernel, in their logs.

use super::api::{self, Answer};
use super::cluster::NODE;
use super::containerd::IMAGE;
use super::guest::read;
use enforcer_vm_tests::scratch::MOUNT;
use enforcer_vm_tests::workload::PROGRAM;
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PODS: &str = "/api/v1/namespaces/default/pods";
/// What anything may take that is not measured.
pub(crate) const LONG: Duration = Duration::from_mins(4);

/// A container that holds what it is told to hold (`enforcer-workload steps`), with these resources.
pub(crate) fn container(name: &str, resources: &Value) -> Value {
    // Both ends of the pipe are its own, so that it never ends.
    let script = format!("mkfifo /go; exec 3<>/go; exec {PROGRAM} steps --file /data <&3");
    json!({
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/bin/busybox", "sh", "-c", script],
        "resources": resources,
    })
}

/// Memory and CPU: limits as given, requests of half of them.
pub(crate) fn limits(memory_mib: u32, milli_cpu: u32) -> Value {
    json!({
        "limits": {"memory": format!("{memory_mib}Mi"), "cpu": format!("{milli_cpu}m")},
        "requests": {"memory": format!("{}Mi", memory_mib / 4), "cpu": format!("{}m", milli_cpu / 2)},
    })
}

/// A pod in the namespace `default`.
pub(crate) struct Pod {
    pub(crate) name: String,
    /// As it was when all its containers had started.
    object: Value,
}

impl Pod {
    /// Made, and all its containers run.
    pub(crate) async fn run(name: &str, containers: Vec<Value>) -> Self {
        Self::run_with(name, containers, json!({}), json!({})).await
    }

    /// The same with more in its metadata and in its specification.
    pub(crate) async fn run_with(name: &str, containers: Vec<Value>, metadata: Value, spec: Value) -> Self {
        let mut object = json!({"apiVersion": "v1", "kind": "Pod"});
        object["metadata"] = metadata;
        object["spec"] = spec;
        object["metadata"]["name"] = name.into();
        for (key, value) in [
            ("nodeName", NODE.into()),
            ("hostNetwork", true.into()),
            ("automountServiceAccountToken", false.into()),
            ("enableServiceLinks", false.into()),
            ("terminationGracePeriodSeconds", 1.into()),
            ("containers", containers.into()),
        ] {
            object["spec"][key] = value;
        }
        api::create(PODS, &object).await;
        let mut pod = Self { name: name.to_owned(), object };
        let (object, _) = pod.until("runs", LONG, all_run).await;
        pod.object = object;
        pod
    }

    fn path(&self) -> String {
        format!("{PODS}/{}", self.name)
    }

    pub(crate) async fn now(&self) -> Value {
        api::get(&self.path()).await
    }

    /// Waits until the API says so: the pod, and how long it took.
    pub(crate) async fn until(
        &self,
        what: &str,
        longest: Duration,
        is_so: impl Fn(&Value) -> bool,
    ) -> (Value, Duration) {
        match self.within(longest, is_so).await {
            Ok(found) => found,
            Err(last) => panic!("{} {what}: not within {longest:?}: {:#}", self.name, last["status"]),
        }
    }

    /// The same, where it may not come to be: then the pod as it was at last.
    pub(crate) async fn within(
        &self,
        longest: Duration,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<(Value, Duration), Value> {
        let began = Instant::now();
        let mut watch = api::watch(&format!("{PODS}?fieldSelector=metadata.name={}", self.name)).await;
        let mut last = Value::Null;
        loop {
            let left = longest.saturating_sub(began.elapsed());
            match watch.next(left).await {
                None => return Err(last),
                Some((kind, object)) => {
                    assert_ne!(kind, "ERROR", "{object:#}");
                    if is_so(&object) {
                        return Ok((object, began.elapsed()));
                    }
                    last = object;
                }
            }
        }
    }

    /// A patch of `pods/resize`.
    pub(crate) async fn try_resize(&self, spec: &Value) -> Answer {
        api::try_patch(&format!("{}/resize", self.path()), &json!({"spec": spec})).await
    }

    /// One that must be taken.
    pub(crate) async fn resize(&self, spec: &Value) -> Value {
        let (status, answer) = self.try_resize(spec).await;
        assert_eq!(status, 200, "{answer:#}");
        answer
    }

    /// Another memory limit of a container's.
    pub(crate) async fn resize_memory(&self, container: &str, mib: u32) {
        let limits = json!({"limits": {"memory": format!("{mib}Mi")}});
        self.resize(&json!({"containers": [{"name": container, "resources": limits}]})).await;
    }

    fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().expect("a UID")
    }

    /// Its cgroup, as the systemd driver names it.
    pub(crate) fn slice(&self) -> PathBuf {
        let uid = self.uid().replace('-', "_");
        let kubepods = Path::new(MOUNT).join("kubepods.slice");
        match self.object["status"]["qosClass"].as_str().expect("a class") {
            "Guaranteed" => kubepods.join(format!("kubepods-pod{uid}.slice")),
            class => {
                let class = class.to_lowercase();
                kubepods
                    .join(format!("kubepods-{class}.slice"))
                    .join(format!("kubepods-{class}-pod{uid}.slice"))
            }
        }
    }

    /// A container's cgroup, as long as it is not started anew.
    pub(crate) fn scope(&self, container: &str) -> PathBuf {
        self.scope_in(&self.object, container)
    }

    /// The same as a later state of the pod has it.
    pub(crate) fn scope_in(&self, object: &Value, container: &str) -> PathBuf {
        let id = status_of(object, container)["containerID"].as_str().expect("an id");
        self.slice().join(format!("cri-containerd-{}.scope", id.trim_start_matches("containerd://")))
    }

    /// Has a container do something, `grow 10Mi` say, and waits until it has.
    pub(crate) async fn lead(&self, container: &str, step: &str) {
        let before = self.answers(container);
        self.tell(container, step);
        let began = Instant::now();
        while self.answers(container) == before {
            assert!(began.elapsed() < LONG, "{step}: {}", self.log(container));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Has it do something, and does not wait.
    pub(crate) fn tell(&self, container: &str, step: &str) {
        let pids = read(&self.scope(container), "cgroup.procs");
        let pid = pids.lines().next().expect("a process");
        let pipe = format!("/proc/{pid}/root/go");
        let mut pipe = fs::File::options().write(true).open(pipe).expect("it reads");
        writeln!(pipe, "{step}").expect("it is told");
    }

    fn answers(&self, container: &str) -> usize {
        self.log(container).lines().filter(|line| line.contains(" stdout F ok ")).count()
    }

    /// What a container printed since its first start.
    fn log(&self, container: &str) -> String {
        let folder = format!("/var/log/pods/default_{}_{}/{container}/0.log", self.name, self.uid());
        fs::read_to_string(folder).unwrap_or_default()
    }

    /// Until a container is ready to be led.
    pub(crate) async fn is_led(&self, container: &str) {
        let began = Instant::now();
        while !self.log(container).contains(" stdout F ready ") {
            assert!(began.elapsed() < LONG, "it is ready: {}", self.log(container));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Its events, as `Reason: message`.
    pub(crate) async fn events(&self) -> Vec<String> {
        let path =
            format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={}", self.name);
        let list = api::get(&path).await;
        let items = list["items"].as_array().expect("a list").iter();
        items
            .map(|event| {
                format!("{} x{}: {}", text(&event["reason"]), event["count"], text(&event["message"]))
            })
            .collect()
    }

    /// Deletes it and waits until the kubelet has ended it.
    pub(crate) async fn end(self) {
        let mut watch = api::watch(&format!("{PODS}?fieldSelector=metadata.name={}", self.name)).await;
        let (status, answer) =
            api::call("DELETE", &self.path(), "application/json", String::new()).await.expect("an answer");
        assert!((200..300).contains(&status), "{answer:#}");
        loop {
            let Some((kind, _)) = watch.next(LONG).await else { panic!("{} does not end", self.name) };
            if kind == "DELETED" {
                return;
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What the API has of a container's state.
pub(crate) fn status_of<'a>(object: &'a Value, container: &str) -> &'a Value {
    let all = object["status"]["containerStatuses"].as_array();
    all.into_iter().flatten().find(|status| status["name"] == container).unwrap_or(&Value::Null)
}

/// The memory limit that the kubelet says is in force.
pub(crate) fn actual_memory<'a>(object: &'a Value, container: &str) -> &'a str {
    text(&status_of(object, container)["resources"]["limits"]["memory"])
}

pub(crate) fn restarts(object: &Value, container: &str) -> u64 {
    status_of(object, container)["restartCount"].as_u64().unwrap_or(0)
}

/// A condition of the pod's: its reason and its message.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<(&'a str, &'a str)> {
    let all = object["status"]["conditions"].as_array();
    let found = all.into_iter().flatten().find(|condition| condition["type"] == kind)?;
    Some((text(&found["reason"]), text(&found["message"])))
}

/// Whether a resize is neither pending nor in progress.
pub(crate) fn is_settled(object: &Value) -> bool {
    condition(object, "PodResizePending").is_none() && condition(object, "PodResizeInProgress").is_none()
}

fn all_run(object: &Value) -> bool {
    let wanted = object["spec"]["containers"].as_array().map_or(0, Vec::len);
    let all = object["status"]["containerStatuses"].as_array();
    let run = all.into_iter().flatten().filter(|status| status["state"]["running"].is_object()).count();
    run == wanted
}
