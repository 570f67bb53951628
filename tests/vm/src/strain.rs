//! A node that has too little of something.

use enforcer_vm_tests::processes::pids;
use enforcer_vm_tests::{
    scratch::{MOUNT, Scratch},
    workload::{PROGRAM, Workload},
};
use nix::errno::Errno;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Below what nobody may be spared by, and above what the agent is: processes with it are the first to be killed, unless one
/// that is to be protected is not.
const VICTIM: i32 = -900;
const SPARED: i32 = -1000;
/// Cgroups whose programs are on a disk: without this the kernel takes their pages away and reads them back for minutes, before it
/// finds that nothing is left and kills (`should_reclaim_retry` in `mm/page_alloc.c`). Reclaim within a cgroup is as ever.
const NODES_OWN: [&str; 2] = ["init.scope", "system.slice"];
/// Memory of one that eats it.
const BITE: &str = "anon --size 64Mi";
/// More are not needed on any guest that these tests run on.
const EATERS_MAX: usize = 256;
/// Priority of real-time hogs, and of what runs before them.
const REAL_TIME: i32 = 50;
const FOREMOST: i32 = 60;

/// Memory is eaten in a cgroup without a limit until the kernel kills for the node's sake. Of all other processes only those
/// that are named may be killed.
pub(crate) struct Storm {
    group: Scratch,
    eaters: Vec<Workload>,
    /// What others had before.
    others: Vec<(u32, String)>,
    /// `memory.min` of the node's own cgroups, as it was.
    kept: Vec<(PathBuf, String)>,
}

impl Storm {
    /// Nothing is eaten yet. `exposed`: processes whose `oom_score_adj` stays as it is.
    pub(crate) fn over(exposed: &[u32]) -> Self {
        let mut others = Vec::new();
        for pid in pids().filter(|pid| !exposed.contains(pid)) {
            let path = adj(pid);
            // It may end at any time.
            let Ok(before) = fs::read_to_string(&path) else { continue };
            if fs::write(&path, SPARED.to_string()).is_ok() {
                others.push((pid, before.trim().to_owned()));
            }
        }
        let group = Scratch::new("storm");
        relieved_by_a_panic(&group);
        let mut kept = Vec::new();
        for name in NODES_OWN {
            keep(&Path::new(MOUNT).join(name), &mut kept);
        }
        Self { group, eaters: Vec::new(), others, kept }
    }

    /// Lets go of all that was eaten: what is asked of others from here on does not wait for memory.
    pub(crate) fn calm(&mut self) {
        self.group.clear();
        self.eaters.clear();
    }

    /// Goes on until the kernel has killed so many more of those that eat.
    pub(crate) fn kill(&mut self, count: u64) {
        let before = killed();
        self.until(|| killed() >= before + count);
    }

    /// Goes on until it is over.
    pub(crate) fn until(&mut self, mut is_over: impl FnMut() -> bool) {
        while !is_over() {
            assert!(self.eaters.len() < EATERS_MAX, "the node has more memory than can be eaten");
            let mut eater = Workload::launch(PROGRAM, &self.group, BITE);
            // It is born spared, as this process is.
            drop(fs::write(adj(eater.pid()), VICTIM.to_string()));
            // Empty where it was killed meanwhile.
            drop(eater.line());
            self.eaters.push(eater);
            self.eaters.retain_mut(Workload::alive);
        }
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        self.group.clear();
        for (path, before) in &self.kept {
            drop(fs::write(path, before));
        }
        for (pid, before) in &self.others {
            drop(fs::write(adj(*pid), before));
        }
    }
}

/// What a test says when it fails, and the backtrace above all, needs memory: on a node without any it never ends.
fn relieved_by_a_panic(group: &Scratch) {
    let kill = group.path().join("cgroup.kill");
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // It is gone where the storm is over.
        drop(fs::write(&kill, "1"));
        tell(panic);
    }));
}

/// Nothing of a cgroup and of those below it is reclaimed for the node's sake; without `memory_recursiveprot` each has to say so.
fn keep(cgroup: &Path, kept: &mut Vec<(PathBuf, String)>) {
    let min = cgroup.join("memory.min");
    // One of those below may go at any time.
    if let Ok(before) = fs::read_to_string(&min)
        && fs::write(&min, "max").is_ok()
    {
        kept.push((min, before.trim().to_owned()));
    }
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            keep(&entry.path(), kept);
        }
    }
}

fn adj(pid: u32) -> String {
    format!("/proc/{pid}/oom_score_adj")
}

/// Processes that the kernel has killed for memory since the boot.
fn killed() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").expect("/proc/vmstat");
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.parse().ok()).expect("a count")
}

/// Every CPU is wanted by several at once.
pub(crate) struct Hogs {
    _group: Scratch,
    hogs: Vec<Child>,
}

impl Hogs {
    /// In a cgroup of the greatest weight.
    pub(crate) fn heavy() -> Self {
        let group = Scratch::new("hogs");
        group.write("cpu.weight", "10000");
        let hogs = Self::start(2, &group);
        Self { _group: group, hogs }
    }

    /// Before every thread without a real-time policy, and every one with a lower priority.
    pub(crate) fn real_time() -> Self {
        let group = Scratch::new("hogs");
        let hogs = Self::start(1, &group);
        for hog in &hogs {
            schedule(hog.id(), libc::SCHED_FIFO, REAL_TIME);
        }
        Self { _group: group, hogs }
    }

    fn start(each: usize, group: &Scratch) -> Vec<Child> {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let hog = |_| {
            let mut command = Command::new("/bin/busybox");
            command.args(["sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
            let hog = command.spawn().expect("start a hog");
            group.write("cgroup.procs", &hog.id().to_string());
            hog
        };
        (0..cpus * each).map(hog).collect()
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.hogs {
            drop(hog.kill());
        }
        for hog in &mut self.hogs {
            drop(hog.wait());
        }
    }
}

/// While it lives the calling thread runs before whoever hogs a CPU: a test has to see what happens.
pub(crate) struct Foremost(());

impl Foremost {
    pub(crate) fn new() -> Self {
        // What it starts is not.
        schedule(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, FOREMOST);
        Self(())
    }

    /// Another process, to its end.
    pub(crate) fn is(pid: u32) {
        schedule(pid, libc::SCHED_FIFO, FOREMOST);
    }
}

impl Drop for Foremost {
    fn drop(&mut self) {
        schedule(0, libc::SCHED_OTHER, 0);
    }
}

fn schedule(pid: u32, policy: i32, priority: i32) {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameter outlives the call.
    let done = unsafe { libc::sched_setscheduler(pid.cast_signed(), policy, &raw const parameter) };
    Errno::result(done).expect("a policy");
}
