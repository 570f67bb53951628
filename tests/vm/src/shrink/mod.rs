//! The whole command on real cgroups: what it does, what it leaves, whatever happens to it.

mod bench;
mod brake;
mod crash;
mod debian;
mod races;
mod rig;
mod strained;
mod taken;
mod tree;
mod unsafe_limits;

use enforcer_vm_tests::case::Case;

/// All but the long runs of the bench program.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(unsafe_limits::cases());
    cases.extend(brake::cases());
    cases.extend(tree::cases());
    cases.extend(races::cases());
    cases.extend(crash::cases());
    cases.extend(taken::cases());
    cases.extend(strained::cases());
    cases.extend(debian::cases());
    cases
}

/// The long runs; they come last.
pub(crate) fn bench_cases() -> Vec<Case> {
    bench::cases()
}
