//! What a real kubelet does with a lower limit, alone and with the agent beside it (docs/kubernetes-kubelet.md).

mod agent;
mod api;
mod assist;
pub(crate) mod cluster;
mod kubelet;
mod pod;

use enforcer_vm_tests::case::{Case, Tier};

pub(crate) fn cases() -> Vec<Case> {
    let short = |name, run| Case { name, tier: Tier::Kubernetes, needs: cluster::there, run };
    let full = |name, run| Case { name, tier: Tier::KubernetesFull, needs: cluster::there, run };
    vec![
        short("kube::page_cache_holds_a_shrink_up", kubelet::page_cache),
        short("kube::a_lower_limit_of_the_pod_alone_kills", kubelet::pod_level),
        full("kube::a_restart_leaves_the_pods_limit", kubelet::restart),
        full("kube::growth_after_the_kubelet_looked_is_killed", kubelet::growth),
        short("kube::the_agent_finds_the_kubelets_pods_and_no_drift", agent::resizes),
        short("kube::with_the_agent_a_shrink_goes_through_in_spite_of_cache", assist::page_cache),
        short("kube::a_shrink_that_turns_out_too_low_is_taken_back", assist::take_back),
        short("kube::a_shrink_that_can_not_be_is_refused_with_the_safe_minimum", assist::refused),
        short("kube::the_guard_keeps_a_pod_from_its_kubelet", agent::pod_level),
        full("kube::the_guard_keeps_what_grew_alive", agent::growth),
        full("kube::the_agent_and_a_pods_limit_that_was_left", agent::restart),
    ]
}
