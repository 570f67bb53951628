//! enforcer: resizes memory limits of running containers without killing them.
//!
//! The library behind the `enforcer` command; see ARCHITECTURE.md for who may do what.

// A reader that has gone is no reason to panic: see `cli::output`.
#![warn(clippy::print_stdout)]

pub mod actuate;
pub mod admin;
pub mod cgroup;
pub mod cli;
mod clock;
pub mod cri;
pub mod drift;
pub mod duration;
pub mod guard;
pub mod inventory;
mod labels;
pub mod names;
pub mod node;
pub mod observe;
pub mod oom;
mod private_dir;
pub mod probe;
pub mod quantity;
pub mod resize;
pub mod shrink;
pub mod store;
pub mod systemd;
pub mod trace;
mod utc;
