//! The processes around a pod's containers: above their first ones, and below those of them that work for the pod. So
//! that one pod can be looked at without a look at all processes of the node.

use super::{
    helpers::{Process, Sandbox, Table, is_in_container},
    sample::Proc,
};
use std::collections::BTreeMap;

/// Steps up from a container's first process: its shim or monitor, and what started that.
const UP_MAX: usize = 4;
/// Processes that are read for one pod.
pub const KIN_MAX: usize = 512;

/// Processes above the first ones of a pod's containers, and all below its helpers that are in no container. What started
/// several shims has other pods' processes below it, so nobody but a helper is looked below.
pub fn kin(proc: &Proc, sandbox: &Sandbox) -> Table {
    let mut found: BTreeMap<u32, Process> = BTreeMap::new();
    for first in sandbox.first.iter().chain(&sandbox.processes) {
        let mut pid = *first;
        for _ in 0..=UP_MAX {
            if pid <= 1 || found.contains_key(&pid) || found.len() >= KIN_MAX {
                break;
            }
            let Some(process) = proc.process(pid) else { break };
            pid = process.parent;
            found.insert(process.pid, process);
        }
    }
    let so_far: Table = found.values().cloned().collect();
    let mut above: Vec<u32> = so_far.of(sandbox).helpers.into_keys().collect();
    while let Some(pid) = above.pop() {
        for child in proc.children(pid) {
            if found.len() >= KIN_MAX {
                break;
            }
            if found.contains_key(&child) {
                continue;
            }
            let Some(process) = proc.process(child) else { continue };
            if !is_in_container(&process.cgroup) {
                above.push(child);
            }
            found.insert(child, process);
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::helpers::Rule;
    use std::{fs, path::Path};

    const SCOPE: &str = "kubepods.slice/kubepods-pod1.slice/cri-containerd-";

    fn process(root: &Path, pid: u32, parent: u32, argv: &[&str], cgroup: &str, children: &str) {
        let folder = root.join(pid.to_string());
        fs::create_dir_all(folder.join(format!("task/{pid}"))).expect("makes it");
        let stat = format!("{pid} (a) S {parent} 7 7 0 -1 0 1 2 3 4 0 0 0 0 20 0 1 0 {pid} 9 9");
        for (name, text) in [
            ("stat", stat.as_str()),
            ("cmdline", &argv.join("\0")),
            ("cgroup", &format!("0::/{cgroup}\n")),
            (&format!("task/{pid}/children"), children),
        ] {
            fs::write(folder.join(name), text).expect("writes");
        }
        std::os::unix::fs::symlink(argv[0], folder.join("exe")).expect("links");
    }

    #[test]
    fn only_what_is_near_a_pod_is_read() {
        let root = tempfile::tempdir().expect("a folder");
        let (root, service) = (root.path(), "system.slice/c.service");
        let [a, b, x] = ['a', 'b', 'x'].map(|id| String::from(id).repeat(64));
        let scope = |id: &str| format!("{SCOPE}{id}.scope");
        process(root, 1, 0, &["/init"], "init.scope", "9");
        // A daemon that is its shims' parent.
        process(root, 9, 1, &["/usr/bin/containerd"], service, "10 20");
        process(root, 10, 9, &["/usr/bin/containerd-shim-runc-v2", "-id", &a], service, "11 12 13 ");
        process(root, 11, 10, &["/app"], &scope(&b), "14");
        process(root, 12, 10, &["/usr/bin/runc", "exec"], service, "15");
        process(root, 13, 10, &["/pause"], &scope(&a), "");
        process(root, 14, 11, &["/app"], &scope(&b), "");
        process(root, 15, 12, &["/usr/bin/runc", "init"], service, "");
        process(root, 20, 9, &["/usr/bin/containerd-shim-runc-v2", "-id", &x], service, "");
        let proc = Proc::at(root);
        let sandbox = Sandbox {
            id: a,
            first: None,
            containers: vec![b],
            processes: vec![11],
            cgroup: "kubepods.slice/kubepods-pod1.slice".into(),
        };
        let table = kin(&proc, &sandbox);
        let pids: Vec<u32> = table.iter().map(|process| process.pid).collect();
        assert_eq!(pids, [9, 10, 11, 12, 13, 15], "neither another pod's nor what a container started");
        let helpers: Vec<_> = table.of(&sandbox).helpers.into_iter().collect();
        assert_eq!(helpers, [(10, Rule::ContainerdShim), (12, Rule::Child), (15, Rule::Child)]);
        assert!(proc.reads() > 0);
        let gone = Sandbox { processes: vec![999], ..sandbox };
        assert_eq!(kin(&proc, &gone).iter().count(), 0);
    }
}
