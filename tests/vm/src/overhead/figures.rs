//! Figures, and the node's word on them.

use super::{ended, nothing_is_left, start};
use crate::cri::block_on;
use crate::cri::rig::{Containerd, ODD};
use serde_json::Value;

pub(super) fn runc() {
    confirmed("runc");
}

pub(super) fn crun() {
    confirmed("crun");
}

/// Measures, and gives back what it says.
async fn measured(handler: &str) -> (Value, Option<i32>, String) {
    let containerd = Containerd::start().await;
    let own = containerd.cgroup();
    let measurement = start(&["--runtime-handler", handler]);
    let output = tokio::task::spawn_blocking(|| measurement.wait_with_output());
    let (run, code) = ended(&output.await.expect("no panic").expect("it ends"));
    println!("{handler}: {} {}", run["kernel"], run["runtime"]);
    println!("{handler}: {}", run["result"]);
    nothing_is_left(&containerd).await;
    containerd.end().await;
    (run, code, own)
}

fn confirmed(handler: &'static str) {
    block_on(async {
        let (run, code, containerd) = measured(handler).await;
        let acceptance = &run["result"]["acceptance"];
        assert_eq!((code, &acceptance["verdict"]), (Some(0), &"accepted".into()), "{}", run["result"]);
        let samples = run["pods"].as_array().expect("samples");
        assert_eq!(samples.len(), 3 * 5, "each pod of each step");
        for sample in samples {
            assert_eq!(sample["flags"], serde_json::json!([]), "{sample}");
            let helpers = sample["helpers"].as_array().expect("helpers");
            assert_eq!(helpers.len(), 1, "{sample}");
            // The shim is in the cgroup of who started it, outside of its pod.
            let shim = &helpers[0];
            assert_eq!((&shim["rule"], &shim["in_pod"]), (&"containerd_shim".into(), &false.into()));
            assert_eq!(shim["cgroup"], containerd.as_str());
            assert!(sample["cpu"]["span"].as_u64() >= Some(3_000_000), "{sample}");
            let anon = sample["terms"]["helper_anon"].as_u64().expect("bytes");
            assert!((1 << 20..64 << 20).contains(&anon), "{sample}");
            assert!(sample["terms"]["pod_kernel"].as_u64().expect("bytes") > 0, "{sample}");
        }
        // Enough for what was measured, in whole MiB.
        let total = run["result"]["total"]["p95"].as_u64().expect("bytes");
        let fixed = run["result"]["pod_fixed"].as_u64().expect("bytes");
        assert!(
            fixed > total && fixed.is_multiple_of(1 << 20) && fixed < total + (8 << 20),
            "{fixed} {total}"
        );
    });
}

/// The shim under another name: no rule finds it, and the node misses more than is attributed.
pub(super) fn hidden() {
    block_on(async {
        let (run, code, _) = measured(ODD).await;
        let result = &run["result"];
        assert_eq!((code, &result["acceptance"]["verdict"]), (Some(4), &"unexplained".into()), "{result}");
        let unexplained = result["acceptance"]["unexplained"].as_f64().expect("bytes");
        assert!(unexplained > f64::from(1 << 20), "{result}");
        let samples = run["pods"].as_array().expect("samples");
        let no_helper = serde_json::json!({"flag": "no_helper"});
        assert!(
            samples.iter().all(|sample| sample["flags"] == serde_json::json!([no_helper])),
            "{samples:?}"
        );
    });
}
