//! What a pod costs, measured with a real containerd.

mod ends;
mod figures;
mod watched;

use crate::cri::rig::Containerd;
use enforcer::overhead::helpers::Process;
use enforcer::overhead::sample::Proc;
use enforcer_vm_tests::case::{Case, Tier, nothing};
use enforcer_vm_tests::scratch::MOUNT;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Of every pod that a measurement makes.
const LABEL: &str = "enforcer.dev/overhead";
/// A short form: some fifteen pods, of which five run at a time.
const SHORT: [&str; 8] = [
    "--steps=0,5",
    "--repetitions=3",
    "--settle=30s",
    "--duration=3s",
    "--seed=7",
    "--output=json",
    "--deadline=60s",
    "--cgroup-driver=systemd",
];

pub(crate) fn cases() -> Vec<Case> {
    let debian = |name, run| Case { name, tier: Tier::Debian, needs: nothing, run };
    vec![
        debian("overhead::probes_are_put_down_to_their_pod", figures::probed),
        debian("overhead::an_agent_tells_what_pods_of_two_runtimes_cost", watched::pods_of_two_runtimes),
        debian("overhead::runc_is_measured_and_the_node_confirms_it", figures::runc),
        debian("overhead::however_it_ends_nothing_is_left", ends::however),
        debian("overhead::crun_is_measured_and_the_node_confirms_it", figures::crun),
        debian("overhead::a_helper_that_is_not_found_is_missed", figures::hidden),
        debian("overhead::three_runs_say_the_same", figures::three_runs),
    ]
}

/// `enforcer overhead` with these words.
fn overhead(words: &[&str]) -> Command {
    let mut command = Command::new("/bin/enforcer");
    command.arg("overhead").args(words).stdin(Stdio::null());
    command
}

/// Starts a measurement in its short form, but for what is named here.
fn start(more: &[&str]) -> Child {
    let name = |word: &str| word.split('=').next().map(str::to_owned);
    let short = SHORT.iter().filter(|word| !more.iter().any(|more| name(more) == name(word)));
    let words: Vec<&str> = ["measure"].iter().chain(short).chain(more).copied().collect();
    overhead(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts")
}

/// What it says, and its exit code.
fn ended(output: &Output) -> (Value, Option<i32>) {
    let told = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    let json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}; {told}"));
    (json, output.status.code())
}

/// Waits until the runtime has so many pods of a measurement, and gives back their sandboxes.
async fn pods(containerd: &Containerd, at_least: usize) -> Vec<String> {
    let client = containerd.client().await;
    let began = std::time::Instant::now();
    loop {
        let pods = client.list_pod_sandbox(None).await.expect("is listed");
        let ours = pods.into_iter().filter(|pod| pod.labels.contains_key(LABEL));
        let ours: Vec<String> = ours.map(|pod| pod.id).collect();
        if ours.len() >= at_least {
            return ours;
        }
        assert!(began.elapsed() < crate::cri::rig::LONG, "no pods come");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// No pod, image, cgroup or mount of a measurement is there any more.
async fn nothing_is_left(containerd: &Containerd) {
    assert_eq!(pods(containerd, 0).await, [] as [String; 0]);
    let images = containerd.client().await.list_images().await.expect("is listed");
    let tags: Vec<String> = images.into_iter().flat_map(|image| image.repo_tags).collect();
    assert!(!tags.iter().any(|tag| tag.contains("enforcer-overhead")), "{tags:?}");
    let slices = Path::new(MOUNT).join("kubepods.slice");
    assert!(!slices.exists(), "{} is still there", slices.display());
    let table = Proc::default().table().expect("is read");
    let is_shim = |process: &&Process| process.argv.iter().any(|arg| arg == "k8s.io");
    let shims: Vec<_> = table.iter().filter(is_shim).collect();
    assert!(shims.is_empty(), "{shims:?}");
}
