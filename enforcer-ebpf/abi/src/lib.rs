//! What kernel programs and user space hand each other: plain data with a locked layout.
//!
//! Kernel programs write one record type per [`Kind`] into the ring buffer; user space reads it back with
//! [`Record::parse`], which takes any bytes. [`Field`] and [`Offsets`] go the other way: where, in the
//! running kernel, the programs find what they read. The tests of this crate hold sizes, offsets and bytes
//! still: a change here is a change of both sides.
#![no_std]

#[cfg(test)]
extern crate std;

mod guard;
mod judge;
mod limit_value;
mod named;
mod offsets;
mod program;
mod record;
mod records;
mod text;

pub use guard::{GuardLife, GuardMode, Guarded, Lease, LeaseKey};
pub use judge::{Facts, GuardVerdict, Reason, Source, Verdict};
pub use limit_value::{Asked, Grammar, LIMIT_WRITE_MAX, LimitParser, limit_value};
pub use offsets::{Field, Offsets};
pub use program::{COST_BUCKETS, Cost, Program};
pub use record::{Header, Kind, Record, RecordError};
pub use records::{
    CPUS_MAX, CgroupLife, LifeEvent, LimitKind, LimitWrite, OomConstraint, OomEnd, OomFlags, OomKill,
    PAGES_MAX, PAST_SHIFT, PAST_SLOTS, PIDS_MAX, Past, PastSlot, Phase, ReclaimBegin, ReclaimEnd,
    ReclaimFlags, STAT_UNKNOWN, Stat, Task,
};
pub use text::{ASKED_LEN, COMM_LEN, NAME_LEN, Text};

#[cfg(test)]
mod tests;
