//! What takes long under emulation. Most has its like among the other tests: a disk that is full, another moment at which a
//! runtime is stopped, the other runtime; the unit of systemd's and what measures a pod's overhead have not. They run with
//! `cargo xtask test --full`, or where a filter picks them.

/// By name, each of which is a test's.
pub(crate) const NAMES: [&str; 31] = [
    "agent::what_comes_and_goes_leaves_nothing_behind",
    "agent::of_250_containers_that_come_and_go_nothing_is_left",
    "agent::a_disk_that_is_full_at_the_start_or_later_keeps_nothing_else",
    "agent::a_disk_that_hangs_keeps_nobody_waiting",
    "agent::a_disk_that_hangs_at_the_start_keeps_nobody_waiting",
    "agent::a_pause_does_not_wait_for_a_runtime_that_hangs",
    "agent::paused_the_guard_refuses_nothing",
    "agent::paused_from_the_start_it_changes_nothing",
    "agent::behind_heavy_hogs_nobody_dies",
    "agent::as_a_service_of_systemds_it_does_all_that_it_does",
    "resize::kill_9_before_the_runtime_is_told_leaves_all_as_found",
    "resize::a_handle_stops_it_within_the_gate",
    "resize::a_runtime_that_hangs_when_told_leaves_the_gates_limit",
    "resize::a_runtime_that_hangs_before_it_is_told_changes_nothing",
    "resize::a_runtime_that_is_killed_when_told_is_made_to_agree",
    "resize::a_quota_of_none_by_crun_is_the_tightest",
    "resize::a_dry_run_names_every_file_that_is_written",
    "resize::a_container_that_goes_away_is_told",
    "resize::a_pod_of_several_containers_wants_a_name",
    "drift::an_update_by_crun_is_named",
    "guard::ebusy_fails_runc_and_changes_nothing",
    "guard::ebusy_fails_crun_and_changes_nothing",
    "overhead::probes_are_put_down_to_their_pod",
    "overhead::runc_is_measured_and_the_node_confirms_it",
    "overhead::however_it_ends_nothing_is_left",
    "overhead::an_agent_tells_what_pods_of_two_runtimes_cost",
    "overhead::crun_is_measured_and_the_node_confirms_it",
    "overhead::a_helper_that_is_not_found_is_missed",
    "overhead::three_runs_say_the_same",
    "shrink::behind_heavy_hogs_a_growing_workload_is_given_back_its_limit",
    "bench::drops_are_counted_exactly",
];
