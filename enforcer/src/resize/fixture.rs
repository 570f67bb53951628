//! Containers as containerd 1.7.24 makes them with runc 1.1.15 and crun 1.21.

use super::look::{Engine, Level, Look, Oci};
use crate::{cri::message::LinuxContainerResources, drift::parse, probe::LimitKind};
use enforcer_gate::CgroupId;

pub(crate) const MIB: i64 = 1 << 20;

/// A cgroup whose files hold what is said.
pub(crate) fn level(path: &str, files: &[(LimitKind, &str)]) -> Level {
    let values = files.iter().map(|(file, text)| (*file, parse(*file, text).expect("a value")));
    Level { path: path.into(), id: CgroupId::new(1), values: values.collect() }
}

fn files<'a>(memory: &'a str, swap: &'a str, cpu: &'a str) -> [(LimitKind, &'a str); 9] {
    [
        (LimitKind::MemoryMax, memory),
        (LimitKind::MemoryHigh, "max"),
        (LimitKind::SwapMax, swap),
        (LimitKind::MemoryMin, "0"),
        (LimitKind::MemoryLow, "0"),
        (LimitKind::CpuMax, cpu),
        (LimitKind::CpuWeight, "10"),
        (LimitKind::CpusetCpus, ""),
        (LimitKind::PidsMax, "2306"),
    ]
}

/// 64 MiB without swap, a quarter of a CPU, 256 shares.
pub(crate) fn look(oci: Oci) -> Look {
    let total = if oci == Oci::Crun { "64Mi" } else { "0" };
    let mut levels = vec![level("pod/scope", &files("64Mi", total, "25000 100000"))];
    if oci == Oci::Crun {
        levels.push(level("pod/scope/container", &files("64Mi", "0", "25000 100000")));
    }
    let spec = LinuxContainerResources {
        cpu_period: 100_000,
        cpu_quota: 25_000,
        cpu_shares: 256,
        memory_limit_in_bytes: 64 * MIB,
        memory_swap_limit_in_bytes: 64 * MIB,
        ..LinuxContainerResources::default()
    };
    Look {
        engine: Engine { name: "containerd".into(), version: "1.7.24".into(), oci, systemd: true },
        status: Some(spec.clone()),
        spec,
        levels,
        unit: Vec::new(),
        pod: Some(level("pod", &[(LimitKind::MemoryMax, "max"), (LimitKind::CpuMax, "max 100000")])),
    }
}

/// Writes a file of a level.
pub(crate) fn set(look: &mut Look, depth: usize, file: LimitKind, text: &str) {
    put(&mut look.levels[depth], file, text);
}

/// The same of the pod.
pub(crate) fn set_pod(look: &mut Look, file: LimitKind, text: &str) {
    put(look.pod.as_mut().expect("has one"), file, text);
}

fn put(level: &mut Level, file: LimitKind, text: &str) {
    let value = parse(file, text).expect("a value");
    level.values.iter_mut().filter(|(kind, _)| *kind == file).for_each(|(_, held)| *held = value);
}
