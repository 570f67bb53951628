//! The kubelet's part of a path: all pods, QoS class, pod.

use super::{Place, Qos, Role, is_id};

/// What `name` below `parent` is, if it is the kubelet's.
pub(super) fn child(parent: &Place, name: &str) -> Option<Place> {
    match parent.role {
        Role::Node | Role::Unit | Role::Other => {
            // `--cgroup-root` puts its own name in front.
            let is_pods = name == "kubepods" || slice(name)?.rsplit('-').next() == Some("kubepods");
            (is_pods && parent.pod.is_none()).then(|| Place::new(Role::Pods))
        }
        Role::Pods => qos(name).or_else(|| pod(name, Qos::Guaranteed)),
        Role::Qos => pod(name, parent.qos?),
        Role::Pod | Role::Container | Role::InContainer | Role::Helper => None,
    }
}

fn slice(name: &str) -> Option<&str> {
    name.strip_suffix(".slice")
}

fn qos(name: &str) -> Option<Place> {
    let word = slice(name).map_or(Some(name), |stem| stem.rsplit('-').next())?;
    let qos = [Qos::Burstable, Qos::BestEffort].into_iter().find(|qos| qos.name() == word)?;
    Some(Place { qos: Some(qos), ..Place::new(Role::Qos) })
}

/// `pod<uid>`, or `<parent>-pod<uid with underlines>.slice`.
fn pod(name: &str, qos: Qos) -> Option<Place> {
    let uid = match slice(name) {
        Some(stem) => stem.rsplit('-').next()?.strip_prefix("pod")?.replace('_', "-"),
        None => name.strip_prefix("pod")?.to_owned(),
    };
    is_id(&uid).then(|| Place { qos: Some(qos), pod: Some(uid), ..Place::new(Role::Pod) })
}
