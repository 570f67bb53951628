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
            first: &[],
            limit: "160M",
            way: Way::Enforcer { to: "100Mi", window: "2s", in_trial: None },
            ending: Ending::Committed,
        },
        Act {
            title: "what the kernel does with a limit that is too low: a bare write to memory.max",
            name: "demo-bare",
            workloads: vec!["anon --size 120Mi".into()],
            first: &[],
            limit: "160M",
            way: Way::BareWrite { to: "100M" },
            ending: Ending::Killed,
        },
        Act {
            title: "deadly: the same workload, the same target, asked of enforcer",
            name: "demo-deadly",
            workloads: vec!["anon --size 120Mi".into()],
            first: &[],
            limit: "160M",
            way: Way::Enforcer { to: "100Mi", window: "2s", in_trial: None },
            ending: Ending::Refused,
        },
        Act {
            title: "turns bad half-way: 20 MiB at first sight, 80 MiB more in the middle of the trial",
            name: "demo-turns",
            workloads: vec!["steps".into()],
            first: &["grow 20Mi"],
            limit: "160M",
            way: Way::Enforcer { to: "60Mi", window: "10s", in_trial: Some("grow 80Mi") },
            ending: Ending::RolledBack,
        },
    ]
}
