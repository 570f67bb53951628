//! From the runtime's messages to the model: what is no identifier is refused, what is too much is cut or left out. No
//! I/O.

use super::model::{Container, ContainerState, Limits, NoHome, Pod, PodState};
use crate::{
    cri::message::{self, CONTAINER_CREATED, CONTAINER_EXITED, CONTAINER_RUNNING, SANDBOX_READY},
    names::is_id,
};
use enforcer_gate::{Bytes, Limit, Micros};
use std::collections::BTreeMap;

/// Longest name, image or value of a label that is kept; longer ones are cut. Kubernetes' own are shorter than 254.
pub const TEXT_BYTES_MAX: usize = 1024;
/// Labels, and annotations, that are kept of a pod, the first by name. The rest is counted.
pub const MARKS_MAX: usize = 64;

/// A pod, with what was left out of its labels and annotations; `None` where its id is none. Its cgroup is not known
/// yet.
pub fn pod(said: message::PodSandbox) -> Option<(Pod, u64)> {
    let metadata = said.metadata.unwrap_or_default();
    let (labels, labels_out) = marks(said.labels);
    let (annotations, annotations_out) = marks(said.annotations);
    let pod = Pod {
        sandbox: id(said.id)?,
        namespace: text(metadata.namespace),
        name: text(metadata.name),
        uid: text(metadata.uid),
        attempt: metadata.attempt,
        state: if said.state == SANDBOX_READY { PodState::Ready } else { PodState::NotReady },
        handler: text(said.runtime_handler),
        labels,
        annotations,
        cgroup: None,
    };
    Some((pod, labels_out.saturating_add(annotations_out)))
}

/// A container; `None` where its id is none. Its process, cgroups and limits are not known yet.
pub fn container(said: message::Container) -> Option<Container> {
    let metadata = said.metadata.unwrap_or_default();
    let image = said.image.unwrap_or_default();
    let named = [image.user_specified_image, image.image, said.image_ref];
    let state = state(said.state);
    Some(Container {
        id: id(said.id)?,
        sandbox: text(said.pod_sandbox_id),
        name: text(metadata.name),
        attempt: metadata.attempt,
        image: text(named.into_iter().find(|name| !name.is_empty()).unwrap_or_default()),
        state,
        pid: None,
        home: Err(if state == ContainerState::Running { NoHome::NoProcess } else { NoHome::NotRunning }),
        limits: Limits::default(),
    })
}

/// A container's state.
pub fn state(said: i32) -> ContainerState {
    match said {
        CONTAINER_CREATED => ContainerState::Created,
        CONTAINER_RUNNING => ContainerState::Running,
        CONTAINER_EXITED => ContainerState::Exited,
        _ => ContainerState::Unknown,
    }
}

/// Limits as CRI has them: zero is not specified, less is none.
pub fn limits(said: message::LinuxContainerResources) -> Limits {
    let bytes = |bytes: i64| match u64::try_from(bytes) {
        Ok(0) => None,
        Ok(bytes) => Some(Limit::Bytes(Bytes::new(bytes))),
        Err(_) => Some(Limit::Max),
    };
    let number = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
    Limits {
        memory: bytes(said.memory_limit_in_bytes),
        memory_and_swap: bytes(said.memory_swap_limit_in_bytes),
        cpu_quota: number(said.cpu_quota).map(Micros::new),
        cpu_period: number(said.cpu_period).map(Micros::new),
        cpu_shares: number(said.cpu_shares),
        cpuset_cpus: text(said.cpuset_cpus),
        cpuset_mems: text(said.cpuset_mems),
    }
}

fn id(text: String) -> Option<String> {
    is_id(&text).then_some(text)
}

fn text(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    }
    text
}

fn marks(said: BTreeMap<String, String>) -> (BTreeMap<String, String>, u64) {
    let surplus = said.len().saturating_sub(MARKS_MAX) as u64;
    let kept = said.into_iter().take(MARKS_MAX).map(|(key, value)| (text(key), text(value)));
    (kept.collect(), surplus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_cut_and_counted() {
        let mark = |n: u32| (format!("{n:04}"), "ü".repeat(TEXT_BYTES_MAX));
        let said = message::PodSandbox {
            id: "abc".into(),
            state: 9,
            labels: (0..100).map(mark).collect(),
            annotations: (0..10).map(mark).collect(),
            ..message::PodSandbox::default()
        };
        let (pod, left_out) = pod(said.clone()).expect("a pod");
        assert_eq!((pod.state, pod.labels.len(), left_out), (PodState::NotReady, MARKS_MAX, 36));
        assert!(pod.labels.values().all(|value| value.len() <= TEXT_BYTES_MAX));
        for id in ["", "a/b", "a b", "\u{1b}[2J", &"a".repeat(1000)] {
            assert_eq!(super::pod(message::PodSandbox { id: id.into(), ..said.clone() }), None, "{id:?}");
        }
    }

    #[test]
    fn the_image_is_what_was_asked_for() {
        let image = |asked: &str, image: &str| {
            let image = message::ImageSpec { image: image.into(), user_specified_image: asked.into() };
            let id = "abc".into();
            let image = Some(image);
            let image_ref = "sha256:1".into();
            let said = message::Container { id, image, image_ref, ..message::Container::default() };
            container(said).expect("a container").image
        };
        assert_eq!([image("a:1", "b"), image("", "b"), image("", "")], ["a:1", "b", "sha256:1"]);
    }

    #[test]
    fn nothing_specified_is_no_limit_of_zero() {
        assert_eq!(limits(message::LinuxContainerResources::default()), Limits::default());
        let found = limits(message::LinuxContainerResources {
            memory_limit_in_bytes: 64 << 20,
            memory_swap_limit_in_bytes: -1,
            cpu_quota: -1,
            cpu_period: 100_000,
            ..message::LinuxContainerResources::default()
        });
        assert_eq!(found.memory, Some(Limit::Bytes(Bytes::from_mib(64))));
        assert_eq!((found.memory_and_swap, found.cpu_quota), (Some(Limit::Max), None));
        assert_eq!(found.cpu_period, Some(Micros::new(100_000)));
    }
}
