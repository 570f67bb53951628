//! What can go wrong, each with what a person can do about it.

use std::path::PathBuf;

/// Why the kernel can't be listened to.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel was built without type information.
    #[error(
        "{} is not there: this kernel was built without CONFIG_DEBUG_INFO_BTF; use a distribution kernel \
         6.1 or newer, or one built with it", path.display()
    )]
    NoBtf {
        /// Where it should be.
        path: PathBuf,
    },
    /// The type information can't be read.
    #[error("can't read the kernel's type information from {}", path.display())]
    Btf {
        /// Where it is.
        path: PathBuf,
        /// Why not.
        source: btf_rs::Error,
    },
    /// The kernel refuses eBPF to this process.
    #[error(
        "the kernel refuses eBPF to this process ({what}); run as root, or give it CAP_BPF and CAP_PERFMON, \
         and make sure that no container profile, lockdown mode or sandbox forbids bpf()"
    )]
    NotPermitted {
        /// What was refused.
        what: String,
    },
    /// An option has a value that can't be.
    #[error("{option} can't be {value}: {why}")]
    Option {
        /// Which.
        option: &'static str,
        /// The value.
        value: u64,
        /// Why not.
        why: &'static str,
    },
    /// The object with the kernel programs can't be loaded.
    #[error("can't load the kernel programs")]
    Object(#[from] Box<aya::EbpfError>),
    /// The object has no map or program of this name: it was built from other sources.
    #[error("the kernel programs' object has no {0}; it was built from other sources than this program")]
    NotInObject(&'static str),
    /// A map can't be used.
    #[error("can't use the map {map} of the kernel programs")]
    Map {
        /// Which.
        map: &'static str,
        /// Why not.
        source: aya::maps::MapError,
    },
    /// No more cgroups can be watched.
    #[error("can't watch cgroup {cgroup}: {watched_max} cgroups are watched already")]
    WatchedFull {
        /// The id of the one too many.
        cgroup: u64,
        /// How many are allowed.
        watched_max: u32,
    },
    /// A record in the ring buffer makes no sense.
    #[error("the kernel programs sent something that is not a record")]
    Record(#[from] enforcer_abi::RecordError),
    /// Waiting for the ring buffer failed.
    #[error("can't wait for the kernel programs")]
    Wait(#[source] std::io::Error),
}
