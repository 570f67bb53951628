//! What can go wrong between us and the runtime.

use crate::cgroup::{printable, shown};
use enforcer_gate::Micros;
use std::path::PathBuf;

/// Why the runtime could not be asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum CriError {
    /// No runtime listens where runtimes do.
    #[error("no CRI socket; looked for {}", paths(looked_for))]
    NoSocket {
        /// The paths.
        looked_for: Vec<PathBuf>,
    },
    /// The address that was given is none.
    #[error("{address}: {why}")]
    BadAddress {
        /// Escaped.
        address: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nobody takes the connection.
    #[error("{}: can't connect: {source}", shown(socket))]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It hangs, or is too slow.
    #[error("{}: no answer to {call} within {deadline}", shown(socket))]
    Deadline {
        /// The socket.
        socket: PathBuf,
        /// The call, as CRI names it.
        call: &'static str,
        /// What was waited.
        deadline: Micros,
    },
    /// The runtime is too old for it, or something else than a runtime.
    #[error("{}: {call} of CRI v1 is not served there", shown(socket))]
    Unimplemented {
        /// The socket.
        socket: PathBuf,
        /// The call, as CRI names it.
        call: &'static str,
    },
    /// What the call is about does not exist (any more).
    #[error("{}: {call}: not found: {}", shown(socket), printable(message))]
    NotFound {
        /// The socket.
        socket: PathBuf,
        /// The call, as CRI names it.
        call: &'static str,
        /// The runtime's words.
        message: String,
    },
    /// More than [`super::ANSWER_BYTES_MAX`].
    #[error("{}: the answer to {call} is longer than {bytes_max} bytes", shown(socket))]
    TooLong {
        /// The socket.
        socket: PathBuf,
        /// The call, as CRI names it.
        call: &'static str,
        /// The bound.
        bytes_max: usize,
    },
    /// The connection broke before the answer came: the runtime ended, or was ended. What was asked may have been done.
    #[error(
        "{}: the connection broke before the answer to {call} came: {}",
        shown(socket),
        printable(message)
    )]
    Broken {
        /// The socket.
        socket: PathBuf,
        /// The call, as CRI names it.
        call: &'static str,
        /// How it broke.
        message: String,
    },
    /// Any other error that came back.
    #[error("{}: {call} failed ({code}): {}", shown(socket), printable(message))]
    Failed {
        /// The socket.
        socket: PathBuf,
        /// The call, as CRI names it.
        call: &'static str,
        /// The code of gRPC, in words.
        code: &'static str,
        /// The runtime's words.
        message: String,
    },
}

impl CriError {
    /// Whether the call that it is of may still be carried out, or have been: no answer came.
    pub fn is_open(&self) -> bool {
        match self {
            // What was sent on a connection that breaks at once may have arrived.
            Self::Connect { .. } | Self::Deadline { .. } | Self::Broken { .. } | Self::TooLong { .. } => true,
            Self::NoSocket { .. }
            | Self::BadAddress { .. }
            | Self::Unimplemented { .. }
            | Self::NotFound { .. }
            | Self::Failed { .. } => false,
        }
    }

    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NoSocket { .. } => {
                "start the container runtime, or name its socket: --cri unix:///path (the kubelet's \
                 --container-runtime-endpoint has it)"
            }
            Self::BadAddress { .. } => "name the socket of the container runtime: --cri unix:///path",
            Self::Connect { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                "run it as root: sudo enforcer ..."
            }
            Self::Connect { .. } => {
                "look whether the container runtime runs: systemctl status containerd (or crio)"
            }
            Self::Deadline { .. } => {
                "look whether the container runtime hangs or is stopped: systemctl status containerd (or crio); a \
                 slow one needs a longer --deadline"
            }
            Self::Unimplemented { .. } => {
                "look whether it is a container runtime that serves CRI v1 (containerd 1.6 or newer, with its cri \
                 plugin enabled)"
            }
            Self::NotFound { .. } => "look whether it still runs",
            Self::Broken { .. } => {
                "look whether the container runtime was restarted: systemctl status containerd (or crio)"
            }
            Self::TooLong { .. } => "",
            Self::Failed { .. } => {
                "the log of the container runtime says more: journalctl -u containerd (or crio)"
            }
        }
    }
}

fn paths(paths: &[PathBuf]) -> String {
    paths.iter().map(shown).collect::<Vec<_>>().join(", ")
}
