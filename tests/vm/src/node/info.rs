//! The verbose part of a status, as long and as deep as containerd's for a container of Kubernetes'.

use enforcer::cri::message::LinuxContainerResources;
use serde_json::{Value, json};

/// Variables that the kubelet sets for the services of a namespace: seven for each.
const SERVICES: [&str; 3] = ["KUBERNETES", "WEB_FRONTEND", "SESSION_CACHE"];
const CAPABILITIES: [&str; 14] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FSETID",
    "CAP_FOWNER",
    "CAP_MKNOD",
    "CAP_NET_RAW",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
    "CAP_KILL",
    "CAP_AUDIT_WRITE",
];
const MOUNTS: [(&str, &str, &str); 7] = [
    ("/proc", "proc", "proc"),
    ("/dev", "tmpfs", "tmpfs"),
    ("/dev/pts", "devpts", "devpts"),
    ("/dev/mqueue", "mqueue", "mqueue"),
    ("/sys", "sysfs", "sysfs"),
    ("/sys/fs/cgroup", "cgroup", "cgroup"),
    ("/dev/shm", "bind", "/run/containerd/io.containerd.grpc.v1.cri/sandboxes/shm"),
];
const MASKED: [&str; 9] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/sys/firmware",
];

/// What is said of a container, or of a sandbox.
pub(super) fn container(
    id: &str,
    sandbox: &str,
    pid: u32,
    cgroups_path: &str,
    limits: &LinuxContainerResources,
) -> String {
    let variables = variables();
    let env: Vec<_> = variables.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let envs: Vec<_> = variables.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    let mounts: Vec<_> = MOUNTS
        .iter()
        .map(|(at, kind, from)| {
            let options = ["nosuid", "noexec", "nodev", "relatime"];
            json!({"destination": at, "type": kind, "source": from, "options": options})
        })
        .collect();
    let namespaces = ["pid", "ipc", "uts", "mount", "network", "cgroup"];
    let namespaces = namespaces.map(|kind| json!({"type": kind, "path": format!("/proc/{pid}/ns/{kind}")}));
    let said = json!({
        "sandboxID": sandbox,
        "pid": pid,
        "removing": false,
        "snapshotKey": id,
        "snapshotter": "overlayfs",
        "runtimeType": "io.containerd.runc.v2",
        "runtimeOptions": {"binary_name": "runc", "systemd_cgroup": true},
        "config": {
            "metadata": {"name": "sleeper"},
            "image": {"image": "sha256:0d1c2e3f405162738495a6b7c8d9eafb0c1d2e3f405162738495a6b7c8d9eafb"},
            "command": ["/bin/busybox", "sleep", "1000000"],
            "envs": envs,
            "labels": {"io.kubernetes.pod.namespace": super::NAMESPACE, "io.kubernetes.container.name": "sleeper"},
            "log_path": "sleeper/0.log",
            "linux": {"resources": {}, "security_context": {"namespace_options": {"pid": 1}, "run_as_user": {}}},
        },
        "runtimeSpec": {
            "ociVersion": "1.1.0",
            "process": {
                "user": {"uid": 0, "gid": 0, "additionalGids": [0, 10]},
                "args": ["/bin/busybox", "sleep", "1000000"],
                "env": env,
                "cwd": "/",
                "capabilities": {"bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES},
                "oomScoreAdj": 992,
            },
            "root": {"path": "rootfs"},
            "mounts": mounts,
            "linux": {
                "resources": resources(limits),
                "cgroupsPath": cgroups_path,
                "namespaces": namespaces,
                "maskedPaths": MASKED,
                "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
            },
        },
    });
    said.to_string()
}

fn variables() -> Vec<(String, String)> {
    let mut all = vec![
        ("PATH".to_owned(), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
        ("HOSTNAME".to_owned(), "sleeper".to_owned()),
    ];
    for (number, service) in SERVICES.iter().enumerate() {
        let address = format!("10.96.0.{number}");
        let tcp = format!("{service}_PORT_443_TCP");
        all.extend([
            (format!("{service}_SERVICE_HOST"), address.clone()),
            (format!("{service}_SERVICE_PORT"), "443".into()),
            (format!("{service}_PORT"), format!("tcp://{address}:443")),
            (tcp.clone(), format!("tcp://{address}:443")),
            (format!("{tcp}_PROTO"), "tcp".into()),
            (format!("{tcp}_PORT"), "443".into()),
            (format!("{tcp}_ADDR"), address),
        ]);
    }
    all
}

/// `linux.resources` of the OCI specification.
fn resources(limits: &LinuxContainerResources) -> Value {
    let said = |number: i64| if number == 0 { Value::Null } else { number.into() };
    json!({
        "devices": [{"allow": false, "access": "rwm"}],
        "memory": {"limit": said(limits.memory_limit_in_bytes), "swap": said(limits.memory_swap_limit_in_bytes)},
        "cpu": {
            "shares": said(limits.cpu_shares),
            "quota": said(limits.cpu_quota),
            "period": said(limits.cpu_period),
        },
    })
}
