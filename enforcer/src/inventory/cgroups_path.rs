//! The runtime's own word on where a container's cgroup is: `linux.cgroupsPath` of the OCI runtime specification.
//!
//! With the systemd driver it is `slice:prefix:name` (runc's libcontainer/cgroups/systemd, crun's cgroup-systemd.c), else
//! a path.

use std::path::{Component, Path, PathBuf};

/// Longest text that is taken.
const BYTES_MAX: usize = 4096;
/// Where runc and crun put what names no slice.
const DEFAULT_SLICE: &str = "system.slice";

/// The path of the cgroup below the mount, without a slash in front; `None` for what is no such path.
pub fn scope(cgroups_path: &str) -> Option<PathBuf> {
    if cgroups_path.len() > BYTES_MAX {
        return None;
    }
    let parts: Vec<_> = cgroups_path.split(':').collect();
    match parts[..] {
        [slice, prefix, name] if !name.is_empty() && !name.contains('/') && !prefix.contains('/') => {
            let unit = match prefix {
                _ if name.strip_suffix(".slice").is_some() => name.to_owned(),
                "" => format!("{name}.scope"),
                prefix => format!("{prefix}-{name}.scope"),
            };
            Some(slices(if slice.is_empty() { DEFAULT_SLICE } else { slice })?.join(unit))
        }
        [path] => plain(path),
        _ => None,
    }
}

/// A slice's path: `a-b.slice` is in `a.slice` (systemd.slice(5)).
fn slices(slice: &str) -> Option<PathBuf> {
    if slice == "-.slice" {
        return Some(PathBuf::new());
    }
    let stem = slice.strip_suffix(".slice")?;
    let well_formed = !stem.contains('/') && stem.split('-').all(|part| !part.is_empty());
    let ends = stem.match_indices('-').map(|(at, _)| at).chain([stem.len()]);
    well_formed.then(|| ends.map(|end| format!("{}.slice", &stem[..end])).collect())
}

fn plain(path: &str) -> Option<PathBuf> {
    let parts = Path::new(path).components().filter(|part| !matches!(part, Component::RootDir));
    let names = parts.map(|part| match part {
        Component::Normal(name) => Some(name),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    });
    let path: PathBuf = names.collect::<Option<_>>()?;
    (!path.as_os_str().is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_forms() {
        for (text, path) in [
            (
                "kubepods-burstable-pod1_2.slice:cri-containerd:abc",
                Some(
                    "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/cri-containerd-abc.scope",
                ),
            ),
            ("kubepods.slice:crio:abc", Some("kubepods.slice/crio-abc.scope")),
            (":docker:abc", Some("system.slice/docker-abc.scope")),
            ("-.slice:docker:abc", Some("docker-abc.scope")),
            ("a.slice::abc", Some("a.slice/abc.scope")),
            ("a.slice:x:a-b.slice", Some("a.slice/a-b.slice")),
            ("/kubepods/burstable/pod1/abc", Some("kubepods/burstable/pod1/abc")),
            ("abc", Some("abc")),
            ("", None),
            ("/", None),
            ("/a/../b", None),
            ("a.slice:x:", None),
            ("a.slice:x:../../b", None),
            ("a.slice:x/y:b", None),
            ("a:x:b", None),
            ("a--b.slice:x:b", None),
            ("../a.slice:x:b", None),
            ("a.slice:x:b:c", None),
        ] {
            assert_eq!(scope(text), path.map(PathBuf::from), "{text}");
        }
        assert_eq!(scope(&"a/".repeat(BYTES_MAX)), None);
    }

    proptest! {
        #[test]
        fn no_text_leads_out_of_the_mount(text in "[a.:/-]{0,40}|\\PC{0,60}") {
            if let Some(path) = scope(&text) {
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
            }
        }
    }
}
