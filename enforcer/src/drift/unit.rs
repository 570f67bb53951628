//! Setting one limit of a unit of systemd's, and no other with it.

use super::mend::{MendError, read};
use crate::actuate::is_held;
use crate::cgroup::Cgroup;
use crate::probe::{LimitKind, LimitValue};
use crate::systemd::{self, Lasting};

const MEMORY: [LimitKind; 5] = [
    LimitKind::MemoryMin,
    LimitKind::MemoryLow,
    LimitKind::MemoryHigh,
    LimitKind::MemoryMax,
    LimitKind::SwapMax,
];
const CPU: [LimitKind; 2] = [LimitKind::CpuMax, LimitKind::CpuWeight];

/// Has systemd set a limit of its unit. Whenever it sets one it writes all of that controller anew
/// (`cgroup_context_apply`), so what it holds otherwise than the files do is set to what the files hold: runc, say, writes
/// `memory.swap.max` past systemd, which has no limit on swap. `false`: systemd has no such unit.
pub(super) fn set_only(
    cgroup: &Cgroup,
    unit: &str,
    (file, value): (LimitKind, LimitValue),
    lasting: Lasting,
) -> Result<bool, MendError> {
    let mut properties = systemd::properties(file, value);
    let files: Vec<_> = beside(file).iter().copied().filter(|other| *other != file).collect();
    for (other, held) in systemd::get(unit, &files)? {
        // A brake that a session has on is not the unit's limit.
        if other == LimitKind::MemoryHigh && is_held(cgroup) {
            continue;
        }
        // Where the controller is not there neither is the file.
        if let Ok(now) = read(cgroup, other)
            && now != held
        {
            properties.extend(systemd::properties(other, now));
        }
    }
    Ok(systemd::set(unit, &properties, lasting)?)
}

/// The limits that systemd writes together with this one.
const fn beside(file: LimitKind) -> &'static [LimitKind] {
    match file {
        LimitKind::MemoryMin
        | LimitKind::MemoryLow
        | LimitKind::MemoryHigh
        | LimitKind::MemoryMax
        | LimitKind::SwapMax => &MEMORY,
        LimitKind::CpuMax | LimitKind::CpuWeight => &CPU,
        LimitKind::CpusetCpus | LimitKind::PidsMax => &[],
    }
}
