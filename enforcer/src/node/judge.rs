//! What the facts mean. No I/O.

use super::facts::{Capabilities, Facts, MemoryController, PeakFile, Psi, Release};
use crate::cgroup::shown;
use enforcer_gate::Bytes;
use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub need: Need,
    /// How it is.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What does not work without it; empty where nothing is lost.
    pub lost: String,
    /// What to do about it; empty where there is nothing to do.
    #[serde(rename = "do")]
    pub todo: String,
}

/// What enforcer wants of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// A kernel that is new enough.
    Kernel,
    /// Root's rights.
    Root,
    /// The memory controller on cgroup v2.
    CgroupV2Memory,
    /// A cgroup file system that can be written to.
    WritableCgroups,
    /// `memory.reclaim`.
    MemoryReclaim,
    /// Type information of the kernel.
    Btf,
    /// Pressure stall information.
    Psi,
    /// Swap, and zswap.
    Swap,
    /// Limits set without waiting for reclaim.
    NonblockingMax,
    /// A `memory.peak` that can be reset.
    MemoryPeak,
    /// BPF among the security modules.
    BpfLsm,
}

/// How it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// There.
    Ok,
    /// Not there; enforcer works, with something lost.
    Degraded,
    /// Not there, and enforcer can't change limits without it.
    Missing,
}

impl Need {
    /// Its name in a table.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Root => "root",
            Self::CgroupV2Memory => "cgroup v2 memory",
            Self::WritableCgroups => "writable cgroups",
            Self::MemoryReclaim => "memory.reclaim",
            Self::Btf => "BTF",
            Self::Psi => "PSI",
            Self::Swap => "swap",
            Self::NonblockingMax => "O_NONBLOCK limits",
            Self::MemoryPeak => "memory.peak",
            Self::BpfLsm => "BPF LSM",
        }
    }
}

/// One finding for each need.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    vec![
        kernel(&facts.release),
        root(facts.capabilities),
        memory(&facts.memory),
        writable(facts),
        reclaim(facts),
        btf(facts.btf),
        psi(facts.psi),
        swap(facts.swap, facts.zswap),
        nonblocking(&facts.release, facts.capabilities),
        peak(facts.peak, &facts.release),
        lsm(facts.lsm.as_deref()),
    ]
}

fn ok(need: Need, found: impl Into<String>) -> Finding {
    Finding { need, state: State::Ok, found: found.into(), lost: String::new(), todo: String::new() }
}

fn lacks(need: Need, state: State, found: impl Into<String>, lost: &str, todo: impl Into<String>) -> Finding {
    Finding { need, state, found: found.into(), lost: lost.into(), todo: todo.into() }
}

fn kernel(release: &Release) -> Finding {
    let text = shown(&release.text);
    if release.numbers >= (6, 1) {
        return ok(Need::Kernel, text);
    }
    let lost = "older than 6.1, the oldest kernel that enforcer is tested on: anything may be missing";
    lacks(Need::Kernel, State::Degraded, text, lost, "use a kernel of 6.1 or newer")
}

/// How a cgroup file system becomes writable.
pub(crate) const WRITABLE: &str = "mount it for writing: mount -o remount,bind,rw /sys/fs/cgroup; in a container, give it the \
                            node's /sys/fs/cgroup for writing, or run it privileged";

/// Capability, bit, what it is for, and how it is without.
const CAPABILITIES: [(&str, u32, &str, State); 5] = [
    ("CAP_SYS_ADMIN", 21, "cgroups of others", State::Missing),
    ("CAP_DAC_OVERRIDE", 1, "limit files of others", State::Missing),
    ("CAP_PERFMON", 38, "kernel programs", State::Missing),
    ("CAP_BPF", 39, "kernel programs", State::Missing),
    ("CAP_SYS_RESOURCE", 24, "PSI triggers with windows that are no multiple of 2 s", State::Degraded),
];

fn root(capabilities: Capabilities) -> Finding {
    let missing: Vec<_> = CAPABILITIES.iter().filter(|(_, bit, ..)| !capabilities.has(*bit)).collect();
    let state = missing.iter().map(|(.., state)| *state).max().unwrap_or(State::Ok);
    let list: Vec<_> = missing.iter().map(|(name, _, what, _)| format!("{name} ({what})")).collect();
    let found = format!("user {} without {}", capabilities.euid, list.join(", "));
    let todo = if capabilities.euid == 0 {
        "give what is missing to the container or unit that runs it"
    } else {
        "run it as root: sudo enforcer ..."
    };
    match state {
        State::Ok => ok(Need::Root, format!("user {} with every capability needed", capabilities.euid)),
        State::Degraded => lacks(Need::Root, state, found, "stalls are noticed later", todo),
        State::Missing => lacks(Need::Root, state, found, "no limit can be changed", todo),
    }
}

fn memory(memory: &MemoryController) -> Finding {
    let need = Need::CgroupV2Memory;
    let missing = |found: String, todo: String| {
        lacks(need, State::Missing, found, "there is no limit that enforcer could read or change", todo)
    };
    let boot = "boot with systemd.unified_cgroup_hierarchy=1 (without systemd: cgroup_no_v1=all)";
    match memory {
        MemoryController::V2(point) => ok(need, format!("mounted at {}", shown(point))),
        MemoryController::V1 { point, v2: None } => {
            missing(format!("the memory controller is on cgroup v1, at {}", shown(point)), boot.into())
        }
        MemoryController::V1 { point, v2: Some(v2) } => missing(
            format!(
                "hybrid: cgroup2 is mounted at {}, and the memory controller is on cgroup v1, at {}",
                shown(v2),
                shown(point)
            ),
            boot.into(),
        ),
        MemoryController::Off(point) => missing(
            format!("cgroup2 at {} does not offer the memory controller", shown(point)),
            "look for cgroup_disable=memory on the boot line; in a container, for what was delegated to it"
                .into(),
        ),
        MemoryController::NotMounted => {
            missing("no cgroup2 is mounted".into(), "mount it: mount -t cgroup2 none /sys/fs/cgroup".into())
        }
        MemoryController::Unknown(why) => missing(shown(why), "mount /proc".into()),
    }
}

fn writable(facts: &Facts) -> Finding {
    let need = Need::WritableCgroups;
    match (&facts.memory, facts.read_only) {
        (MemoryController::V2(point), true) => lacks(
            need,
            State::Missing,
            format!("{} is mounted read-only", shown(point)),
            "limits and pressure can be read; no limit can be changed",
            WRITABLE,
        ),
        (MemoryController::V2(_), false) => ok(need, "mounted for writing"),
        _ => ok(need, "no cgroup v2 to look at"),
    }
}

fn reclaim(facts: &Facts) -> Finding {
    let need = Need::MemoryReclaim;
    let lost = "a shrink can't make room before it lowers the limit";
    match facts.reclaim {
        Some(true) => ok(need, "there"),
        Some(false) => lacks(need, State::Missing, "not there", lost, "use a kernel of 5.19 or newer"),
        None if facts.release.numbers >= (5, 19) => {
            ok(need, "no cgroup to look at; the kernel is new enough")
        }
        None => lacks(
            need,
            State::Missing,
            "the kernel is older than 5.19",
            lost,
            "use a kernel of 5.19 or newer",
        ),
    }
}

fn btf(there: bool) -> Finding {
    if there {
        return ok(Need::Btf, "/sys/kernel/btf/vmlinux");
    }
    let lost =
        "kernel programs can't be loaded: OOM kills, reclaim and foreign writes are not seen as they happen";
    let todo = "use a kernel built with CONFIG_DEBUG_INFO_BTF=y (Debian's and most distributions' are)";
    lacks(Need::Btf, State::Missing, "no /sys/kernel/btf/vmlinux", lost, todo)
}

fn psi(psi: Psi) -> Finding {
    let lost = "a shrink's stall budget can be judged by direct reclaim only";
    let absent =
        |found| lacks(Need::Psi, State::Degraded, found, lost, "boot with psi=1 (needs CONFIG_PSI=y)");
    match psi {
        Psi::On => ok(Need::Psi, "/proc/pressure/memory"),
        Psi::Off => absent("built in, and off"),
        Psi::Absent => absent("no /proc/pressure/memory"),
    }
}

fn swap(swap: Option<(Bytes, Bytes)>, zswap: bool) -> Finding {
    let zswap = if zswap { ", zswap on" } else { ", zswap off" };
    match swap {
        Some((Bytes::ZERO, _)) => ok(Need::Swap, "none: anonymous memory counts in full"),
        Some((total, free)) => ok(Need::Swap, format!("{free} of {total} free{zswap}")),
        None => ok(Need::Swap, format!("unknown{zswap}")),
    }
}

/// `CAP_SYS_PTRACE`: userfaultfd(2) for faults in the kernel.
const PTRACE: u32 = 19;

fn nonblocking(release: &Release, capabilities: Capabilities) -> Finding {
    let need = Need::NonblockingMax;
    if release.numbers >= (6, 16) {
        return ok(need, "the kernel is new enough (6.16)");
    }
    if capabilities.has(PTRACE) {
        return lacks(
            need,
            State::Degraded,
            "the kernel is older than 6.16",
            "a write to memory.max reclaims and then kills: it is made with a signal pending, which keeps it from both",
            "nothing has to be done; a kernel of 6.16 or newer does better",
        );
    }
    lacks(
        need,
        State::Missing,
        "the kernel is older than 6.16, and CAP_SYS_PTRACE is not given",
        "memory.max can't be lowered in a way that is sure to kill nobody, so it is not",
        "give it CAP_SYS_PTRACE, or use a kernel of 6.16 or newer",
    )
}

fn peak(peak: Option<PeakFile>, release: &Release) -> Finding {
    let need = Need::MemoryPeak;
    let lost = "peaks between two readings are not seen";
    let todo = "nothing has to be done; a kernel of 6.12 or newer does better";
    match peak {
        Some(PeakFile::Resettable) => ok(need, "can be reset for each observer"),
        Some(PeakFile::ReadOnly) => lacks(need, State::Degraded, "can't be reset", lost, todo),
        Some(PeakFile::Absent) => lacks(need, State::Degraded, "not there", lost, todo),
        None if release.numbers >= (6, 12) => ok(need, "no cgroup to look at; the kernel is new enough"),
        None => lacks(need, State::Degraded, "the kernel is older than 6.12", lost, todo),
    }
}

fn lsm(modules: Option<&[String]>) -> Finding {
    let without = |found: String, todo: String| {
        lacks(Need::BpfLsm, State::Degraded, found, "other writers can't be kept from unsafe limits", todo)
    };
    match modules {
        Some(names) if names.iter().any(|name| name == "bpf") => {
            ok(Need::BpfLsm, "bpf is among the security modules")
        }
        Some(names) => {
            let names = shown(names.join(","));
            without(
                format!("security modules: {names}"),
                format!("boot with lsm={names},bpf (needs CONFIG_BPF_LSM=y)"),
            )
        }
        None => without(
            "unknown: no /sys/kernel/security/lsm".into(),
            "mount securityfs to see: mount -t securityfs none /sys/kernel/security".into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Facts {
        Facts {
            release: Release { text: "6.18.1".into(), numbers: (6, 18) },
            capabilities: Capabilities { euid: 0, effective: u64::MAX },
            memory: MemoryController::V2("/sys/fs/cgroup".into()),
            read_only: false,
            psi: Psi::On,
            btf: true,
            lsm: Some(vec!["landlock".into(), "bpf".into()]),
            swap: Some((Bytes::ZERO, Bytes::ZERO)),
            zswap: false,
            reclaim: Some(true),
            peak: Some(PeakFile::Resettable),
        }
    }

    fn check(change: impl FnOnce(&mut Facts), need: Need, state: State, says: &str) {
        let mut facts = good();
        change(&mut facts);
        let findings = judge(&facts);
        let finding = findings.iter().find(|finding| finding.need == need).expect("judged");
        let text = format!("{} | {} | {}", finding.found, finding.lost, finding.todo);
        assert_eq!(finding.state, state, "{text}");
        assert!(text.contains(says), "{text}");
        assert_eq!(finding.state == State::Ok, finding.lost.is_empty() && finding.todo.is_empty(), "{text}");
    }

    #[test]
    fn a_good_node_has_everything() {
        assert!(judge(&good()).iter().all(|finding| finding.state == State::Ok));
    }

    #[test]
    fn what_is_missing_is_named_with_the_way_to_get_it() {
        use State::{Degraded, Missing};
        let v1 = |v2: Option<&str>| MemoryController::V1 {
            point: "/sys/fs/cgroup/memory".into(),
            v2: v2.map(Into::into),
        };
        check(
            |f| f.memory = v1(None),
            Need::CgroupV2Memory,
            Missing,
            "on cgroup v1, at /sys/fs/cgroup/memory",
        );
        check(
            |f| f.memory = v1(Some("/u")),
            Need::CgroupV2Memory,
            Missing,
            "hybrid: cgroup2 is mounted at /u",
        );
        check(
            |f| f.memory = MemoryController::Off("/c".into()),
            Need::CgroupV2Memory,
            Missing,
            "cgroup_disable=memory",
        );
        check(|f| f.memory = MemoryController::NotMounted, Need::CgroupV2Memory, Missing, "mount -t cgroup2");
        check(|f| f.capabilities.effective = 0, Need::Root, Missing, "CAP_BPF (kernel programs)");
        check(|f| f.capabilities.effective = !(1 << 39), Need::Root, Missing, "to the container or unit");
        check(|f| f.capabilities.effective = !(1 << 24), Need::Root, Degraded, "PSI triggers");
        check(
            |f| f.capabilities = Capabilities { euid: 1000, effective: 0 },
            Need::Root,
            Missing,
            "sudo enforcer",
        );
        check(|f| f.read_only = true, Need::WritableCgroups, Missing, "remount,bind,rw /sys/fs/cgroup");
        check(|f| f.btf = false, Need::Btf, Missing, "CONFIG_DEBUG_INFO_BTF");
        check(|f| f.reclaim = Some(false), Need::MemoryReclaim, Missing, "5.19");
        check(|f| f.psi = Psi::Off, Need::Psi, Degraded, "psi=1");
        check(|f| f.psi = Psi::Absent, Need::Psi, Degraded, "psi=1");
        check(|f| f.lsm = Some(vec!["yama".into()]), Need::BpfLsm, Degraded, "lsm=yama,bpf");
        check(|f| f.lsm = None, Need::BpfLsm, Degraded, "mount securityfs");
        check(|f| f.peak = Some(PeakFile::ReadOnly), Need::MemoryPeak, Degraded, "6.12");
        check(|f| f.release.numbers = (6, 12), Need::NonblockingMax, Degraded, "6.16");
        let without = |f: &mut Facts| {
            (f.release.numbers, f.capabilities.effective) = ((6, 12), !(1 << 19));
        };
        check(without, Need::NonblockingMax, Missing, "CAP_SYS_PTRACE");
        check(|f| f.release.numbers = (5, 15), Need::Kernel, Degraded, "6.1 or newer");
    }

    #[test]
    fn nothing_of_the_node_reaches_the_terminal_raw() {
        let mut facts = good();
        facts.release.text = "6.1\u{1b}[2J".into();
        facts.lsm = Some(vec!["\u{202e}".into()]);
        facts.memory = MemoryController::Off("/a\n\u{7}".into());
        for finding in judge(&facts) {
            let text = format!("{finding:?}");
            assert!(!finding.found.contains(['\u{1b}', '\u{7}', '\n', '\u{202e}']), "{text}");
        }
    }
}
