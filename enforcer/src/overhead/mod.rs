//! What a pod costs beyond its containers, measured on this node and held against the node's own books
//! (docs/overhead.md).
//!
//! [`model`], [`helpers`], [`machine`], [`account`], [`cpu`], [`fit`], [`step`], [`declared`], [`mod@check`] and [`by_size`] do
//! no I/O. [`sample`] reads files, [`kin`] processes around a pod and [`look`] pods, [`pods`] and [`image`] ask the
//! runtime, [`run`] joins them.

pub mod account;
pub mod by_size;
pub mod check;
pub mod cpu;
pub mod declared;
pub mod driver;
#[cfg(test)]
pub(crate) mod fake_node;
pub mod fit;
pub mod helpers;
pub mod image;
pub mod kin;
pub mod look;
pub mod machine;
#[cfg(test)]
pub(crate) mod measured;
pub mod model;
pub mod parse;
pub mod phase;
pub mod pods;
mod registry;
pub mod run;
pub mod sample;
pub mod step;

pub use model::{Flag, NodeSample, PodSample, Run, Term};
