//! Recorded traces: what a gate was told, what it asked for, and when.
//!
//! A trace is text, one JSON object a line: a [`Header`], then [`Entry`]s in the order in which they happened,
//! then [`Event::End`], without which the recording was cut short. The format does no I/O;
//! [`Reader`] and [`Writer`] move lines; [`replay`] and [`rehearse`] drive a gate with what was read.

#[cfg(test)]
pub(crate) mod fixture;
mod format;
mod reader;
mod rehearse;
mod replay;
mod stretch;
mod writer;

pub use format::{Entry, Event, Header, Kind, LINE_BYTES_MAX, LineError, TRACE_VERSION, line};
pub use reader::{ReadError, Reader};
pub use rehearse::{Rehearsal, RehearseError, rehearse};
pub use replay::{DIVERGENCES_MAX, Divergence, ReplayError, Replayed, replay};
pub use stretch::Stretch;
pub use writer::{Summary, WriteError, Writer};
