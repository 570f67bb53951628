//! How a pod or container is named: `pod/NAMESPACE/NAME[:CONTAINER]`. No I/O.

use super::{Container, ContainerState, Inventory, Pod, PodState};
use crate::cgroup::shown;
use std::fmt;

/// What a target begins with.
pub const PREFIX: &str = "pod/";
/// Longest name of a namespace or container (RFC 1123 label).
const LABEL_BYTES_MAX: usize = 63;
/// Longest name of a pod (RFC 1123 subdomain).
const NAME_BYTES_MAX: usize = 253;
/// Names that an error lists.
const LISTED_MAX: usize = 16;

/// A name of a pod, or of one of its containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The container's name, where it is about one.
    pub container: Option<String>,
}

/// What a target means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolved<'a> {
    /// The whole pod.
    Pod(&'a Pod),
    /// One of its containers.
    Container(&'a Pod, &'a Container),
}

/// Why a target means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is not of the form.
    #[error("\"{}\" is no pod/NAMESPACE/NAME[:CONTAINER]: {why}", shown(.text))]
    Form {
        /// All of it.
        text: String,
        /// What is wrong.
        why: &'static str,
    },
    /// There is no such pod.
    #[error("the runtime has no pod {target}; {}", list(.there_are))]
    NoPod {
        /// The target.
        target: Target,
        /// The pods that there are: those of the namespace, or all where that has none.
        there_are: Vec<String>,
    },
    /// Several pods that run have this name.
    #[error("{target} means more than one pod; {}", list(.there_are))]
    ManyPods {
        /// The target.
        target: Target,
        /// Their UIDs and sandboxes.
        there_are: Vec<String>,
    },
    /// The pod has no such container.
    #[error("there is no container {target}; {}", list(.there_are))]
    NoContainer {
        /// The target.
        target: Target,
        /// The containers of the pod.
        there_are: Vec<String>,
    },
    /// Several containers that run have this name.
    #[error("{target} means more than one container; {}", list(.there_are))]
    ManyContainers {
        /// The target.
        target: Target,
        /// Their ids.
        there_are: Vec<String>,
    },
}

impl Target {
    /// Whether `text` is meant to be a target: a cgroup's path would not begin like this.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Reads one.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let form = |why| TargetError::Form { text: text.into(), why };
        let rest = text.strip_prefix(PREFIX).ok_or_else(|| form("it does not begin with pod/"))?;
        let (namespace, rest) = rest
            .split_once('/')
            .ok_or_else(|| form("it has one part where a namespace and a name belong"))?;
        let (name, container) = match rest.split_once(':') {
            Some((name, container)) => (name, Some(container)),
            None => (rest, None),
        };
        if !is_name(namespace, LABEL_BYTES_MAX, false) {
            return Err(form("a namespace is made of a-z, 0-9 and dashes, 63 at most"));
        }
        if !is_name(name, NAME_BYTES_MAX, true) {
            return Err(form("a pod's name is made of a-z, 0-9, dashes and dots, 253 at most"));
        }
        if !container.is_none_or(|container| is_name(container, LABEL_BYTES_MAX, false)) {
            return Err(form("a container's name is made of a-z, 0-9 and dashes, 63 at most"));
        }
        Ok(Self { namespace: namespace.into(), name: name.into(), container: container.map(Into::into) })
    }

    /// What it means: of several pods or containers of one name the one that runs, else the latest.
    pub fn resolve<'a>(&self, inventory: &'a Inventory) -> Result<Resolved<'a>, TargetError> {
        let pod = self.pod(inventory)?;
        let Some(name) = &self.container else { return Ok(Resolved::Pod(pod)) };
        let all: Vec<_> = inventory.containers_of(&pod.sandbox).collect();
        let named = all.iter().copied().filter(|container| container.name == *name);
        let is_up = |container: &&Container| container.state == ContainerState::Running;
        match one(named, is_up, |container| container.attempt) {
            Ok(Some(container)) => Ok(Resolved::Container(pod, container)),
            Ok(None) => {
                let there_are = sorted(all.iter().map(|container| container.name.clone()));
                Err(TargetError::NoContainer { target: self.clone(), there_are })
            }
            Err(many) => {
                let there_are = sorted(many.iter().map(|container| container.id.clone()));
                Err(TargetError::ManyContainers { target: self.clone(), there_are })
            }
        }
    }

    fn pod<'a>(&self, inventory: &'a Inventory) -> Result<&'a Pod, TargetError> {
        let here = |pod: &&Pod| pod.namespace == self.namespace;
        let named = inventory.pods().filter(here).filter(|pod| pod.name == self.name);
        match one(named, |pod| pod.state == PodState::Ready, |pod| pod.attempt) {
            Ok(Some(pod)) => Ok(pod),
            Ok(None) => {
                let full = |pod: &Pod| format!("{}/{}", pod.namespace, pod.name);
                let mut there_are = sorted(inventory.pods().filter(here).map(full));
                if there_are.is_empty() {
                    there_are = sorted(inventory.pods().map(full));
                }
                Err(TargetError::NoPod { target: self.clone(), there_are })
            }
            Err(many) => {
                let there_are =
                    sorted(many.iter().map(|pod| format!("{} in sandbox {}", pod.uid, pod.sandbox)));
                Err(TargetError::ManyPods { target: self.clone(), there_are })
            }
        }
    }
}

/// The one that is up; of those that are not, the latest. Several that are up are an error.
fn one<'a, T>(
    all: impl Iterator<Item = &'a T>,
    is_up: impl Fn(&&'a T) -> bool,
    attempt: impl Fn(&T) -> u32,
) -> Result<Option<&'a T>, Vec<&'a T>> {
    let (up, down): (Vec<_>, Vec<_>) = all.partition(is_up);
    match up[..] {
        [one] => Ok(Some(one)),
        [] => Ok(down.into_iter().max_by_key(|one| attempt(one))),
        _ => Err(up),
    }
}

fn is_name(text: &str, bytes_max: usize, dots: bool) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = |byte: u8| plain(byte) || byte == b'-' || (dots && byte == b'.');
    let ends = text.bytes().next().is_some_and(plain) && text.bytes().next_back().is_some_and(plain);
    ends && text.len() <= bytes_max && text.bytes().all(inner)
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Names are other people's text.
fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "there are none".into();
    }
    let listed: Vec<_> = names.iter().take(LISTED_MAX).map(shown).collect();
    match names.len().saturating_sub(LISTED_MAX) {
        0 => format!("there are {}", listed.join(", ")),
        more => format!("there are {} and {more} more", listed.join(", ")),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}/{}", self.namespace, self.name)?;
        self.container.as_ref().map_or(Ok(()), |container| write!(f, ":{container}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::known::tests::{container, pod};
    use super::*;
    use crate::inventory::{Event, Listing};
    use proptest::prelude::*;

    #[test]
    fn the_form() {
        let target = Target::parse("pod/kube-system/web.0-a:main").expect("a target");
        assert_eq!((target.namespace.as_str(), target.name.as_str()), ("kube-system", "web.0-a"));
        assert_eq!(target.container.as_deref(), Some("main"));
        for (text, says) in [
            ("", "begin with"),
            ("system.slice/x", "begin with"),
            ("pod/a", "a namespace and a name"),
            ("pod//a", "a namespace is"),
            ("pod/a/", "a pod's name is"),
            ("pod/a/b/c", "a pod's name is"),
            ("pod/a/B", "a pod's name is"),
            ("pod/a/-b", "a pod's name is"),
            ("pod/a.b/c", "a namespace is"),
            ("pod/a/b:", "a container's name is"),
            ("pod/a/b:c:d", "a container's name is"),
            ("pod/a/\u{1b}[2J", "a pod's name is"),
            (&format!("pod/{}/a", "a".repeat(64)), "a namespace is"),
        ] {
            let error = Target::parse(text).expect_err(text).to_string();
            assert!(error.contains(says) && !error.contains('\u{1b}'), "{text:?}: {error}");
        }
    }

    fn resolved(listing: Listing, text: &str) -> Result<String, String> {
        let mut inventory = Inventory::default();
        inventory.replace(listing);
        let target = Target::parse(text).expect("a target");
        match target.resolve(&inventory) {
            Ok(Resolved::Pod(pod)) => Ok(pod.sandbox.clone()),
            Ok(Resolved::Container(_, container)) => Ok(container.id.clone()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn of_several_the_one_that_runs_or_the_latest() {
        let old = Pod { state: PodState::NotReady, attempt: 3, ..pod("old", "web") };
        let exited = |id: &str, attempt| Container {
            state: ContainerState::Exited,
            attempt,
            ..container(id, "now", "main")
        };
        let listing = Listing {
            pods: vec![pod("now", "web"), old],
            containers: vec![
                exited("c0", 0),
                container("c1", "now", "main"),
                exited("d0", 0),
                Container { name: "side".into(), ..exited("s0", 0) },
                Container { name: "side".into(), ..exited("s1", 1) },
                container("x", "old", "main"),
            ],
            ..Listing::default()
        };
        assert_eq!(resolved(listing.clone(), "pod/default/web"), Ok("now".into()));
        assert_eq!(resolved(listing.clone(), "pod/default/web:main"), Ok("c1".into()));
        assert_eq!(resolved(listing.clone(), "pod/default/web:side"), Ok("s1".into()));
        assert_eq!(
            resolved(listing, "pod/default/web:none"),
            Err("there is no container pod/default/web:none; there are main, side".into())
        );
    }

    #[test]
    fn what_is_not_there_or_twice_lists_what_there_is() {
        let pods = |names: &[&str]| names.iter().map(|name| pod(&format!("s-{name}"), name)).collect();
        let listing = Listing { pods: pods(&["a", "b\u{1b}"]), ..Listing::default() };
        for text in ["pod/default/c", "pod/elsewhere/c"] {
            let says = format!("the runtime has no pod {text}; there are default/a, default/b\\u{{1b}}");
            assert_eq!(resolved(listing.clone(), text), Err(says));
        }
        assert_eq!(
            resolved(Listing::default(), "pod/default/c"),
            Err("the runtime has no pod pod/default/c; there are none".into())
        );
        let twice = Listing { pods: vec![pod("s1", "a"), pod("s2", "a")], ..Listing::default() };
        let error = resolved(twice, "pod/default/a").expect_err("two run");
        assert!(error.ends_with("there are uid-a in sandbox s1, uid-a in sandbox s2"), "{error}");
        let twice = vec![container("c1", "s", "x"), container("c2", "s", "x")];
        let twice = Listing { pods: vec![pod("s", "a")], containers: twice, ..Listing::default() };
        let error = resolved(twice, "pod/default/a:x").expect_err("two run");
        assert!(error.ends_with("there are c1, c2"), "{error}");
        let many = (0..100).map(|n| pod(&format!("s{n}"), &format!("p{n}"))).collect();
        let error =
            resolved(Listing { pods: many, ..Listing::default() }, "pod/default/x").expect_err("none");
        assert!(error.ends_with("and 84 more") && error.len() < 1000, "{error}");
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_typed_again(text in "pod/[a-z0-9.:/-]{0,30}|\\PC{0,30}") {
            if let Ok(target) = Target::parse(&text) {
                prop_assert_eq!(target.to_string(), text);
            }
        }

        #[test]
        fn a_pod_that_is_there_is_found(name in "[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?") {
            let mut inventory = Inventory::default();
            inventory.apply(Event::Pod(pod("s", &name)));
            let target = Target::parse(&format!("pod/default/{name}")).expect("a target");
            prop_assert!(target.resolve(&inventory).is_ok());
        }
    }
}
