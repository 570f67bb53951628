//! What can go wrong in a measurement.

use crate::{
    cgroup::{CgroupError, shown},
    cri::CriError,
};
use std::{io, path::PathBuf};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum OverheadError {
    /// The runtime does not do it.
    #[error(transparent)]
    Cri(#[from] CriError),
    /// The runtime does not take the image that was made for it.
    #[error("the runtime does not fetch the image that is served to it on the loopback: {0}")]
    Image(#[source] CriError),
    /// No socket for it.
    #[error("can't serve the image on the loopback")]
    Registry(#[source] io::Error),
    /// No program can be made.
    #[error("no program can be made for {architecture}")]
    NoProgram {
        /// This machine's.
        architecture: &'static str,
    },
    /// A cgroup can't be read.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The node's books can't be read.
    #[error("can't read /proc")]
    Proc(#[source] io::Error),
    /// It is not known where a pod is.
    #[error("the cgroup of pod {pod} can't be told: {why}")]
    NoCgroup {
        /// Its UID.
        pod: String,
        /// Why.
        why: String,
    },
    /// A kubelet removes pods that it does not know.
    #[error("a kubelet runs here (process {pid}): it removes pods that it has not been told of")]
    Kubelet {
        /// Its number.
        pid: u32,
    },
    /// Another measurement goes on.
    #[error("another measurement, or clean-up, goes on through this runtime")]
    Busy,
    /// It can't be told whether another one goes on.
    #[error("{}: can't lock it", shown(folder))]
    Lock {
        /// The folder of the runtime's socket.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Pods come back, or do not go.
    #[error("{pods} pods of the measurement are still there")]
    Left {
        /// How many.
        pods: usize,
    },
    /// Neither the measurement nor the clean-up after it worked.
    #[error("{error}; and what was made could not all be removed: {left}")]
    Both {
        /// What ended the measurement.
        error: Box<OverheadError>,
        /// What ended the clean-up.
        left: Box<OverheadError>,
    },
}

impl OverheadError {
    /// What to do about it; empty where there is nothing.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Cri(error) => error.advice(),
            Self::Image(_) | Self::NoProgram { .. } => {
                "name an image that the runtime has or can fetch, whose program runs until it is ended: --image NAME"
            }
            Self::NoCgroup { .. } => "name the runtime's cgroup driver: --cgroup-driver systemd|cgroupfs",
            Self::Kubelet { .. } => {
                "measure on a node without one, or stop it for as long (its pods run on): systemctl stop kubelet"
            }
            Self::Busy => "wait for its end",
            Self::Left { .. } | Self::Both { .. } => "enforcer overhead clean removes them",
            Self::Registry(_) | Self::Cgroup(_) | Self::Proc(_) | Self::Lock { .. } => "",
        }
    }
}
