//! From a verdict to its record.

use super::record::{RECORD_VERSION, VerdictRecord, WriterName};
use crate::cgroup::{Mount, shown};
use crate::clock::wall_us;
use crate::guard::now_ns;
use crate::names::Place;
use crate::probe::Judged;
use enforcer_gate::CgroupId;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The record of a verdict of just now. The names of pod and container are missing: they take a look at a disk.
pub fn tell(judged: &Judged, mount: &Mount) -> VerdictRecord {
    let path = judged.cgroup.and_then(|cgroup| path_of(mount, cgroup));
    let place = path.as_deref().and_then(|path| path.strip_prefix(mount.point()).ok()).map(Place::of);
    VerdictRecord {
        version: RECORD_VERSION,
        wall_us: wall_us().saturating_sub(now_ns().saturating_sub(judged.at_ns) / 1000),
        at_ns: judged.at_ns,
        verdict: judged.verdict.name().into(),
        reason: judged.reason.name().into(),
        source: judged.source.name().into(),
        mode: judged.mode.name().into(),
        cgroup: named(judged.cgroup, path),
        cgroup_id: judged.cgroup.map_or(0, CgroupId::get),
        place,
        pod: None,
        container: None,
        file: judged.file.name().into(),
        asked: judged.asked,
        text: text(judged.text.as_bytes()),
        limit: judged.limit,
        usage: judged.usage,
        margin: judged.margin,
        lease: judged.lease,
        writer: WriterName {
            pid: judged.writer.tgid,
            tid: judged.writer.pid,
            comm: text(judged.writer.comm.as_bytes()),
            cgroup: cgroup_name(mount, judged.writer.cgroup),
        },
        syscall: judged.syscall,
    }
}

/// A cgroup's path, fit to print, or its number where it has none any more.
pub fn cgroup_name(mount: &Mount, cgroup: Option<CgroupId>) -> String {
    named(cgroup, cgroup.and_then(|cgroup| path_of(mount, cgroup)))
}

fn path_of(mount: &Mount, cgroup: CgroupId) -> Option<PathBuf> {
    mount.path_of(cgroup).ok().flatten()
}

fn named(cgroup: Option<CgroupId>, path: Option<PathBuf>) -> String {
    match (cgroup, path) {
        (_, Some(path)) => shown(path),
        (Some(cgroup), None) => format!("cgroup {}", cgroup.get()),
        (None, None) => "an unknown cgroup".into(),
    }
}

/// Text from a container, made fit to print.
fn text(bytes: &[u8]) -> String {
    shown(OsStr::from_bytes(bytes))
}
