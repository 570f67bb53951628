//! The names of pods and containers, by what the kubelet calls their logs.

use crate::names::{ContainerLog, Place, PodLogs};

/// Names in a folder of logs that are looked at.
const LOGS_MAX: usize = 8192;
const POD_LOGS: &str = "/var/log/pods";
const CONTAINER_LOGS: &str = "/var/log/containers";

/// The names of the pod (with its namespace) and the container that a cgroup belongs to.
pub(crate) fn labels(place: &Place) -> (Option<String>, Option<String>) {
    let names = |folder: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(LOGS_MAX);
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let pod = place.pod.as_ref().and_then(|uid| {
        names(POD_LOGS).iter().find_map(|name| {
            PodLogs::parse(name)
                .filter(|log| log.uid == uid)
                .map(|log| format!("{}/{}", log.namespace, log.pod))
        })
    });
    let container = place.container.as_ref().and_then(|id| {
        names(CONTAINER_LOGS).iter().find_map(|name| {
            ContainerLog::parse(name).filter(|log| log.id == id).map(|log| log.container.to_owned())
        })
    });
    (pod, container)
}
