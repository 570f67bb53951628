//! What can go wrong with the admin socket.

use crate::cgroup::{printable, shown};
use enforcer_gate::Micros;
use std::{io, path::PathBuf};

/// Why there is no admin socket to listen on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// A living agent has it.
    #[error("{}: another agent listens there{}", shown(socket), process(*.pid))]
    Taken {
        /// The socket.
        socket: PathBuf,
        /// The agent's process, where it is known.
        pid: Option<u32>,
    },
    /// Something else is at its place, and stays there.
    #[error("{}: there is something that is no socket", shown(socket))]
    NoSocket {
        /// The path.
        socket: PathBuf,
    },
    /// The path is none that a socket can have.
    #[error(
        "{}: no path for a socket: it is to be absolute, and of {bytes_max} bytes at most",
        shown(socket)
    )]
    Path {
        /// The path.
        socket: PathBuf,
        /// The kernel's bound.
        bytes_max: usize,
    },
    /// The system refuses.
    #[error("{}: can't {call}: {source}", shown(path))]
    Io {
        /// The path.
        path: PathBuf,
        /// What was tried.
        call: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl ListenError {
    /// What to do about it; may be empty.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Taken { .. } => "there is one agent a node: end that one first",
            Self::NoSocket { .. } => "name another path, or remove it",
            Self::Path { .. } => "name another path",
            Self::Io { .. } => "name a path in a folder that only root can write to",
        }
    }
}

fn process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

/// Why the agent was not asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens.
    #[error("{}: no agent runs: {source}", shown(socket))]
    NoAgent {
        /// The socket.
        socket: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The socket is there and lets nobody in.
    #[error("{}: can't connect: {source}", shown(socket))]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It hangs, or is too slow.
    #[error("{}: no answer within {deadline}", shown(socket))]
    Deadline {
        /// The socket.
        socket: PathBuf,
        /// What was waited.
        deadline: Micros,
    },
    /// The connection broke before there was an answer.
    #[error("{}: the connection broke: {}", shown(socket), printable(why))]
    Broken {
        /// The socket.
        socket: PathBuf,
        /// How.
        why: String,
    },
    /// More than [`super::ANSWER_BYTES_MAX`].
    #[error("{}: the answer is longer than {bytes_max} bytes", shown(socket))]
    TooLong {
        /// The socket.
        socket: PathBuf,
        /// The bound.
        bytes_max: usize,
    },
    /// The agent says no.
    #[error("{}", printable(error))]
    Refused {
        /// How, as HTTP has it.
        status: u16,
        /// The agent's words.
        error: String,
        /// What it says to do; may be empty.
        todo: String,
    },
    /// The answer is none that this version knows.
    #[error("{}: the answer makes no sense to version {}: {}", shown(socket), env!("CARGO_PKG_VERSION"), printable(why))]
    Unknown {
        /// The socket.
        socket: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl AskError {
    /// What to do about it; may be empty.
    pub fn advice(&self) -> &str {
        match self {
            Self::NoAgent { .. } => {
                "start it (enforcer run), or look why it does not run: systemctl status enforcer; one that listens \
                 elsewhere is named with --socket"
            }
            Self::Connect { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "run it as root: sudo enforcer ..."
            }
            Self::Connect { .. } => {
                "look whether it is the agent's socket: enforcer run says where it listens"
            }
            Self::Deadline { .. } => {
                "look whether the agent hangs or is stopped: systemctl status enforcer; a busy node needs a longer \
                 --deadline"
            }
            Self::Broken { .. } => {
                "ask again; if it stays, the agent's log says more: journalctl -u enforcer"
            }
            Self::TooLong { .. } => "",
            Self::Refused { todo, .. } => todo,
            Self::Unknown { .. } => {
                "look whether it is the agent's socket, and whether the agent that runs is of this version: restart \
                 it after an upgrade"
            }
        }
    }

    /// Whether there may be no agent at all, as opposed to one that answered.
    pub fn is_silence(&self) -> bool {
        match self {
            Self::NoAgent { .. } | Self::Connect { .. } | Self::Deadline { .. } | Self::Broken { .. } => true,
            Self::TooLong { .. } | Self::Refused { .. } | Self::Unknown { .. } => false,
        }
    }
}
