//! The guard: the kernel itself refuses a limit that a cgroup can't survive, whoever writes it.
//!
//! [`Guard`] loads the kernel program, tells it which cgroups it guards ([`Cover`]), gives [`Terms`] under which a
//! limit may go below usage, and keeps it alive with [`Guard::beat`]. Nothing is pinned: when this process ends,
//! however it ends, the guard is gone. [`Found`] is the guard of another process, as the kernel shows it.
//! [`log`] keeps what it said.

mod cover;
mod error;
mod found;
mod lease;
pub mod log;
mod maps;
mod sight;

pub use cover::{Cover, FILES};
pub use enforcer_abi::{GuardMode, Reason, Source, Verdict};
pub use error::GuardError;
pub use found::{Found, Granted, Held, grant_everywhere};
pub use lease::Terms;
pub use maps::Count;

use crate::node::security_modules;
use crate::probe::{Event, HookStatus, Judged, Need, Probe, ProbeError, ProbeOptions, Tried, verify};
use aya::maps::MapError;
use enforcer_abi::{GuardLife, LimitKind};
use enforcer_gate::CgroupId;
use maps::{COUNTS, CountMap, GUARDED, GuardedMap, LEASES, LIFE, LeaseMap, LifeMap, Plain};
use std::time::Duration;

/// How the guard is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardOptions {
    /// Entries that fit: cgroups named, and folders below which all are guarded.
    pub guarded_max: u32,
    /// Bytes of the ring buffer: a power of two. A verdict takes 176.
    pub ring_bytes: u32,
    /// After so long without a beat the guard is disarmed.
    pub stale: Duration,
}

impl Default for GuardOptions {
    fn default() -> Self {
        Self { guarded_max: 4096, ring_bytes: 1 << 20, stale: Duration::from_secs(5) }
    }
}

/// The guard of this process; dropping it takes it out of the kernel.
pub struct Guard {
    probe: Probe,
    guarded: GuardedMap,
    leases: LeaseMap,
    life: LifeMap,
    counts: CountMap,
    options: GuardOptions,
}

impl Guard {
    /// Loads and attaches the kernel program. It guards nothing, and is disarmed until the first [`Self::beat`].
    ///
    /// Fails where the kernel would not ask it, or its types lack something that it reads.
    pub fn load(options: GuardOptions) -> Result<Self, GuardError> {
        if let Some(error) = not_asked() {
            return Err(error);
        }
        let mut probe = Probe::load(&ProbeOptions {
            guarded_max: options.guarded_max,
            ring_bytes: options.ring_bytes,
            ..ProbeOptions::only([Need::Guard])
        })?;
        if let Some(status) = probe.hooks().iter().find(|status| status.in_use.is_none()) {
            return Err(GuardError::NotTaken { why: why(status) });
        }
        let guarded = probe.take_map(GUARDED)?;
        let leases = probe.take_map(LEASES)?;
        let life = probe.take_map(LIFE)?;
        let counts = probe.take_map(COUNTS)?;
        Ok(Self { probe, guarded, leases, life, counts, options })
    }

    /// Guards a cgroup, or changes how it is guarded.
    pub fn cover(&mut self, cgroup: CgroupId, cover: &Cover) -> Result<(), GuardError> {
        match self.guarded.insert(cgroup.get(), Plain(cover.into()), 0) {
            Ok(()) => Ok(()),
            Err(MapError::SyscallError(error))
                if error.io_error.raw_os_error() == Some(nix::errno::Errno::E2BIG as i32) =>
            {
                Err(GuardError::Full { guarded_max: self.options.guarded_max })
            }
            Err(source) => Err(GuardError::Map { map: GUARDED, source }),
        }
    }

    /// Guards it no longer; that it was not guarded is no error.
    pub fn uncover(&mut self, cgroup: CgroupId) {
        let _ = self.guarded.remove(&cgroup.get());
        for file in FILES {
            lease::revoke(&mut self.leases, cgroup, file);
        }
    }

    /// Says that user space is alive: the guard is armed from here on, until no beat came for
    /// [`GuardOptions::stale`].
    pub fn beat(&mut self) -> Result<(), GuardError> {
        self.live(now_ns())
    }

    /// Forgets the leases that are void: nobody else does.
    pub fn sweep(&mut self) -> Result<(), GuardError> {
        lease::sweep(&mut self.leases)
    }

    /// From here on every write is let through, and counted.
    pub fn disarm(&mut self) -> Result<(), GuardError> {
        self.live(0)
    }

    fn live(&mut self, beat_ns: u64) -> Result<(), GuardError> {
        let stale_ns = u64::try_from(self.options.stale.as_nanos()).unwrap_or(u64::MAX);
        let life = GuardLife { beat_ns, stale_ns, pid: std::process::id().into() };
        self.life.set(0, Plain(life), 0).map_err(GuardError::map(LIFE))
    }

    /// Lets a limit of this cgroup go as low as the terms say, whoever writes it.
    pub fn grant(&mut self, cgroup: CgroupId, file: LimitKind, terms: Terms) -> Result<(), GuardError> {
        lease::grant(&mut self.leases, cgroup, file, terms)
    }

    /// Ends a lease; that there is none is no error.
    pub fn revoke(&mut self, cgroup: CgroupId, file: LimitKind) {
        lease::revoke(&mut self.leases, cgroup, file);
    }

    /// Waits for the next verdict that is more than plainly safe. Needs a tokio runtime with I/O; cancel safe.
    pub async fn next(&mut self) -> Result<Judged, GuardError> {
        loop {
            if let Some(judged) = judged(self.probe.next_event().await?) {
                return Ok(judged);
            }
        }
    }

    /// The next verdict that is there already.
    pub fn try_next(&mut self) -> Option<Result<Judged, GuardError>> {
        loop {
            match self.probe.try_next()? {
                Ok(event) => {
                    if let Some(judged) = judged(event) {
                        return Some(Ok(judged));
                    }
                }
                Err(error) => return Some(Err(error.into())),
            }
        }
    }

    /// How many writes were judged how, since it was loaded.
    pub fn counts(&self) -> Result<Vec<Count>, GuardError> {
        maps::counts(&self.counts)
    }

    /// Verdicts that had no room in the ring buffer.
    pub fn dropped(&self) -> Result<u64, GuardError> {
        Ok(self.probe.drops()?.values().sum())
    }

    /// The kernel programs, for what they cost.
    pub fn probe(&self) -> &Probe {
        &self.probe
    }
}

fn judged(event: Event) -> Option<Judged> {
    match event {
        Event::Judged(judged) => Some(judged),
        Event::OomKill(_)
        | Event::ReclaimBegin(_)
        | Event::ReclaimEnd(_)
        | Event::LimitWrite(_)
        | Event::CgroupLife(_)
        | Event::OomEnd(_) => None,
    }
}

fn why(status: &HookStatus) -> String {
    status.tried.iter().map(|tried| format!("{}: {}", tried.name, tried.why)).collect::<Vec<_>>().join("; ")
}

/// Whether this node could have a guard. Has the verifier look at the program, and attaches nothing.
pub fn could_stand() -> Result<HookStatus, ProbeError> {
    let hook = &Need::Guard.hooks()[0];
    let refused = match not_asked() {
        Some(error) => Some(error.to_string()),
        None => {
            verify(&ProbeOptions::default(), &[Need::Guard])?.into_iter().find_map(|one| one.result.err())
        }
    };
    let tried: Vec<_> = refused.into_iter().map(|why| Tried { name: hook.name, why }).collect();
    Ok(HookStatus::new(Need::Guard, tried.is_empty().then_some(hook), tried))
}

/// Why the kernel would not ask the program, as far as that can be known beforehand.
fn not_asked() -> Option<GuardError> {
    let modules = security_modules()?;
    let asks = modules.iter().any(|name| name == "bpf");
    (!asks).then(|| GuardError::NoBpfLsm { modules: modules.join(",") })
}

/// Nanoseconds of the clock that the kernel program reads.
fn now_ns() -> u64 {
    crate::clock::nanos(nix::time::ClockId::CLOCK_MONOTONIC)
}
