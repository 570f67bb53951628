//! The OOM flight recorder: one [`OomRecord`] for each OOM, whoever was killed.
//!
//! [`Assembler`] joins the kernel's events into OOMs, [`Inventory`] knows the cgroups, also those that are gone,
//! `tell` makes a record of both and of what could still be looked at, `sentence` says what a person can do.
//! All of these are pure. `look` reads, [`Recorder`] runs the loop and writes the store.

mod assemble;
mod inventory;
mod look;
mod record;
mod recorder;
mod sentence;
mod stored;
mod tell;
mod writes;

pub use assemble::{Assembler, Finished};
pub use inventory::Inventory;
pub use record::{
    Began, CgroupName, LimitAt, Lost, OomRecord, Owner, ReclaimBefore, StatFrom, StatThen, TaskName, Victim,
    WriteBefore,
};
pub use recorder::{RecordError, Recorder, RecorderOptions};
pub use stored::{KIND_BEGAN, KIND_LOST, KIND_OOM, Stored};

/// Where the records are, where no other folder is named.
pub const STORE_DEFAULT: &str = "/var/lib/enforcer/oom";

#[cfg(test)]
mod tests;
