//! Which processes work for which pod, from a table of processes. No I/O.
//!
//! A command line is what a process says of itself, so it is never enough: the program file must have the name, the
//! process must be in no container's cgroup, and it must stand where a helper stands: above the pod's first process, or
//! below a helper.

use crate::names::{Place, Role};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Steps from a process to an ancestor that are taken; deeper trees are no runtime's.
const ANCESTORS_MAX: usize = 64;

/// A process, as /proc has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// When it was started, in ticks since boot: with the number it is one process and no other.
    pub started: u64,
    /// The file that it runs; empty for a kernel thread.
    pub program: PathBuf,
    /// Its command line.
    pub argv: Vec<String>,
    /// Its cgroup, below the mount.
    pub cgroup: PathBuf,
}

/// A pod whose helpers are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// Its id.
    pub id: String,
    /// Its first process, of the pause container; `None` where the runtime does not tell.
    pub first: Option<u32>,
    /// The ids of its containers.
    pub containers: Vec<String>,
    /// Their first processes.
    pub processes: Vec<u32>,
    /// Its cgroup, below the mount.
    pub cgroup: PathBuf,
}

/// Why a process is taken for a pod's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// `containerd-shim-* -id SANDBOX`, and an ancestor of the pod's first process.
    ContainerdShim,
    /// `conmon -c ID` (or `conmonrs`), and the parent of that container's or sandbox's first process.
    Conmon,
    /// A virtual machine's monitor or daemon (qemu, cloud-hypervisor, firecracker, virtiofsd, jailer) with the
    /// sandbox's id in its command line, below the pod's shim or of no parent.
    Machine,
    /// `runsc` with the sandbox's or a container's id, in the pod's cgroup or below its shim.
    Runsc,
    /// A child of one of these, outside of the pod's cgroup.
    Child,
}

impl Rule {
    /// Its name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ContainerdShim => "containerd_shim",
            Self::Conmon => "conmon",
            Self::Machine => "machine",
            Self::Runsc => "runsc",
            Self::Child => "child",
        }
    }
}

/// What was found for one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Its helpers, by process number.
    pub helpers: BTreeMap<u32, Rule>,
    /// What says that it is one and is none, and why not.
    pub look_alikes: BTreeMap<u32, &'static str>,
}

/// Processes by number.
#[derive(Debug, Clone, Default)]
pub struct Table(BTreeMap<u32, Process>);

impl FromIterator<Process> for Table {
    fn from_iter<I: IntoIterator<Item = Process>>(processes: I) -> Self {
        Self(processes.into_iter().map(|process| (process.pid, process)).collect())
    }
}

impl Table {
    /// The process with this number.
    pub fn get(&self, pid: u32) -> Option<&Process> {
        self.0.get(&pid)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Process> {
        self.0.values()
    }

    /// Parent, its parent and so on; a process that is in the way twice ends it.
    fn ancestors(&self, pid: u32) -> impl Iterator<Item = u32> {
        let mut seen = BTreeSet::from([pid]);
        let mut at = pid;
        std::iter::from_fn(move || {
            at = self.0.get(&at)?.parent;
            (at != 0 && seen.insert(at) && seen.len() <= ANCESTORS_MAX).then_some(at)
        })
    }

    /// The helpers of one pod.
    pub fn of(&self, sandbox: &Sandbox) -> Found {
        let mut found = Found::default();
        let firsts: Vec<u32> = sandbox.first.into_iter().chain(sandbox.processes.iter().copied()).collect();
        let above: BTreeSet<u32> =
            firsts.iter().flat_map(|first| self.ancestors(*first)).filter(|pid| *pid != 1).collect();
        let parents: BTreeSet<u32> =
            firsts.iter().filter_map(|first| self.0.get(first)).map(|process| process.parent).collect();
        for process in self.iter() {
            let Some(rule @ (Rule::ContainerdShim | Rule::Conmon)) = claims(process, sandbox) else {
                continue;
            };
            let is_there = if rule == Rule::Conmon { &parents } else { &above }.contains(&process.pid);
            let verdict = if is_in_container(&process.cgroup) {
                Err("it is in a container")
            } else if is_there {
                Ok(rule)
            } else {
                Err("no process of the pod is below it")
            };
            note(&mut found, process.pid, verdict);
        }
        // Those whose place is below a shim, once it is known.
        for process in self.iter() {
            let Some(rule @ (Rule::Machine | Rule::Runsc)) = claims(process, sandbox) else { continue };
            let below = self.ancestors(process.pid).any(|pid| found.helpers.contains_key(&pid));
            let is_first = firsts.contains(&process.pid);
            let in_pod = process.cgroup.starts_with(&sandbox.cgroup);
            let is_inside = is_in_container(&process.cgroup) && !(rule == Rule::Runsc && in_pod);
            let verdict = if is_inside {
                Err("it is in a container")
            } else if below || is_first || in_pod {
                Ok(rule)
            } else {
                Err("it is neither below the pod's shim nor in the pod's cgroup")
            };
            note(&mut found, process.pid, verdict);
        }
        let known: BTreeSet<u32> = found.helpers.keys().copied().collect();
        for process in self.iter() {
            let is_child = self.ancestors(process.pid).any(|pid| known.contains(&pid));
            let in_pod = process.cgroup.starts_with(&sandbox.cgroup);
            if is_child && !in_pod && !is_in_container(&process.cgroup) && !known.contains(&process.pid) {
                found.helpers.insert(process.pid, Rule::Child);
                found.look_alikes.remove(&process.pid);
            }
        }
        found
    }
}

fn note(found: &mut Found, pid: u32, verdict: Result<Rule, &'static str>) {
    match verdict {
        Ok(rule) => _ = found.helpers.insert(pid, rule),
        Err(why) => _ = found.look_alikes.insert(pid, why),
    }
}

/// Programs of virtual machines; those of qemu end in the machine's kind.
const MACHINES: [&str; 5] = ["cloud-hypervisor", "firecracker", "virtiofsd", "jailer", "qemu-kvm"];
const QEMU: &str = "qemu-system-";

/// What a process says that it is, by its program and command line.
fn claims(process: &Process, sandbox: &Sandbox) -> Option<Rule> {
    let name = process.program.file_name()?.to_str()?;
    // What was replaced on disk while it ran.
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let after = |option: &str| {
        let value = process.argv.iter().skip_while(|arg| *arg != option).nth(1);
        value.map(String::as_str)
    };
    let is_ours = |id: &str| id == sandbox.id || sandbox.containers.iter().any(|container| container == id);
    if name.starts_with("containerd-shim-") {
        return (after("-id") == Some(&sandbox.id)).then_some(Rule::ContainerdShim);
    }
    if name == "conmon" || name == "conmonrs" {
        return after("-c").is_some_and(is_ours).then_some(Rule::Conmon);
    }
    if MACHINES.contains(&name) || name.starts_with(QEMU) {
        return process.argv.iter().any(|arg| has_word(arg, &sandbox.id)).then_some(Rule::Machine);
    }
    if name == "runsc" {
        return process.argv.iter().any(|arg| is_ours(arg)).then_some(Rule::Runsc);
    }
    None
}

/// Whether the id is in the text as a whole: what is beside it belongs to no id.
fn has_word(text: &str, id: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric();
    !id.is_empty()
        && text.match_indices(id).any(|(at, _)| {
            let (before, rest) = text.split_at(at);
            !before.ends_with(part) && !rest[id.len()..].starts_with(part)
        })
}

/// Whether a cgroup is a container's, or in one.
pub(super) fn is_in_container(cgroup: &Path) -> bool {
    match Place::of(cgroup).role {
        Role::Container | Role::InContainer => true,
        Role::Node | Role::Pods | Role::Qos | Role::Pod | Role::Helper | Role::Unit | Role::Other => false,
    }
}

#[cfg(test)]
mod tests;
