//! One look at one pod: its helpers, its cgroup and those of its containers.

use super::{
    account::{Readings, Usage},
    cpu::Times,
    helpers::{Rule, Sandbox, Table},
    machine,
    model::{Flag, Helper, Vm},
    sample::{Proc, cpu_used, left_by_the_dead, peak, usage},
};
use crate::cgroup::{CgroupError, Mount, shown};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A pod to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// What its helpers are found by.
    pub sandbox: Sandbox,
    /// The cgroups of its containers that run, below the mount; none where they share their sandbox's.
    pub apps: Vec<PathBuf>,
}

/// What memory a pod and its helpers use. What can't be read is flagged. `table`: processes from not long before.
pub fn memory(proc: &Proc, mount: &Arc<Mount>, table: &Table, subject: &Subject) -> Readings {
    let sandbox = &subject.sandbox;
    let mut readings = Readings::default();
    let found = table.of(sandbox);
    for (pid, why) in found.look_alikes {
        readings.flags.push(Flag::LookAlike { pid, why: why.into() });
    }
    for (pid, rule) in found.helpers {
        let Some(process) = table.get(pid) else { continue };
        let memory = match proc.memory(pid, process.started) {
            Ok(memory) => memory,
            Err(error) => {
                readings.flags.push(error.flag(pid));
                continue;
            }
        };
        let in_pod = process.cgroup.starts_with(&sandbox.cgroup);
        if rule == Rule::Machine
            && let Some(memory) = machine::memory(&process.program, &process.argv)
        {
            readings.vm = Some(Vm { memory, in_pod });
        }
        readings.helpers.push(Helper {
            pid,
            program: shown(&process.program),
            rule,
            cgroup: shown(&process.cgroup),
            in_pod,
            memory,
        });
    }
    let mut flags = Vec::new();
    let mut read = |path: &Path| -> Usage {
        usage(mount, path).unwrap_or_else(|error| {
            flags.push(flag(path, &error));
            Usage::default()
        })
    };
    // The containers first: what grows meanwhile makes the pod more and never less.
    readings.apps.extend(subject.apps.iter().map(|path| read(path)));
    readings.pod = read(&sandbox.cgroup);
    readings.flags.append(&mut flags);
    readings.residue = left_by_the_dead(mount, &sandbox.cgroup, &readings.pod).unwrap_or_default();
    readings.peak = peak(mount, &sandbox.cgroup).ok();
    readings
}

/// What CPU time a pod and its helpers have used; `None` where a cgroup can't be read.
pub fn times(proc: &Proc, mount: &Arc<Mount>, table: &Table, subject: &Subject) -> Option<Times> {
    let sandbox = &subject.sandbox;
    let mut times = Times::default();
    for (pid, _) in table.of(sandbox).helpers {
        let process = table.get(pid).filter(|process| !process.cgroup.starts_with(&sandbox.cgroup));
        let Some(started) = process.map(|process| process.started) else { continue };
        // One that ends meanwhile is missing, which is told.
        if let Some(used) = proc.used(pid, started) {
            times.helpers.insert((pid, started), used);
        }
    }
    for path in &subject.apps {
        times.apps = times.apps.saturating_add(cpu_used(mount, path).ok()?);
    }
    times.pod = cpu_used(mount, &sandbox.cgroup).ok()?;
    Some(times)
}

fn flag(path: &Path, error: &CgroupError) -> Flag {
    if error.is_gone() {
        return Flag::PodGone;
    }
    Flag::Unreadable { file: shown(path), why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::{
        account::account,
        fake_node::{MIB, Node, POD, SHIM, scope},
        model::{PodSample, Term},
    };
    use std::fs;

    /// A look, while `meanwhile` happens after the processes were listed.
    fn look(node: &Node, meanwhile: impl FnOnce()) -> PodSample {
        let proc = node.proc();
        let table = proc.table().expect("is read");
        meanwhile();
        account(0, "s", memory(&proc, &node.mount(), &table, &Node::subject()))
    }

    #[test]
    fn a_pod_is_its_cgroup_less_its_containers_and_its_shim() {
        let node = Node::new();
        let sample = look(&node, || {});
        assert_eq!(sample.flags, []);
        let of = |term| sample.terms[&term].get();
        assert_eq!([of(Term::PodAnon), of(Term::PodFile), of(Term::PodKernel)], [2 * MIB, 2 * MIB, 6 * MIB]);
        assert_eq!([of(Term::HelperAnon), of(Term::HelperPageTables)], [4 * MIB, 64 << 10]);
        assert_eq!((sample.app.get(), sample.residue.get()), (30 * MIB, 0));
        let helpers: Vec<_> = sample.helpers.iter().map(|helper| (helper.pid, helper.rule)).collect();
        assert_eq!(helpers, [(SHIM, Rule::ContainerdShim)]);
    }

    #[test]
    fn what_ends_between_two_reads_is_told_and_not_counted() {
        let node = Node::new();
        let sample = look(&node, || fs::remove_dir_all(node.folder(SHIM)).expect("goes"));
        assert_eq!(sample.flags, [Flag::ProcessGone { pid: SHIM }, Flag::NoHelper]);
        assert!(!sample.is_complete());
        // Its number is another process's by now.
        let node = Node::new();
        let stat = format!("{SHIM} (a) S 1 7 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 99 9 9");
        let sample = look(&node, || fs::write(node.folder(SHIM).join("stat"), stat).expect("writes"));
        assert_eq!(sample.flags, [Flag::ProcessGone { pid: SHIM }, Flag::NoHelper]);
        let node = Node::new();
        let sample = look(&node, || fs::remove_dir_all(node.tree.point().join(scope('b'))).expect("goes"));
        assert_eq!(sample.flags, [Flag::PodGone]);
        assert!(!sample.is_complete());
    }

    #[test]
    fn what_can_not_be_read_is_told_and_not_counted() {
        let node = Node::new();
        let file = node.folder(SHIM).join("smaps_rollup");
        let sample = look(&node, || {
            fs::remove_file(&file).expect("goes");
            fs::create_dir(&file).expect("makes it");
        });
        assert!(matches!(&sample.flags[0], Flag::Unreadable { file, .. } if file.ends_with("smaps_rollup")));
        assert!(!sample.is_complete());
        let node = Node::new();
        node.tree.write(&format!("{POD}/memory.current"), "much\n");
        let sample = look(&node, || {});
        assert!(
            matches!(&sample.flags[0], Flag::Unreadable { file, .. } if file == POD),
            "{:?}",
            sample.flags
        );
        assert!(!sample.is_complete() && sample.terms[&Term::PodAnon].get() == 0);
    }

    /// A guest, or whatever is in a container, that is said to have more than its pod.
    #[test]
    fn a_part_that_is_more_than_its_whole_is_zero_and_told() {
        let node = Node::new();
        node.tree
            .write(&format!("{}/memory.stat", scope('b')), "anon 18446744073709551615\nfile 0\nkernel 0\n");
        let sample = look(&node, || {});
        let clamped =
            sample.flags.iter().any(|flag| matches!(flag, Flag::Clamped { term: Term::PodAnon, .. }));
        assert!(clamped && sample.terms[&Term::PodAnon].get() == 0, "{:?}", sample.flags);
        assert!(sample.total().get() < 100 * MIB);
    }

    #[test]
    fn what_a_restarted_container_left_is_told_apart() {
        let node = Node::new();
        node.uses(POD, 60, 10, 40);
        assert_eq!(look(&node, || {}).residue.get(), 0, "nobody is dead");
        node.tree.write(&format!("{POD}/cgroup.stat"), "nr_descendants 2\nnr_dying_descendants 1\n");
        let sample = look(&node, || {});
        // One MiB of memory of its own, and all page cache that no container has.
        assert_eq!(sample.residue.get(), (1 + 22) * MIB);
        assert_eq!(sample.terms[&Term::PodFile].get(), 0);
        assert_eq!(sample.flags, []);
    }

    #[test]
    fn cpu_is_read_of_cgroups_and_helpers() {
        let node = Node::new();
        for (path, used) in [(POD, 900), (scope('b').as_str(), 500)] {
            node.tree.write(&format!("{path}/cpu.stat"), &format!("usage_usec {used}\nuser_usec 1\n"));
        }
        let (proc, mount) = (node.proc(), node.mount());
        let table = proc.table().expect("is read");
        let found = times(&proc, &mount, &table, &Node::subject()).expect("is read");
        assert_eq!((found.pod.get(), found.apps.get()), (900, 500));
        // 50 + 60 and 70 + 80 ticks of ten milliseconds.
        let used = found.helpers[&(SHIM, u64::from(SHIM))];
        assert_eq!((used.own.get(), used.reaped.get()), (1_100_000, 1_500_000));
        node.tree.remove(&format!("{POD}/cpu.stat"));
        assert_eq!(times(&proc, &mount, &table, &Node::subject()), None);
    }
}
