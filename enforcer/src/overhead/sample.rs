//! Reads processes, cgroups and the node's books.

use super::{
    account::{Usage, residue},
    cpu::Used,
    helpers::{Process, Table},
    model::{Flag, HelperMemory, Term},
    parse,
};
use crate::cgroup::{Cgroup, CgroupError, Mount, membership, parse as cgroup, shown};
use enforcer_gate::{Bytes, Micros};
use nix::unistd::{SysconfVar, sysconf};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Most bytes of one file of /proc that are read. `zoneinfo` has some 20 KiB for each memory node.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most bytes of a command line that are kept.
const ARGV_BYTES_MAX: u64 = 16 << 10;
/// Most processes that are looked at.
const PROCESSES_MAX: usize = 1 << 17;
/// Most threads of a process whose children are looked for.
const THREADS_MAX: usize = 256;
/// Most cgroups of one pod that are looked at.
const CHILDREN_MAX: usize = 256;
/// A thread's stack in the kernel (`THREAD_SIZE` of x86-64 and arm64 with 4 KiB pages).
const STACK_BYTES: u64 = 16 << 10;

/// A process's memory, or why it can't be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoMemory {
    /// It ended, or its number is another process's by now.
    Gone,
    /// A file can't be read, or has not the line that is looked for.
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
}

impl NoMemory {
    /// As a flag of the pod whose helper it is.
    pub fn flag(self, pid: u32) -> Flag {
        match self {
            Self::Gone => Flag::ProcessGone { pid },
            Self::Unreadable { file, why } => Flag::Unreadable { file, why },
        }
    }
}

/// Reads /proc.
#[derive(Debug, Clone)]
pub struct Proc {
    root: PathBuf,
    /// Files that were read; clones count together.
    reads: Arc<AtomicU64>,
}

impl Default for Proc {
    fn default() -> Self {
        Self { root: "/proc".into(), reads: Arc::default() }
    }
}

impl Proc {
    /// With a /proc of the caller's making.
    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.into(), reads: Arc::default() }
    }

    /// All processes. One that ends meanwhile is left out.
    pub fn table(&self) -> io::Result<Table> {
        let entries = std::fs::read_dir(&self.root)?.filter_map(Result::ok);
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        Ok(pids.take(PROCESSES_MAX).filter_map(|pid| self.process(pid)).collect())
    }

    /// Files that were read so far, by this one and its clones.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// A process's children, of all its threads (`CONFIG_PROC_CHILDREN`); none of one that is gone.
    pub(super) fn children(&self, pid: u32) -> Vec<u32> {
        let Ok(threads) = std::fs::read_dir(self.folder(pid).join("task")) else { return Vec::new() };
        let threads = threads.filter_map(Result::ok).take(THREADS_MAX);
        let lists = threads.filter_map(|thread| self.text(&thread.path().join("children")).ok());
        let pids =
            |list: String| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>();
        lists.flat_map(pids).take(PROCESSES_MAX).collect()
    }

    pub(super) fn process(&self, pid: u32) -> Option<Process> {
        let folder = self.folder(pid);
        let parse::Stat { parent, started, used: _, reaped: _ } = self.stat(pid)?;
        let argv = self.bytes(&folder.join("cmdline"), ARGV_BYTES_MAX).ok()?;
        let argv = argv.split(|byte| *byte == 0).filter(|arg| !arg.is_empty());
        let argv = argv.map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
        // A kernel thread runs no file.
        let program = std::fs::read_link(folder.join("exe")).unwrap_or_default();
        let own = self.bytes(&folder.join("cgroup"), FILE_BYTES_MAX).ok()?;
        let cgroup = membership(&own)?.to_owned();
        // The same process still, so all of it belongs together.
        let process = Process { pid, parent, started, program, argv, cgroup };
        (self.stat(pid)?.started == started).then_some(process)
    }

    fn folder(&self, pid: u32) -> PathBuf {
        self.root.join(pid.to_string())
    }

    fn stat(&self, pid: u32) -> Option<parse::Stat> {
        parse::stat(&self.text(&self.folder(pid).join("stat")).ok()?)
    }

    /// What a process uses, if it is still the one that started then.
    pub fn memory(&self, pid: u32, started: u64) -> Result<HelperMemory, NoMemory> {
        let folder = self.folder(pid);
        let read = |name: &str| {
            let file = folder.join(name);
            self.text(&file).map_err(|error| no_memory(&file, &error))
        };
        let rollup = read("smaps_rollup")?;
        let status = read("status")?;
        if self.stat(pid).is_none_or(|now| now.started != started) {
            return Err(NoMemory::Gone);
        }
        let missing = |file: &str, name: &str| NoMemory::Unreadable {
            file: shown(folder.join(file)),
            why: format!("there is no {name}"),
        };
        let share = |name| parse::kib(&rollup, name).ok_or_else(|| missing("smaps_rollup", name));
        let tables = parse::kib(&status, "VmPTE").ok_or_else(|| missing("status", "VmPTE"))?;
        let threads = parse::count(&status, "Threads").ok_or_else(|| missing("status", "Threads"))?;
        Ok(HelperMemory {
            anon: share("Pss_Anon")?,
            file: share("Pss_File")?,
            shmem: share("Pss_Shmem")?,
            page_tables: tables,
            stacks: Bytes::new(threads.saturating_mul(STACK_BYTES)),
        })
    }

    /// The CPU time of a process and of what it has reaped, if it is still the one that started then. As exact as the
    /// kernel's tick.
    pub fn used(&self, pid: u32, started: u64) -> Option<Used> {
        let stat = self.stat(pid).filter(|stat| stat.started == started)?;
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten()?;
        let tick = 1_000_000_u64.checked_div(u64::try_from(ticks).ok()?)?;
        let of = |ticks: u64| Micros::new(ticks.saturating_mul(tick));
        Some(Used { own: of(stat.used), reaped: of(stat.reaped) })
    }

    /// `MemAvailable`, and the free pages that CPUs keep for themselves.
    pub fn available(&self) -> io::Result<(Bytes, Bytes)> {
        let meminfo = self.text(&self.root.join("meminfo"))?;
        let none = || io::Error::other("/proc/meminfo has no MemAvailable");
        let available = parse::kib(&meminfo, "MemAvailable").ok_or_else(none)?;
        let zones = self.text(&self.root.join("zoneinfo"))?;
        Ok((available, parse::free_on_cpus(&zones)))
    }

    fn bytes(&self, file: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let mut bytes = Vec::new();
        File::open(file)?.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn text(&self, file: &Path) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes(file, FILE_BYTES_MAX)?).into_owned())
    }
}

fn no_memory(file: &Path, error: &io::Error) -> NoMemory {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => NoMemory::Gone,
        _ => NoMemory::Unreadable { file: shown(file), why: error.to_string() },
    }
}

/// The CPU time of a cgroup and all below it.
pub fn cpu_used(mount: &Arc<Mount>, path: &Path) -> Result<Micros, CgroupError> {
    Cgroup::open_in(mount, path)?.read("cpu.stat", cgroup::cpu_stat_usage)
}

/// The most that a cgroup has used (`memory.peak`, Linux 5.19).
pub fn peak(mount: &Arc<Mount>, path: &Path) -> Result<Bytes, CgroupError> {
    Cgroup::open_in(mount, path)?.read("memory.peak", cgroup::number).map(Bytes::new)
}

/// What dead containers left in a pod's cgroup, by term; nothing where the kernel has none dead there
/// (`nr_dying_descendants` of `cgroup.stat`).
pub fn left_by_the_dead(
    mount: &Arc<Mount>,
    path: &Path,
    pod: &Usage,
) -> Result<BTreeMap<Term, Bytes>, CgroupError> {
    let cgroup_dir = Cgroup::open_in(mount, path)?;
    if cgroup_dir.read("cgroup.stat", cgroup::cgroup_stat_dying)? == 0 {
        return Ok(BTreeMap::new());
    }
    // One that ends meanwhile is among the dead now.
    let live = cgroup_dir.children(CHILDREN_MAX)?;
    let live: Vec<Usage> = live.iter().filter_map(|path| usage(mount, path).ok()).collect();
    Ok(residue(pod, &live))
}

/// What a cgroup uses.
pub fn usage(mount: &Arc<Mount>, path: &Path) -> Result<Usage, CgroupError> {
    let cgroup_dir = Cgroup::open_in(mount, path)?;
    // `memory.stat` has the kernel gather what CPUs have counted; `memory.current` is exact at any time.
    let (stat, _) = cgroup_dir.read("memory.stat", cgroup::memory_stat)?;
    let current = cgroup_dir.read("memory.current", cgroup::number)?;
    Ok(Usage { current: Bytes::new(current), stat })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "7 (a) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 11 0 4242 9 9";

    fn process(root: &Path, files: &[(&str, &str)]) {
        let folder = root.join("7");
        std::fs::create_dir_all(&folder).expect("makes it");
        for (name, text) in files {
            std::fs::write(folder.join(name), text).expect("writes");
        }
    }

    #[test]
    fn a_process_is_read_or_it_is_said_why_not() {
        let root = tempfile::tempdir().expect("a folder");
        let proc = Proc::at(root.path());
        assert_eq!(proc.memory(7, 4242), Err(NoMemory::Gone));
        let rollup = "x [rollup]\nPss_Anon: 4 kB\nPss_File: 8 kB\nPss_Shmem: 0 kB\n";
        let status = "Name:\ta\nVmPTE:\t     12 kB\nThreads:\t3\n";
        process(root.path(), &[("stat", STAT), ("smaps_rollup", rollup), ("status", status)]);
        let expected = HelperMemory {
            anon: Bytes::new(4096),
            file: Bytes::new(8192),
            shmem: Bytes::ZERO,
            page_tables: Bytes::new(12 << 10),
            stacks: Bytes::new(48 << 10),
        };
        assert_eq!(proc.memory(7, 4242), Ok(expected));
        assert_eq!(proc.memory(7, 4241), Err(NoMemory::Gone), "another one has its number");
        // A zombie has neither pages nor a table of them.
        process(root.path(), &[("smaps_rollup", "")]);
        let error = proc.memory(7, 4242).expect_err("is not there");
        assert!(matches!(&error, NoMemory::Unreadable { why, .. } if why.contains("Pss_Anon")), "{error:?}");
    }

    #[test]
    fn the_table_has_what_there_is() {
        let root = tempfile::tempdir().expect("a folder");
        process(
            root.path(),
            &[("stat", STAT), ("cmdline", "a\0-id\0x\0"), ("cgroup", "0::/system.slice/a.service\n")],
        );
        std::os::unix::fs::symlink("/usr/bin/a", root.path().join("7/exe")).expect("links");
        std::fs::create_dir(root.path().join("8")).expect("one that ends meanwhile");
        let table = Proc::at(root.path()).table().expect("is read");
        let found: Vec<_> = table.iter().collect();
        let expected = Process {
            pid: 7,
            parent: 1,
            started: 4242,
            program: "/usr/bin/a".into(),
            argv: ["a", "-id", "x"].map(String::from).into(),
            cgroup: "system.slice/a.service".into(),
        };
        assert_eq!(found, [&expected]);
    }

    #[test]
    fn this_process_is_read_for_real() {
        let proc = Proc::default();
        let table = proc.table().expect("is read");
        let own = table.get(std::process::id());
        // Where the tests run without cgroup v2 no process has one, and none is in the table.
        if let Some(own) = own {
            assert_eq!(proc.memory(own.pid, own.started + 1), Err(NoMemory::Gone));
            assert!(proc.memory(own.pid, own.started).expect("is read").anon > Bytes::ZERO);
        }
        let (available, _) = proc.available().expect("is read");
        assert!(available > Bytes::ZERO);
    }
}
