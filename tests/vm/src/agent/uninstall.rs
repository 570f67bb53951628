//! What is left after the agent's end, and what takes that away.

use super::acts::{LABEL, braked, wasteful};
use super::{block_on, cgroup_of};
use crate::bpf::Loaded;
use crate::cri::rig::{Containerd, LONG};
use crate::debian::run;
use enforcer_vm_tests::agent_rig::{AT_ONCE, Agent, text};
use enforcer_vm_tests::processes::pids;
use enforcer_vm_tests::scratch::MOUNT;
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where an agent with the default configuration keeps what it keeps.
const KEPT: &str = "/var/lib/enforcer";
const SOCKETS: &str = "/run/enforcer";
const DOCUMENTATION: &str = include_str!("../../../../docs/operations.md");
/// Files of a cgroup that enforcer may write.
const LIMITS: [&str; 6] =
    ["memory.max", "memory.high", "memory.low", "memory.swap.max", "cpu.max", "cpu.weight"];

/// All that the kernel and the file system would show of it.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    loaded: Loaded,
    /// Each cgroup's limits.
    cgroups: BTreeMap<PathBuf, Vec<String>>,
    /// Bound Unix sockets, and listening TCP ports.
    sockets: Vec<String>,
    processes: Vec<u32>,
    pinned: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Traces {
    fn now() -> Self {
        let cgroups = walk(Path::new(MOUNT)).into_iter().filter(|path| path.is_dir()).map(|path| {
            let limits = LIMITS.map(|file| fs::read_to_string(path.join(file)).unwrap_or_default());
            (path, limits.to_vec())
        });
        let files = [KEPT, SOCKETS].iter().flat_map(|folder| walk(Path::new(folder)));
        Self {
            loaded: Loaded::now(),
            cgroups: cgroups.collect(),
            sockets: sockets(),
            processes: processes(),
            pinned: walk(Path::new("/sys/fs/bpf")),
            files: files.collect(),
        }
    }
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(walk(&entry.path()));
        }
        found.push(entry.path());
    }
    found.sort();
    found
}

fn sockets() -> Vec<String> {
    let lines = |path| fs::read_to_string(path).unwrap_or_default();
    let unix = lines("/proc/net/unix");
    let unix = unix.lines().filter_map(|line| line.split_whitespace().nth(7));
    let ports = lines("/proc/net/tcp");
    // In the state LISTEN (include/net/tcp_states.h).
    let ports = ports.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ports = ports.filter(|fields| fields.get(3) == Some(&"0A")).map(|fields| fields[1].to_owned());
    let mut all: Vec<_> =
        unix.filter(|path| path.contains("enforcer/")).map(str::to_owned).chain(ports).collect();
    all.sort();
    all
}

/// Those that run the agent's program.
fn processes() -> Vec<u32> {
    let program = fs::canonicalize("/bin/enforcer").expect("the program");
    pids().filter(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| path == program)).collect()
}

/// What docs/operations.md says about the removal of the service, and of all else.
pub(super) fn commands() -> [Vec<&'static str>; 2] {
    let (_, rest) = DOCUMENTATION.split_once("\n## Uninstall\n").expect("the section");
    let section = rest.split("\n## ").next().expect("its text");
    let blocks = section.split("```sh\n").skip(1).map(|block| block.split("```").next().expect("its end"));
    let blocks: Vec<Vec<_>> = blocks.map(|block| block.lines().collect()).collect();
    blocks.try_into().expect("two blocks")
}

/// In the middle of a shrink, with the guard up: by SIGTERM all goes but what is documented, and that goes by the documented
/// command.
pub(super) fn nothing_is_left() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        wasteful(&mut containerd, &[LABEL]).await;
        let before = Traces::now();
        assert!(before.processes.is_empty() && before.files.is_empty(), "{before:#?}");
        let sets = [&AT_ONCE[..], &["gate.window=600s", "guard.mode=enforce"]].concat();
        let mut agent = Agent::in_default_places(&sets);
        agent.is_current();
        let cgroup = cgroup_of(&braked(&agent).await);
        std::fs::write(cgroup.join("memory.max"), "4M").expect_err("it is guarded");
        let during = Traces::now();
        let loaded = during.loaded.since(&before.loaded);
        assert!(
            !loaded.programs.is_empty() && !loaded.maps.is_empty() && !loaded.links.is_empty(),
            "{loaded:?}"
        );
        assert!(during.processes.len() == 2, "itself and a restorer: {:?}", during.processes);
        assert_ne!(during.cgroups, before.cgroups, "there is a brake");
        assert_ne!(during.sockets, before.sockets);
        agent.signal(Signal::SIGTERM);
        assert!(agent.ended().success());
        agent.heard("its end", |said| text(said) == "enforcer ends");
        // The kernel frees what nobody uses a moment later.
        let began = Instant::now();
        let after = loop {
            let now = Traces::now();
            let is_freed = now.loaded.since(&before.loaded) == Loaded::default();
            if is_freed || began.elapsed() > LONG {
                break now;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        };
        println!("loaded meanwhile: {loaded:?}; gone {:?} after the end", began.elapsed());
        let names: Vec<_> = after.files.iter().map(|path| path.display().to_string()).collect();
        assert_eq!(
            names,
            [
                "/var/lib/enforcer/guard",
                "/var/lib/enforcer/guard/0000000000000001.seg",
                "/var/lib/enforcer/guard/lock",
                "/var/lib/enforcer/lock",
                "/var/lib/enforcer/oom",
                "/var/lib/enforcer/oom/0000000000000001.seg",
                "/var/lib/enforcer/oom/lock",
            ]
        );
        assert_eq!(after.loaded.since(&before.loaded), Loaded::default());
        assert_eq!(Traces { files: Vec::new(), loaded: before.loaded.clone(), ..after }, before);
        // What the documentation says takes away the rest.
        for folder in [KEPT, SOCKETS] {
            assert!(Path::new(folder).exists(), "{folder}");
        }
        let [_, rest] = commands();
        for command in rest {
            run("sh", ["-c", command]);
        }
        for folder in [KEPT, SOCKETS, "/etc/enforcer"] {
            assert!(!Path::new(folder).exists(), "{folder}");
        }
        containerd.end().await;
    });
}
