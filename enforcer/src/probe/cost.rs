//! What the programs cost.

use enforcer_abi::{COST_BUCKETS, Cost, Program};

/// What one attached program has cost since it was loaded, over all CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramCost {
    /// Which.
    pub program: Program,
    /// Runs; zero throughout where run times are not taken.
    pub count: u64,
    /// Time spent in its body, in nanoseconds.
    pub total_ns: u64,
    /// Runs by duration: bucket `b` counts those of `2^b` ns and more, under `2^(b+1)`.
    pub histogram: [u64; COST_BUCKETS],
    /// Runs that the kernel left out because the program was running on that CPU already.
    pub missed: u64,
    /// Instructions that the verifier went through; `None` where the kernel does not tell.
    pub verified_instructions: Option<u32>,
}

/// One CPU's [`Cost`] as a map value that aya can read.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct CpuCost(Cost);

// SAFETY: `Cost` is `repr(C)` and made of u64 only.
unsafe impl aya::Pod for CpuCost {}

impl ProgramCost {
    /// Adds up the CPUs.
    pub(crate) fn new<'a>(program: Program, cpus: impl Iterator<Item = &'a CpuCost>) -> Self {
        let mut sum = Self {
            program,
            count: 0,
            total_ns: 0,
            histogram: [0; COST_BUCKETS],
            missed: 0,
            verified_instructions: None,
        };
        for CpuCost(cpu) in cpus {
            sum.count = sum.count.saturating_add(cpu.count);
            sum.total_ns = sum.total_ns.saturating_add(cpu.total_ns);
            for (to, from) in sum.histogram.iter_mut().zip(cpu.histogram) {
                *to = to.saturating_add(from);
            }
        }
        sum
    }
}

/// `recursion_misses` from what `/proc/self/fdinfo` says about a program.
pub(crate) fn recursion_misses(fdinfo: &str) -> u64 {
    fdinfo
        .lines()
        .find_map(|line| line.strip_prefix("recursion_misses:"))
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_added_up() {
        let mut one = Cost { count: 2, total_ns: 300, ..Cost::ZERO };
        one.histogram[7] = 2;
        let mut two = Cost { count: u64::MAX, total_ns: 5, ..Cost::ZERO };
        two.histogram[7] = 1;
        two.histogram[31] = 4;
        let sum = ProgramCost::new(Program::MaxBegin, [CpuCost(one), CpuCost(two)].iter());
        assert_eq!((sum.count, sum.total_ns), (u64::MAX, 305));
        assert_eq!((sum.histogram[7], sum.histogram[31], sum.histogram[0]), (3, 4, 0));
    }

    #[test]
    fn misses_are_read_from_fdinfo() {
        let text = "pos:\t0\nprog_type:\t26\nrun_cnt:\t9\nrecursion_misses:\t12\nverified_insns:\t70\n";
        assert_eq!(recursion_misses(text), 12);
        assert_eq!(recursion_misses("pos:\t0\n"), 0);
    }
}
