//! The admin socket: what a running agent answers to the other commands of this node.
//!
//! HTTP/1.1 over a Unix socket that only root can open. [`model`] is what is said over it, [`Listener`] the socket,
//! [`serve`] answers there by asking the agent's loop, [`Client`] asks.

mod client;
mod error;
#[cfg(test)]
pub(crate) mod fixture;
mod listener;
pub mod model;
mod request;
mod server;
#[cfg(test)]
mod tests;

pub use client::{Client, DEADLINE};
pub use error::{AskError, ListenError};
pub use listener::Listener;
pub use request::{Question, Refused, Reply, Request, URI_BYTES_MAX};
pub use server::{BODY_BYTES_MAX, CONNECTIONS_MAX, Counts, serve};

/// Where the agent listens, where no other place is named.
pub const SOCKET_DEFAULT: &str = "/run/enforcer/admin.sock";
/// The longest answer.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;
