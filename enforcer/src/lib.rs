//! enforcer: resizes memory limits of running containers without killing them.
//!
//! The library behind the `enforcer` command; see ARCHITECTURE.md for who may do what.

// A reader that has gone is no reason to panic: see `cli::output`.
#![warn(clippy::print_stdout)]

pub mod actuate;
pub mod admin;
pub mod agent;
pub mod cgroup;
mod chain;
pub mod cli;
mod clock;
pub mod config;
pub mod cri;
pub mod drift;
pub mod duration;
pub mod guard;
pub mod health;
pub mod http;
pub mod inventory;
mod json;
pub mod kube;
mod labels;
pub mod metrics;
pub mod names;
pub mod node;
pub mod observe;
pub mod oom;
pub mod overhead;
mod phase;
pub mod policy;
mod private_dir;
pub mod probe;
pub mod quantity;
pub mod resize;
pub mod shrink;
pub mod store;
pub mod systemd;
pub mod trace;
mod utc;
