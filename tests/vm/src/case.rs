//! A list of tests that can be skipped for a reason.

use crate::leftover::Scene;
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a case may take under emulation.
const CASE_MAX: Duration = Duration::from_mins(10);

/// When a test runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// On every kernel of the list: what a kernel may do otherwise than another.
    Smoke,
    /// On the default kernel only.
    Full,
    /// Only in the guest with a Debian: systemd, D-Bus, container runtimes.
    Debian,
    /// Only in a Debian guest that is a Kubernetes cluster.
    Kubernetes,
    /// The same, where time is no matter.
    KubernetesFull,
}

/// Which cases a guest runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// Those of every kernel.
    Smoke,
    /// All that need no Debian.
    Full,
    /// Only those that need one.
    Debian,
    /// Only those that need a cluster and are quick.
    Kubernetes,
    /// All that need a cluster.
    KubernetesFull,
}

impl Selection {
    /// What `ENFORCER_TIER` says; `full` where it says nothing.
    pub fn asked() -> Self {
        match std::env::var("ENFORCER_TIER").as_deref() {
            Ok("smoke") => Self::Smoke,
            Ok("debian") => Self::Debian,
            Ok("kubernetes") => Self::Kubernetes,
            Ok("kubernetes-full") => Self::KubernetesFull,
            Ok(_) | Err(_) => Self::Full,
        }
    }

    fn takes(self, tier: Tier) -> bool {
        match self {
            Self::Smoke => tier == Tier::Smoke,
            Self::Full => matches!(tier, Tier::Smoke | Tier::Full),
            Self::Debian => tier == Tier::Debian,
            Self::Kubernetes => tier == Tier::Kubernetes,
            Self::KubernetesFull => matches!(tier, Tier::Kubernetes | Tier::KubernetesFull),
        }
    }
}

/// Which share of the selected cases a guest runs, where several guests have them among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// From 0.
    number: usize,
    of: usize,
}

impl Share {
    /// What `ENFORCER_SHARE` says (`1/2` is the first half); everything where it says nothing. Panics where it says something
    /// else: tests that nobody runs would not be missed.
    pub fn asked() -> Self {
        let Ok(text) = std::env::var("ENFORCER_SHARE") else { return Self { number: 0, of: 1 } };
        let numbers =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) => Self { number: number - 1, of },
            _ => panic!("ENFORCER_SHARE is {text:?}, not 1/2 or the like"),
        }
    }

    /// Neighbours go to different guests: they are of one kind, and take about as long.
    fn takes(self, place: usize) -> bool {
        place % self.of == self.number
    }
}

/// Whether the tests that take long run as well: where `ENFORCER_LONG` says so, or where a filter picks tests by name.
fn long_ones(arguments: &Arguments) -> bool {
    arguments.filter.is_some() || std::env::var("ENFORCER_LONG").is_ok_and(|value| value == "1")
}

/// One test: a panic is its failure.
pub struct Case {
    /// `module::what_it_shows`
    pub name: &'static str,
    /// When it runs.
    pub tier: Tier,
    /// `Err(reason)` where this kernel or machine can't run it.
    pub needs: fn() -> Result<(), String>,
    /// The test.
    pub run: fn(),
}

/// For a test that needs nothing special.
pub fn nothing() -> Result<(), String> {
    Ok(())
}

/// The kernel's release, `6.12.117+deb12-cloud-amd64` say.
pub fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// Needs a kernel of at least this version.
pub fn at_least(major: u32, minor: u32) -> Result<(), String> {
    let release = release();
    let mut numbers = release.split(['.', '-', '+']).map(|part| part.parse::<u32>().unwrap_or(0));
    let have = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if have >= (major, minor) {
        Ok(())
    } else {
        Err(format!("needs Linux {major}.{minor}, this is {release}"))
    }
}

/// Needs a file to be there.
pub fn file(path: &str) -> Result<(), String> {
    if Path::new(path).exists() { Ok(()) } else { Err(format!("{path} does not exist")) }
}

/// How many of the longest cases are named at the end.
const LONGEST: usize = 12;
/// What each case took.
static TOOK: Mutex<Vec<(Duration, &str)>> = Mutex::new(Vec::new());

/// Runs the cases one after another, prints a line for each skip and what the longest took, and ends the process.
///
/// A case fails as well where it leaves something behind, and the whole run ends where one does not end.
///
/// Those named in `long` run only where they are asked for ([`long_ones`]), and are counted as skipped elsewhere.
pub fn run(cases: Vec<Case>, long: &[&str], selection: Selection, share: Share) -> ! {
    for name in long {
        assert!(
            cases.iter().any(|case| case.name == *name),
            "{name} is named as long, and there is no such test"
        );
    }
    if !matches!(selection, Selection::Smoke | Selection::Full) {
        // What systemd starts at boot would look as if a test had left it behind. How well it came up says nothing here.
        drop(std::process::Command::new("systemctl").args(["is-system-running", "--wait"]).output());
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let long = if long_ones(&arguments) { &[] } else { long };
    let mut skipped = 0_usize;
    let mut trials = Vec::new();
    let selected = cases.into_iter().filter(|case| selection.takes(case.tier));
    let (left_out, selected): (Vec<_>, Vec<_>) = selected.partition(|case| long.contains(&case.name));
    for case in left_out.iter().filter(|_| share.number == 0) {
        println!("SKIP {}: takes long; `cargo xtask test --full` runs it, or a filter", case.name);
        skipped += 1;
    }
    for (_, case) in selected.into_iter().enumerate().filter(|(place, _)| share.takes(*place)) {
        let trial = Trial::test(case.name, move || watched(case.name, case.run));
        if arguments.is_filtered_out(&trial) {
            continue;
        }
        match (case.needs)() {
            Ok(()) => trials.push(trial),
            Err(reason) => {
                skipped += 1;
                println!("SKIP {}: {reason}", case.name);
            }
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let mut took = std::mem::take(&mut *TOOK.lock().unwrap_or_else(PoisonError::into_inner));
    took.sort_by(|one, other| other.cmp(one));
    for (took, name) in took.iter().take(LONGEST) {
        println!("{:6.1} s  {name}", took.as_secs_f64());
    }
    println!("{} passed, {} failed, {skipped} skipped", conclusion.num_passed, conclusion.num_failed);
    conclusion.exit();
}

/// Runs one case under a watch that ends the process: what hangs in the kernel can't be ended otherwise, and
/// the machine is thrown away anyway.
fn watched(name: &'static str, run: fn()) -> Result<(), Failed> {
    let (ended, watch) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if watch.recv_timeout(CASE_MAX) == Err(RecvTimeoutError::Timeout) {
            println!(
                "\n{name} does not end after {} s; what its threads wait for in the kernel:",
                CASE_MAX.as_secs()
            );
            for entry in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
                let stack = std::fs::read_to_string(entry.path().join("stack")).unwrap_or_default();
                println!("thread {}:\n{stack}", entry.file_name().display());
            }
            std::process::exit(101);
        }
    });
    let before = Scene::now();
    let began = Instant::now();
    let result = std::panic::catch_unwind(run);
    let left = Scene::left_since(&before);
    drop(ended);
    TOOK.lock().unwrap_or_else(PoisonError::into_inner).push((began.elapsed(), name));
    let mut faults = Vec::new();
    if let Err(panic) = result {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        faults.push(text.or_else(|| panic.downcast_ref().copied()).unwrap_or("panicked").to_owned());
    }
    faults.extend(left.iter().map(|thing| format!("it leaves behind {thing}")));
    if faults.is_empty() { Ok(()) } else { Err(Failed::from(faults.join("\n"))) }
}
