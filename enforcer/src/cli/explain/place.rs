//! Whose cgroup a path is, among the containers that run. No I/O.

use crate::{admin::model::ContainerView, cgroup::shown, cli::records::below_mount, inventory::Target};
use std::collections::BTreeSet;

/// Pods that an error lists.
const LISTED_MAX: usize = 8;

/// Why a path stands for no pod or container.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PlaceError {
    /// It has nothing to do with any.
    #[error("it is the cgroup of no container that runs, nor of its pod")]
    Nobody,
    /// It is above several pods.
    #[error("it holds the cgroups of {count} pods: {}{}", listed.join(", "), if *count > listed.len() { ", ..." } else { "" })]
    Above {
        /// How many.
        count: usize,
        /// The first of them, as targets; fit to print.
        listed: Vec<String>,
    },
}

impl PlaceError {
    /// What to do about it.
    pub(super) fn advice(&self) -> &'static str {
        match self {
            Self::Nobody => {
                "enforcer ps lists containers with their cgroups; enforcer floor CGROUP is for any cgroup"
            }
            Self::Above { .. } => "name one of them",
        }
    }
}

/// The container in whose cgroup the path is, or the pod whose slice it is: the cgroup right above its containers'.
pub(super) fn owner(path: &str, views: &[ContainerView]) -> Result<Target, PlaceError> {
    let path = shown(below_mount(path));
    let target = |view: &ContainerView, container: Option<&String>| Target {
        namespace: view.namespace.clone(),
        name: view.pod.clone(),
        container: container.cloned(),
    };
    let placed = || views.iter().filter(|view| !view.cgroup.is_empty());
    // The innermost, where one is in another's.
    let inside = placed().filter(|view| is_in(&path, below_mount(&view.cgroup)));
    if let Some(view) = inside.max_by_key(|view| view.cgroup.len()) {
        return Ok(target(view, Some(&view.container)));
    }
    let pods = |wanted: &dyn Fn(&str) -> bool| {
        let found = placed().filter(|view| wanted(below_mount(&view.cgroup)));
        found.map(|view| (view.namespace.clone(), view.pod.clone())).collect::<BTreeSet<_>>()
    };
    let parent = |cgroup: &str| cgroup.rsplit_once('/').is_some_and(|(parent, _)| parent == path);
    let mut own = pods(&parent).into_iter();
    if let (Some((namespace, name)), None) = (own.next(), own.next()) {
        return Ok(Target { namespace, name, container: None });
    }
    let below = pods(&|cgroup| is_in(cgroup, &path));
    if below.is_empty() {
        return Err(PlaceError::Nobody);
    }
    let listed =
        below.iter().take(LISTED_MAX).map(|(namespace, name)| shown(format!("pod/{namespace}/{name}")));
    Err(PlaceError::Above { count: below.len(), listed: listed.collect() })
}

fn is_in(path: &str, cgroup: &str) -> bool {
    let rest = path.strip_prefix(cgroup);
    rest.is_some_and(|rest| rest.is_empty() || cgroup.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::fixture;

    fn view(pod: &str, container: &str, cgroup: &str) -> ContainerView {
        ContainerView {
            namespace: "shop".into(),
            pod: pod.into(),
            container: container.into(),
            cgroup: cgroup.into(),
            ..fixture::container()
        }
    }

    #[test]
    fn a_containers_its_pods_and_nobodys() {
        let views = [
            view("web-0", "main", "kubepods.slice/pod0.slice/c0.scope"),
            view("web-0", "side", "kubepods.slice/pod0.slice/c1.scope"),
            view("web-1", "main", "kubepods.slice/pod1.slice/c2.scope"),
            view("bare", "a", "flat/a"),
            view("other", "b", "flat/b"),
            view("lost", "x", ""),
        ];
        for (path, expected) in [
            ("/sys/fs/cgroup/kubepods.slice/pod0.slice/c0.scope", "pod/shop/web-0:main"),
            ("kubepods.slice/pod0.slice/c1.scope/", "pod/shop/web-0:side"),
            ("kubepods.slice/pod0.slice/c1.scope/init/x", "pod/shop/web-0:side"),
            ("/kubepods.slice/pod0.slice", "pod/shop/web-0"),
            ("kubepods.slice/pod1.slice", "pod/shop/web-1"),
            ("flat/a", "pod/shop/bare:a"),
        ] {
            assert_eq!(owner(path, &views).map(|target| target.to_string()), Ok(expected.into()), "{path}");
        }
        for (path, says) in [
            ("kubepods.slice", "it holds the cgroups of 2 pods: pod/shop/web-0, pod/shop/web-1"),
            ("flat", "it holds the cgroups of 2 pods: pod/shop/bare, pod/shop/other"),
            (
                "/sys/fs/cgroup",
                "it holds the cgroups of 4 pods: pod/shop/bare, pod/shop/other, pod/shop/web-0, pod/shop/web-1",
            ),
            (
                "kubepods.slice/pod0.slice/c0.scopes",
                "it is the cgroup of no container that runs, nor of its pod",
            ),
            ("kubepods.slice/pod", "it is the cgroup of no container that runs, nor of its pod"),
            ("system.slice", "it is the cgroup of no container that runs, nor of its pod"),
        ] {
            assert_eq!(owner(path, &views).map_err(|error| error.to_string()), Err(says.into()), "{path}");
        }
        let many: Vec<_> = (0..20).map(|n| view(&format!("p{n:02}"), "c", &format!("k/{n}/c"))).collect();
        let error = owner("k", &many).expect_err("several").to_string();
        assert!(
            error.contains("of 20 pods: pod/shop/p00, ") && error.ends_with("pod/shop/p07, ..."),
            "{error}"
        );
    }
}
