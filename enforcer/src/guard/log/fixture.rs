//! Records for tests.

use super::{Began, Standing, VerdictRecord, WriterName, record::RECORD_VERSION};
use crate::cgroup::shown;
use crate::guard::{Reason, Verdict};
use enforcer_gate::{Bytes, Limit};

/// A verdict of a pod's cgroup, with hostile texts.
pub(crate) fn verdict(verdict: Verdict, reason: Reason) -> VerdictRecord {
    VerdictRecord {
        version: RECORD_VERSION,
        wall_us: 1_796_000_000_000_000,
        at_ns: 1,
        verdict: verdict.name().into(),
        reason: reason.name().into(),
        source: "too long a text".into(),
        mode: "enforce".into(),
        cgroup: "/sys/fs/cgroup/kubepods/pod1".into(),
        cgroup_id: 7,
        place: None,
        pod: None,
        container: None,
        file: "memory.max".into(),
        asked: None,
        text: shown("12x\u{1b}[2J\n"),
        limit: Limit::Max,
        usage: Bytes::from_mib(24),
        margin: Bytes::from_mib(1),
        lease: None,
        writer: WriterName { pid: 12, tid: 13, comm: shown("sh\u{1b}"), cgroup: "cgroup 3".into() },
        syscall: 1,
    }
}

/// A guard of one cgroup and one folder, and of more.
pub(crate) fn began() -> Began {
    Began {
        wall_us: 7,
        boot_id: "b".into(),
        kernel: "6.12".into(),
        pid: 9,
        standing: Standing {
            mode: "enforce".into(),
            files: vec!["memory.max".into()],
            margin: Bytes::from_mib(1),
            cgroups: vec!["/sys/fs/cgroup/a".into()],
            below: vec!["/sys/fs/cgroup/b".into()],
            unlisted: 3,
        },
    }
}
