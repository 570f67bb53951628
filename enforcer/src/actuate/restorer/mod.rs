//! A process of its own that puts everything back when this one dies.
//!
//! It is this program again, started with a hidden argument before anything is changed, so that it shares no memory with
//! what may be killed and stays small. It holds the limit files and the journal open, hears of every value before it is
//! written, and acts when its peer's end of the socket closes or the session's deadline passes.

mod child;
mod message;
mod parent;

pub use child::run_restorer_if_asked;
pub(super) use message::Message;
pub(super) use parent::{Restorer, Spawn};

/// The hidden first argument.
const ARGUMENT: &str = "__enforcer-restorer";
