//! What a pod costs beyond its containers, measured on this node and held against the node's own books
//! (docs/overhead.md).
//!
//! [`model`], [`helpers`], [`account`], [`cpu`], [`fit`] and [`step`] do no I/O. [`sample`] reads, [`pods`] and [`image`] ask the
//! runtime, [`run`] joins them.

pub mod account;
pub mod cpu;
pub mod driver;
pub mod fit;
pub mod helpers;
pub mod image;
#[cfg(test)]
pub(crate) mod measured;
pub mod model;
pub mod parse;
pub mod pods;
mod registry;
pub mod run;
pub mod sample;
pub mod step;

pub use model::{Flag, NodeSample, PodSample, Run, Term};
