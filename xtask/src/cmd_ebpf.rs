//! `cargo xtask build-ebpf` and `cargo xtask verifier`: the kernel programs by themselves.

use crate::guest::{Boot, Kit};
use crate::kernels::{self, KERNELS};
use crate::{build, setup};
use anyhow::{Result, bail};
use clap::Args;

/// Nothing to choose.
#[derive(Debug, Args)]
pub(crate) struct BuildOptions {}

/// Builds the kernel programs and says with what and where to.
pub(crate) fn build(_options: &BuildOptions) -> Result<i32> {
    setup::build()?;
    let built = enforcer_ebpf_build::build(&enforcer_ebpf_build::Options::new(build::root()))?;
    println!("{}\n{}", built.origin(), built.object.display());
    Ok(0)
}

/// What the verifier thinks of each program.
#[derive(Debug, Args)]
pub(crate) struct VerifierOptions {
    /// Only this kernel of the list in xtask/src/kernels.rs.
    #[arg(long)]
    kernel: Option<String>,
    /// Take the counts as the new snapshot.
    #[arg(long)]
    update: bool,
}

/// Growth of a program by more than this is a failure: one part in so many.
const GROWTH_SHARE: u64 = 10;

/// Loads every program on each kernel and compares its instruction count with the snapshot.
pub(crate) fn verifier(options: &VerifierOptions) -> Result<i32> {
    let kit = Kit::ready()?;
    let mut faults = Vec::new();
    for kernel in
        KERNELS.iter().filter(|kernel| options.kernel.as_deref().is_none_or(|name| name == kernel.name))
    {
        let unpacked = kernel.unpacked()?;
        println!("== {}", unpacked.release);
        let mut lines = Vec::new();
        let ended = kit.boot(&unpacked, Boot::new(&["/bin/enforcer-vm-tests", "verifier"]), |line| {
            println!("{line}");
            lines.push(line.to_owned());
        })?;
        if ended.status != 0 {
            bail!("the verifier refused a program on {}", unpacked.release);
        }
        let snapshot = build::root().join(format!("docs/verifier/{}.txt", kernel.name));
        let counts: Vec<(String, u64)> = lines.iter().filter_map(|line| count(line)).collect();
        if options.update {
            std::fs::create_dir_all(snapshot.parent().unwrap_or(&snapshot))?;
            let counts: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            std::fs::write(&snapshot, counts.join("\n") + "\n")?;
            continue;
        }
        let old = std::fs::read_to_string(&snapshot).unwrap_or_default();
        let old: Vec<(String, u64)> = old.lines().filter_map(count).collect();
        faults.extend(grown(&old, &counts).into_iter().map(|fault| format!("{}: {fault}", kernel.name)));
    }
    if options.kernel.as_deref().is_some_and(|name| kernels::find(name).is_err()) {
        bail!("no such kernel");
    }
    for fault in &faults {
        println!("{fault}");
    }
    Ok(i32::from(!faults.is_empty()))
}

/// A line `program count`.
fn count(line: &str) -> Option<(String, u64)> {
    let (name, number) = line.rsplit_once(' ')?;
    let name = name.trim();
    (!name.contains(' ')).then_some((name.to_owned(), number.parse().ok()?))
}

fn grown(old: &[(String, u64)], new: &[(String, u64)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, count) in new {
        match old.iter().find(|(known, _)| known == name) {
            None => faults.push(format!("{name} is not in the snapshot; take it with --update")),
            Some((_, before)) if *count > before + before / GROWTH_SHARE => {
                faults.push(format!("{name} grew from {before} to {count} instructions"));
            }
            Some(_) => {}
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_shows() {
        let list = |text: &str| text.lines().filter_map(count).collect::<Vec<_>>();
        let old = list("oom 1000\nlimit 200\n");
        assert!(grown(&old, &list("oom 1100\nlimit 150\n")).is_empty());
        assert_eq!(grown(&old, &list("oom 1101\n")).len(), 1);
        assert_eq!(grown(&old, &list("new 5\n")).len(), 1);
        assert_eq!(count("loading the programs 7 x"), None);
    }
}
