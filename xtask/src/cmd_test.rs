//! `cargo xtask test`: every tier, and the counts at the end.

use crate::build::Profile;
use crate::guest::{Boot, Kit};
use crate::kernels::{self, KERNELS, Kernel, Tier, Unpacked};
use crate::lanes::{self, Out};
use crate::vm::EmulatorDied;
use crate::{build, debian, long, setup};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Which tests to run.
#[derive(Debug, Default, Args)]
pub(crate) struct Options {
    /// Also the tests that take long.
    #[arg(long)]
    full: bool,
    /// Only this kernel, with all of its tests but those that take long.
    #[arg(long, value_parser = kernels::names())]
    kernel: Option<String>,
    /// Only tests whose name contains this.
    #[arg(long)]
    filter: Option<String>,
    /// Only what needs no VM.
    #[arg(long, conflicts_with_all = ["kernel", "guest_only"])]
    host_only: bool,
    /// Only what needs a VM.
    #[arg(long)]
    guest_only: bool,
    /// Only what needs a Debian, with the programs in this folder before the guest's own: another version of containerd, say.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kernel", "host_only"])]
    programs: Option<PathBuf>,
}

impl Options {
    /// For a guest whose kernel and programs are chosen elsewhere.
    pub(crate) fn of(filter: Option<String>, full: bool) -> Self {
        Self { full, filter, ..Self::default() }
    }
}

/// What the VM tier runs; the benchmarks have a short form among the tests.
const PROGRAMS: [&str; 4] = [build::ENFORCER, build::WORKLOAD, build::VM_TESTS, build::BENCH];

/// The tier of what needs systemd or a container runtime: in a guest of its own, which runs nothing else.
const DEBIAN: &str = "debian";

/// Where a guest has the programs of `--programs`, and looks first.
const FIRST: &str = "/usr/local/bin";

/// Two guests of 2 GiB, and room for this machine's own work.
const LANES_MIB: u64 = 6 << 10;

/// What test runners counted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// libtest's closing line, or the one of the VM tier.
    fn of_line(line: &str) -> Option<Self> {
        let text = match line.strip_prefix("test result: ") {
            Some(rest) => rest.split_once(". ")?.1,
            None => line,
        };
        let mut counts = Self::default();
        let mut found = false;
        for part in text.split([';', ',']) {
            let (number, what) = part.trim().split_once(' ')?;
            let number = number.parse::<usize>();
            match (number, what) {
                (Ok(number), "passed") => (counts.passed, found) = (number, true),
                (Ok(number), "failed") => counts.failed = number,
                (Ok(number), "skipped" | "ignored") => counts.skipped = number,
                _ => {}
            }
        }
        found.then_some(counts)
    }
}

pub(crate) fn run(options: &Options) -> Result<i32> {
    let mut total = Counts::default();
    let mut summary = Vec::new();
    if options.kernel.is_none() && !options.guest_only && options.programs.is_none() {
        println!("== host");
        setup::build()?;
        build::kernel_programs()?;
        let counts = host(options.filter.as_deref())?;
        summary.push(("host".to_owned(), counts));
    }
    if !options.host_only {
        let kit = Kit::ready(&PROGRAMS)?;
        let tiers = tiers(options)?;
        let lanes = lanes().min(tiers.len());
        if lanes > 1 {
            println!("\n{lanes} guests side by side; what one prints waits while another prints");
        }
        let print = |line: &str| println!("{line}");
        summary.extend(lanes::run(tiers, lanes, &print, |tier, out| {
            let counts = guest(&kit, &tier, options, out);
            (tier.title(), counts)
        }));
    }
    println!("\n== summary");
    for (name, counts) in &summary {
        println!(
            "{name:<32} {:>5} passed {:>3} failed {:>3} skipped",
            counts.passed, counts.failed, counts.skipped
        );
        total.add(*counts);
    }
    println!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    Ok(i32::from(total.failed > 0 || total.passed == 0))
}

fn chosen(name: Option<&str>) -> Result<Vec<&'static Kernel>> {
    match name {
        Some(name) => Ok(vec![kernels::find(name)?]),
        None => Ok(KERNELS.iter().collect()),
    }
}

/// `cargo test` over the workspace; what it prints is passed on and counted.
fn host(filter: Option<&str>) -> Result<Counts> {
    // Apart, for the quiet that suits the run of the tests would hide minutes of building them.
    if let Err(error) = long::cargo("building the tests", cargo_test().arg("--no-run")) {
        println!("{error:#}");
        return Ok(Counts { failed: 1, ..Counts::default() });
    }
    let prometheus = setup::prometheus();
    println!("    running them");
    let mut cargo = cargo_test();
    match prometheus {
        Ok(folder) => _ = cargo.env("ENFORCER_PROMETHEUS", folder),
        Err(error) => println!("SKIP Prometheus' own checks of metrics and alerts: {error:#}"),
    }
    cargo.args(["--quiet", "--no-fail-fast"]);
    if let Some(filter) = filter {
        cargo.arg("--").arg(filter);
    }
    let mut child = cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("start cargo test")?;
    let stdout = child.stdout.take().context("cargo test has no output")?;
    let mut counts = Counts::default();
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        counts.add(Counts::of_line(&line).unwrap_or_default());
    }
    println!(
        "SKIP advisories on dependencies: their database needs the network (cargo deny check advisories)"
    );
    let status = child.wait()?;
    if !status.success() && counts.failed == 0 {
        // It did not build, or a runner died: that is a failure that no runner counted.
        counts.failed = 1;
    }
    Ok(counts)
}

/// As the guest's programs are built, which have the same dependencies: most of what there is to build.
fn cargo_test() -> Command {
    let mut cargo = build::guest_cargo("test", Profile::Guest);
    // To optimise our largest part, tests and all, takes longer than that saves them.
    cargo.args(["--config", "profile.guest.package.enforcer.opt-level=0"]);
    cargo.args(["--workspace", "--exclude", build::VM_TESTS, "--exclude", build::E2E_TESTS]);
    cargo
}

/// One boot's worth of tests.
pub(crate) struct GuestTier {
    pub(crate) kernel: Unpacked,
    pub(crate) name: &'static str,
    /// Which share of the tier's tests, of how many; from 1.
    pub(crate) share: (usize, usize),
    /// The program, of [`build::PROGRAMS`], that runs the tests.
    pub(crate) runner: &'static str,
    pub(crate) debian: Option<PathBuf>,
    pub(crate) files: Vec<(PathBuf, String)>,
    /// Disks after that of the Debian, which are not written to.
    pub(crate) disks: Vec<PathBuf>,
    /// None: as much as usual.
    pub(crate) memory_mib: Option<u32>,
}

impl GuestTier {
    /// With nothing but a kernel, and all tests of the tier.
    pub(crate) fn bare(kernel: Unpacked, name: &'static str) -> Self {
        Self {
            kernel,
            name,
            share: (1, 1),
            runner: build::VM_TESTS,
            debian: None,
            files: Vec::new(),
            disks: Vec::new(),
            memory_mib: None,
        }
    }

    pub(crate) fn title(&self) -> String {
        let share = match self.share {
            (_, 1) => String::new(),
            (number, of) => format!(" {number}/{of}"),
        };
        format!("{} ({}{share})", self.kernel.release, self.name)
    }
}

/// What is to be booted, the longest first, with all that it takes on this machine's disk.
fn tiers(options: &Options) -> Result<Vec<GuestTier>> {
    let mut tiers = Vec::new();
    if let Some(folder) = &options.programs {
        let bare = GuestTier::bare(kernels::find(kernels::DEFAULT)?.unpacked()?, DEBIAN);
        tiers.push(GuestTier { debian: Some(debian::image()?), files: programs(folder)?, ..bare });
        return Ok(tiers);
    }
    for kernel in chosen(options.kernel.as_deref())? {
        let full = kernel.tier == Tier::Full || options.kernel.is_some();
        let name = if full { "full" } else { "smoke" };
        tiers.push(GuestTier::bare(kernel.unpacked()?, name));
        // The longest by far: in two guests, so that neither lane is left with it alone.
        let shares = if options.filter.is_none() { 2 } else { 1 };
        for share in (1..=shares).filter(|_| kernel.name == kernels::DEFAULT) {
            let bare = GuestTier::bare(kernel.unpacked()?, DEBIAN);
            tiers.push(GuestTier { share: (share, shares), debian: Some(debian::image()?), ..bare });
        }
    }
    Ok(tiers)
}

/// The files of a folder, where the guest looks first.
pub(crate) fn programs(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().display();
            files.push((path.clone(), format!("{FIRST}/{name}")));
        }
    }
    ensure!(!files.is_empty(), "{} has no programs", folder.display());
    Ok(files)
}

/// How many guests run side by side: one waits more than it computes, but each needs its memory.
fn lanes() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available =
        memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next());
    let available_mib = available.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024;
    if cpus > 1 && available_mib > LANES_MIB { 2 } else { 1 }
}

/// One tier on one kernel. Where the emulator dies on the way the tier is run once more.
pub(crate) fn guest(kit: &Kit, tier: &GuestTier, options: &Options, out: &mut Out) -> Counts {
    out.line(&format!("\n== {}", tier.title()));
    let mut counts = runner(kit, tier, options, out);
    if let Some(died) = counts.as_ref().err().and_then(|error| error.downcast_ref::<EmulatorDied>()) {
        out.line(&format!("{died}\n    running the tier again"));
        counts = runner(kit, tier, options, out);
    }
    counts.unwrap_or_else(|error| {
        out.line(&format!("{error:#}"));
        Counts { failed: 1, ..Counts::default() }
    })
}

/// One boot with the test runner, and what that counted.
fn runner(kit: &Kit, tier: &GuestTier, options: &Options, out: &mut Out) -> Result<Counts> {
    let mut boot = Boot::new(&["/bin/busybox", "env"]);
    boot.job.push(format!("ENFORCER_TIER={}", tier.name));
    boot.job.push(format!("ENFORCER_SHARE={}/{}", tier.share.0, tier.share.1));
    boot.job.push(format!("ENFORCER_LONG={}", u8::from(options.full)));
    boot.job.push(format!("/bin/{}", tier.runner));
    boot.job.push("--color=never".into());
    boot.job.extend(options.filter.clone());
    boot.time_out = if options.full { Duration::from_hours(3) } else { Duration::from_hours(1) };
    boot.debian.clone_from(&tier.debian);
    boot.files.extend(tier.files.iter().cloned());
    boot.disks.clone_from(&tier.disks);
    boot.memory_mib = tier.memory_mib.unwrap_or(boot.memory_mib);
    let mut counts = None;
    let ended = kit.boot(&tier.kernel, boot, |line| {
        out.line(line);
        counts = Counts::of_line(line).or(counts);
    })?;
    out.line(&match counts {
        Some(_) => format!("[launch to power-off {:.1} s]", ended.took.as_secs_f64()),
        None => format!("the guest's runner gave no counts, exit status {}", ended.status),
    });
    Ok(counts.unwrap_or(Counts { failed: 1, ..Counts::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_both_runners() {
        let libtest = "test result: FAILED. 12 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.1s";
        assert_eq!(Counts::of_line(libtest), Some(Counts { passed: 12, failed: 1, skipped: 2 }));
        assert_eq!(
            Counts::of_line("3 passed, 0 failed, 4 skipped"),
            Some(Counts { passed: 3, failed: 0, skipped: 4 })
        );
        for other in ["", "running 3 tests", "test a ... ok", "12 passed the gate"] {
            assert_eq!(Counts::of_line(other), None, "{other:?}");
        }
    }
}
