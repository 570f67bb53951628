//! A bounded, checksummed, append-only store of records in a folder. docs/store.md is its format.
//!
//! One [`Writer`] at a time (a lock in the folder); any number of [`Reader`]s, also while it writes. A [`Keeper`] is
//! a writer for work that must go on where the disk does not. What a
//! record holds is its owner's matter: the store knows a [`Kind`], a number and bytes. Whatever happens to
//! the files, a reader gives back a record as it was appended or not at all.

mod error;
mod files;
mod follow;
mod frame;
mod header;
mod keeper;
mod reader;
mod writer;

pub use error::StoreError;
pub use follow::Follower;
pub use frame::{Kind, PAYLOAD_BYTES_MAX, Record};
pub use keeper::{Keeper, Payload};
pub use reader::{Fault, Faults, Reader};
pub use writer::{Bounds, Writer};

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
