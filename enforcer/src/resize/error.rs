//! What can go wrong.

use super::PlanError;
use crate::{cgroup::CgroupError, cri::CriError, drift::MendError, inventory::NoHome, shrink::ShrinkError};

/// Why a resize was not carried through, or not begun.
#[derive(Debug, thiserror::Error)]
pub enum ResizeError {
    /// The runtime could not be asked; nothing was changed.
    #[error(transparent)]
    Cri(#[from] CriError),
    /// The container is gone, or has no cgroup of its own that can be told.
    #[error("the container has no cgroup that can be resized: {0}")]
    NoHome(NoHome),
    /// The runtime does not tell what it would write.
    #[error(
        "the runtime does not tell the specification of the container, so it is not known what an update writes"
    )]
    NoSpec,
    /// It can't be done so.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A cgroup can't be read.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The gate's work could not be carried through; every file is as it was found.
    #[error(transparent)]
    Shrink(#[from] ShrinkError),
    /// A limit was not set.
    #[error("{file} of {cgroup} is not set: {source}")]
    Set {
        /// Which, escaped.
        cgroup: String,
        /// The file.
        file: &'static str,
        /// Why.
        #[source]
        source: MendError,
    },
    /// There is something to lower and no gate to do it.
    #[error("memory.max would go down without the gate, which is a defect of enforcer")]
    NoGate,
    /// It was to stop before the runtime had answered; nothing was changed.
    #[error("it was stopped before the runtime had said how the container is")]
    Stopped,
    /// A thread could not be had.
    #[error("a thread of this process has ended early")]
    Thread,
}
