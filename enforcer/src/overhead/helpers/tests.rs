//! Trees of processes. Those of containerd are as seen with 1.7.24 on Debian 13, those of others after their
//! documented command lines: conmon(8), Kata's virtcontainers, runsc's boot.

use super::*;

const S1: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const C1: &str = "2222222222222222222222222222222222222222222222222222222222222222";
const S2: &str = "3333333333333333333333333333333333333333333333333333333333333333";
const POD: &str = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice";
const DAEMON: &str = "system.slice/containerd.service";
const SHIM: &str = "/usr/bin/containerd-shim-runc-v2";

fn process(pid: u32, parent: u32, program: &str, argv: &str, cgroup: &str) -> Process {
    Process {
        pid,
        parent,
        started: u64::from(pid),
        program: program.into(),
        argv: argv.split(' ').map(String::from).collect(),
        cgroup: cgroup.into(),
    }
}

fn scope(id: &str) -> String {
    format!("{POD}/cri-containerd-{id}.scope")
}

fn sandbox() -> Sandbox {
    Sandbox {
        id: S1.into(),
        first: Some(21),
        containers: vec![C1.into()],
        processes: vec![22],
        cgroup: POD.into(),
    }
}

/// containerd, the shim of the pod, its pause and its container.
fn containerd() -> Vec<Process> {
    vec![
        process(1, 0, "/usr/lib/systemd/systemd", "/sbin/init", "init.scope"),
        process(10, 1, "/usr/bin/containerd", "containerd", DAEMON),
        process(20, 1, SHIM, &format!("{SHIM} -namespace k8s.io -id {S1} -address /x.sock"), DAEMON),
        process(21, 20, "/pause", "/pause", &scope(S1)),
        process(22, 20, "/app", "/app", &scope(C1)),
    ]
}

fn found(more: impl IntoIterator<Item = Process>) -> Found {
    containerd().into_iter().chain(more).collect::<Table>().of(&sandbox())
}

fn check(more: impl IntoIterator<Item = Process>, helpers: &[(u32, Rule)], look_alikes: &[u32]) {
    let found = found(more);
    assert_eq!(found.helpers, helpers.iter().copied().collect(), "{found:?}");
    let pids: Vec<u32> = found.look_alikes.keys().copied().collect();
    assert_eq!(pids, look_alikes, "{found:?}");
}

const OURS: (u32, Rule) = (20, Rule::ContainerdShim);

#[test]
fn a_shim_is_found_by_its_command_line_and_its_place() {
    check([], &[OURS], &[]);
    // Another pod's is none of ours, and none that looks like it either.
    let argv = format!("{SHIM} -namespace k8s.io -id {S2}");
    check([process(30, 1, SHIM, &argv, DAEMON)], &[OURS], &[]);
}

#[test]
fn what_only_looks_like_a_shim_is_not_counted() {
    let argv = format!("{SHIM} -namespace k8s.io -id {S1} -address /x.sock");
    for (why, process) in [
        ("somebody's copy", process(40, 1, "/home/a/containerd-shim-runc-v2", &argv, "user.slice/a.scope")),
        ("in the pod's own container", process(40, 22, SHIM, &argv, &scope(C1))),
        ("in a cgroup that the container made", process(40, 22, SHIM, &argv, &format!("{}/x", scope(C1)))),
    ] {
        let found = found([process]);
        assert_eq!(found.helpers, BTreeMap::from([OURS]), "{why}");
        assert!(found.look_alikes.contains_key(&40), "{why}");
    }
    // Only the words: the program is another one.
    check([process(40, 1, "/bin/sleep", &argv, DAEMON)], &[OURS], &[]);
    // An id that is longer, or begins like ours.
    let argv = format!("{SHIM} -id {S1}0");
    check([process(40, 1, SHIM, &argv, DAEMON)], &[OURS], &[]);
}

#[test]
fn without_its_rule_a_helper_is_none() {
    let processes = containerd().into_iter().map(|process| match process.pid {
        20 => Process { program: "/run/odd-helper".into(), ..process },
        _ => process,
    });
    assert_eq!(processes.collect::<Table>().of(&sandbox()), Found::default());
}

#[test]
fn children_of_a_shim_outside_of_the_pod_count_and_those_inside_do_not() {
    check(
        [
            process(50, 20, "/usr/sbin/runc", "runc --root /run exec", DAEMON),
            process(51, 50, "/usr/sbin/runc", "runc init", &scope(C1)),
        ],
        &[OURS, (50, Rule::Child)],
        &[],
    );
}

#[test]
fn conmon_is_the_parent_of_a_container() {
    let conmon = |pid, id: &str| {
        let argv = format!("/usr/bin/conmon -b /run -c {id} -u {id}");
        process(pid, 1, "/usr/bin/conmon", &argv, &format!("system.slice/crio-conmon-{id}.scope"))
    };
    let table: Table = [
        conmon(20, S1),
        process(21, 20, "/pause", "/pause", &scope(S1)),
        conmon(30, C1),
        process(22, 30, "/app", "/app", &scope(C1)),
        conmon(31, C1),
        conmon(32, S2),
    ]
    .into_iter()
    .collect();
    let found = table.of(&sandbox());
    assert_eq!(found.helpers, BTreeMap::from([(20, Rule::Conmon), (30, Rule::Conmon)]));
    assert_eq!(found.look_alikes.keys().copied().collect::<Vec<_>>(), [31]);
}

#[test]
fn machines_are_below_their_shim() {
    let shim = "/opt/kata/bin/containerd-shim-kata-v2";
    let overhead = "kata_overhead/x";
    let virtiofsd = format!("virtiofsd --socket-path=/run/vc/vm/{S1}/vhost-fs.sock");
    let qemu = format!("/opt/kata/bin/qemu-system-x86_64 -name sandbox-{S1} -m 2048M");
    let table: Table = [
        process(20, 1, shim, &format!("{shim} -namespace k8s.io -id {S1}"), overhead),
        process(23, 20, "/opt/kata/libexec/virtiofsd", &virtiofsd, overhead),
        process(21, 20, "/opt/kata/bin/qemu-system-x86_64", &qemu, overhead),
        process(60, 1, "/usr/bin/qemu-system-x86_64", &qemu, "user.slice/a.scope"),
        process(61, 20, "/usr/bin/qemu-system-x86_64", &qemu.replace(S1, &format!("{S1}f")), overhead),
    ]
    .into_iter()
    .collect();
    let found = table.of(&Sandbox { processes: vec![], ..sandbox() });
    let machines = [(20, Rule::ContainerdShim), (21, Rule::Machine), (23, Rule::Machine), (61, Rule::Child)];
    assert_eq!(found.helpers, BTreeMap::from(machines));
    assert_eq!(found.look_alikes.keys().copied().collect::<Vec<_>>(), [60]);
}

#[test]
fn a_sentry_in_the_pods_scope_is_found_there() {
    let sentry = process(21, 20, "/usr/bin/runsc", &format!("runsc-sandbox boot --x {S1}"), &scope(S1));
    let shim = "/usr/bin/containerd-shim-runsc-v1";
    let table: Table = [process(20, 1, shim, &format!("{shim} -namespace k8s.io -id {S1}"), DAEMON), sentry]
        .into_iter()
        .collect();
    let found = table.of(&Sandbox { processes: vec![], ..sandbox() });
    assert_eq!(found.helpers, BTreeMap::from([(20, Rule::ContainerdShim), (21, Rule::Runsc)]));
}

#[test]
fn loops_and_missing_parents_end() {
    let table: Table =
        [process(21, 99, "/pause", "/pause", ""), process(99, 21, "/x", "x", "")].into_iter().collect();
    assert_eq!(table.of(&sandbox()), Found::default());
}

#[test]
fn an_id_is_a_whole_word() {
    for (text, has) in [("sandbox-ab", true), ("/vm/ab/x", true), ("xab", false), ("ab1", false), ("", false)]
    {
        assert_eq!(has_word(text, "ab"), has, "{text}");
    }
}
