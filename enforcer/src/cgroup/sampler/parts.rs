//! The files of a node, of one cgroup, and of those above it.

use super::super::{
    Cgroup, CgroupError, StatFile, descendants,
    parse::{self, StatExtra},
    shown,
};
use enforcer_gate::{AncestorLimit, Bytes, Limit, Sample, SwapRoom};
use std::path::Path;

/// Host-wide files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostFiles<'a> {
    pub(crate) meminfo: &'a Path,
    pub(crate) zswap_enabled: &'a Path,
}

impl HostFiles<'static> {
    pub(crate) fn of_this_host() -> Self {
        Self {
            meminfo: Path::new("/proc/meminfo"),
            zswap_enabled: Path::new("/sys/module/zswap/parameters/enabled"),
        }
    }
}

/// What the node says of swap.
#[derive(Debug)]
pub(in super::super) struct Host {
    meminfo: StatFile,
    zswap_enabled: Option<StatFile>,
}

impl Host {
    pub(in super::super) fn open(host: HostFiles<'_>) -> Result<Self, CgroupError> {
        Ok(Self {
            meminfo: StatFile::open_host(host.meminfo)?,
            zswap_enabled: StatFile::open_host_optional(host.zswap_enabled)?,
        })
    }

    /// What swap and zswap could take, were it for the node alone.
    pub(in super::super) fn room(&self, buffer: &mut [u8]) -> Result<SwapRoom, CgroupError> {
        let free = self.meminfo.parse(buffer, parse::swap_free)?;
        let zswap = match &self.zswap_enabled {
            Some(file) => file.read(buffer)? == b"Y\n",
            None => false,
        };
        Ok(SwapRoom { free, zswap })
    }
}

/// Limits and use of one cgroup on the way up.
#[derive(Debug)]
pub(in super::super) struct Level {
    current: StatFile,
    max: StatFile,
    high: StatFile,
    swap: Option<(StatFile, StatFile)>,
    zswap_max: Option<StatFile>,
}

impl Level {
    /// Opens the files. Those of swap only where `within` leaves anything for them to say.
    pub(in super::super) fn open(cgroup: &Cgroup, within: SwapRoom) -> Result<Self, CgroupError> {
        let Some(current) = cgroup.file_optional("memory.current")? else {
            return Err(cgroup.why_no_memory());
        };
        let some = within.free > Bytes::ZERO;
        let swap = if some { cgroup.file_optional("memory.swap.max")? } else { None };
        let zswap_max = if within.zswap { cgroup.file_optional("memory.zswap.max")? } else { None };
        Ok(Self {
            current,
            max: cgroup.file("memory.max")?,
            high: cgroup.file("memory.high")?,
            swap: swap.map(|max| Ok((max, cgroup.file("memory.swap.current")?))).transpose()?,
            zswap_max,
        })
    }

    fn current(&self, buffer: &mut [u8]) -> Result<Bytes, CgroupError> {
        self.current.parse(buffer, parse::number).map(Bytes::new)
    }

    /// What this level leaves of what swap and zswap may take elsewhere.
    pub(in super::super) fn swap_room(
        &self,
        within: SwapRoom,
        buffer: &mut [u8],
    ) -> Result<SwapRoom, CgroupError> {
        let mut room = within;
        if within.free > Bytes::ZERO
            && let Some((max, current)) = &self.swap
            && let Limit::Bytes(max) = max.parse(buffer, parse::limit)?
        {
            let left = max.saturating_sub(Bytes::new(current.parse(buffer, parse::number)?));
            room.free = room.free.min(left);
        }
        if within.zswap {
            room.zswap = match &self.zswap_max {
                Some(max) => max.parse(buffer, parse::limit)? != Limit::Bytes(Bytes::ZERO),
                None => false,
            };
        }
        Ok(room)
    }

    /// As that of an ancestor at `path` below the mount.
    pub(in super::super) fn limit(
        &self,
        path: &str,
        buffer: &mut [u8],
    ) -> Result<AncestorLimit, CgroupError> {
        Ok(AncestorLimit {
            path: path.into(),
            max: self.max.parse(buffer, parse::limit)?,
            high: self.high.parse(buffer, parse::limit)?,
            current: self.current(buffer)?,
        })
    }
}

/// What a cgroup shares with its neighbours.
#[derive(Debug)]
pub(in super::super) struct Around {
    /// What the node and all ancestors leave.
    pub(in super::super) room: SwapRoom,
    /// Nearest first.
    pub(in super::super) ancestors: Vec<AncestorLimit>,
}

/// The files of the cgroup itself.
#[derive(Debug)]
pub(in super::super) struct Own {
    cgroup: Cgroup,
    level: Level,
    stat: StatFile,
    events: StatFile,
    events_local: StatFile,
    cgroup_events: StatFile,
    cgroup_stat: StatFile,
    pressure: Option<StatFile>,
    hugetlb: Vec<StatFile>,
}

impl Own {
    /// Opens the files, those of swap as [`Level::open`] does.
    pub(in super::super) fn open(cgroup: &Cgroup, within: SwapRoom) -> Result<Self, CgroupError> {
        let hugetlb = if cgroup.mount().hugetlb_accounting() {
            descendants::hugetlb_files(cgroup)?
        } else {
            Vec::new()
        };
        Ok(Self {
            level: Level::open(cgroup, within)?,
            stat: cgroup.file("memory.stat")?,
            events: cgroup.file("memory.events")?,
            events_local: cgroup.file("memory.events.local")?,
            cgroup_events: cgroup.file("cgroup.events")?,
            cgroup_stat: cgroup.file("cgroup.stat")?,
            pressure: cgroup.file_optional("memory.pressure")?,
            hugetlb,
            cgroup: cgroup.clone(),
        })
    }

    /// The cgroup.
    pub(in super::super) fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }

    /// One reading. The files are read one after the other, `memory.current` before what explains it.
    pub(in super::super) fn sample(&self, around: Around, buffer: &mut [u8]) -> Result<Sample, CgroupError> {
        let state = self.cgroup_events.parse(buffer, parse::cgroup_events)?;
        let current = self.level.current(buffer)?;
        let (stat, extra) = self.stat.parse(buffer, parse::memory_stat)?;
        let swap = self.level.swap_room(around.room, buffer)?;
        let below = if self.cgroup_stat.parse(buffer, parse::cgroup_stat_descendants)? == 0 {
            descendants::Below::default()
        } else {
            descendants::below(&self.cgroup, swap.free > Bytes::ZERO, buffer)?
        };
        Ok(Sample {
            current,
            max: self.level.max.parse(buffer, parse::limit)?,
            high: self.level.high.parse(buffer, parse::limit)?,
            stat,
            events_local: self.events_local.parse(buffer, parse::memory_events)?,
            events: self.events.parse(buffer, parse::memory_events)?,
            pressure: self.read_pressure(buffer, parse::pressure)?,
            protection: below.protection,
            swap,
            hugetlb: self.read_hugetlb(extra, buffer)?,
            populated: state.populated,
            frozen: state.frozen,
            frozen_below: below.frozen.as_deref().map(shown),
            ancestors: around.ancestors,
        })
    }

    /// Share of the last ten seconds in which some, and all, of its tasks waited for memory, in hundredths of a per cent;
    /// zero where PSI is off.
    pub(in super::super) fn psi_avg10(&self, buffer: &mut [u8]) -> Result<(u64, u64), CgroupError> {
        Ok(self.read_pressure(buffer, parse::pressure_avg10)?.unwrap_or_default())
    }

    fn read_hugetlb(&self, extra: StatExtra, buffer: &mut [u8]) -> Result<Bytes, CgroupError> {
        if !self.cgroup.mount().hugetlb_accounting() {
            return Ok(Bytes::ZERO);
        }
        if let Some(bytes) = extra.hugetlb {
            return Ok(bytes);
        }
        let mut sum = Bytes::ZERO;
        for file in &self.hugetlb {
            sum = sum.saturating_add(Bytes::new(file.parse(buffer, parse::number)?));
        }
        Ok(sum)
    }

    fn read_pressure<T>(
        &self,
        buffer: &mut [u8],
        parse: impl FnOnce(&[u8]) -> Result<T, parse::Malformed>,
    ) -> Result<Option<T>, CgroupError> {
        match self.pressure.as_ref().map(|file| file.parse(buffer, parse)).transpose() {
            // The file is there but PSI is off (`psi_show` in `kernel/sched/psi.c`).
            Err(CgroupError::Io { source, .. }) if source.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                Ok(None)
            }
            read => read,
        }
    }
}
