//! A node that has no memory or no CPU left while a limit is lowered.

use super::brake::grow_until_taken_back;
use super::races::{STATES, TO_BYTES, in_state};
use super::rig::{QUICK, Rig, Spans};
use crate::process::Other;
use crate::strain::{Foremost, Hogs, Storm};
use enforcer_vm_tests::case::{Case, Tier, nothing};
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;

pub(super) fn cases() -> Vec<Case> {
    let full = |name, run| Case { name, tier: Tier::Full, needs: nothing, run };
    vec![
        full("shrink::a_node_out_of_memory_kills_the_command_and_not_its_restorer", out_of_memory),
        full("shrink::behind_heavy_hogs_a_growing_workload_is_given_back_its_limit", behind_heavy),
        full("shrink::behind_real_time_hogs_a_growing_workload_is_given_back_its_limit", behind_real_time),
    ]
}

/// The command may be killed as anybody; who puts its limits back may not, and needs no memory to do so.
fn out_of_memory() {
    for (state, spans) in STATES.into_iter().filter(|(state, _)| ["trial", "watching"].contains(state)) {
        let rig = Rig::new(state);
        let (mut running, mut workload) = in_state(&rig, state, spans);
        let restorer = Other::new(running.restorer());
        if state == "watching" {
            assert_eq!(rig.limits().0, TO_BYTES.to_string());
        }
        // Its restorer as well: it has to see to itself.
        let mut storm = Storm::over(&[running.pid(), running.restorer()]);
        storm.until(|| !running.runs());
        restorer.wait();
        rig.assert_as_found();
        // What is free is eaten again while nobody is there to put anything back.
        storm.kill(2);
        rig.assert_as_found();
        assert!(workload.alive(), "{state}");
        drop(storm);
        rig.assert_settled();
    }
}

fn behind_heavy() {
    behind(Hogs::heavy);
}

fn behind_real_time() {
    behind(Hogs::real_time);
}

/// The workload has all the CPU that it wants, those that watch it nearly none.
fn behind(hogs: fn() -> Hogs) {
    for (state, spans) in
        [("trial", Spans { trial: "120s", ..QUICK }), ("watching", Spans { watch: "120s", ..QUICK })]
    {
        let rig = Rig::new(state);
        let mut workload = Workload::run(&rig.group, "steps");
        workload.tell("grow 12Mi");
        assert!(workload.line().starts_with("ok"));
        let command = Scratch::new("command");
        command.write("cpu.weight", "1");
        let own = std::process::id().to_string();
        command.write("cgroup.procs", &own);
        let mut running = rig.start("24Mi", spans);
        std::fs::write("/sys/fs/cgroup/cgroup.procs", own).expect("leave it");
        running.reach(state);
        rig.await_brake();
        let first = Foremost::new();
        Foremost::is(workload.pid());
        let hogs = hogs();
        grow_until_taken_back(&rig, &mut workload);
        drop((hogs, first));
        running.end().assert(2, "rolled_back", "");
        rig.assert_as_found();
        assert!(workload.alive(), "{state}");
        rig.assert_settled();
    }
}
