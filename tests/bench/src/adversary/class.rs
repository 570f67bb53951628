//! Kinds of workload, each with sizes of its own.

use crate::instance::Class;
use enforcer_gate::Bytes;
use std::time::Duration;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// The classes of a run. `dir` lies on a disk file system, `tmpfs` on a memory one; `{name}` in a command
/// stands for the instance's name.
pub(crate) fn all(dir: &str, tmpfs: &str) -> Vec<Class> {
    let class = |name: String, lines: &[String], limit_mib: u64, period_ms: u64| Class {
        once: name.starts_with("gap"),
        name,
        commands: lines.iter().map(|line| words(line)).collect(),
        limit: Bytes::from_mib(limit_mib),
        period: Duration::from_millis(period_ms),
    };
    let mut classes = Vec::new();
    for mib in [16_u64, 24] {
        let half = mib / 2;
        classes.push(class(
            format!("bursts {half}+{half} MiB"),
            &[format!("bursts --base {half}Mi --burst {half}Mi --period 1s --duty 400ms")],
            mib * 3,
            1000,
        ));
        classes.push(class(
            format!("gap {}+{} MiB", mib - 6, 6),
            &[format!("gap --base {}Mi --burst 6Mi --on any --poll 20ms", mib - 6)],
            mib * 3,
            400,
        ));
        classes.push(class(
            format!("cache {half}+{} MiB", mib * 2),
            &[format!("anon --size {half}Mi"), format!("cache --file {dir}/{{name}} --size {}Mi", mib * 2)],
            mib * 4,
            400,
        ));
        classes.push(class(
            format!("tmpfs {mib} MiB"),
            &[format!("tmpfs --dir {tmpfs} --size {mib}Mi")],
            mib * 3,
            400,
        ));
        classes.push(class(format!("mlock {mib} MiB"), &[format!("mlock --size {mib}Mi")], mib * 3, 400));
        classes.push(class(
            format!("threads 4x{} MiB", mib / 4),
            &[format!("threads --n 4 --size {}Mi --period 200ms", mib / 4)],
            mib * 3,
            400,
        ));
    }
    classes
}
