//! Reading cgroup v2: one cgroup's folder, and everything the gate wants to know about it.
//!
//! Parsers ([`parse`], [`mountinfo`], [`protection`]) do no I/O; readers do no arithmetic. Reads are relative
//! to a descriptor of the cgroup's folder, so a path that is re-used by another cgroup is never mistaken for
//! this one, and every error names the file.

mod below;
mod by_id;
mod descendants;
mod dir;
mod error;
mod file;
#[cfg(test)]
pub(crate) mod fixture;
mod herd;
mod membership;
mod mount;
pub mod mountinfo;
mod namespace;
pub mod parse;
pub mod protection;
mod sampler;
mod shown;
mod trigger;

pub use dir::Cgroup;
pub use error::CgroupError;
pub use file::{FILE_BYTES_MAX, StatFile};
pub use herd::Herd;
pub use membership::membership;
pub use mount::Mount;
pub use namespace::look_as_process_1;
pub use sampler::Sampler;
pub use shown::{SHOWN_BYTES_MAX, printable, shown};
pub use trigger::{PressureTrigger, Stall};
