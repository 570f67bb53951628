use super::*;
use proptest::prelude::*;
use std::ffi::OsStr;

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const UID: &str = "1d2c3b4a-1111-2222-3333-444455556666";

/// `ID` and `UID` in a path stand for the above, `SUID` for the UID as systemd has it.
fn place(path: &str) -> Place {
    let path = path.replace("SUID", &UID.replace('-', "_")).replace("UID", UID).replace("ID", ID);
    Place::of(Path::new(&path))
}

/// Role, class, whether it has the pod's UID and the container's id, runtime.
fn check(path: &str, role: Role, qos: Option<Qos>, pod: bool, container: bool, runtime: Option<Runtime>) {
    let expected = Place {
        role,
        qos,
        pod: pod.then(|| UID.into()),
        container: container.then(|| ID.into()),
        runtime,
        unit: None,
    };
    assert_eq!(place(path), expected, "{path}");
    assert_eq!(place(&format!("/{path}/")), expected, "/{path}/");
}

#[test]
fn what_the_kubelet_makes() {
    let burstable = Some(Qos::Burstable);
    let best = Some(Qos::BestEffort);
    let guaranteed = Some(Qos::Guaranteed);
    for (path, role, qos, pod) in [
        ("", Role::Node, None, false),
        ("kubepods.slice", Role::Pods, None, false),
        ("kubepods", Role::Pods, None, false),
        ("kubelet.slice/kubelet-kubepods.slice", Role::Pods, None, false),
        ("kubepods.slice/kubepods-burstable.slice", Role::Qos, burstable, false),
        ("kubepods/besteffort", Role::Qos, best, false),
        ("kubepods.slice/kubepods-podSUID.slice", Role::Pod, guaranteed, true),
        ("kubepods/podUID", Role::Pod, guaranteed, true),
        ("kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podSUID.slice", Role::Pod, best, true),
        ("kubepods/burstable/podUID", Role::Pod, burstable, true),
        (
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/\
             kubelet-kubepods-burstable-podSUID.slice",
            Role::Pod,
            burstable,
            true,
        ),
        ("mine/kubepods/burstable/podUID", Role::Pod, burstable, true),
    ] {
        check(path, role, qos, pod, false, None);
    }
}

#[test]
fn what_runtimes_make() {
    use Runtime::{Containerd, Crio, Docker, Podman};
    let pod = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podSUID.slice";
    for (name, role, runtime) in [
        ("cri-containerd-ID.scope", Role::Container, Some(Containerd)),
        ("crio-ID.scope", Role::Container, Some(Crio)),
        ("crio-ID.scope/container", Role::Container, Some(Crio)),
        ("crio-ID.scope/container/container", Role::InContainer, Some(Crio)),
        ("crio-conmon-ID.scope", Role::Helper, None),
        ("docker-ID.scope", Role::Container, Some(Docker)),
        ("crio-ID", Role::Container, Some(Crio)),
        ("ID", Role::Container, None),
        ("cri-containerd-ID.scope/init.scope", Role::InContainer, Some(Containerd)),
        ("cri-containerd-ID.scope/a/b/c", Role::InContainer, Some(Containerd)),
    ] {
        check(&format!("{pod}/{name}"), role, Some(Qos::Burstable), true, true, runtime);
        check(&format!("kubepods/podUID/{name}"), role, Some(Qos::Guaranteed), true, true, runtime);
    }
    for (path, role, runtime) in [
        ("docker/ID", Role::Container, Some(Docker)),
        ("system.slice/docker-ID.scope", Role::Container, Some(Docker)),
        ("k8s.io/ID", Role::Container, Some(Containerd)),
        ("machine.slice/libpod-ID.scope", Role::Container, Some(Podman)),
        ("machine.slice/libpod-ID.scope/container", Role::Container, Some(Podman)),
        ("machine.slice/libpod-conmon-ID.scope", Role::Helper, None),
    ] {
        check(path, role, None, false, true, runtime);
    }
}

#[test]
fn a_container_can_not_pass_for_another() {
    for inside in [
        "kubepods.slice/kubepods-podaaaa.slice/cri-containerd-bbbb.scope",
        "docker/ffff456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "system.slice/docker-bbbb.scope",
    ] {
        let path = format!("kubepods.slice/kubepods-podSUID.slice/cri-containerd-ID.scope/{inside}");
        check(&path, Role::InContainer, Some(Qos::Guaranteed), true, true, Some(Runtime::Containerd));
    }
    let user = place("user.slice/user-1000.slice/user@1000.service/kubepods.slice/kubepods-podSUID.slice");
    assert_eq!((user.role, user.pod), (Role::Unit, None));
}

#[test]
fn units_and_the_rest() {
    for (path, role, unit) in [
        ("system.slice", Role::Unit, Some("system.slice")),
        ("system.slice/sshd.service", Role::Unit, Some("sshd.service")),
        ("system.slice/x.service/payload", Role::Unit, Some("x.service")),
        ("init.scope", Role::Unit, Some("init.scope")),
        ("something/else", Role::Other, None),
        ("podUID", Role::Other, None),
        ("docker/short", Role::Other, None),
        ("kubepods/burstable/podUID/inner", Role::Other, None),
        ("kubepods/pod", Role::Other, None),
    ] {
        let found = place(path);
        assert_eq!((found.role, found.unit.as_deref()), (role, unit), "{path}");
    }
    // A folder that somebody made in a pod is still the pod's.
    assert_eq!(place("kubepods/burstable/podUID/inner").pod.as_deref(), Some(UID));
    let hostile = Place::of(Path::new(OsStr::from_bytes(b"kubepods/pod\xff\x1b[2J")));
    assert_eq!((hostile.role, hostile.pod), (Role::Other, None));
}

#[test]
fn people_read() {
    for (path, text) in [
        ("", "node".to_owned()),
        ("kubepods/burstable", "QoS class burstable".to_owned()),
        ("kubepods/podUID", format!("pod {UID}")),
        ("kubepods/podUID/ID", format!("container 0123456789ab of pod {UID}")),
        ("docker/ID", "container 0123456789ab".to_owned()),
        ("system.slice/a.service", "systemd unit a.service".to_owned()),
    ] {
        assert_eq!(place(path).to_string(), text);
    }
}

proptest! {
    #[test]
    fn any_path_is_safe(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Place::of(Path::new(OsStr::from_bytes(&bytes))).to_string();
    }

    /// Pieces of real names in any order.
    #[test]
    fn any_order_of_pieces_is_safe(pieces in proptest::collection::vec(prop::sample::select(vec![
        "kubepods", ".slice", "-", "/", "pod", "burstable", "cri-containerd-", "crio-conmon-", "docker", ".scope",
        "container", "user.slice", ID, UID, "\u{1b}", "é", "",
    ]), 0..30)) {
        let place = Place::of(Path::new(&pieces.concat()));
        let _ = place.to_string();
        for text in [&place.pod, &place.container].into_iter().flatten() {
            prop_assert!(is_id(text), "{:?}", text);
        }
    }
}
