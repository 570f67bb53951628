//! What tests, demo and benchmarks on a real kernel share: cgroups that clean up after themselves, workloads,
//! and a test list that can skip with a reason.

pub mod agent_rig;
pub mod case;
pub mod dice;
pub mod leftover;
pub mod node;
pub mod processes;
pub mod scratch;
pub mod swap;
pub mod workload;
