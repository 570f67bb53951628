//! What is kept of a node. No I/O.

use super::amounts::Amounts;
use serde::Serialize;
use std::fmt;

/// A node of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// What pods can have of it.
    pub allocatable: Amounts,
    /// All of it.
    pub capacity: Amounts,
    /// The kubelet's version, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<Version>,
    /// The container runtime, as the kubelet names it.
    pub runtime: String,
    /// Whether it is heard of.
    pub heard: Heard,
    /// What it says that it can do (KEP-5328).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

/// Its condition `Ready`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "ready")]
pub enum Heard {
    /// Its kubelet works.
    Ready,
    /// Its kubelet says that it does not.
    NotReady {
        /// In the kubelet's words.
        why: String,
    },
    /// Its kubelet has not been heard of (status `Unknown`).
    Silent {
        /// Since when: microseconds since 1970.
        since_us: Option<u64>,
    },
    /// It says nothing of it.
    Never,
}

/// A version of Kubernetes, down to the minor one: rules change with those.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Version {
    /// 1, so far.
    pub major: u32,
    /// As in 1.35.
    pub minor: u32,
}

impl Version {
    /// The last whose kubelet says Infeasible of requests above allocatable (`allocation_manager.go`, `canResizePod`). Its
    /// successor says Deferred, and the API server's plugin `podresize` refuses them before.
    pub const V1_35: Self = Self { major: 1, minor: 35 };
    /// From here on a pod's figures are summed before the greatest of them is taken (`component-helpers`
    /// `resource/helpers.go`), and each init container without a limit leaves its pod's cgroup without one
    /// (`helpers_linux.go`, `ResourceConfigForPod`).
    pub const V1_37: Self = Self { major: 1, minor: 37 };

    /// `v1.35.8`, `1.36`, `v1.35.8-gke.1`, `v1.37.0+k3s1`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix('v').unwrap_or(text).splitn(3, '.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?;
        let digits = minor.bytes().take_while(u8::is_ascii_digit).count();
        Some(Self { major, minor: minor[..digits].parse().ok()? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (text, found) in [
            ("v1.35.8", Some((1, 35))),
            ("v1.37.0+k3s1", Some((1, 37))),
            ("1.36", Some((1, 36))),
            ("v1.36+", Some((1, 36))),
            ("v1.x", None),
            ("", None),
            ("v1", None),
        ] {
            assert_eq!(Version::parse(text), found.map(|(major, minor)| Version { major, minor }), "{text}");
        }
        assert!(Version::V1_35 < Version::V1_37);
    }
}
