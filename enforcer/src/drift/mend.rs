//! Putting an expected limit back: through systemd for a unit of its own, through the file elsewhere. Raises only where
//! memory could run out.

use super::cause::accepted;
use super::unit::set_only;
use super::value::{self, Expected, parse};
use super::weight::Conversion;
use crate::cgroup::{Cgroup, CgroupError};
use crate::probe::{LimitKind, LimitValue};
use crate::systemd::{self, Lasting, SystemdError};
use nix::fcntl::OFlag;
use std::fs::File;
use std::io::Write as _;

/// How a limit was put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By setting a property of its unit, until the next boot.
    Systemd,
    /// By writing the file.
    File,
}

/// Why a limit was not put back.
#[derive(Debug, thiserror::Error)]
pub enum MendError {
    /// Lowering it could kill.
    #[error("it would be lowered, which only enforcer shrink does safely")]
    Lowers,
    /// Another session is at work on the cgroup.
    #[error("pid {0} of enforcer's is at work on it")]
    Busy(u32),
    /// systemd does not do it.
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    /// The cgroup's files.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The file does not take it.
    #[error("the file does not take it")]
    Write(#[source] std::io::Error),
    /// It was done and is not so.
    #[error("it is {0} all the same")]
    Unchanged(String),
}

/// Whether [`mend`] puts a file back that holds this: it lowers no memory.
pub fn is_mended(file: LimitKind, now: LimitValue, expected: &Expected) -> bool {
    !lowers(file, now, wanted(expected))
}

fn wanted(expected: &Expected) -> LimitValue {
    match expected {
        Expected::Value(value) => *value,
        Expected::Shares(shares) => LimitValue::Weight(Conversion::Quadratic.weight(*shares)),
    }
}

/// Puts back what `file` should hold, and reads it back.
pub fn mend(cgroup: &Cgroup, file: LimitKind, expected: &Expected) -> Result<(Way, LimitValue), MendError> {
    let wanted = wanted(expected);
    if !is_mended(file, read(cgroup, file)?, expected) {
        return Err(MendError::Lowers);
    }
    let unit = systemd::unit_here(cgroup.path());
    let is_unit = match unit {
        Some(unit) => set_only(cgroup, unit, (file, wanted), Lasting::Boot)?,
        None => false,
    };
    if !is_unit {
        let mut open = File::from(cgroup.open_file(file.name(), OFlag::O_WRONLY)?);
        open.write_all(value::raw(wanted).to_string().as_bytes()).map_err(MendError::Write)?;
    }
    let now = read(cgroup, file)?;
    if accepted(expected, now).is_none() {
        return Err(MendError::Unchanged(value::shown(now).to_string()));
    }
    Ok((if is_unit { Way::Systemd } else { Way::File }, now))
}

pub(super) fn read(cgroup: &Cgroup, file: LimitKind) -> Result<LimitValue, MendError> {
    let text = cgroup.read(file.name(), |text| Ok(String::from_utf8_lossy(text).into_owned()))?;
    parse(file, &text).ok_or(MendError::Unchanged(text))
}

/// Whether the change takes memory away from a cgroup.
fn lowers(file: LimitKind, now: LimitValue, wanted: LimitValue) -> bool {
    match (now, wanted) {
        (LimitValue::Memory(now), LimitValue::Memory(wanted)) => {
            matches!(file, LimitKind::MemoryMax | LimitKind::MemoryHigh | LimitKind::SwapMax) && wanted < now
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_never_taken_away() {
        let lowers = |file, now: &str, wanted: &str| {
            lowers(file, parse(file, now).unwrap(), parse(file, wanted).unwrap())
        };
        for file in [LimitKind::MemoryMax, LimitKind::MemoryHigh, LimitKind::SwapMax] {
            assert!(lowers(file, "max", "64Mi") && lowers(file, "64Mi", "32Mi"));
            assert!(!lowers(file, "32Mi", "64Mi") && !lowers(file, "32Mi", "max"));
        }
        assert!(!lowers(LimitKind::PidsMax, "max", "7") && !lowers(LimitKind::MemoryLow, "64Mi", "0"));
    }
}
