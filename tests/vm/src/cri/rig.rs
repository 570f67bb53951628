//! A containerd of the test's own, with an image made of the guest's busybox, and a stand-in for the kubelet.

use crate::debian::{output, run};
use enforcer::cri::making::{
    ContainerConfig, ContainerSecurity, CreateContainerRequest, CreateContainerResponse, Dns, IdRequest,
    LinuxContainer, LinuxSandbox, NODE, NamespaceOption, Nothing, POD, PodSandboxConfig,
    RunPodSandboxRequest, RunPodSandboxResponse, SandboxSecurity,
};
use enforcer::cri::message::{ContainerMetadata, ImageSpec, LinuxContainerResources, PodSandboxMetadata};
use enforcer::cri::{Client, CriError};
pub(crate) use enforcer_vm_tests::agent_rig::LONG;
use enforcer_vm_tests::processes::pids;
use enforcer_vm_tests::workload::PROGRAM;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Where it is looked for by itself.
pub(crate) const SOCKET: &str = "/run/containerd/containerd.sock";
/// Handlers of runc and of crun as they are, but stopped in the middle of each update.
pub(crate) const STOPPING: [&str; 2] = ["stopping-runc", "stopping-crun"];
/// While this is there updates are not stopped any more.
const UPDATES_GO_ON: &str = "/run/enforcer-updates-go-on";
/// The handler of a shim that has another name than shims have.
pub(crate) const ODD: &str = "odd";
const ODD_PROGRAM: &str = "/run/enforcer-odd-helper";
const SHIM: &str = "/usr/bin/containerd-shim-runc-v2";
const IMAGE: &str = "docker.io/local/busybox:1";
/// The root of a containerd that has the image and nothing else.
const SEED: &str = "/var/lib/enforcer-containerd-seed";
/// Namespace of all pods.
pub(crate) const NAMESPACE: &str = "testing";
pub(crate) const MIB: i64 = 1 << 20;
/// Pods that were ever run in this guest: systemd remembers what was set of a slice, also for a later one of its name.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// It runs until it is dropped, with all that runs in it.
pub(crate) struct Containerd {
    folder: tempfile::TempDir,
    child: Child,
    pods: Vec<(String, PodSandboxConfig)>,
}

/// Where a handler of [`STOPPING`] has its program.
fn stopping_program(handler: &str) -> String {
    format!("/run/enforcer-{handler}")
}

fn stopping_script(handler: &str) -> String {
    let program = handler.trim_start_matches("stopping-");
    format!(
        "#!/bin/sh\ncase \" $* \" in *\" update \"*) [ -e {UPDATES_GO_ON} ] || kill -STOP $$ ;; esac\n\
         exec {program} \"$@\"\n"
    )
}

/// All of a folder, under another name.
fn copy(from: &Path, to: &Path) {
    run("cp", [Path::new("-a"), from, to]);
}

/// The program of a handler of [`STOPPING`], once it is stopped.
pub(crate) async fn stopped_update() -> Pid {
    let began = Instant::now();
    loop {
        let of = |pid: u32, file| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let is_stopped =
            |pid: u32| of(pid, "stat").rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'));
        let found = pids().find(|pid| of(*pid, "cmdline").contains("enforcer-stopping-") && is_stopped(*pid));
        if let Some(pid) = found {
            return Pid::from_raw(pid.cast_signed());
        }
        assert!(began.elapsed() < LONG, "an update is stopped");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// From here on updates of [`STOPPING`] are stopped, as they are at first.
pub(crate) fn updates_stop() {
    let _ = fs::remove_file(UPDATES_GO_ON);
}

/// What [`stopped_update`] found goes on, unless containerd has killed it, as it does where who asked for the update has
/// gone; no later one is stopped.
pub(crate) fn updates_go_on(stopped: Pid) {
    fs::write(UPDATES_GO_ON, "").expect("write it");
    let _ = kill(stopped, Signal::SIGCONT);
}

impl Containerd {
    /// Starts it, with handlers for runc (the default one) and crun, both with systemd's cgroups.
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir_in("/var/lib").expect("a folder");
        let path = folder.path().display();
        let plugin = r#"plugins."io.containerd.grpc.v1.cri""#;
        let handler = |name: &str, program: &str| {
            format!(
                "[{plugin}.containerd.runtimes.{name}]\nruntime_type = \"io.containerd.runc.v2\"\n\
                 [{plugin}.containerd.runtimes.{name}.options]\nBinaryName = \"{program}\"\nSystemdCgroup = true\n"
            )
        };
        let config = format!(
            "version = 2\nroot = \"{path}/root\"\nstate = \"/run/enforcer-containerd\"\n\
             [grpc]\naddress = \"{SOCKET}\"\n\
             [{plugin}]\nsandbox_image = \"{IMAGE}\"\n\
             [{plugin}.containerd]\ndefault_runtime_name = \"runc\"\n{}{}{}{}",
            handler("runc", "runc"),
            handler("crun", "crun"),
            STOPPING.map(|name| handler(name, &stopping_program(name))).concat(),
            handler(ODD, "runc").replacen(
                "runtime_type",
                &format!("runtime_path = \"{ODD_PROGRAM}\"\nruntime_type"),
                1
            )
        );
        fs::write(folder.path().join("config.toml"), config).expect("write the configuration");
        for name in STOPPING {
            let program = stopping_program(name);
            fs::write(&program, stopping_script(name)).expect("write a runtime");
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("let it run");
        }
        fs::copy(SHIM, ODD_PROGRAM).expect("copy the shim");
        updates_stop();
        let seed = Path::new(SEED);
        if seed.exists() {
            copy(seed, &folder.path().join("root"));
        }
        let child = launch(folder.path());
        let mut containerd = Self { folder, child, pods: Vec::new() };
        containerd.ready().await;
        if !seed.exists() {
            containerd.import();
            containerd.seed().await;
        }
        containerd
    }

    /// Keeps what it has on disk for those that are started later in this guest: to import takes longer than to copy.
    async fn seed(&mut self) {
        self.kill();
        copy(&self.folder.path().join("root"), Path::new(SEED));
        self.restart().await;
    }

    /// Until it answers: it says that it is ready before its CRI plugin is.
    async fn ready(&self) {
        let began = Instant::now();
        while let Err(error) = self.asked().await {
            assert!(began.elapsed() < LONG, "containerd does not answer: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn asked(&self) -> Result<(), CriError> {
        Client::connect(Path::new(SOCKET), LONG).await?.list_containers(None).await.map(drop)
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(Path::new(SOCKET), LONG).await.expect("containerd takes connections")
    }

    /// An image of one layer: busybox and the workload.
    fn import(&self) {
        let folder = self.folder.path().join("image");
        let programs = folder.join("layer/bin");
        fs::create_dir_all(&programs).expect("make a root");
        for program in ["/bin/busybox", PROGRAM] {
            let name = Path::new(program).file_name().expect("a name");
            fs::copy(program, programs.join(name)).expect("copy a program");
        }
        let at = |name: &str| folder.join(name).display().to_string();
        run("tar", ["-C", &at("layer"), "-cf", &at("layer.tar"), "."]);
        let digest = output("sha256sum", [at("layer.tar")]).stdout;
        let digest = String::from_utf8(digest).expect("text");
        let digest = digest.split(' ').next().expect("a digest");
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": ["/bin/busybox", "sleep", "100000"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        });
        fs::write(folder.join("config.json"), config.to_string()).expect("write it");
        let manifest = json!([{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]);
        fs::write(folder.join("manifest.json"), manifest.to_string()).expect("write it");
        run("tar", ["-C", &at(""), "-cf", &at("image.tar"), "manifest.json", "config.json", "layer.tar"]);
        run("ctr", ["--namespace=k8s.io", "images", "import", &at("image.tar")]);
    }

    /// A pod in the node's own network, which needs no plug-in.
    pub(crate) async fn run_pod(&mut self, name: &str, handler: &str) -> String {
        self.run_pod_with(name, handler, &[], &[]).await
    }

    /// The same with labels and annotations.
    pub(crate) async fn run_pod_with(
        &mut self,
        name: &str,
        handler: &str,
        labels: &[(&str, &str)],
        annotations: &[(&str, &str)],
    ) -> String {
        let marks = |marks: &[(&str, &str)]| {
            marks.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let uid = format!("00000000-0000-4000-8000-{:012}", MADE.fetch_add(1, Ordering::Relaxed));
        let slice = format!("kubepods-burstable-pod{}.slice", uid.replace('-', "_"));
        let config = PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: name.into(),
                uid,
                namespace: NAMESPACE.into(),
                attempt: 0,
            }),
            dns_config: Some(Dns { servers: vec!["127.0.0.1".into()] }),
            labels: marks(labels),
            annotations: marks(annotations),
            linux: Some(LinuxSandbox {
                cgroup_parent: format!("/kubepods.slice/kubepods-burstable.slice/{slice}"),
                security_context: Some(SandboxSecurity {
                    namespace_options: Some(NamespaceOption { network: NODE, pid: POD }),
                }),
            }),
        };
        let request = RunPodSandboxRequest { config: Some(config.clone()), runtime_handler: handler.into() };
        let client = self.client().await;
        let began = Instant::now();
        // The plugin hears of an image that was imported a moment after that.
        let answer: RunPodSandboxResponse = loop {
            match client.call("RunPodSandbox", request.clone()).await {
                Ok(answer) => break answer,
                Err(error) if began.elapsed() > LONG => panic!("{error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        };
        self.pods.push((answer.pod_sandbox_id.clone(), config));
        answer.pod_sandbox_id
    }

    /// A container that sleeps, in the pod that was run last.
    pub(crate) async fn run_container(&self, name: &str, resources: LinuxContainerResources) -> String {
        self.run_job(name, &["/bin/busybox", "sleep", "100000"], resources).await
    }

    /// A container with this command, in the pod that was run last.
    pub(crate) async fn run_job(
        &self,
        name: &str,
        command: &[&str],
        resources: LinuxContainerResources,
    ) -> String {
        let (sandbox, sandbox_config) = self.pods.last().expect("a pod").clone();
        let config = ContainerConfig {
            metadata: Some(ContainerMetadata { name: name.into(), attempt: 0 }),
            image: Some(ImageSpec { image: IMAGE.into(), ..ImageSpec::default() }),
            command: command.iter().copied().map(String::from).collect(),
            linux: Some(LinuxContainer {
                resources: Some(resources),
                security_context: Some(ContainerSecurity {
                    namespace_options: Some(NamespaceOption { network: NODE, pid: POD }),
                }),
            }),
            ..ContainerConfig::default()
        };
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox,
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        let client = self.client().await;
        let made: CreateContainerResponse = client.call("CreateContainer", request).await.expect("is made");
        self.tell("StartContainer", &made.container_id).await;
        made.container_id
    }

    /// A call that takes an id and whose answer says nothing.
    pub(crate) async fn tell(&self, call: &'static str, id: &str) {
        let client = self.client().await;
        let _: Nothing = client.call(call, IdRequest { id: id.into() }).await.expect(call);
    }

    /// Its cgroup, below the mount.
    pub(crate) fn cgroup(&self) -> String {
        let own = fs::read_to_string(format!("/proc/{}/cgroup", self.child.id())).expect("it runs");
        own.trim().strip_prefix("0::/").expect("cgroup v2").to_owned()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("it runs");
    }

    /// SIGKILL. What runs in containers goes on.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Starts it anew.
    pub(crate) async fn restart(&mut self) {
        self.child = launch(self.folder.path());
        self.ready().await;
    }

    /// The pod with this sandbox is gone already.
    pub(crate) fn forget(&mut self, sandbox: &str) {
        self.pods.retain(|(of, _)| of != sandbox);
    }

    /// Ends all pods; what is left is ended with the guest.
    pub(crate) async fn end(mut self) {
        for (sandbox, _) in std::mem::take(&mut self.pods) {
            self.tell("StopPodSandbox", &sandbox).await;
            self.tell("RemovePodSandbox", &sandbox).await;
        }
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGCONT);
        drop(self.child.kill());
        drop(self.child.wait());
        drop(Command::new("systemctl").args(["stop", "kubepods.slice"]).status());
        drop(fs::remove_dir_all("/run/enforcer-containerd"));
    }
}

/// Starts it and waits until it says that it is ready (`sd_notify(3)`).
fn launch(folder: &Path) -> Child {
    let notify: PathBuf = folder.join("notify");
    drop(fs::remove_file(&notify));
    let ready = UnixDatagram::bind(&notify).expect("a socket");
    ready.set_read_timeout(Some(LONG)).expect("a time-out");
    let log = fs::File::options().create(true).append(true).open(folder.join("log")).expect("a log");
    let child = Command::new("containerd")
        .arg("--config")
        .arg(folder.join("config.toml"))
        .env("NOTIFY_SOCKET", &notify)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("start containerd");
    let mut said = [0; 64];
    let read = ready.recv(&mut said);
    let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
    assert!(read.is_ok_and(|length| said[..length].starts_with(b"READY=1")), "containerd: {}", log());
    child
}
