//! A client of the container runtime, over its own socket: CRI v1 (`runtime.v1.RuntimeService`) as containerd, CRI-O
//! and cri-dockerd serve it.
//!
//! Every call has a deadline and every answer a greatest size: a runtime that hangs, or that says too much, is an
//! error that names the socket and the call. What it says is other people's text.

mod client;
mod error;
pub mod making;
pub mod message;
mod pods;
mod socket;
#[cfg(test)]
mod tests;

pub(crate) use client::deadline_passed;
pub use client::{ANSWER_BYTES_MAX, Client, DEADLINE, Events};
pub use error::CriError;
pub use socket::{SOCKET_BYTES_MAX, SOCKETS, address, find};
