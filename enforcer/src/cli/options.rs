//! Options that several commands have, and how their values are read.

use super::{Exit, Failure};
use crate::{
    actuate::{STATE_DIR_DEFAULT, StateDir},
    cgroup::{Cgroup, Mount, membership},
    cri,
    duration::{DurationError, parse_duration},
    node::Need,
    quantity::{QuantityError, parse_target},
};
use clap::Args;
use enforcer_gate::{Bytes, Micros, Policy};
use std::path::{Path, PathBuf};

/// What every command needs that reads a cgroup.
pub(super) const TO_READ: [Need; 1] = [Need::CgroupV2Memory];

/// A value for `memory.max`.
pub(super) fn target(text: &str) -> Result<Bytes, QuantityError> {
    parse_target(text)
}

/// A span of time.
pub(super) fn span(text: &str) -> Result<Micros, DurationError> {
    parse_duration(text)
}

/// A window of the gate.
pub(super) fn window(text: &str) -> Result<Micros, String> {
    within(text, Policy::default().sample_interval, Policy::SPAN_MAX)
}

/// How much of a stall is allowed: "some" may be twice as much, and no span is longer than [`Policy::SPAN_MAX`].
pub(super) fn budget(text: &str) -> Result<Micros, String> {
    within(text, MILLISECOND, Policy::SPAN_MAX.scaled(1, 2))
}

/// A span of time between readings; a window of two of them is no longer than [`Policy::SPAN_MAX`].
pub(super) fn interval(text: &str) -> Result<Micros, String> {
    within(text, MILLISECOND, Policy::SPAN_MAX.scaled(1, 2))
}

/// How long to go on.
pub(super) fn duration(text: &str) -> Result<Micros, String> {
    within(text, MILLISECOND, Micros::new(u64::MAX))
}

/// What a call to the container runtime may take.
pub(super) fn deadline(text: &str) -> Result<Micros, String> {
    within(text, MILLISECOND, Micros::from_millis(600_000))
}

const MILLISECOND: Micros = Micros::from_millis(1);

fn within(text: &str, min: Micros, max: Micros) -> Result<Micros, String> {
    let found = span(text).map_err(|error| error.to_string())?;
    if found < min {
        Err(format!("{found} is too short a time; give {min} or more"))
    } else if found > max {
        Err(format!("{found} is too long a time; give {max} or less"))
    } else {
        Ok(found)
    }
}

/// The least headroom.
pub(super) fn headroom(text: &str) -> Result<Bytes, String> {
    let found = target(text).map_err(|error| error.to_string())?;
    let max = Policy::HEADROOM_MIN_MAX;
    if found > max { Err(format!("{found} is too much; give {max} or less")) } else { Ok(found) }
}

/// A threshold's default, as it is typed: the one that [`Policy`] has.
pub(super) fn default<T: ToString>(of: fn(Policy) -> T) -> String {
    of(Policy::default()).to_string()
}

/// Where the container runtime listens.
#[derive(Debug, Args)]
pub(super) struct Cri {
    /// The socket of the container runtime, as `unix:///path` or a path; by default the first that there is of
    /// containerd's, CRI-O's, k3s' and cri-dockerd's
    #[arg(long, value_name = "SOCKET")]
    pub(super) cri: Option<String>,
    /// What each call to the container runtime may take
    #[arg(long, value_name = "TIME", value_parser = deadline)]
    #[arg(default_value_t = Micros::from_millis(cri::DEADLINE.as_secs() * 1000))]
    pub(super) deadline: Micros,
}

/// Machine-readable output.
#[derive(Debug, Args)]
pub(super) struct Json {
    /// Print JSON: one document a line, and errors as JSON on standard error
    #[arg(long)]
    pub(super) json: bool,
}

/// Where journals live.
#[derive(Debug, Args)]
pub(super) struct StateDirectory {
    /// Where the journal lives
    #[arg(long, value_name = "DIR", default_value = STATE_DIR_DEFAULT)]
    pub(super) state_dir: PathBuf,
}

/// The policy of this node: the defaults with its number of CPUs, each of which can hold a charge batch.
pub(super) fn node_policy() -> Policy {
    let cpus = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    let cpus = cpus.and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(1).max(1);
    Policy { cpus, ..Policy::default() }
}

/// Fails with every fault of a policy.
pub(super) fn checked(policy: Policy) -> Result<Policy, Failure> {
    let Err(faults) = policy.validate() else { return Ok(policy) };
    let reasons = faults.0.into_iter().map(|why| super::failure::Reason { why, todo: String::new() });
    Err(Failure {
        exit: Exit::Usage,
        what: "the thresholds do not hold".into(),
        on: String::new(),
        reasons: reasons.collect(),
    })
}

/// Opens the cgroup that the user named; a failure says what is missing on this node.
pub(super) fn open(what: &str, path: &Path, needs: &[Need]) -> Result<Cgroup, Failure> {
    super::failure::require(what, path, needs)?;
    Cgroup::open(path).map_err(|error| Failure::cgroup(what, path, &error))
}

/// Whether a killed run left limits on this cgroup that nobody has settled; a folder that can't be looked into has none
/// of ours.
pub(super) fn is_left(state_dir: &Path, cgroup: &Cgroup) -> bool {
    let state = StateDir::find(state_dir).ok().flatten();
    state.is_some_and(|state| state.is_left(cgroup.id()).unwrap_or(false))
}

/// What to say of [`is_left`].
pub(super) const LEFT: &str =
    "note: an earlier run was killed and left its limits here: enforcer recover puts them back\n";

/// The cgroup of this process.
pub(super) fn own(what: &str) -> Result<PathBuf, Failure> {
    let file = Path::new("/proc/self/cgroup");
    let text = std::fs::read(file).map_err(|error| Failure::new(Exit::Failed, what, file, &error, ""))?;
    let path = membership(&text).ok_or_else(|| {
        Failure::new(
            Exit::Unsupported,
            what,
            file,
            &"this process is in no cgroup v2",
            "enforcer check says more",
        )
    })?;
    let mount = Mount::discover().map_err(|error| Failure::cgroup(what, "", &error))?;
    Ok(mount.point().join(path))
}
