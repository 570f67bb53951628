//! `enforcer resize`: changes memory and CPU limits, memory downwards through the gate.

mod container;
mod gated;
mod group;
mod report;

use super::{
    Exit, Failure, kube,
    options::{Cri, Json},
    shrink::{Thresholds, Way},
    target,
};
use crate::{
    inventory::Target,
    resize::{Ask, CpuLimit, CpuShare, Via, parse_cpu_limit, parse_memory},
};
pub(super) use container::of_container;
use enforcer_gate::Limit;
use std::path::PathBuf;

const WHAT: &str = "can't resize";

/// Changes memory.max, cpu.max and cpu.weight of a container or cgroup, both ways
///
/// A container's runtime is told (CRI v1) what changes and nothing else, swap is kept, and
/// the limits are read back where they act. Memory goes down through the gate first, as enforcer shrink does it; a pod's
/// own finite limit goes up before the container's and down after it. Exit code 2: the gate refused or took it back.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("asked").multiple(true).required(true))]
pub(in crate::cli) struct Options {
    /// The container, as pod/NAMESPACE/NAME[:CONTAINER]; or a cgroup, absolute or below the cgroup mount
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// The new memory.max, as in Kubernetes (256Mi, 0.5Gi), in whole pages; or max
    #[arg(long, value_name = "QUANTITY", value_parser = parse_memory, allow_hyphen_values = true, group = "asked")]
    memory: Option<Limit>,
    /// The new cpu.max in CPUs, as in Kubernetes (500m, 1.5), in the period in force; or max. The kernel takes no quota of
    /// less than 1000us: 10m in the usual period of 100ms
    #[arg(long, value_name = "QUANTITY", value_parser = parse_cpu_limit, allow_hyphen_values = true, group = "asked")]
    cpu: Option<CpuLimit>,
    /// The new cpu.weight, 1 to 10000; a runtime is told the shares that become it
    #[arg(long, value_name = "WEIGHT", value_parser = clap::value_parser!(u64).range(1..=10_000), group = "asked")]
    cpu_weight: Option<u64>,
    /// The same as shares of cgroup v1, 2 to 262144: 1024 a CPU
    #[arg(long, value_name = "SHARES", value_parser = clap::value_parser!(u64).range(2..=262_144), group = "asked")]
    #[arg(conflicts_with = "cpu_weight")]
    cpu_shares: Option<u64>,
    /// Say what would be done, every file that would be written, and whether the gate would try it; change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    thresholds: Thresholds,
    #[command(flatten)]
    way: Way,
    #[command(flatten)]
    following: kube::Following,
    #[command(flatten)]
    cri: Cri,
    #[command(flatten)]
    json: Json,
}

/// What is to be done to a target.
pub(super) struct Order<'a> {
    /// As in "can't resize".
    pub(super) what: &'static str,
    /// As it was named.
    pub(super) target: &'a str,
    pub(super) ask: Ask,
    /// Nothing may go up.
    pub(super) only_down: bool,
    pub(super) via: Via,
    pub(super) dry_run: bool,
    pub(super) thresholds: &'a Thresholds,
    pub(super) json: bool,
}

pub(in crate::cli) fn run(options: &Options) -> Result<Exit, Failure> {
    let share = options.cpu_weight.map(CpuShare::Weight).or(options.cpu_shares.map(CpuShare::Shares));
    let name = options.target.to_string_lossy();
    let ask = Ask { memory: options.memory, cpu: options.cpu, share };
    let Some(via) = options.way.via() else {
        return kube::carry_out(&kube::Order {
            what: WHAT,
            target: &name,
            ask,
            only_down: false,
            dry_run: options.dry_run,
            following: &options.following,
            json: options.json.json,
        });
    };
    let order = Order {
        what: WHAT,
        target: &name,
        ask,
        only_down: false,
        via,
        dry_run: options.dry_run,
        thresholds: &options.thresholds,
        json: options.json.json,
    };
    if !Target::is_meant(&name) {
        return group::run(&order, &options.target);
    }
    let found = target::find(WHAT, &name, &options.cri, via == Via::Cgroup)?;
    match &found.container {
        Some(container) => of_container(&order, &found.node, &found.pod, container),
        None => group::run(&order, &found.cgroup(WHAT)?),
    }
}
