//! How the probe is loaded.

use super::error::ProbeError;
use super::hooks::Need;
use enforcer_abi::Program;
use std::collections::BTreeSet;

/// How the probe is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeOptions {
    /// Bytes of the ring buffer: a power of two, a page or more. An OOM kill takes 208, so the default
    /// holds 20,000 that nobody read yet.
    pub ring_bytes: u32,
    /// How many cgroups can be watched for reclaim at once.
    pub watched_max: u32,
    /// How many cgroups can be guarded at once, and how many leases given.
    pub guarded_max: u32,
    /// Whether an OOM's end tells what came before it: the last second of reclaim (counted for every cgroup from
    /// then on) and `memory.stat`.
    pub keep_past: bool,
    /// Whether the programs take their own run time.
    pub measure: bool,
    /// The needs to answer; by default all that only tell.
    pub needs: BTreeSet<Need>,
    /// Programs that are not to be used, as if the kernel refused them.
    pub disabled: BTreeSet<Program>,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            ring_bytes: 4 << 20,
            watched_max: 1024,
            guarded_max: 1,
            keep_past: false,
            measure: true,
            needs: Need::ALL.iter().copied().filter(|need| need.only_tells()).collect(),
            disabled: BTreeSet::new(),
        }
    }
}

impl ProbeOptions {
    /// The smallest ring buffer: the kernel wants whole pages.
    const RING_MIN: u32 = 4096;

    /// Answers only these needs.
    #[must_use]
    pub fn only(needs: impl IntoIterator<Item = Need>) -> Self {
        Self { needs: needs.into_iter().collect(), ..Self::default() }
    }

    pub(crate) fn check(&self) -> Result<(), ProbeError> {
        let refused =
            |option, value: u32, why| Err(ProbeError::Option { option, value: u64::from(value), why });
        if !self.ring_bytes.is_power_of_two() || self.ring_bytes < Self::RING_MIN {
            return refused("ring_bytes", self.ring_bytes, "it must be a power of two and 4096 or more");
        }
        if self.watched_max == 0 {
            return refused("watched_max", self.watched_max, "at least one cgroup must fit");
        }
        if self.guarded_max == 0 {
            return refused("guarded_max", self.guarded_max, "at least one cgroup must fit");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_the_kernel_would_refuse_are_named() {
        for (options, part) in [
            (ProbeOptions { ring_bytes: 5000, ..ProbeOptions::default() }, "ring_bytes"),
            (ProbeOptions { ring_bytes: 2048, ..ProbeOptions::default() }, "ring_bytes"),
            (ProbeOptions { watched_max: 0, ..ProbeOptions::default() }, "watched_max"),
            (ProbeOptions { guarded_max: 0, ..ProbeOptions::default() }, "guarded_max"),
        ] {
            let message = options.check().expect_err("it can't be").to_string();
            assert!(message.contains(part), "{message}");
        }
        ProbeOptions::default().check().expect("the default is allowed");
    }
}
