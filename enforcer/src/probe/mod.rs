//! The kernel programs: load, attach, listen.
//!
//! [`Probe::load`] reads the running kernel's types, picks for each [`Need`] the best [`hooks::Hook`] that
//! fits and that the kernel takes, and says in [`Probe::hooks`] what is in use, what was passed over and
//! why, and what is lost. Which hook fits is decided in `hooks`, apart from all I/O.

mod btf;
mod cost;
mod error;
mod event;
pub mod hooks;
mod judged;
mod object;
mod options;
mod places;
mod stat_table;
mod status;
mod summary;

pub use cost::ProgramCost;
pub use enforcer_abi::{Kind, LifeEvent, LimitKind, NAME_LEN, OomConstraint, Program, Stat, Text};
pub use error::ProbeError;
pub use event::{
    CgroupLife, Event, LimitValue, LimitWrite, OomEnd, OomKill, OomOwner, ReclaimBegin, ReclaimCause,
    ReclaimEnd, ReclaimPast, Task, WriteEnd,
};
pub use hooks::Need;
pub use judged::Judged;
pub use object::ORIGIN;
pub use options::ProbeOptions;
pub use status::{HookStatus, Tried};

use aya::Ebpf;
use aya::maps::{HashMap, MapData, MapError, PerCpuArray, RingBuf};
use cost::CpuCost;
use enforcer_gate::CgroupId;
use hooks::Hook;
use object::Object;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use tokio::io::unix::AsyncFd;

/// Bytes that the smallest record takes in the ring buffer, the kernel's head of 8 included.
const RING_RECORD_MIN: u32 = 40;

/// The kernel programs, attached; dropping it detaches them.
pub struct Probe {
    programs: Ebpf,
    ring: RingBuf<MapData>,
    watched: HashMap<MapData, u64, u8>,
    drops: PerCpuArray<MapData, u64>,
    costs: PerCpuArray<MapData, CpuCost>,
    watched_max: u32,
    ring_records_max: u32,
    hooks: Vec<HookStatus>,
    attached: BTreeSet<Program>,
    /// The ring buffer's descriptor in tokio's reactor; made at the first wait.
    ready: Option<AsyncFd<OwnedFd>>,
}

impl Probe {
    /// Loads and attaches what this kernel takes. That a need has no hook at all is no error: see
    /// [`Probe::hooks`].
    pub fn load(options: &ProbeOptions) -> Result<Self, ProbeError> {
        options.check()?;
        let kernel = btf::running_kernel()?;
        let mut object = Object::load(options, &kernel)?;
        let ring = map(&mut object.ebpf, "EVENTS")?;
        let watched = map(&mut object.ebpf, "WATCHED")?;
        let drops = map(&mut object.ebpf, "DROPS")?;
        let costs = map(&mut object.ebpf, "COSTS")?;
        let mut hooks = Vec::new();
        let mut attached = BTreeSet::new();
        for need in &options.needs {
            let mut tried = Vec::new();
            let mut in_use = None;
            for hook in need.hooks() {
                let result = match hook.fits(&kernel, &options.disabled) {
                    Ok(()) => attach(&mut object, hook),
                    Err(unfit) => Err(unfit.to_string()),
                };
                match result {
                    Ok(()) => {
                        attached.extend(hook.attachments.iter().map(|attachment| attachment.program));
                        in_use = Some(hook);
                        break;
                    }
                    Err(why) => tried.push(Tried { name: hook.name, why }),
                }
            }
            hooks.push(HookStatus::new(*need, in_use, tried));
        }
        Ok(Self {
            // The kernel's types, some 10 MiB, are needed no more.
            programs: object.ebpf,
            ring,
            watched,
            drops,
            costs,
            watched_max: options.watched_max,
            ring_records_max: options.ring_bytes / RING_RECORD_MIN,
            hooks,
            attached,
            ready: None,
        })
    }

    /// What answers each need.
    pub fn hooks(&self) -> &[HookStatus] {
        &self.hooks
    }

    /// Hands out one of the maps that the programs and their user share; once.
    pub(crate) fn take_map<M>(&mut self, name: &'static str) -> Result<M, ProbeError>
    where
        M: TryFrom<aya::maps::Map, Error = MapError>,
    {
        map(&mut self.programs, name)
    }

    /// Tells of reclaim in this cgroup from now on.
    pub fn watch(&mut self, cgroup: CgroupId) -> Result<(), ProbeError> {
        match self.watched.insert(cgroup.get(), 1, 0) {
            Ok(()) => Ok(()),
            Err(MapError::SyscallError(error))
                if error.io_error.raw_os_error() == Some(nix::errno::Errno::E2BIG as i32) =>
            {
                Err(ProbeError::WatchedFull { cgroup: cgroup.get(), watched_max: self.watched_max })
            }
            Err(source) => Err(ProbeError::Map { map: "WATCHED", source }),
        }
    }

    /// No longer tells of reclaim in this cgroup. One that is not watched is no error.
    pub fn unwatch(&mut self, cgroup: CgroupId) -> Result<(), ProbeError> {
        match self.watched.remove(&cgroup.get()) {
            Ok(()) | Err(MapError::KeyNotFound) => Ok(()),
            Err(MapError::SyscallError(error))
                if error.io_error.raw_os_error() == Some(nix::errno::Errno::ENOENT as i32) =>
            {
                Ok(())
            }
            Err(source) => Err(ProbeError::Map { map: "WATCHED", source }),
        }
    }

    /// The next event, without waiting for one.
    pub fn try_next(&mut self) -> Option<Result<Event, ProbeError>> {
        let entry = self.ring.next()?;
        Some(Event::decode(&entry).map_err(ProbeError::from))
    }

    /// Hands out the events that are there, without waiting; at most as many as the ring buffer can hold, so
    /// that it ends however fast new ones come. What is not a record is returned as an error after the rest
    /// was handed out.
    pub fn drain(&mut self, mut each: impl FnMut(Event)) -> Result<(), ProbeError> {
        let mut result = Ok(());
        for _ in 0..self.ring_records_max {
            match self.try_next() {
                Some(Ok(event)) => each(event),
                Some(Err(error)) => result = Err(error),
                None => break,
            }
        }
        result
    }

    /// Waits for the next event. Needs a tokio runtime with I/O; loses nothing when it is dropped half-way.
    pub async fn next_event(&mut self) -> Result<Event, ProbeError> {
        loop {
            if let Some(next) = self.try_next() {
                return next;
            }
            if self.ready.is_none() {
                let fd = self.ring.as_fd().try_clone_to_owned().map_err(ProbeError::Wait)?;
                // SAFETY: an owned descriptor stays open, and the same, for as long as its owner lives.
                let ready = unsafe { AsyncFd::register(fd) };
                self.ready = Some(ready.map_err(|error| ProbeError::Wait(error.into()))?);
                // What came before the descriptor was watched wakes nobody.
                continue;
            }
            if let Some(ready) = &self.ready {
                ready.readable().await.map_err(ProbeError::Wait)?.clear_ready();
            }
        }
    }

    /// Records that had no room in the ring buffer (or, for the end of a reclaim or a write, in the table
    /// of those that run), by kind, since the programs were loaded.
    pub fn drops(&self) -> Result<BTreeMap<Kind, u64>, ProbeError> {
        Kind::ALL
            .iter()
            .map(|kind| {
                let cpus = self
                    .drops
                    .get(&(*kind as u32), 0)
                    .map_err(|source| ProbeError::Map { map: "DROPS", source })?;
                Ok((*kind, cpus.iter().fold(0u64, |sum, cpu| sum.saturating_add(*cpu))))
            })
            .collect()
    }

    /// What each attached program has cost.
    pub fn costs(&self) -> Result<Vec<ProgramCost>, ProbeError> {
        self.attached
            .iter()
            .map(|program| {
                let cpus = self
                    .costs
                    .get(&(*program as u32), 0)
                    .map_err(|source| ProbeError::Map { map: "COSTS", source })?;
                let mut cost = ProgramCost::new(*program, cpus.iter());
                if let Some(loaded) = self.programs.program(program.name()) {
                    cost.missed = loaded.fd().map_or(0, |fd| {
                        let fdinfo = format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd());
                        std::fs::read_to_string(fdinfo).map_or(0, |text| cost::recursion_misses(&text))
                    });
                    cost.verified_instructions =
                        loaded.info().ok().and_then(|info| info.verified_instruction_count());
                }
                Ok(cost)
            })
            .collect()
    }
}

impl AsFd for Probe {
    /// The ring buffer, readable while it holds events; for `poll` and `epoll`.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

/// Attaches all of a hook or nothing.
fn attach(object: &mut Object, hook: &Hook) -> Result<(), String> {
    for (done, attachment) in hook.attachments.iter().enumerate() {
        if let Err(why) = object.attach(attachment) {
            for attachment in &hook.attachments[..=done] {
                object.unload(attachment.program);
            }
            return Err(why);
        }
    }
    Ok(())
}

fn map<M>(programs: &mut Ebpf, name: &'static str) -> Result<M, ProbeError>
where
    M: TryFrom<aya::maps::Map, Error = MapError>,
{
    let map = programs.take_map(name).ok_or(ProbeError::NotInObject(name))?;
    M::try_from(map).map_err(|source| ProbeError::Map { map: name, source })
}

/// What the verifier said to one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Which.
    pub program: Program,
    /// Where it would be attached.
    pub point: hooks::Point,
    /// Instructions that the verifier went through (`None` where the kernel does not tell), or why it was
    /// not loaded.
    pub result: Result<Option<u32>, String>,
}

/// Has the verifier look at every program of these needs that fits this kernel, the fallbacks too; attaches none.
pub fn verify(options: &ProbeOptions, needs: &[Need]) -> Result<Vec<Verified>, ProbeError> {
    options.check()?;
    let kernel = btf::running_kernel()?;
    let mut object = Object::load(options, &kernel)?;
    let mut seen = BTreeSet::new();
    let attachments = needs.iter().flat_map(|need| need.hooks()).flat_map(|hook| hook.attachments);
    Ok(attachments
        .filter(|attachment| seen.insert(attachment.program))
        .map(|attachment| {
            let result = match attachment.fits(&kernel, &options.disabled) {
                Ok(()) => object.verify(attachment).map(|()| {
                    let loaded = object.ebpf.program(attachment.program.name());
                    let info = loaded.and_then(|program| program.info().ok());
                    info.and_then(|info| info.verified_instruction_count())
                }),
                Err(unfit) => Err(unfit.to_string()),
            };
            Verified { program: attachment.program, point: attachment.point, result }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_record_is_known() {
        let smallest = Kind::ALL.iter().map(|kind| kind.size()).min().expect("there are kinds");
        assert_eq!(smallest + 8, RING_RECORD_MIN as usize);
    }
}
