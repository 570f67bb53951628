//! Reads everything that a [`Sample`] holds, from files that stay open.

use super::{
    Cgroup, CgroupError, FILE_BYTES_MAX, StatFile, descendants,
    parse::{self, StatExtra},
    shown,
};
use enforcer_gate::{AncestorLimit, Bytes, Limit, Pressure, Sample, SwapRoom};
use std::path::Path;

/// Host-wide files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostFiles<'a> {
    pub(crate) meminfo: &'a Path,
    pub(crate) zswap_enabled: &'a Path,
}

impl HostFiles<'static> {
    fn of_this_host() -> Self {
        Self {
            meminfo: Path::new("/proc/meminfo"),
            zswap_enabled: Path::new("/sys/module/zswap/parameters/enabled"),
        }
    }
}

/// Reads one cgroup again and again. All files are opened once, so a reading costs a `pread` each and a cgroup
/// that takes over the path is never read by mistake.
#[derive(Debug)]
pub struct Sampler {
    cgroup: Cgroup,
    own: Level,
    ancestors: Vec<(String, Level)>,
    stat: StatFile,
    events: StatFile,
    events_local: StatFile,
    cgroup_events: StatFile,
    cgroup_stat: StatFile,
    pressure: Option<StatFile>,
    hugetlb: Vec<StatFile>,
    meminfo: StatFile,
    zswap_enabled: Option<StatFile>,
    buffer: Box<[u8]>,
}

/// Limits and use of one cgroup on the way up.
#[derive(Debug)]
struct Level {
    current: StatFile,
    max: StatFile,
    high: StatFile,
    swap: Option<(StatFile, StatFile)>,
    zswap_max: Option<StatFile>,
}

impl Sampler {
    /// Opens the files. Fails with [`CgroupError::NoMemoryFiles`] where the cgroup has none: the root, a threaded
    /// cgroup, or one whose parent does not hand on the controller.
    pub fn new(cgroup: &Cgroup) -> Result<Self, CgroupError> {
        Self::with_host(cgroup, HostFiles::of_this_host())
    }

    pub(crate) fn with_host(cgroup: &Cgroup, host: HostFiles<'_>) -> Result<Self, CgroupError> {
        let own = Level::open(cgroup)?;
        let ancestors = cgroup.ancestors()?;
        let ancestors = ancestors.iter().map(|a| Ok((shown(a.path()), Level::open(a)?)));
        let hugetlb = if cgroup.mount().hugetlb_accounting() {
            descendants::hugetlb_files(cgroup)?
        } else {
            Vec::new()
        };
        Ok(Self {
            own,
            ancestors: ancestors.collect::<Result<_, CgroupError>>()?,
            stat: cgroup.file("memory.stat")?,
            events: cgroup.file("memory.events")?,
            events_local: cgroup.file("memory.events.local")?,
            cgroup_events: cgroup.file("cgroup.events")?,
            cgroup_stat: cgroup.file("cgroup.stat")?,
            pressure: cgroup.file_optional("memory.pressure")?,
            hugetlb,
            meminfo: StatFile::open_host(host.meminfo)?,
            zswap_enabled: StatFile::open_host_optional(host.zswap_enabled)?,
            buffer: vec![0; FILE_BYTES_MAX].into_boxed_slice(),
            cgroup: cgroup.clone(),
        })
    }

    /// The cgroup that is read.
    pub fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }

    /// One reading. The files are read one after the other, `memory.current` before what explains it.
    ///
    /// Fails with [`CgroupError::Gone`] once the cgroup or an ancestor was removed.
    pub fn sample(&mut self) -> Result<Sample, CgroupError> {
        let buffer = &mut self.buffer;
        let state = self.cgroup_events.parse(buffer, parse::cgroup_events)?;
        let current = self.own.current(buffer)?;
        let (stat, extra) = self.stat.parse(buffer, parse::memory_stat)?;
        let swap = self.own.swap_room(buffer)?;
        let mut free = swap.free;
        let mut zswap = swap.zswap;
        let mut ancestors = Vec::with_capacity(self.ancestors.len());
        for (path, level) in &self.ancestors {
            let room = level.swap_room(buffer)?;
            free = free.min(room.free);
            zswap &= room.zswap;
            ancestors.push(AncestorLimit {
                path: path.clone(),
                max: level.max.parse(buffer, parse::limit)?,
                high: level.high.parse(buffer, parse::limit)?,
                current: level.current(buffer)?,
            });
        }
        let free = free.min(self.meminfo.parse(buffer, parse::swap_free)?);
        let zswap = zswap && is_on(self.zswap_enabled.as_ref(), buffer)?;
        let below = if self.cgroup_stat.parse(buffer, parse::cgroup_stat_descendants)? == 0 {
            descendants::Below::default()
        } else {
            descendants::below(&self.cgroup, free > Bytes::ZERO, buffer)?
        };
        Ok(Sample {
            current,
            max: self.own.max.parse(buffer, parse::limit)?,
            high: self.own.high.parse(buffer, parse::limit)?,
            stat,
            events_local: self.events_local.parse(buffer, parse::memory_events)?,
            events: self.events.parse(buffer, parse::memory_events)?,
            pressure: read_pressure(self.pressure.as_ref(), buffer)?,
            protection: below.protection,
            swap: SwapRoom { free, zswap },
            hugetlb: self.read_hugetlb(extra)?,
            populated: state.populated,
            frozen: state.frozen,
            frozen_below: below.frozen.as_deref().map(shown),
            ancestors,
        })
    }

    fn read_hugetlb(&mut self, extra: StatExtra) -> Result<Bytes, CgroupError> {
        if !self.cgroup.mount().hugetlb_accounting() {
            return Ok(Bytes::ZERO);
        }
        if let Some(bytes) = extra.hugetlb {
            return Ok(bytes);
        }
        let mut sum = Bytes::ZERO;
        for file in &self.hugetlb {
            sum = sum.saturating_add(Bytes::new(file.parse(&mut self.buffer, parse::number)?));
        }
        Ok(sum)
    }
}

impl Level {
    fn open(cgroup: &Cgroup) -> Result<Self, CgroupError> {
        let Some(current) = cgroup.file_optional("memory.current")? else {
            return Err(cgroup.why_no_memory());
        };
        let swap = cgroup.file_optional("memory.swap.max")?;
        Ok(Self {
            current,
            max: cgroup.file("memory.max")?,
            high: cgroup.file("memory.high")?,
            swap: swap.map(|max| Ok((max, cgroup.file("memory.swap.current")?))).transpose()?,
            zswap_max: cgroup.file_optional("memory.zswap.max")?,
        })
    }

    fn current(&self, buffer: &mut [u8]) -> Result<Bytes, CgroupError> {
        self.current.parse(buffer, parse::number).map(Bytes::new)
    }

    /// What this level alone lets swap and zswap take.
    fn swap_room(&self, buffer: &mut [u8]) -> Result<SwapRoom, CgroupError> {
        let mut room = SwapRoom { free: Bytes::new(u64::MAX), zswap: false };
        if let Some((max, current)) = &self.swap
            && let Limit::Bytes(max) = max.parse(buffer, parse::limit)?
        {
            room.free = max.saturating_sub(Bytes::new(current.parse(buffer, parse::number)?));
        }
        if let Some(max) = &self.zswap_max {
            room.zswap = max.parse(buffer, parse::limit)? != Limit::Bytes(Bytes::ZERO);
        }
        Ok(room)
    }
}

fn is_on(flag: Option<&StatFile>, buffer: &mut [u8]) -> Result<bool, CgroupError> {
    flag.map_or(Ok(false), |file| Ok(file.read(buffer)? == b"Y\n"))
}

fn read_pressure(file: Option<&StatFile>, buffer: &mut [u8]) -> Result<Option<Pressure>, CgroupError> {
    match file.map(|file| file.parse(buffer, parse::pressure)).transpose() {
        // The file is there but PSI is off (`psi_show` in `kernel/sched/psi.c`).
        Err(CgroupError::Io { source, .. }) if source.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        read => read,
    }
}

#[cfg(test)]
mod tests;
