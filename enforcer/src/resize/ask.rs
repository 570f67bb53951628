//! What is asked for. No I/O.

use crate::quantity::{QuantityError, parse_cpu, parse_target};
use enforcer_gate::{Bytes, Limit};
use serde::Serialize;
use std::fmt;

/// Thousandths of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MilliCpu(u64);

impl MilliCpu {
    /// So many thousandths.
    pub const fn new(milli: u64) -> Self {
        Self(milli)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for MilliCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}m", self.0)
    }
}

/// CPU time that may be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuLimit {
    /// As much as there is.
    Max,
    /// So much.
    Milli(MilliCpu),
}

/// The weight against others, in the kernel's count or in that of a container's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuShare {
    /// `cpu.weight`, 1 to 10,000.
    Weight(u64),
    /// Shares as cgroup v1 counts them, 2 to 262,144.
    Shares(u64),
}

/// What is to change; what is `None` stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Ask {
    /// `memory.max`, in whole pages.
    pub memory: Option<Limit>,
    /// `cpu.max`.
    pub cpu: Option<CpuLimit>,
    /// `cpu.weight`.
    pub share: Option<CpuShare>,
}

/// By which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// The container runtime is told, so that its own books and systemd's have it too.
    Cri,
    /// The cgroups alone: the runtime does not know, and puts its own values back at its next update.
    Cgroup,
}

impl Via {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cri => "cri",
            Self::Cgroup => "cgroup",
        }
    }
}

/// `--memory`: a quantity, or `max`.
pub fn parse_memory(text: &str) -> Result<Limit, QuantityError> {
    if text == "max" {
        return Ok(Limit::Max);
    }
    parse_target(text).map(|bytes: Bytes| Limit::Bytes(bytes.page_floor()))
}

/// `--cpu`: CPUs as in Kubernetes (`500m`, `1.5`), or `max`.
pub fn parse_cpu_limit(text: &str) -> Result<CpuLimit, QuantityError> {
    if text == "max" {
        Ok(CpuLimit::Max)
    } else {
        parse_cpu(text).map(|milli| CpuLimit::Milli(MilliCpu(milli)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_read_as_kubernetes_does() {
        for (text, milli) in
            [("500m", 500), ("1.5", 1500), ("2", 2000), ("1000u", 1), ("0.0011", 2), ("1k", 1_000_000)]
        {
            assert_eq!(parse_cpu_limit(text), Ok(CpuLimit::Milli(MilliCpu(milli))), "{text}");
        }
        assert_eq!(parse_cpu_limit("max"), Ok(CpuLimit::Max));
        for text in ["100u", "0.0001", "0.5m", "1e-12"] {
            let error = parse_cpu_limit(text).expect_err(text).to_string();
            assert!(error.contains("less than a thousandth of a CPU (1m)"), "{text}: {error}");
        }
        for text in ["", "0", "0m", "-1", "x", "1x", "9e30", "1e", "2000000000"] {
            let error = parse_cpu_limit(text).expect_err(text).to_string();
            assert!(
                !error.is_empty() && !error.contains("memory") && !error.contains("byte"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn memory_is_cut_to_pages_and_may_be_none() {
        assert_eq!(parse_memory("max"), Ok(Limit::Max));
        assert_eq!(parse_memory("8193"), Ok(Limit::Bytes(Bytes::new(8192))));
        assert!(parse_memory("4095").is_err() && parse_memory("-1").is_err());
    }
}
