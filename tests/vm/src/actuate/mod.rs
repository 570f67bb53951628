//! Sessions on real cgroups: each state, each way to die.

mod crash;
mod ends;
mod foretold;
mod writes;

use crate::process::Holder;
use enforcer::{
    actuate::{ActuateError, Session, SessionOptions, StateDir},
    cgroup::Cgroup,
};

use enforcer_gate::{Bytes, Limit};
use enforcer_vm_tests::{case::Case, scratch::Scratch, workload::Workload};

use std::{
    fs,
    io::{BufRead as _, stdin},
    path::{Path, PathBuf},
    time::Duration,
};

const MIB: u64 = 1024 * 1024;

const NO_CHECK: Bytes = Bytes::new(u64::MAX);

const DEADLINE: Duration = Duration::from_secs(2);

/// The hidden argument of the process that is killed.
const HOLDER: &str = "__hold-session";

pub(crate) fn cases() -> Vec<Case> {
    [ends::cases(), crash::cases(), foretold::cases(), writes::cases()].into_iter().flatten().collect()
}

/// A cgroup with limits set, and a state directory.
struct Rig {
    group: Scratch,
    state_path: tempfile::TempDir,
    state: StateDir,
}

impl Rig {
    /// `memory.max` 256 MiB and `memory.high` 200 MiB, no swap.
    fn new() -> Self {
        let group = Scratch::new("actuate");
        group.write("memory.max", "256M");
        group.write("memory.high", "200M");
        group.write_if_there("memory.swap.max", "0");
        let state_path = tempfile::tempdir_in("/run").unwrap();
        let state = StateDir::open(state_path.path()).unwrap();
        Self { group, state_path, state }
    }

    fn cgroup(&self) -> Cgroup {
        Cgroup::open(self.group.path()).unwrap()
    }

    fn workload(&self) -> Steps {
        Steps(Workload::run(&self.group, "steps"))
    }

    fn number(&self, file: &str) -> u64 {
        self.group.limit(file).parse().unwrap()
    }

    fn begin(&self) -> Session {
        self.begin_with(&SessionOptions::default()).unwrap()
    }

    fn begin_with(&self, options: &SessionOptions) -> Result<Session, ActuateError> {
        Session::begin(&self.cgroup(), &self.state, options)
    }

    fn holder(&self) -> Holder {
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        Holder::start(&[HOLDER, &path(self.group.path()), &path(self.state_path.path())])
    }

    /// The holder moves into the cgroup before it begins.
    fn holder_inside(&self) -> Holder {
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        Holder::start(&[HOLDER, &path(self.group.path()), &path(self.state_path.path()), "inside"])
    }

    fn limits(&self) -> (u64, u64) {
        (self.number("memory.high"), self.number("memory.max"))
    }

    /// A cgroup below; it goes with the rig.
    fn below(&self, name: &str) -> PathBuf {
        let mut path = self.group.path().to_owned();
        for part in Path::new(name) {
            fs::write(path.join("cgroup.subtree_control"), "+memory").unwrap();
            path.push(part);
            if !path.exists() {
                fs::create_dir(&path).unwrap();
            }
        }
        path
    }

    /// Kills what is in it and removes it.
    fn remove(&self) {
        self.group.clear();
        fs::remove_dir(self.group.path()).unwrap();
    }

    #[track_caller]
    fn assert_as_found(&self) {
        assert_eq!(self.limits(), (200 * MIB, 256 * MIB));
    }

    /// Waits until they are. Nothing tells of a limit that is written but the probe, which is not part of this.
    #[track_caller]
    fn becomes_as_found(&self) {
        let began = std::time::Instant::now();
        while self.limits() != (200 * MIB, 256 * MIB) {
            assert!(began.elapsed() < Duration::from_mins(1), "{:?}", self.limits());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn journals(&self) -> usize {
        let names = fs::read_dir(self.state_path.path()).unwrap();
        names.filter(|name| name.as_ref().unwrap().path().extension().is_some_and(|e| e == "journal")).count()
    }
}

/// A workload that is led step by step.
struct Steps(Workload);

impl Steps {
    #[track_caller]
    fn step(&mut self, line: &str) {
        let answer = self.ask(line);
        assert!(answer.starts_with("ok"), "{line}: {answer:?}");
    }

    /// The answer is empty when it is dead.
    fn ask(&mut self, line: &str) -> String {
        self.0.tell(line);
        self.0.line()
    }

    fn is_alive(&mut self) -> bool {
        self.0.alive()
    }
}

fn mib(n: u64) -> Bytes {
    Bytes::from_mib(n)
}

fn limit(n: u64) -> Limit {
    Limit::Bytes(mib(n))
}

/// The process that gets killed: begins a session, says its restorer's pid, then does what it is told.
pub(crate) fn hold_if_asked() {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, hold, cgroup, state, inside @ ..] = &arguments[..] else { return };
    if hold != HOLDER {
        return;
    }
    if !inside.is_empty() {
        fs::write(Path::new(cgroup).join("cgroup.procs"), "0").unwrap();
    }
    let cgroup = Cgroup::open(Path::new(cgroup)).unwrap();
    let state = StateDir::open(Path::new(state)).unwrap();
    let mut session = Session::begin(&cgroup, &state, &SessionOptions::default()).unwrap();
    println!("{}", session.restorer_pid());
    for line in stdin().lock().lines() {
        let line = line.unwrap();
        let (verb, number) = line.split_once(' ').unwrap_or((&line, "0"));
        let number = number.parse().unwrap();
        match verb {
            "brake" => println!("{:?}", session.set_brake(limit(number))),
            "commit" => println!("{:?}", session.commit(mib(number), NO_CHECK, DEADLINE)),
            "cycle" => {
                println!("cycling");
                for n in (20..190).rev() {
                    session.set_brake(limit(n));
                    session.commit(mib(n + 5), NO_CHECK, DEADLINE);
                }
            }
            other => panic!("{other}"),
        }
    }
    std::process::exit(0);
}
