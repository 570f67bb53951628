//! The commands that ask the API server, against one that does as a script says.

use enforcer::kube::reasons::Code;
use enforcer_test_api::{Asked, Reply, Server, status};
use http::Method;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

struct Answer {
    code: i32,
    out: String,
    err: String,
}

impl Answer {
    fn json(&self) -> Value {
        assert!(self.out.is_ascii(), "{}", self.out);
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {} {}", self.out, self.err))
    }
}

/// Runs the program while the server of this thread goes on.
async fn enforcer(kubeconfig: PathBuf, args: &[&str]) -> Answer {
    program(env!("CARGO_BIN_EXE_enforcer").as_ref(), kubeconfig, args).await
}

async fn program(program: &Path, kubeconfig: PathBuf, args: &[&str]) -> Answer {
    let mut command = Command::new(program);
    command.args(args).arg("--kubeconfig").arg(kubeconfig).stdin(Stdio::null());
    command.env_remove("KUBECONFIG").env_remove("NODE_NAME");
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("runs").expect("starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    let code = output.status.code().expect("no signal ended it");
    let answer = Answer { code, out: text(output.stdout), err: text(output.stderr) };
    assert!(!answer.err.contains("panicked"), "{}", answer.err);
    answer
}

/// A pod of one container, asked for `desired` and having `actual`, in this generation.
fn pod(generation: i64, desired: &str, actual: &str, conditions: &Value) -> Value {
    let requests = json!({"memory": "50Mi", "cpu": "100m"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-1", "namespace": "shop", "uid": "u-1", "generation": generation,
            "resourceVersion": format!("{generation}00")
        },
        "spec": {
            "nodeName": "node-a",
            "containers": [{"name": "main", "resources": {"limits": {"memory": desired}, "requests": requests}}]
        },
        "status": {
            "phase": "Running", "qosClass": "Burstable", "observedGeneration": generation, "conditions": conditions,
            "containerStatuses": [{
                "name": "main", "image": "i", "imageID": "i", "ready": true, "restartCount": 0,
                "state": {"running": {}}, "allocatedResources": requests,
                "resources": {"limits": {"memory": actual}, "requests": requests}
            }]
        }
    })
}

fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {
            "allocatable": {"cpu": "2", "memory": "1Gi"}, "capacity": {"cpu": "2", "memory": "2Gi"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {
                "kubeletVersion": "v1.37.0", "containerRuntimeVersion": "containerd://2.1.4", "architecture": "amd64",
                "bootID": "", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "linux",
                "osImage": "", "systemUUID": ""
            }
        }
    })
}

fn holds(kind: &str, reason: &str, message: &str) -> Value {
    json!([{"type": kind, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": "2026-11-30T00:30:00Z"}])
}

/// At rest before the patch; after it as `after` has it, by how often that was asked.
async fn cluster(after: impl Fn(usize) -> Value + Send + 'static) -> Server {
    let mut looks: Option<usize> = None;
    Server::start(move |asked| match (&asked.method, asked.path.as_str()) {
        (&Method::PATCH, "/api/v1/namespaces/shop/pods/web-1/resize") => {
            looks = Some(0);
            Reply::Json(after(0))
        }
        (&Method::GET, "/api/v1/namespaces/shop/pods/web-1") => Reply::Json(match &mut looks {
            None => pod(1, "160Mi", "160Mi", &json!([])),
            Some(looks) => {
                *looks += 1;
                after(*looks)
            }
        }),
        (&Method::GET, "/api/v1/nodes/node-a") => Reply::Json(node()),
        (&Method::GET, "/api/v1/pods") => {
            assert_eq!(asked.query["fieldSelector"], "spec.nodeName=node-a");
            let items = [pod(1, "160Mi", "160Mi", &json!([]))];
            Reply::Json(json!({"metadata": {"resourceVersion": "9"}, "items": items}))
        }
        other => panic!("{other:?}"),
    })
    .await
}

fn patches(api: &Server) -> Vec<Asked> {
    api.asked().into_iter().filter(|asked| asked.method == Method::PATCH).collect()
}

const SHRINK: [&str; 7] = ["shrink", "pod/shop/web-1", "--to", "100Mi", "--via", "kube", "--json"];

#[tokio::test]
async fn a_shrink_by_the_kubelet_is_followed_to_its_end() {
    let api = cluster(|looks| match looks {
        0 => pod(2, "100Mi", "160Mi", &holds("PodResizeInProgress", "", "")),
        _ => pod(2, "100Mi", "100Mi", &json!([])),
    })
    .await;
    let answer = enforcer(api.kubeconfig(), &SHRINK).await;
    assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{}", answer.out);
    let report = answer.json();
    assert_eq!((&report["container"], &report["resize"]), (&json!("main"), &json!({"state": "none"})));
    let [patch] = &patches(&api)[..] else { panic!("{:?}", api.asked()) };
    let limits = &patch.body["spec"]["containers"][0]["resources"];
    assert_eq!(
        (limits, &patch.body["metadata"]["resourceVersion"]),
        (&json!({"limits": {"memory": "100Mi"}}), &json!("100"))
    );
}

#[tokio::test]
async fn a_stuck_shrink_says_why_at_its_deadline() {
    let words = "cannot decrease memory limits: attempting to set container \"main\" memory limit (104857600) below current \
                 usage (136314880)";
    let api = cluster(move |_| pod(2, "100Mi", "160Mi", &holds("PodResizeInProgress", "Error", words))).await;
    let args = ["shrink", "pod/shop/web-1:main", "--to", "100Mi", "--via", "kube", "--wait", "1ms"];
    let answer = enforcer(api.kubeconfig(), &args).await;
    assert_eq!(answer.code, 1, "{} {}", answer.out, answer.err);
    let head = "pod/shop/web-1:main: error since 2026-11-30T00:30:00Z (main memory limit 160Mi -> 100Mi)\n  error-usage: ";
    assert!(answer.out.starts_with(head), "{}", answer.out);
    assert!(
        answer.out.contains("enforcer resize pod/shop/web-1:main --via kube takes it back"),
        "{}",
        answer.out
    );
    assert!(answer.err.starts_with("the API server has taken it"), "{}", answer.err);
}

#[tokio::test]
async fn what_will_not_come_is_not_waited_for() {
    let infeasible =
        holds("PodResizePending", "Infeasible", "In-place resize of containers with swap is not supported.");
    let api = cluster(move |_| pod(2, "100Mi", "160Mi", &infeasible)).await;
    let answer = enforcer(api.kubeconfig(), &SHRINK).await;
    assert_eq!(
        (answer.code, &answer.json()["reasons"][0]["code"]),
        (2, &json!("infeasible-swap")),
        "{}",
        answer.err
    );
}

#[tokio::test]
async fn a_quota_in_the_way_is_told() {
    let api = cluster(|_| Value::Null).await;
    api.say(|asked| match asked.method {
        Method::GET => Reply::Json(pod(1, "160Mi", "160Mi", &json!([]))),
        _ => Reply::No(
            403,
            status(403, "Forbidden", "pods \"web-1\" is forbidden: exceeded quota: team, requested: x"),
            None,
        ),
    });
    let args = ["resize", "pod/shop/web-1:main", "--memory", "1Gi", "--via", "kube"];
    let answer = enforcer(api.kubeconfig(), &args).await;
    assert_eq!(answer.code, 2, "{} {}", answer.out, answer.err);
    assert!(answer.out.starts_with("pod/shop/web-1:main: refused by the API server\n"), "{}", answer.out);
    assert!(answer.out.contains("refused-quota: ") && answer.out.contains("quota: team\n"), "{}", answer.out);
}

#[tokio::test]
async fn a_dry_run_shows_the_patch_and_has_it_judged() {
    let api = cluster(|_| pod(1, "100Mi", "160Mi", &json!([]))).await;
    let args = ["shrink", "pod/shop/web-1", "--to", "100Mi", "--via", "kube", "--dry-run"];
    let answer = enforcer(api.kubeconfig(), &args).await;
    assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{}", answer.out);
    assert!(answer.out.contains("would take it (nothing was changed)"), "{}", answer.out);
    assert!(answer.out.contains(r#""limits":{"memory":"100Mi"}"#), "{}", answer.out);
    assert_eq!(patches(&api)[0].query["dryRun"], "All");
}

#[tokio::test]
async fn nothing_is_written_over_a_newer_generation() {
    let api = cluster(|_| Value::Null).await;
    let mut patched = false;
    api.say(move |asked| match asked.method {
        Method::GET if patched => Reply::Json(pod(2, "300Mi", "160Mi", &json!([]))),
        Method::GET => Reply::Json(pod(1, "160Mi", "160Mi", &json!([]))),
        _ => {
            patched = true;
            Reply::No(409, status(409, "Conflict", "the object has been modified"), None)
        }
    });
    let answer = enforcer(api.kubeconfig(), &SHRINK).await;
    assert_eq!((answer.code, answer.out.as_str()), (1, ""), "{}", answer.err);
    assert!(answer.err.contains("changed"), "{}", answer.err);
    assert_eq!(patches(&api).len(), 1);
}

#[tokio::test]
async fn who_does_not_answer_is_named() {
    let api = cluster(|_| Value::Null).await;
    let kubeconfig = api.kubeconfig();
    let address = api.address();
    api.say(|_| Reply::No(503, status(503, "ServiceUnavailable", "etcd is away"), None));
    let answer = enforcer(kubeconfig.clone(), &SHRINK).await;
    assert_eq!((answer.code, answer.out.as_str()), (69, ""), "{}", answer.err);
    assert!(answer.err.contains(&address) && answer.err.contains("etcd is away"), "{}", answer.err);
    api.say(|_| Reply::No(404, status(404, "NotFound", "pods \"web-1\" not found"), None));
    let answer = enforcer(kubeconfig, &SHRINK).await;
    assert_eq!(answer.code, 64, "{}", answer.err);
    let args = ["explain", "pod/shop/web-1", "--socket", "/nonexistent/admin.sock"];
    let answer = enforcer(Path::new("/nonexistent/config").into(), &args).await;
    assert!(answer.code == 69 && answer.err.contains("no agent"), "{}", answer.err);
    assert!(answer.err.contains("kubeconfig /nonexistent/config"), "both are told: {}", answer.err);
    let answer = enforcer(Path::new("/nonexistent/config").into(), &SHRINK).await;
    assert_eq!(answer.code, 64, "{}", answer.err);
    assert!(answer.err.contains("kubeconfig /nonexistent/config"), "{}", answer.err);
    for (args, says) in [
        (vec!["shrink", "system.slice", "--to", "1Mi", "--via", "kube"], "a target is pod/NAMESPACE/NAME"),
        (vec!["resize", "pod/a/b", "--memory", "max", "--via", "kube"], "takes no limit away"),
        (vec!["resize", "pod/a/b", "--cpu-weight", "5", "--via", "kube"], "follows from the request"),
    ] {
        let answer = enforcer(Path::new("/nonexistent/config").into(), &args).await;
        assert!(answer.code == 64 && answer.err.contains(says), "{args:?}: {}", answer.err);
    }
}

#[tokio::test]
async fn a_node_is_shown_as_the_scheduler_counts_it() {
    let api = cluster(|_| Value::Null).await;
    let answer = enforcer(api.kubeconfig(), &["status", "--node", "node-a"]).await;
    assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{}", answer.out);
    assert!(answer.out.starts_with("node node-a, kubelet 1.37, pods: 1\n"), "{}", answer.out);
    let answer = enforcer(api.kubeconfig(), &["status", "--node", "node-a", "--json"]).await;
    let report = answer.json();
    assert_eq!(report["sum"]["scheduler"], json!({"memory": 50 << 20, "cpu": 100}), "{report}");
    assert_eq!((&report["rules"], &report["over_memory"]), (&json!("per_pod"), &json!(0)), "{report}");
}

#[tokio::test]
async fn a_pod_is_explained_without_an_agent() {
    let api = cluster(|_| Value::Null).await;
    let args = ["explain", "pod/shop/web-1", "--socket", "/nonexistent/admin.sock"];
    let answer = enforcer(api.kubeconfig(), &args).await;
    assert_eq!(answer.code, 0, "{} {}", answer.out, answer.err);
    assert!(
        answer.out.starts_with("Kubernetes has pod/shop/web-1 on node-a (Burstable, generation 1)\n"),
        "{}",
        answer.out
    );
    assert!(answer.out.contains("no resize is in flight"), "{}", answer.out);
    assert!(answer.err.contains("no agent"), "{}", answer.err);
    let words = "Node didn't have enough resource: memory, requested: 104857600, used: 1048576000, capacity: 1073741824";
    api.say(move |asked| match asked.path.as_str() {
        "/api/v1/nodes/node-a" | "/api/v1/pods" => Reply::No(403, status(403, "Forbidden", "x"), None),
        _ => Reply::Json(pod(2, "300Mi", "160Mi", &holds("PodResizePending", "Deferred", words))),
    });
    let args = [&args[..], &["--json"]].concat();
    let answer = enforcer(api.kubeconfig(), &args).await;
    let view = answer.json();
    assert_eq!(view["kubernetes"]["reasons"][0]["code"], "deferred-memory", "{view}");
    assert_eq!(view["kubernetes"]["resize"]["state"], "deferred", "what may not be read is done without");
}

/// Found by kubectl under its name, and asked from where no agent runs.
#[tokio::test]
async fn kubectl_has_it_as_a_plugin() {
    let folder = tempfile::tempdir().expect("a folder");
    let plugin = folder.path().join("kubectl-enforcer");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_enforcer"), &plugin).expect("a link");
    let api = cluster(|_| pod(2, "100Mi", "100Mi", &json!([]))).await;
    let answer = program(&plugin, api.kubeconfig(), &["explain", "-n", "shop", "pod/web-1"]).await;
    assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{}", answer.out);
    assert!(answer.out.starts_with("Kubernetes has pod/shop/web-1"), "{}", answer.out);
    let words = ["shrink", "pod/web-1", "--to", "100Mi", "--namespace", "shop"];
    let answer = program(&plugin, api.kubeconfig(), &words).await;
    assert_eq!((answer.code, patches(&api).len()), (0, 1), "{} {}", answer.out, answer.err);
    let answer =
        program(&plugin, api.kubeconfig(), &["explain", "pod/shop/web-1", "--context", "no\tne"]).await;
    assert_eq!(answer.code, 64, "{}", answer.err);
    assert!(answer.err.contains("no\\tne"), "{}", answer.err);
    let answer = program(&plugin, api.kubeconfig(), &["explain"]).await;
    assert!(answer.err.contains("kubectl enforcer explain"), "{}", answer.err);
}

#[test]
fn each_reason_is_in_the_documentation() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/kubernetes.md"))
        .expect("is there");
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| `")).collect();
    for code in Code::ALL {
        let name = format!("`{code}`");
        assert_eq!(rows.iter().filter(|row| row.contains(&name)).count(), 1, "{name}");
    }
}
