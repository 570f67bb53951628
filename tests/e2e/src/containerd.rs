//! The node's containerd, as the guest's Debian has it, with one image: busybox and the workload.

use super::cluster::launch_with;
use super::guest::{output, run};
use enforcer_vm_tests::workload::PROGRAM;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Child;

/// Where it listens.
pub(crate) const SOCKET: &str = "/run/containerd/containerd.sock";
pub(crate) const IMAGE: &str = "docker.io/local/busybox:1";
const FOLDER: &str = "/var/lib/enforcer-kube";
/// Without any network of CNI's the node is never ready. Pods here have the node's own, so no plug-in is ever run.
const CNI: &str = "/etc/cni/net.d";
const NO_NETWORK: &str = r#"{"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "loopback"}]}"#;

/// Starts it and imports the image.
pub(crate) fn start() -> Child {
    fs::create_dir_all(FOLDER).expect("make a folder");
    fs::create_dir_all(CNI).expect("make a folder");
    fs::write(Path::new(CNI).join("10-none.conflist"), NO_NETWORK).expect("write it");
    let plugin = r#"plugins."io.containerd.grpc.v1.cri""#;
    let runc = format!("{plugin}.containerd.runtimes.runc");
    let config = format!(
        "version = 2\nroot = \"{FOLDER}/containerd\"\n[grpc]\naddress = \"{SOCKET}\"\n\
         [{plugin}]\nsandbox_image = \"{IMAGE}\"\n\
         [{runc}]\nruntime_type = \"io.containerd.runc.v2\"\n\
         [{runc}.options]\nBinaryName = \"runc\"\nSystemdCgroup = true\n"
    );
    let file = Path::new(FOLDER).join("config.toml");
    fs::write(&file, config).expect("write the configuration");
    let words = ["--config".into(), file.display().to_string()];
    let child = launch_with("containerd", "containerd", &words, true);
    import();
    child
}

fn import() {
    let folder = Path::new(FOLDER).join("image");
    let programs = folder.join("layer/bin");
    fs::create_dir_all(&programs).expect("make a root");
    for program in ["/bin/busybox", PROGRAM] {
        let name = Path::new(program).file_name().expect("a name");
        fs::copy(program, programs.join(name)).expect("copy a program");
    }
    let at = |name: &str| folder.join(name).display().to_string();
    run("tar", ["-C", &at("layer"), "-cf", &at("layer.tar"), "."]);
    let digest = String::from_utf8(output("sha256sum", [at("layer.tar")]).stdout).expect("text");
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
