//! The OOM flight recorder on real kills: `enforcer oom record` and `enforcer oom`, as people run them.

mod hooks;
mod kinds;
mod loss;
mod readers;
mod rig;

use enforcer_vm_tests::case::{Case, Tier, nothing};

pub(crate) fn cases() -> Vec<Case> {
    let smoke = |name, run| Case { name, tier: Tier::Smoke, needs: nothing, run };
    let full = |name, run| Case { name, tier: Tier::Full, needs: nothing, run };
    vec![
        smoke("oom::a_childs_kill_is_told_while_the_container_lives", kinds::child),
        smoke("oom::the_first_process_of_a_container_is_known", kinds::first_of_namespace),
        smoke("oom::a_group_kill_of_six_is_one_record", || kinds::group(6)),
        full("oom::a_group_kill_of_200_is_one_record", || kinds::group(200)),
        smoke("oom::the_pods_limit_under_the_containers_is_named", kinds::pod_limit),
        smoke("oom::a_cgroup_that_is_gone_is_told_with_its_names", kinds::removed_at_once),
        smoke("oom::the_write_that_killed_is_named", kinds::killing_write),
        full("oom::fifty_cgroups_at_once_are_all_told", kinds::fifty),
        full("oom::hostile_names_are_escaped", kinds::hostile),
        full("oom::a_small_ring_counts_what_it_dropped", loss::small_ring),
        full("oom::a_killed_recorder_leaves_a_store_without_a_wrong_record", loss::killed),
        full("oom::a_full_disk_costs_what_is_counted_and_no_more", loss::full_disk),
        full("oom::on_a_full_disk_the_oldest_make_room", loss::full_disk_makes_room),
        full("oom::there_is_one_recorder_a_store", loss::two_recorders),
        smoke("oom::without_the_hook_for_ends_silence_ends_an_oom", hooks::without_ends),
        smoke("oom::with_a_tracepoint_alone_victims_are_told", hooks::tracepoint_alone),
        full("oom::whoever_follows_is_told_at_once", readers::follow),
        full("oom::filters_pick", readers::filters),
    ]
}
