//! What the verbose part of a status says: JSON that is the runtime's own affair (containerd's
//! `pkg/cri/server/container_status.go`, CRI-O's `server/container_status.go`), so nothing in it is relied on to be there.

use crate::cri::message::LinuxContainerResources;
use serde_json::Value;
use std::collections::BTreeMap;

/// Under which key containerd and CRI-O put it.
const KEY: &str = "info";

/// Entries of `linux.resources.unified` that are looked at: there are not as many limit files.
const UNIFIED_MAX: usize = 64;

/// What is used of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verbose {
    /// The first process, as the node counts.
    pub pid: Option<u32>,
    /// `linux.cgroupsPath` of the OCI runtime specification.
    pub cgroups_path: Option<String>,
    /// `linux.resources` of the OCI runtime specification.
    pub resources: Option<LinuxContainerResources>,
    /// The OCI runtime's program, as containerd has it configured.
    pub program: Option<String>,
}

/// Reads it; empty where there is nothing of use.
pub fn verbose(info: &BTreeMap<String, String>) -> Verbose {
    let Some(json) = info.get(KEY).and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return Verbose::default();
    };
    let pid = json.pointer("/pid").and_then(Value::as_u64).and_then(|pid| u32::try_from(pid).ok());
    let linux = json.pointer("/runtimeSpec/linux");
    let path = linux.and_then(|linux| linux.get("cgroupsPath")).and_then(Value::as_str);
    Verbose {
        pid: pid.filter(|pid| *pid > 0),
        cgroups_path: path.filter(|path| !path.is_empty()).map(str::to_owned),
        resources: linux.and_then(|linux| linux.get("resources")).map(resources),
        program: json.pointer("/runtimeOptions/binary_name").and_then(Value::as_str).map(str::to_owned),
    }
}

fn resources(json: &Value) -> LinuxContainerResources {
    let number = |pointer| json.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let text = |pointer| json.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    LinuxContainerResources {
        cpu_period: number("/cpu/period"),
        cpu_quota: number("/cpu/quota"),
        cpu_shares: number("/cpu/shares"),
        memory_limit_in_bytes: number("/memory/limit"),
        memory_swap_limit_in_bytes: number("/memory/swap"),
        cpuset_cpus: text("/cpu/cpus"),
        cpuset_mems: text("/cpu/mems"),
        unified: unified(json),
        ..LinuxContainerResources::default()
    }
}

/// Limits under their own names in cgroup v2; bounded.
fn unified(json: &Value) -> BTreeMap<String, String> {
    let all = json.get("unified").and_then(Value::as_object).into_iter().flatten();
    let texts = all.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    texts.take(UNIFIED_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(json: &str) -> Verbose {
        verbose(&BTreeMap::from([(KEY.into(), json.into())]))
    }

    #[test]
    fn what_containerd_says() {
        let found = of(
            r#"{"sandboxID":"s","pid":1234,"removing":false,"runtimeSpec":{"ociVersion":"1.1.0","linux":{
            "resources":{"memory":{"limit":67108864,"swap":67108864},"cpu":{"shares":256,"quota":25000,"period":100000,
            "cpus":"0-1"}},"cgroupsPath":"a.slice:cri-containerd:x"}}}"#,
        );
        assert_eq!(
            (found.pid, found.cgroups_path.as_deref()),
            (Some(1234), Some("a.slice:cri-containerd:x"))
        );
        let resources = found.resources.expect("there are some");
        assert_eq!((resources.memory_limit_in_bytes, resources.cpu_quota), (67_108_864, 25_000));
        assert_eq!(resources.cpuset_cpus, "0-1");
    }

    #[test]
    fn nothing_is_relied_on() {
        assert_eq!(verbose(&BTreeMap::new()), Verbose::default());
        for json in ["", "{", "[]", "{\"pid\":0}", "{\"pid\":-1}", "{\"pid\":\"1\"}", "{\"runtimeSpec\":7}"] {
            assert_eq!(of(json), Verbose::default(), "{json}");
        }
        let odd = of(r#"{"pid":7,"runtimeSpec":{"linux":{"cgroupsPath":9,"resources":[]}}}"#);
        assert_eq!((odd.pid, odd.cgroups_path), (Some(7), None));
        assert_eq!(odd.resources, Some(LinuxContainerResources::default()));
        assert_eq!(of(&"[".repeat(100_000)), Verbose::default());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = of(&text);
        }
    }
}
