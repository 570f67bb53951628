//! Pods and nodes as an API server of 1.35 sends them, for tests.

use super::{
    node::NodeState,
    resources,
    state::{PodName, PodState},
};
use enforcer_gate::Bytes;
use serde_json::{Value, json};

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn mib(n: u64) -> Bytes {
    Bytes::from_mib(n)
}

/// `shop/web-1` on `node-a`: Burstable, two containers and a sidecar, nothing in flight.
pub(crate) fn pod_json() -> Value {
    let one = |name: &str, memory: &str, cpu: &str| {
        json!({
            "name": name,
            "image": "registry.example/web:1",
            "resources": {"limits": {"memory": memory, "cpu": cpu}, "requests": {"memory": "100Mi", "cpu": "100m"}},
            "resizePolicy": [
                {"resourceName": "cpu", "restartPolicy": "NotRequired"},
                {"resourceName": "memory", "restartPolicy": "NotRequired"}
            ]
        })
    };
    let status = |name: &str, memory: &str, cpu: &str| {
        json!({
            "name": name, "image": "i", "imageID": "i", "ready": true, "restartCount": 1, "started": true,
            "containerID": format!("containerd://id-of-{name}"),
            "state": {"running": {"startedAt": "2026-11-30T00:00:00Z"}},
            "allocatedResources": {"memory": "100Mi", "cpu": "100m"},
            "resources": {"limits": {"memory": memory, "cpu": cpu}, "requests": {"memory": "100Mi", "cpu": "100m"}}
        })
    };
    let mut sidecar = one("proxy", "150Mi", "200m");
    sidecar["restartPolicy"] = json!("Always");
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-1", "namespace": "shop", "uid": "7b1c1d9e-0000-4000-8000-000000000001",
            "resourceVersion": "1000", "generation": 3,
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update", "time": "2026-11-30T00:00:00Z"},
                {"manager": "kubectl-edit", "operation": "Update", "subresource": "resize",
                 "time": "2026-11-30T00:10:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}},
                {"manager": "vpa-updater", "operation": "Apply", "subresource": "resize",
                 "time": "2026-11-30T00:20:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}},
                {"manager": "kubelet", "operation": "Update", "subresource": "status", "time": "2026-11-30T01:00:00Z"}
            ]
        },
        "spec": {
            "nodeName": "node-a",
            "initContainers": [sidecar],
            "containers": [one("main", "400Mi", "500m"), one("side", "100Mi", "200m")]
        },
        "status": {
            "phase": "Running", "qosClass": "Burstable", "observedGeneration": 3,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-30T00:00:10Z"}],
            "initContainerStatuses": [status("proxy", "150Mi", "200m")],
            "containerStatuses": [status("main", "400Mi", "500m"), status("side", "100Mi", "200m")]
        }
    })
}

/// `node-a`, 4 CPUs and 4 GiB of which pods can have 3.8 CPUs and 3.5 GiB.
pub(crate) fn node_json() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-a", "resourceVersion": "900"},
        "status": {
            "capacity": {"cpu": "4", "memory": "4Gi", "pods": "110"},
            "allocatable": {"cpu": "3800m", "memory": "3584Mi", "pods": "110"},
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": "True", "message": "kubelet is posting ready status",
                 "lastTransitionTime": "2026-11-30T00:00:00Z"}
            ],
            "nodeInfo": {
                "kubeletVersion": "v1.35.8", "containerRuntimeVersion": "containerd://2.1.4", "architecture": "amd64",
                "bootID": "b", "kernelVersion": "6.12", "kubeProxyVersion": "", "machineID": "m",
                "operatingSystem": "linux", "osImage": "Debian", "systemUUID": "s"
            },
            "declaredFeatures": ["InPlacePodLevelResourcesVerticalScaling"]
        }
    })
}

/// What is kept of [`pod_json`] after an edit.
pub(crate) fn pod(edit: impl FnOnce(&mut Value)) -> PodState {
    let mut value = pod_json();
    edit(&mut value);
    resources::pod(&serde_json::from_value(value).expect("a pod"))
}

/// What is kept of [`node_json`] after an edit.
pub(crate) fn node(edit: impl FnOnce(&mut Value)) -> NodeState {
    let mut value = node_json();
    edit(&mut value);
    resources::node(&serde_json::from_value(value).expect("a node"))
}

/// Another pod of this name.
pub(crate) fn named(name: &str, edit: impl FnOnce(&mut Value)) -> PodState {
    let mut pod = pod(edit);
    pod.name = PodName { namespace: "shop".into(), name: name.into() };
    pod.uid = name.into();
    pod
}

/// A condition that holds since 00:30.
pub(crate) fn condition(kind: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": reason, "message": message, "observedGeneration": 4,
           "lastTransitionTime": "2026-11-30T00:30:00Z"})
}

/// The main container's limit is to go to 200 MiB, and the kubelet says so.
pub(crate) fn shrink(value: &mut Value, conditions: &[Value]) {
    value["metadata"]["generation"] = json!(4);
    value["status"]["observedGeneration"] = json!(4);
    value["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("200Mi");
    value["status"]["conditions"] = json!(conditions);
}
