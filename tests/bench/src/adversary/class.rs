//! Kinds of workload, each with sizes of its own.

use crate::instance::Class;
use enforcer_gate::Bytes;
use std::time::Duration;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// The classes of a run. `dir` lies on a disk file system, `tmpfs` on a memory one.
pub(crate) fn all(dir: &str, tmpfs: &str) -> Vec<Class> {
    const PERIOD: Duration = Duration::from_millis(400);
    let class = |name: String, lines: &[String], limit_mib: u64| Class {
        once: name.starts_with("gap"),
        name,
        commands: lines.iter().map(|line| words(line)).collect(),
        limit: Bytes::from_mib(limit_mib),
        period: PERIOD,
    };
    let mut classes = Vec::new();
    for mib in [24_u64, 40] {
        classes.push(class(
            format!("bursts {}+{} MiB", mib / 2, mib / 2),
            &[format!("bursts --base {0}Mi --burst {0}Mi --period 400ms --duty 150ms", mib / 2)],
            mib * 3,
        ));
        classes.push(class(
            format!("gap {}+{} MiB", mib - 8, 8),
            &[format!("gap --base {}Mi --burst 8Mi --on any --poll 2ms", mib - 8)],
            mib * 3,
        ));
        classes.push(class(
            format!("cache {}+{} MiB", mib / 2, mib * 2),
            &[
                format!("anon --size {}Mi", mib / 2),
                format!("cache --file {dir}/cache-{mib} --size {}Mi", mib * 2),
            ],
            mib * 4,
        ));
        classes.push(class(
            format!("tmpfs {mib} MiB"),
            &[format!("tmpfs --dir {tmpfs} --size {mib}Mi")],
            mib * 3,
        ));
        classes.push(class(format!("mlock {mib} MiB"), &[format!("mlock --size {mib}Mi")], mib * 3));
        classes.push(class(
            format!("threads 4x{} MiB", mib / 4),
            &[format!("threads --n 4 --size {}Mi", mib / 4)],
            mib * 3,
        ));
    }
    classes
}
