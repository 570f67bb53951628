//! Which cgroup is a container's, from where its process is and from the runtime's own word. No I/O.

use super::model::NoHome;
use crate::cgroup::membership;
use crate::names::{Place, Role};
use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

/// The cgroup of a process below the mount, without a slash in front, from its `/proc/PID/cgroup`. `None` where that
/// has none of cgroup v2, where it was removed, or where it is outside of what is seen from here.
pub fn own(text: &[u8]) -> Option<PathBuf> {
    let path = membership(text)?;
    let removed = path.as_os_str().as_bytes().ends_with(b" (deleted)");
    let outside = path.components().any(|part| part == Component::ParentDir);
    (!removed && !outside).then(|| path.to_owned())
}

/// The scope of the container `id`, whose process is in `own`; `word` is where the runtime says that it is.
///
/// The name of the cgroup must have the container's id in it, where ids are: a number that another process has by now
/// gives no wrong cgroup. Names below another container's cgroup prove nothing. Where names say nothing the runtime's
/// word must hold.
pub fn scope(own: &Path, id: &str, sandbox: &str, word: Option<&Path>) -> Result<PathBuf, NoHome> {
    let place = Place::of(own);
    match place.container.as_deref() {
        Some(container) if container == id && place.role != Role::Helper => {
            let is_its = |path: &&Path| Place::of(path).container.as_deref() == Some(id);
            Ok(own.ancestors().take_while(is_its).last().unwrap_or(own).to_owned())
        }
        Some(container) if container == sandbox => Err(NoHome::Sandbox),
        Some(_) => Err(NoHome::Elsewhere(own.into())),
        None => match word {
            Some(word) if own.starts_with(word) && !holds_others(word) => Ok(word.to_owned()),
            Some(_) | None => Err(NoHome::Elsewhere(own.into())),
        },
    }
}

/// Whether a cgroup is there to hold those of others: a container's is none of them, whoever says so.
fn holds_others(path: &Path) -> bool {
    let place = Place::of(path);
    match place.role {
        Role::Node | Role::Pods | Role::Qos | Role::Pod => true,
        Role::Unit => path.extension().is_some_and(|kind| kind == "slice"),
        Role::Container | Role::InContainer | Role::Helper | Role::Other => false,
    }
}

/// The cgroup of the pod with this UID that `path`, of one of its containers, is in.
pub fn pod<'a>(path: &'a Path, uid: &str) -> Option<&'a Path> {
    path.ancestors().skip(1).find(|above| {
        let place = Place::of(above);
        place.role == Role::Pod && place.pod.as_deref() == Some(uid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    const PAUSE: &str = "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";
    const POD: &str = "kubepods.slice/kubepods-pod1_2.slice";

    #[test]
    fn a_process_says_where_it_is() {
        for (text, path) in [
            ("0::/a/b\n", Some("a/b")),
            ("12:memory:/x\n0::/a\n", Some("a")),
            ("0::/\n", Some("")),
            ("0::/a (deleted)\n", None),
            ("0::/../a\n", None),
            ("4:memory:/a\n", None),
            ("", None),
        ] {
            assert_eq!(own(text.as_bytes()), path.map(PathBuf::from), "{text:?}");
        }
    }

    #[test]
    fn the_scope_is_told_apart_from_what_is_in_it() {
        let check = |own: &str, word: Option<&str>, expected: Result<&str, NoHome>| {
            let found = scope(Path::new(own), ID, PAUSE, word.map(Path::new));
            assert_eq!(found, expected.map(PathBuf::from), "{own} {word:?}");
        };
        let runc = format!("{POD}/cri-containerd-{ID}.scope");
        for below in ["", "/container", "/init.scope", "/container/x/y"] {
            check(&format!("{runc}{below}"), None, Ok(&runc));
            check(&format!("{runc}{below}"), Some(&runc), Ok(&runc));
        }
        let cgroupfs = format!("kubepods/pod1/{ID}");
        check(&format!("{cgroupfs}/container"), Some(&cgroupfs), Ok(&cgroupfs));
        let crio = format!("{POD}/crio-{ID}.scope");
        check(&crio, None, Ok(&crio));
        // Names that nobody knows: the runtime's word holds, or nothing.
        check("odd/abc/x", Some("odd/abc"), Ok("odd/abc"));
        check("odd/abcd", Some("odd/abc"), Err(NoHome::Elsewhere("odd/abcd".into())));
        check("odd/abc", None, Err(NoHome::Elsewhere("odd/abc".into())));
    }

    #[test]
    fn another_process_with_its_number_gives_no_cgroup() {
        let check = |own: String, word: Option<&str>, expected: NoHome| {
            assert_eq!(scope(Path::new(&own), ID, PAUSE, word.map(Path::new)), Err(expected), "{own}");
        };
        let word = format!("{POD}/cri-containerd-{ID}.scope");
        let pause = format!("{POD}/cri-containerd-{PAUSE}.scope");
        check(pause, Some(&word), NoHome::Sandbox);
        // Also one that calls a cgroup of its own like ours, and whoever the runtime's word is about.
        for own in [
            format!("{POD}/cri-containerd-{OTHER}.scope"),
            format!("{POD}/cri-containerd-{OTHER}.scope/cri-containerd-{ID}.scope"),
            format!("{POD}/cri-containerd-{OTHER}.scope/{word}"),
            format!("{POD}/crio-conmon-{ID}.scope"),
            format!("user.slice/user-1.slice/cri-containerd-{ID}.scope"),
            "system.slice/cron.service".into(),
        ] {
            check(own.clone(), Some(&word), NoHome::Elsewhere(own.into()));
        }
    }

    #[test]
    fn what_holds_others_is_no_containers_by_the_runtimes_word() {
        for (own, word) in [
            ("system.slice/cron.service", "system.slice"),
            ("system.slice/a.slice/x", "system.slice/a.slice"),
            ("system.slice/cron.service", ""),
            ("kubepods.slice/odd", "kubepods.slice"),
            ("kubepods.slice/kubepods-burstable.slice/odd", "kubepods.slice/kubepods-burstable.slice"),
            (POD, POD),
            ("kubepods/burstable/pod1-2/odd/x", "kubepods/burstable/pod1-2"),
        ] {
            let found = scope(Path::new(own), ID, PAUSE, Some(Path::new(word)));
            assert_eq!(found, Err(NoHome::Elsewhere(own.into())), "{word}");
        }
        let service = Path::new("system.slice/odd.service");
        assert_eq!(scope(service, ID, PAUSE, Some(service)), Ok(service.into()));
    }

    #[test]
    fn a_pods_cgroup_has_its_uid() {
        let scope = format!("{POD}/cri-containerd-{ID}.scope/container");
        assert_eq!(pod(Path::new(&scope), "1-2"), Some(Path::new(POD)));
        assert_eq!(pod(Path::new(&scope), "1-3"), None);
        assert_eq!(
            pod(Path::new("kubepods/burstable/pod1-2/x"), "1-2"),
            Some(Path::new("kubepods/burstable/pod1-2"))
        );
        assert_eq!(pod(Path::new("system.slice/x.scope"), "1-2"), None);
    }

    proptest! {
        #[test]
        fn a_scope_holds_the_process(own in "[ab/.-]{0,30}|(kubepods/pod1/)?[ab]{64}(/container)?(/[ab]{64})?") {
            let own = Path::new(own.trim_start_matches('/'));
            if let Ok(scope) = scope(own, ID, PAUSE, Some(Path::new("a/b"))) {
                prop_assert!(own.starts_with(scope));
            }
        }

        #[test]
        fn no_bytes_panic(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = own(&text);
        }
    }
}
