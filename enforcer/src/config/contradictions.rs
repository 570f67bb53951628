//! Values that are each right and not together. No I/O.

use super::model::Config;
use crate::{guard::GuardMode, node::node_policy, quantity};
use enforcer_gate::Limit;

/// Two keys that say different things.
pub(super) struct Contradiction {
    pub(super) keys: [&'static str; 2],
    pub(super) why: String,
    pub(super) todo: String,
}

/// All there are.
pub(super) fn contradictions(config: &Config) -> Vec<Contradiction> {
    let mut found = Vec::new();
    let mut add = |keys, why: String, todo: &str| found.push(Contradiction { keys, why, todo: todo.into() });
    let Config { agent, cri, oom, drift, guard, gate, policy, http: _, kubernetes: _, overhead: _ } = config;

    if let Limit::Bytes(ceiling) = policy.ceiling
        && policy.floor > ceiling
    {
        let (floor, ceiling) = (quantity::exact(policy.floor), quantity::exact(ceiling));
        let why = format!("policy.floor is {floor} and policy.ceiling {ceiling}: no limit is right");
        add(["policy.floor", "policy.ceiling"], why, "lower the floor or raise the ceiling");
    }
    if policy.interval_max < policy.interval {
        let why = format!(
            "policy.interval is {} and policy.interval_max {}: under pressure it gets longer, up to that",
            policy.interval, policy.interval_max
        );
        add(["policy.interval", "policy.interval_max"], why, "make policy.interval_max the longer one");
    }
    if policy.interval < agent.reading_interval {
        let why = format!(
            "policy.interval is {} and agent.reading_interval {}: there would be nothing new to go by",
            policy.interval, agent.reading_interval
        );
        add(["policy.interval", "agent.reading_interval"], why, "read at least once in each policy.interval");
    }
    if drift.mend && !drift.watch {
        let why = "drift.mend is true and drift.watch false: what is not seen can't be put back".into();
        add(["drift.mend", "drift.watch"], why, "set both to true, or drift.mend to false");
    }
    if let Err(faults) = gate.policy(&node_policy()).validate() {
        for why in faults.0 {
            add(["gate.observe", "gate.window"], why, "see enforcer shrink --help for what each does");
        }
    }
    let folders = [
        ("agent.state_dir", &agent.state_dir, true),
        ("oom.store", &oom.store, oom.record),
        ("guard.store", &guard.store, guard.mode != GuardMode::Off),
    ];
    for (n, (first, folder, is_used)) in folders.iter().enumerate() {
        for (second, _, _) in
            folders[n + 1..].iter().filter(|(_, other, used)| *used && *is_used && other == folder)
        {
            let why = format!("{first} and {second} are the same folder: each needs one of its own");
            add([first, second], why, "name another folder");
        }
    }
    let runtime = cri.socket.as_deref().map(crate::cri::address);
    if let Some(Ok(runtime)) = runtime
        && runtime == agent.admin_socket
    {
        let why =
            "agent.admin_socket and cri.socket are the same: the one is the agent's, the other the runtime's";
        add(["agent.admin_socket", "cri.socket"], why.into(), "name another path");
    }
    found
}
