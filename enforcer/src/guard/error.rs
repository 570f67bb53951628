//! What can go wrong, each with what a person can do about it.

use crate::cgroup::CgroupError;
use crate::probe::ProbeError;

/// Why the guard does not stand.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The kernel programs can't be used.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// bpf is not among the security modules, so the kernel asks no program.
    #[error("the kernel does not ask kernel programs: its security modules are {modules}, without bpf")]
    NoBpfLsm {
        /// Those that it has.
        modules: String,
    },
    /// This kernel does not take the program.
    #[error("this kernel does not take the guard: {why}")]
    NotTaken {
        /// Why not.
        why: String,
    },
    /// What the program sees is not what the files say.
    #[error("the guard would be blind: {what}")]
    Blind {
        /// What it sees wrongly.
        what: String,
    },
    /// A map can't be used.
    #[error("can't use the map {map} of the guard")]
    Map {
        /// Which.
        map: &'static str,
        /// Why not.
        source: aya::maps::MapError,
    },
    /// No more cgroups can be guarded.
    #[error("can't guard one more cgroup: {guarded_max} are guarded already")]
    Full {
        /// How many are allowed.
        guarded_max: u32,
    },
    /// What the kernel has loaded can't be listed.
    #[error("can't list the kernel programs: {why}")]
    List {
        /// Why not.
        why: String,
    },
    /// A cgroup can't be read.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
}

impl GuardError {
    pub(super) fn map(map: &'static str) -> impl FnOnce(aya::maps::MapError) -> Self {
        move |source| Self::Map { map, source }
    }
}
