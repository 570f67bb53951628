//! The container runtime's part of a path.

use super::{Place, Role, Runtime, is_id};

/// What the names of scopes (and of CRI-O's and Podman's folders without systemd) begin with. Longer ones
/// come first.
const PREFIXES: [(&str, Option<Runtime>); 6] = [
    ("crio-conmon-", None),
    ("libpod-conmon-", None),
    ("cri-containerd-", Some(Runtime::Containerd)),
    ("crio-", Some(Runtime::Crio)),
    ("docker-", Some(Runtime::Docker)),
    ("libpod-", Some(Runtime::Podman)),
];
/// Folders in which bare ids lie.
const FOLDERS: [(&str, Runtime); 3] =
    [("docker", Runtime::Docker), ("k8s.io", Runtime::Containerd), ("moby", Runtime::Docker)];
/// A container's id without anything around it.
const BARE_ID: usize = 64;

/// What `name` below `parent` is, if it is a container's or its helper's.
pub(super) fn child(parent: &Place, parent_name: &str, name: &str) -> Option<Place> {
    let scope = name.strip_suffix(".scope");
    let stem = scope.unwrap_or(name);
    let prefixed = PREFIXES.iter().find_map(|(prefix, runtime)| Some((stem.strip_prefix(prefix)?, *runtime)));
    if let Some((id, runtime)) = prefixed {
        // Without systemd only an id can tell `docker-x` from a name that somebody chose.
        let is_one = if scope.is_some() { is_id(id) } else { is_bare(id) };
        let role = if runtime.is_some() { Role::Container } else { Role::Helper };
        return is_one.then(|| place(parent, role, id, runtime));
    }
    let folder = FOLDERS.iter().find(|(folder, _)| *folder == parent_name);
    if is_bare(name) && (folder.is_some() || parent.role == Role::Pod) {
        return Some(place(parent, Role::Container, name, folder.map(|(_, runtime)| *runtime)));
    }
    None
}

fn place(parent: &Place, role: Role, id: &str, runtime: Option<Runtime>) -> Place {
    Place { role, container: Some(id.to_owned()), runtime, unit: None, ..parent.clone() }
}

fn is_bare(id: &str) -> bool {
    id.len() == BARE_ID && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}
