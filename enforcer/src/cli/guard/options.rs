//! What can be said to `enforcer guard`.

use crate::cli::options::{self, Json};
use crate::guard::log::STORE_DEFAULT;
use crate::guard::{Cover, FILES, GuardMode};
use crate::probe::LimitKind;
use crate::quantity::parse_bytes;
use clap::{Args, Subcommand};
use enforcer_gate::{Bytes, PAGE_SIZE};
use std::path::PathBuf;

/// The least margin by itself.
const MARGIN_MIN: Bytes = Bytes::from_mib(1);

/// Has the kernel refuse a memory limit that a cgroup can't survive, whoever writes it
///
/// Runs until Ctrl-C, and prints a line for each write that it judged as more than plainly safe. A write that would
/// take memory.max below usage plus the margin fails with EBUSY in the mode enforce; in the mode audit it goes through
/// and is told. What lives on when this process ends is nothing: the kernel lets every write through again. A
/// shrink by enforcer itself takes a lease and passes. What it told is kept: enforcer guard log shows it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(in crate::cli) struct Options {
    #[command(subcommand)]
    pub(super) action: Option<Action>,
    #[command(flatten)]
    pub(super) stand: Stand,
}

/// Other things to do than to stand guard.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Says what guards there are on this node, as the kernel shows them
    ///
    /// Exit code 0 where one is armed, 1 where none is.
    Status(Json),
    Log(super::log::Options),
}

/// How to stand guard.
#[derive(Debug, Args)]
pub(super) struct Stand {
    /// The cgroups: absolute, or below the cgroup mount
    #[arg(value_name = "CGROUP")]
    pub(super) cgroups: Vec<PathBuf>,
    /// Also every cgroup below this one, whether it is there already or is made later
    #[arg(long, value_name = "DIR")]
    pub(super) all_below: Vec<PathBuf>,
    /// audit tells what would be refused; enforce refuses it
    #[arg(long, value_name = "MODE", default_value = "audit", value_parser = mode)]
    pub(super) mode: GuardMode,
    /// How far a new limit must stay above usage [default: what the CPUs can charge unseen, at least 1Mi]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(super) margin: Option<Bytes>,
    /// The files to guard. memory.high under usage kills nobody, it slows down; memory.swap.max under swap usage leaves
    /// what comes back from swap nowhere to go
    #[arg(long, value_name = "FILE", value_delimiter = ',', default_value = "memory.max", value_parser = file)]
    pub(super) files: Vec<LimitKind>,
    #[command(flatten)]
    pub(super) keep: Keep,
    #[command(flatten)]
    pub(super) json: Json,
}

/// Whether and where verdicts are kept.
#[derive(Debug, Args)]
pub(super) struct Keep {
    /// Where the verdicts are kept
    #[arg(long, value_name = "DIR", default_value = STORE_DEFAULT)]
    pub(super) store: PathBuf,
    /// The most that all kept verdicts may take; the oldest go first
    #[arg(long, value_name = "SIZE", default_value = "64Mi", value_parser = options::target)]
    pub(super) store_max: Bytes,
    /// Keep no verdicts
    #[arg(long, conflicts_with_all = ["store", "store_max"])]
    pub(super) no_store: bool,
}

impl Stand {
    /// How a cgroup that was named is guarded: itself, and what is below it.
    pub(super) fn cover(&self, own: bool, below: bool) -> Cover {
        let policy = options::node_policy();
        let batch = u64::from(policy.charge_batch_pages) * u64::from(policy.cpus) * PAGE_SIZE;
        let margin = self.margin.unwrap_or(MARGIN_MIN.max(Bytes::new(batch)));
        Cover { mode: self.mode, files: self.files.clone(), margin, own, below }
    }
}

fn mode(text: &str) -> Result<GuardMode, String> {
    match text {
        "audit" => Ok(GuardMode::Audit),
        "enforce" => Ok(GuardMode::Enforce),
        _ => Err("it is audit or enforce".into()),
    }
}

fn file(text: &str) -> Result<LimitKind, String> {
    let names: Vec<_> = FILES.iter().map(|file| file.name()).collect();
    let found = FILES.into_iter().find(|file| file.name() == text);
    found.ok_or_else(|| format!("it is one of {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parsed(words: &str) -> Result<Options, String> {
        let line = Line::try_parse_from(words.split(' ')).map_err(|error| error.to_string())?;
        Ok(line.options)
    }

    #[test]
    fn audit_of_memory_max_is_the_default() {
        let cover = parsed("guard /a").unwrap().stand.cover(true, false);
        assert_eq!((cover.mode, cover.files), (GuardMode::Audit, vec![LimitKind::MemoryMax]));
        assert!(cover.margin >= MARGIN_MIN && cover.own && !cover.below);
    }

    #[test]
    fn what_is_said_counts() {
        let words = "guard --mode enforce --margin 3Mi --files memory.max,memory.high --all-below /b /a";
        let stand = parsed(words).unwrap().stand;
        let cover = stand.cover(false, true);
        assert_eq!((cover.mode, cover.margin), (GuardMode::Enforce, Bytes::from_mib(3)));
        assert_eq!(cover.files, [LimitKind::MemoryMax, LimitKind::MemoryHigh]);
        assert!(!cover.own && cover.below);
        assert_eq!((stand.cgroups.len(), stand.all_below.len()), (1, 1));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (words, part) in [
            ("guard --mode off /a", "audit or enforce"),
            ("guard --files cpu.max /a", "memory.swap.max"),
            ("guard --margin 12x /a", "12x"),
        ] {
            let error = parsed(words).expect_err(words);
            assert!(error.contains(part), "{error}");
        }
        assert!(matches!(parsed("guard status").unwrap().action, Some(Action::Status(_))));
        assert!(matches!(parsed("guard log --denied").unwrap().action, Some(Action::Log(_))));
    }

    #[test]
    fn verdicts_are_kept_unless_told_otherwise() {
        let keep = parsed("guard /a").unwrap().stand.keep;
        assert_eq!((keep.store.to_str(), keep.no_store), (Some(STORE_DEFAULT), false));
        assert_eq!(keep.store_max, Bytes::from_mib(64));
        assert!(parsed("guard --no-store /a").unwrap().stand.keep.no_store);
        let error = parsed("guard --no-store --store /b /a").expect_err("it is one or the other");
        assert!(error.contains("--no-store"), "{error}");
    }
}
