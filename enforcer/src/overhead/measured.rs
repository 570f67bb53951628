//! A measurement for the tests of what shows one.

use super::{
    cpu::Cpu,
    fit,
    model::{NodeSample, PodSample, Run, Term},
    phase::Phase,
};
use enforcer_gate::{Bytes, Micros};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// Seven steps of pods that cost so many MiB each, of which the node confirms all.
pub(crate) fn measured(mib: u64, sandbox: &str) -> Run {
    let steps: Vec<u32> = vec![0, 4, 2, 4, 0, 2, 4];
    let nodes = steps.iter().enumerate().map(|(step, pods)| NodeSample {
        step,
        pods: *pods,
        made: 4,
        available: Bytes::new(1000 * MIB - u64::from(*pods) * mib * MIB + step as u64 * 4096),
        on_cpus: Bytes::ZERO,
        known: BTreeMap::new(),
        unsettled: step == 2,
        probes: 0,
    });
    let helper = |pod: u32| Bytes::new((mib - 1) * MIB + u64::from(pod));
    let pods = steps.iter().enumerate().flat_map(|(step, pods)| {
        (0..*pods).map(move |pod| PodSample {
            step,
            sandbox: format!("{sandbox}{pod}"),
            terms: [(Term::PodKernel, Bytes::new(MIB)), (Term::HelperAnon, helper(pod))].into(),
            cpu: Some(Cpu {
                span: Micros::from_secs(10),
                pod: Micros::ZERO,
                helpers: Micros::from_millis(20),
                reaped: Micros::ZERO,
            }),
            app: Bytes::ZERO,
            app_kept: Bytes::ZERO,
            residue: Bytes::ZERO,
            peak: None,
            vm: None,
            helpers: Vec::new(),
            flags: Vec::new(),
        })
    });
    let (nodes, pods) = (nodes.collect(), pods.collect());
    let mut run = Run {
        version: 1,
        id: "1".into(),
        runtime: "containerd 1.7".into(),
        handler: "run<c>&\"".into(),
        kernel: "6.12".into(),
        seed: 1,
        steps,
        phase: Phase::Idle,
        starts: Vec::new(),
        pods,
        nodes,
        partial: None,
        result: None,
    };
    run.result = fit::outcome(&run, Bytes::new(MIB));
    run
}
