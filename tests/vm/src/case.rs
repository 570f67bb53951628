//! A list of tests that can be skipped for a reason.

use libtest_mimic::{Arguments, Failed, Trial};
use std::path::Path;

/// When a test runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// On every kernel of the list.
    Smoke,
    /// On the default kernel only.
    Full,
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

/// Runs the cases one after another, prints a line for each skip, and ends the process.
pub fn run(cases: Vec<Case>, smoke_only: bool) -> ! {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let mut skipped = 0_usize;
    let mut trials = Vec::new();
    for case in cases {
        if smoke_only && case.tier == Tier::Full {
            continue;
        }
        match (case.needs)() {
            Ok(()) => trials.push(Trial::test(case.name, move || guarded(case.run))),
            Err(reason) => {
                skipped += 1;
                println!("SKIP {}: {reason}", case.name);
            }
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    println!("{} passed, {} failed, {skipped} skipped", conclusion.num_passed, conclusion.num_failed);
    conclusion.exit();
}

fn guarded(run: fn()) -> Result<(), Failed> {
    std::panic::catch_unwind(run).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Failed::from(text.unwrap_or_else(|| "panicked".to_owned()))
    })
}
