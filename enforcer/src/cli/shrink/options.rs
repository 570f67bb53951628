//! What can be said about a shrink.

use crate::{
    cli::{
        kube::Following,
        options::{self, Cri, Json, StateDirectory},
    },
    config::Gate,
    resize::Via,
};
use enforcer_gate::{Bytes, Micros, Policy};
use std::path::PathBuf;

/// Lowers memory.max of one cgroup or container, or refuses with the safe minimum
///
/// Observes, reclaims in paced steps, brakes with memory.high below the target while memory.max stays as it is, then
/// lowers memory.max and watches. A container's runtime is told then, so that its books and systemd's agree. Whatever
/// turns bad on the way takes everything back as found, and so does Ctrl-C or kill -9. Exit code 2: the gate refused or
/// took it back.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Options {
    /// The cgroup, absolute or below the cgroup mount; or a container, as pod/NAMESPACE/NAME[:CONTAINER]
    #[arg(value_name = "TARGET")]
    pub(super) target: PathBuf,
    /// The new memory.max, as in Kubernetes: 256Mi, 0.5Gi, 128M; the kernel rounds down to whole pages
    #[arg(long, value_name = "QUANTITY", value_parser = options::target, allow_hyphen_values = true)]
    pub(super) to: Bytes,
    /// Say whether the gate would try it, and what the runtime would write; change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) thresholds: Thresholds,
    #[command(flatten)]
    pub(super) way: Way,
    #[command(flatten)]
    pub(super) following: Following,
    #[command(flatten)]
    pub(super) cri: Cri,
    #[command(flatten)]
    pub(super) json: Json,
}

/// By which way a container's limits are changed.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Way {
    /// How a container's limits are changed: cri tells the runtime, cgroup writes the files alone, which the runtime puts
    /// back at its next update; kube patches pods/resize and has the kubelet do it, without the gate, and says why it is
    /// stuck where it is
    #[arg(long, value_enum, value_name = "WAY", default_value = "cri")]
    via: ViaName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ViaName {
    Cri,
    Cgroup,
    Kube,
}

impl Way {
    /// By which way of this node's; `None`: by the API server.
    pub(in crate::cli) fn via(&self) -> Option<Via> {
        match self.via {
            ViaName::Cri => Some(Via::Cri),
            ViaName::Cgroup => Some(Via::Cgroup),
            ViaName::Kube => None,
        }
    }
}

/// What the gate goes by.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Thresholds {
    /// The workload's longest known period: how long the brake is tried before memory.max goes down
    #[arg(long, value_name = "TIME", value_parser = options::window)]
    #[arg(default_value = options::default(|policy| policy.trial_window))]
    window: Micros,
    /// How long to look before anything is changed
    #[arg(long, value_name = "TIME", value_parser = options::window)]
    #[arg(default_value = options::default(|policy| policy.observe_window))]
    observe: Micros,
    /// How long the brake stays on after memory.max went down
    #[arg(long, value_name = "TIME", value_parser = options::window)]
    #[arg(default_value = options::default(|policy| policy.watch_window))]
    watch: Micros,
    /// Most stall (PSI "full") that the shrink may add in all; "some" may add twice as much
    #[arg(long, value_name = "TIME", value_parser = options::budget)]
    #[arg(default_value = options::default(|policy| policy.stall.full_total))]
    budget: Micros,
    /// Least headroom between floor and target
    #[arg(long, value_name = "QUANTITY", value_parser = options::headroom)]
    #[arg(default_value = options::default(|policy| policy.headroom_min))]
    headroom: Bytes,
    /// Shrink although something kills on memory pressure of an ancestor
    #[arg(long)]
    allow_pressure_killer: bool,
    /// Record everything that the gate sees and asks for, for enforcer replay; the file must not exist yet
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) state_dir: StateDirectory,
}

impl Thresholds {
    /// The thresholds, on top of this node's; those that have an option are the option's.
    pub(in crate::cli) fn policy(&self, node: &Policy) -> Policy {
        let gate = Gate {
            observe: self.observe,
            window: self.window,
            watch: self.watch,
            budget: self.budget,
            headroom: self.headroom,
            allow_pressure_killer: self.allow_pressure_killer,
        };
        gate.policy(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn policy(args: &[&str]) -> Policy {
        let words = ["x", "a", "--to", "1Mi"].iter().chain(args);
        Cli::try_parse_from(words).expect("parses").options.thresholds.policy(&Policy::default())
    }

    #[test]
    fn what_is_not_said_is_the_default() {
        assert_eq!(policy(&[]), Policy::default());
    }

    #[test]
    fn what_is_said_is_in_force() {
        let found = policy(&[
            "--window",
            "7s",
            "--observe=1s",
            "--watch=2s",
            "--budget=100ms",
            "--headroom=8Mi",
            "--allow-pressure-killer",
        ]);
        let second = Micros::from_secs(1);
        assert_eq!(found.trial_window, second.scaled(7, 1));
        assert_eq!((found.observe_window, found.watch_window), (second, second.scaled(2, 1)));
        assert_eq!(found.stall.full_total, Micros::from_millis(100));
        assert_eq!(found.stall.some_total, Micros::from_millis(200));
        assert_eq!(found.stall.full_per_second, Micros::from_millis(100));
        assert_eq!(found.headroom_min, Bytes::from_mib(8));
        assert!(found.allow_pressure_killer);
        found.validate().expect("holds");
    }

    #[test]
    fn help_names_the_defaults() {
        let help = <Cli as clap::CommandFactory>::command().render_long_help().to_string();
        for (option, default) in
            [("window", "10s"), ("observe", "2.5s"), ("watch", "5s"), ("budget", "1s"), ("headroom", "2Mi")]
        {
            let (_, rest) = help.split_once(&format!("--{option} <")).expect("is there");
            let (_, rest) = rest.split_once("[default: ").expect("has a default");
            assert!(rest.starts_with(&format!("{default}]")), "{option}: {rest}");
        }
    }
}
