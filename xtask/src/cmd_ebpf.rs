//! `cargo xtask build-ebpf` and `cargo xtask verifier`: the kernel programs by themselves.

use crate::guest::{Boot, Kit};
use crate::kernels::{self, KERNELS};
use crate::{build, setup};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::collections::BTreeMap;

/// Nothing to choose.
#[derive(Debug, Args)]
pub(crate) struct BuildOptions {}

/// Builds the kernel programs and says with what and where to.
pub(crate) fn build(_options: &BuildOptions) -> Result<i32> {
    setup::build()?;
    let mut options = enforcer_ebpf_build::Options::new(build::root());
    options.verbose = true;
    let built = enforcer_ebpf_build::build(&options)?;
    println!("{}\n{}", built.origin(), built.object.display());
    Ok(0)
}

/// What the verifier thinks of each program.
#[derive(Debug, Args)]
pub(crate) struct VerifierOptions {
    /// Only this kernel.
    #[arg(long, value_parser = kernels::names())]
    kernel: Option<String>,
    /// Take the counts as the new snapshot, under docs/verifier.
    #[arg(long)]
    update: bool,
}

/// Growth of a program by more than this is a failure: one part in so many.
const GROWTH_SHARE: u64 = 10;

/// What the verifier counted in one program; `None` where this kernel does not take it.
type Counts = BTreeMap<String, Option<u64>>;

/// Loads every program on each kernel and compares its instruction count with the snapshot.
pub(crate) fn verifier(options: &VerifierOptions) -> Result<i32> {
    let chosen = match &options.kernel {
        Some(name) => vec![kernels::find(name)?],
        None => KERNELS.iter().collect(),
    };
    let kit = Kit::ready(&[build::VM_TESTS])?;
    let mut faults = Vec::new();
    for kernel in chosen {
        let unpacked = kernel.unpacked()?;
        println!("== {}", unpacked.release);
        let mut lines = Vec::new();
        let job = format!("/bin/{}", build::VM_TESTS);
        let ended = kit.boot(&unpacked, Boot::new(&[&job, "verifier"]), |line| {
            println!("{line}");
            lines.push(line.to_owned());
        })?;
        let counts: Counts = lines.iter().filter_map(|line| count(line)).collect();
        if ended.status != 0 || counts.is_empty() {
            bail!("the programs did not load on {} (see above)", unpacked.release);
        }
        let snapshot = build::root().join(format!("docs/verifier/{}.txt", kernel.name));
        if options.update {
            std::fs::create_dir_all(snapshot.parent().unwrap_or(&snapshot))?;
            std::fs::write(&snapshot, text(&counts))
                .with_context(|| format!("write {}", snapshot.display()))?;
            continue;
        }
        let old = std::fs::read_to_string(&snapshot).with_context(|| {
            format!("read {}; `cargo xtask verifier --update` makes it", snapshot.display())
        })?;
        let old: Counts = old.lines().filter_map(count).collect();
        faults
            .extend(differences(&old, &counts).into_iter().map(|fault| format!("{}: {fault}", kernel.name)));
    }
    for fault in &faults {
        println!("{fault}");
    }
    if !faults.is_empty() {
        println!("if that is meant: cargo xtask verifier --update, and commit docs/verifier");
    }
    Ok(i32::from(!faults.is_empty()))
}

/// A line `program count` or `program - reason`.
fn count(line: &str) -> Option<(String, Option<u64>)> {
    let (name, rest) = line.trim().split_once(' ')?;
    match rest.split_once(' ') {
        None if rest != "-" => Some((name.to_owned(), Some(rest.parse().ok()?))),
        None => Some((name.to_owned(), None)),
        Some((mark, _)) => (mark == "-").then(|| (name.to_owned(), None)),
    }
}

fn text(counts: &Counts) -> String {
    let line = |(name, count): (&String, &Option<u64>)| {
        format!("{name} {}\n", count.map_or_else(|| "-".to_owned(), |count| count.to_string()))
    };
    counts.iter().map(line).collect()
}

/// What a person should look at.
fn differences(old: &Counts, new: &Counts) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, count) in new {
        match (old.get(name), count) {
            (None, _) => faults.push(format!("{name} is not in the snapshot")),
            (Some(None), Some(_)) => faults.push(format!("{name} was refused before and is taken now")),
            (Some(Some(_)), None) => faults.push(format!("{name} is no longer taken by this kernel")),
            (Some(Some(before)), Some(count)) if *count > before + before / GROWTH_SHARE => {
                faults.push(format!("{name} grew from {before} to {count} instructions"));
            }
            (Some(None), None) | (Some(Some(_)), Some(_)) => {}
        }
    }
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    faults.extend(gone.map(|name| format!("{name} is in the snapshot but was not loaded")));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> Counts {
        text.lines().filter_map(count).collect()
    }

    #[test]
    fn lines_of_counts_and_of_chatter() {
        assert_eq!(count("oom_kill 1234"), Some(("oom_kill".into(), Some(1234))));
        assert_eq!(count("limit - this kernel has no such function"), Some(("limit".into(), None)));
        for other in ["", "loading the programs 7 x", "two words", "one"] {
            assert_eq!(count(other), None, "{other:?}");
        }
        let both = counts("b 1\na -\n");
        assert_eq!(text(&both), "a -\nb 1\n");
        assert_eq!(counts(&text(&both)), both);
    }

    #[test]
    fn growth_and_refusals_show() {
        let old = counts("oom 1000\nlimit 200\nlate -\n");
        assert!(differences(&old, &counts("oom 1100\nlimit 150\nlate -\n")).is_empty());
        for (new, fault) in [
            ("oom 1101\nlimit 200\nlate -", "oom grew from 1000 to 1101"),
            ("oom - the verifier says no\nlimit 200\nlate -", "oom is no longer taken"),
            ("oom 1000\nlimit 200\nlate 7", "late was refused before"),
            ("oom 1000\nlimit 200\nlate -\nnew 5", "new is not in the snapshot"),
            ("oom 1000\nlate -", "limit is in the snapshot but was not loaded"),
        ] {
            let faults = differences(&old, &counts(new));
            assert!(faults.len() == 1 && faults[0].contains(fault), "{faults:?}");
        }
    }
}
