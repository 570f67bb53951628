//! Limits changed through a real containerd with runc and crun.

mod pods;
mod rig;
mod sizes;
mod trouble;
mod writes;

use enforcer_vm_tests::case::{Case, Tier, nothing};

pub(crate) fn cases() -> Vec<Case> {
    let debian = |name, run| Case { name, tier: Tier::Debian, needs: nothing, run };
    vec![
        debian("resize::memory_goes_down_safely_and_up_and_swap_is_kept", sizes::memory),
        debian("resize::what_is_not_safe_is_refused_and_nothing_is_told", sizes::refused),
        debian("resize::cpu_goes_both_ways", sizes::cpu),
        debian("resize::a_dry_run_names_every_file_that_is_written", writes::foretold),
        debian("resize::a_quota_of_none_by_crun_is_the_tightest", writes::no_quota),
        debian("resize::a_pods_own_limit_goes_with_its_containers", pods::limits),
        debian("resize::a_pod_of_several_containers_wants_a_name", pods::several),
        debian("resize::a_runtime_that_hangs_before_it_is_told_changes_nothing", trouble::stopped_before),
        debian("resize::a_runtime_that_hangs_when_told_leaves_the_gates_limit", trouble::stopped_amid),
        debian("resize::a_runtime_that_is_killed_when_told_is_made_to_agree", trouble::killed_amid),
        debian("resize::a_container_that_goes_away_is_told", trouble::gone),
        debian("resize::kill_9_before_the_runtime_is_told_leaves_all_as_found", trouble::enforcer_killed),
        debian("resize::a_handle_stops_it_within_the_gate", trouble::cancelled),
    ]
}
