//! The admin socket: what a running agent answers to the other commands of this node.
//!
//! HTTP/1.1 over a Unix socket that only root can open. [`model`] is what is said over it.

pub mod model;

/// Where the agent listens, where no other place is named.
pub const SOCKET_DEFAULT: &str = "/run/enforcer/admin.sock";
