//! The acts: what runs, what is asked, and what a true answer looks like.

use crate::act::{Act, Ending, Way};
use std::path::Path;

/// In the order in which they are told.
pub(crate) fn all(dir: &Path) -> Vec<Act> {
    let cache = dir.join("demo-cache");
    let cache = cache.display();
    vec![
        Act {
            title: "safe: nine tenths of the usage are clean page cache",
            name: "demo-safe",
            workloads: vec!["anon --size 10Mi".into(), format!("cache --file {cache} --size 120Mi")],
            limit: "160M",
            way: Way::Enforcer { to: "100Mi", window: "2s" },
            ending: Ending::Committed,
        },
        Act {
            title: "what the kernel does with a limit that is too low: a bare write to memory.max",
            name: "demo-bare",
            workloads: vec!["anon --size 120Mi".into()],
            limit: "160M",
            way: Way::BareWrite { to: "100M" },
            ending: Ending::Killed,
        },
        Act {
            title: "deadly: the same workload, the same target, asked of enforcer",
            name: "demo-deadly",
            workloads: vec!["anon --size 120Mi".into()],
            limit: "160M",
            way: Way::Enforcer { to: "100Mi", window: "2s" },
            ending: Ending::Refused,
        },
        Act {
            title: "turns bad half-way: idle at first sight, a burst of 80 MiB every 12 s",
            name: "demo-turns",
            workloads: vec!["bursts --base 20Mi --burst 80Mi --period 12s --duty 2s".into()],
            limit: "160M",
            way: Way::Enforcer { to: "60Mi", window: "14s" },
            ending: Ending::RolledBack,
        },
    ]
}
