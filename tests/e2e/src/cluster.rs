//! A cluster of one node in this guest: etcd, API server, containerd and kubelet, as a node has them, without controllers
//! and without a scheduler. Started once; it ends with the guest.

use super::api;
use super::containerd::{self, SOCKET};
use super::guest::{block_on, output, run};
use enforcer_vm_tests::case::file;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The disk that xtask made (xtask/src/kubernetes.rs), and where it is seen.
const DISK: &str = "/dev/vdd";
pub(crate) const MOUNTED: &str = "/opt/kubernetes";
/// The node's name and address: the keys on the disk are made for these.
pub(crate) const NODE: &str = "guest";
pub(crate) const ADDRESS: &str = "192.0.2.1";
const RUN: &str = "/run/enforcer-kube";
/// What the start of one part may take under emulation.
const START: Duration = Duration::from_mins(12);
/// Lines of each log that are shown where a test fails.
const LOG_TAIL: usize = 60;

static CLUSTER: OnceLock<Cluster> = OnceLock::new();

/// Nobody drops it: it ends with the guest.
struct Cluster {
    _children: Vec<Child>,
}

/// `1.35.8`, as the API server says.
static VERSION: OnceLock<String> = OnceLock::new();

pub(crate) fn version() -> &'static str {
    VERSION.get().map_or("", String::as_str)
}

/// For cases: whether there is a cluster.
pub(crate) fn there() -> Result<(), String> {
    if CLUSTER.get().is_some() { Ok(()) } else { Err(format!("no cluster: {:?}", file(DISK))) }
}

/// Starts all of it and waits until the node is ready.
pub(crate) fn start() {
    let guard = LogsOnFailure;
    let cluster = block_on(started());
    std::mem::forget(guard);
    assert!(CLUSTER.set(cluster).is_ok(), "started twice");
}

async fn started() -> Cluster {
    let began = Instant::now();
    let say = |what: &str| println!("[{:5.1} s] {what}", began.elapsed().as_secs_f64());
    fs::create_dir_all(MOUNTED).expect("make a folder");
    fs::create_dir_all(RUN).expect("make a folder");
    run("mount", ["-o", "ro", DISK, MOUNTED]);
    // The kubelet takes no address of the loopback net, but one that the loopback has.
    run("busybox", ["ip", "address", "add", &format!("{ADDRESS}/32"), "dev", "lo"]);
    fs::write("/etc/resolv.conf", "nameserver 127.0.0.1\n").expect("write it");
    let mut children = Vec::new();
    children.push(launch("etcd", &etcd(), true));
    say("etcd runs");
    let mut server = launch("kube-apiserver", &api_server(), true);
    say("the API server listens");
    let proxy = format!("proxy --address=127.0.0.1 --port=8001 --kubeconfig={MOUNTED}/super-admin.conf");
    children.push(launch("kubectl", &words(&proxy), false));
    children.push(containerd::start());
    say("containerd runs");
    answers("/readyz", &mut server).await;
    let said = api::get("/version").await;
    let git = said["gitVersion"].as_str().expect("a version").trim_start_matches('v').to_owned();
    VERSION.set(git).expect("set once");
    say(&format!("the API server of Kubernetes {} is ready", version()));
    let file = Path::new(RUN).join("kubelet.yaml");
    fs::write(&file, kubelet_config().to_string()).expect("write it");
    children.push(launch("kubelet", &kubelet(&file), false));
    ready().await;
    say("the node is ready");
    account(&mut server).await;
    children.push(server);
    say("the namespace has its account");
    Cluster { _children: children }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn etcd() -> Vec<String> {
    words(&format!(
        "--data-dir={RUN}/etcd --unsafe-no-fsync --log-level=warn --quota-backend-bytes=268435456"
    ))
}

/// Off by default in 1.35, on in 1.36.
const GATES: &str = "InPlacePodLevelResourcesVerticalScaling=true,NodeDeclaredFeatures=true";

/// Asked of the programs themselves: the API server that would say it does not run yet.
fn is_135() -> bool {
    let said = output(&format!("{MOUNTED}/bin/kubelet"), ["--version"]).stdout;
    String::from_utf8_lossy(&said).contains(" v1.35.")
}

fn api_server() -> Vec<String> {
    let pki = format!("{MOUNTED}/pki");
    let mut all = words(&format!(
        "--etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 --secure-port=6443 \
         --advertise-address={ADDRESS} --client-ca-file={pki}/ca.crt --tls-cert-file={pki}/apiserver.crt \
         --tls-private-key-file={pki}/apiserver.key \
         --kubelet-client-certificate={pki}/apiserver-kubelet-client.crt \
         --kubelet-client-key={pki}/apiserver-kubelet-client.key \
         --service-account-issuer=https://kubernetes.default.svc.cluster.local \
         --service-account-key-file={pki}/sa.pub --service-account-signing-key-file={pki}/sa.key \
         --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=Node,RBAC \
         --enable-admission-plugins=NodeRestriction --endpoint-reconciler-type=none --profiling=false"
    ));
    if is_135() {
        all.push(format!("--feature-gates={GATES}"));
    }
    all
}

fn kubelet(config: &Path) -> Vec<String> {
    words(&format!(
        "--config={} --kubeconfig={MOUNTED}/kubelet.conf --hostname-override={NODE} --node-ip={ADDRESS} \
         --cert-dir={RUN}/kubelet-pki --v=2",
        config.display()
    ))
}

fn kubelet_config() -> Value {
    let gates: serde_json::Map<String, Value> = if is_135() {
        let gates = GATES.split(',').filter_map(|gate| gate.split_once('='));
        gates.map(|(name, _)| (name.to_owned(), true.into())).collect()
    } else {
        serde_json::Map::new()
    };
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": format!("{MOUNTED}/pki/ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "systemd",
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        "resolvConf": "/etc/resolv.conf",
        "makeIPTablesUtilChains": false,
        "featureGates": gates,
        // The guest's disk is small; nothing here is about disks.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    })
}

fn log(name: &str) -> PathBuf {
    Path::new(RUN).join(format!("{name}.log"))
}

/// Starts a program of the disk.
fn launch(name: &str, arguments: &[String], told: bool) -> Child {
    launch_with(name, &format!("{MOUNTED}/bin/{name}"), arguments, told)
}

/// Starts a program. With `told`, waits until it says that it is ready (`sd_notify(3)`).
pub(crate) fn launch_with(name: &str, program: &str, arguments: &[String], told: bool) -> Child {
    let notify = Path::new(RUN).join(format!("{name}.notify"));
    drop(fs::remove_file(&notify));
    let socket = UnixDatagram::bind(&notify).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a time-out");
    let out = File::options().create(true).append(true).open(log(name)).expect("a log");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stderr(out.try_clone().expect("a copy")).stdout(out);
    // There is memory enough, and under emulation to collect it takes long.
    command.env("GOGC", "400");
    if told {
        command.env("NOTIFY_SOCKET", &notify);
    }
    let mut child = command.spawn().unwrap_or_else(|error| panic!("start {name}: {error}"));
    if !told {
        return child;
    }
    let began = Instant::now();
    let mut said = [0; 256];
    loop {
        match socket.recv(&mut said) {
            Ok(length) if String::from_utf8_lossy(&said[..length]).contains("READY=1") => return child,
            Ok(_) | Err(_) => {}
        }
        // Nothing more is to be heard of one that has ended.
        let ended = child.try_wait().expect("wait for it");
        assert!(ended.is_none(), "{name} ended: {ended:?}");
        assert!(began.elapsed() < START, "{name} does not say that it is ready");
    }
}

/// How often the API server is started: on a machine that is too busy it gives up on checks of its own that take longer
/// than a minute (`start-service-ip-repair-controllers`), and a node would start it anew, too.
const STARTS_MAX: usize = 4;

/// Until a page of the API server says so. Nothing tells when a server begins to answer.
async fn answers(path: &str, server: &mut Child) {
    let began = Instant::now();
    let mut starts = 1;
    loop {
        let answer = api::call("GET", path, "application/json", String::new()).await;
        if matches!(answer, Ok((200, _))) {
            return;
        }
        assert!(began.elapsed() < START, "{path}: {answer:?}");
        if let Some(status) = server.try_wait().expect("wait for it") {
            assert!(starts < STARTS_MAX, "the API server ended with {status}");
            println!("the API server ended with {status}; starting it again");
            starts += 1;
            *server = launch("kube-apiserver", &api_server(), true);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

async fn ready() {
    let mut watch = api::watch(&format!("/api/v1/nodes?fieldSelector=metadata.name={NODE}")).await;
    let began = Instant::now();
    let mut last = Value::Null;
    while !is_ready(&last) {
        let left = START.saturating_sub(began.elapsed());
        let Some((_, node)) = watch.next(left).await else { panic!("the node is not ready: {last:#}") };
        last = node;
    }
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    let named = |condition: &&Value| condition["type"] == "Ready";
    conditions.into_iter().flatten().find(named).is_some_and(|condition| condition["status"] == "True")
}

/// A controller makes it elsewhere; without it no pod is let in.
async fn account(server: &mut Child) {
    answers("/api/v1/namespaces/default", server).await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    api::create("/api/v1/namespaces/default/serviceaccounts", &account).await;
}

/// Shows the ends of all logs where a test panics while it is there.
pub(crate) struct LogsOnFailure;

impl Drop for LogsOnFailure {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for name in ["etcd", "kube-apiserver", "kubectl", "containerd", "kubelet"] {
            let text = fs::read(log(name)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.lines().collect();
            println!("---- {name}\n{}", lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n"));
        }
    }
}
