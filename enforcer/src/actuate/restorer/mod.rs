//! A process of its own that puts everything back when this one dies.
//!
//! It is this program again, started with a hidden argument before anything is changed, so that it shares no memory with
//! what may be killed and stays small. It holds the limit files and the journal open, hears of every value before it is
//! written, and acts when its peer's end of the socket closes, the session's loop falls silent, or its deadline passes. It
//! leaves the cgroup of this process, so that whoever freezes or kills that does not end both.

mod child;
mod eye;
mod message;
mod parent;

pub use child::run_restorer_if_asked;
pub(super) use message::Message;
pub use parent::{Acted, Heart};
pub(super) use parent::{Restorer, Spawn};

/// The hidden first argument.
const ARGUMENT: &str = "__enforcer-restorer";
