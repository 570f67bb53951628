//! A write of systemd's that was refused leaves the refused value in the unit, and systemd writes it again whenever it
//! applies the unit's properties: after a `daemon-reload`, say, when the guard may be gone.

use super::mend::{MendError, read};
use super::unit::set_only;
use crate::cgroup::Cgroup;
use crate::probe::{LimitKind, LimitValue};
use crate::systemd::{self, Lasting};

/// Makes systemd hold what is in force, which lowers nothing. `None` where the cgroup is no unit of systemd's.
pub fn keep(cgroup: &Cgroup, file: LimitKind) -> Result<Option<LimitValue>, MendError> {
    let Some(unit) = systemd::unit_here(cgroup.path()) else { return Ok(None) };
    let now = read(cgroup, file)?;
    let properties = systemd::properties(file, now);
    let lasting = if systemd::outlasts(unit, &properties) { Lasting::Ever } else { Lasting::Boot };
    Ok(set_only(cgroup, unit, (file, now), lasting)?.then_some(now))
}
