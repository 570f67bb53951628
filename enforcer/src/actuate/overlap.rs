//! Which cgroups must not be worked on at once. No I/O.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// Whether work on `a` and on `b` would get in each other's way: the same cgroup, one above the other, or two
/// containers of one pod. Both below the same mount.
pub(super) fn overlap(a: &Path, b: &Path) -> bool {
    a.starts_with(b) || b.starts_with(a) || pod(a).is_some_and(|pod_of_a| pod(b) == Some(pod_of_a))
}

/// The folder of the pod that a cgroup belongs to: `kubepods-...-pod<uid>.slice` with the kubelet's systemd driver,
/// `kubepods/.../pod<uid>` with its cgroupfs driver.
pub(super) fn pod(path: &Path) -> Option<PathBuf> {
    let mut so_far = PathBuf::new();
    let mut in_kubepods = false;
    for part in path {
        so_far.push(part);
        if in_kubepods && is_pod(part) {
            return Some(so_far);
        }
        in_kubepods |= part == "kubepods" || part == "kubepods.slice";
    }
    None
}

fn is_pod(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let systemd = name.starts_with(b"kubepods-")
        && name.ends_with(b".slice")
        && name.windows(4).any(|window| window == b"-pod");
    systemd || name.starts_with(b"pod")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: &str, b: &str, expected: bool) {
        assert_eq!(overlap(Path::new(a), Path::new(b)), expected, "{a} {b}");
        assert_eq!(overlap(Path::new(b), Path::new(a)), expected, "{b} {a}");
    }

    #[test]
    fn same_above_and_below() {
        check("a/b", "a/b", true);
        check("a", "a/b/c", true);
        check("a/b", "a/bc", false);
        check("a/b", "a/c", false);
    }

    #[test]
    fn containers_of_one_pod() {
        let burstable = "kubepods.slice/kubepods-burstable.slice";
        let pod = |uid: &str| format!("{burstable}/kubepods-burstable-pod{uid}.slice");
        check(&format!("{}/a.scope", pod("1_2")), &format!("{}/b.scope", pod("1_2")), true);
        check(&format!("{}/a.scope", pod("1_2")), &format!("{}/b.scope", pod("3_4")), false);
        check("kubepods/burstable/pod1/a", "kubepods/burstable/pod1/b", true);
        check("kubepods/burstable/pod1/a", "kubepods/burstable/pod2/b", false);
        let guaranteed = "kubepods.slice/kubepods-pod9.slice";
        check(&format!("{guaranteed}/a.scope"), &format!("{guaranteed}/b.scope"), true);
    }

    #[test]
    fn a_folder_that_is_called_like_a_pod_elsewhere_is_none() {
        check("machines/pod1/a", "machines/pod1/b", false);
    }
}
