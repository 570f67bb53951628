//! What a real kubelet does with a lower limit, alone and with the agent beside it (docs/kubernetes-kubelet.md). Runs
//! inside the VM, in a Debian guest that it first makes a cluster of one node.
//!
//! `ENFORCER_TIER=kubernetes` runs what is quick, `kubernetes-full` all of it.

mod agent;
mod api;
mod assist;
mod cluster;
mod containerd;
mod deploy;
mod guest;
mod kubelet;
mod pod;

use enforcer_vm_tests::case::{self, Case, Selection, Share, Tier};

fn main() {
    let short = |name, run| Case { name, tier: Tier::Kubernetes, needs: cluster::there, run };
    let full = |name, run| Case { name, tier: Tier::KubernetesFull, needs: cluster::there, run };
    let cases = vec![
        short("kubelet::page_cache_holds_a_shrink_up", kubelet::page_cache),
        short("kubelet::a_lower_limit_of_the_pod_alone_kills", kubelet::pod_level),
        full("kubelet::a_restart_leaves_the_pods_limit", kubelet::restart),
        full("kubelet::what_grew_after_it_looked_is_killed", kubelet::growth),
        short("agent::it_finds_the_kubelets_pods_and_no_drift", agent::resizes),
        short("agent::the_guard_keeps_a_pod_from_its_kubelet", agent::pod_level),
        short("assist::a_shrink_goes_through_in_spite_of_cache", assist::page_cache),
        short("assist::a_shrink_that_turns_out_too_low_is_taken_back", assist::take_back),
        short("assist::a_shrink_that_can_not_be_is_refused_with_the_safe_minimum", assist::refused),
        short("assist::paused_in_its_watch_it_leaves_what_the_kubelet_took", assist::paused),
        short("deploy::as_a_pod_it_helps_the_kubelet_and_leaves_nothing", deploy::helps),
        short("deploy::its_config_map_pauses_it", deploy::pauses),
        full("agent::the_guard_keeps_what_grew_alive", agent::growth),
        full("agent::it_sees_a_pods_limit_that_was_left", agent::restart),
    ];
    cluster::start();
    case::run(cases, &[], Selection::asked(), Share::asked());
}
