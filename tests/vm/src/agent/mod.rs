//! The agent beside a real containerd with runc and crun, under systemd's cgroups; and beside more containers than that
//! bears here.

mod acts;
mod commands;
mod disks;
mod numbers;
mod pauses;
mod rivals;
mod sees;
mod starts;
mod strains;
mod survives;
mod uninstall;
mod unit;

use enforcer::admin::model::{ContainerView, PartState, Status};
use enforcer::cri::message::LinuxContainerResources;
use enforcer_gate::{Bytes, Limit};
use enforcer_vm_tests::case::{Case, Tier, nothing};
use enforcer_vm_tests::scratch::MOUNT;
use std::path::{Path, PathBuf};

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn cases() -> Vec<Case> {
    let debian = |name, run| Case { name, tier: Tier::Debian, needs: nothing, run };
    vec![
        debian("agent::what_runs_is_seen_and_what_ends_is_gone", sees::containers),
        debian("agent::a_runtime_that_comes_late_or_hangs_is_found_again", sees::runtime),
        debian("agent::an_oom_in_a_child_is_told_with_names_and_image", sees::oom),
        debian("agent::drift_is_told_and_mended", sees::drift),
        debian("agent::what_enforcer_and_the_runtime_are_told_to_do_is_no_drift", commands::no_drift),
        debian("agent::a_pod_that_asks_for_it_is_shrunk_and_then_left_alone", acts::auto_shrink),
        debian("agent::a_guarded_pod_is_guarded_and_no_other", acts::guard),
        debian("agent::pause_takes_back_what_is_in_flight", acts::pause),
        debian("agent::told_to_end_it_takes_back_what_is_in_flight", acts::end),
        debian("agent::a_configuration_is_read_anew_or_refused_whole", acts::reload),
        debian("agent::a_file_that_is_watched_is_read_anew_by_itself", acts::watched),
        debian("agent::killed_in_each_state_it_leaves_nothing", survives::killed),
        debian("agent::a_full_disk_keeps_limits_as_they_are", survives::full_disk),
        debian("agent::a_disk_that_is_full_at_the_start_or_later_keeps_nothing_else", disks::full),
        debian("agent::a_disk_that_hangs_keeps_nobody_waiting", disks::hung),
        debian("agent::a_disk_that_hangs_at_the_start_keeps_nobody_waiting", disks::hung_at_start),
        debian("agent::what_a_newer_version_left_is_left_to_it", disks::newer),
        debian("agent::a_pause_does_not_wait_for_a_runtime_that_hangs", pauses::hung_runtime),
        debian("agent::a_pause_does_not_wait_for_an_update_that_hangs", pauses::hung_update),
        debian("agent::paused_the_guard_refuses_nothing", pauses::guard),
        debian("agent::paused_from_the_start_it_changes_nothing", pauses::from_the_start),
        debian("agent::a_node_out_of_memory_spares_the_agent_and_its_restorer", strains::out_of_memory),
        debian("agent::behind_heavy_hogs_nobody_dies", strains::behind_heavy),
        debian("agent::after_its_end_nothing_is_left", uninstall::nothing_is_left),
        debian("agent::as_a_service_of_systemds_it_does_all_that_it_does", unit::service),
        debian("agent::there_is_one_a_node", survives::second),
        debian("agent::kernel_programs_that_hang_while_they_load_keep_nobody_waiting", starts::hung_load),
        debian("agent::what_comes_and_goes_leaves_nothing_behind", survives::churn),
        Case {
            name: "agent::of_60_containers_that_come_and_go_nothing_is_left",
            tier: Tier::Full,
            needs: nothing,
            run: numbers::few,
        },
        Case {
            name: "agent::of_250_containers_that_come_and_go_nothing_is_left",
            tier: Tier::Full,
            needs: nothing,
            run: numbers::many,
        },
        Case {
            name: "agent::a_limit_that_is_raised_before_the_update_stays",
            tier: Tier::Full,
            needs: nothing,
            run: rivals::raised_before_the_update,
        },
        Case {
            name: "agent::a_limit_of_no_whole_pages_is_no_drift",
            tier: Tier::Full,
            needs: nothing,
            run: rivals::no_whole_pages,
        },
        Case {
            name: "agent::who_writes_without_a_pause_floods_nobody",
            tier: Tier::Full,
            needs: nothing,
            run: rivals::writes_without_a_pause,
        },
    ]
}

/// How a part of the agent is.
fn state(status: &Status, part: &str) -> PartState {
    status.parts.iter().find(|found| found.name == part).expect("the part").state
}

pub(crate) fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(test);
}

/// A memory limit, and no swap.
pub(crate) fn memory(bytes: u64) -> LinuxContainerResources {
    let bytes = i64::try_from(bytes).expect("fits");
    LinuxContainerResources {
        memory_limit_in_bytes: bytes,
        memory_swap_limit_in_bytes: bytes,
        ..LinuxContainerResources::default()
    }
}

/// A program that holds so many MiB of anonymous memory until it is ended.
pub(crate) fn holds(mib: u32) -> [String; 4] {
    let script = format!("/bin/busybox tail -f /dev/null | /bin/enforcer-workload anon --size {mib}Mi");
    ["/bin/busybox".into(), "sh".into(), "-c".into(), script]
}

/// Whether its limit is known, and lower than this.
fn is_under(view: &ContainerView, whole: Bytes) -> bool {
    view.limit.is_some_and(|limit| limit < Limit::Bytes(whole))
}

/// The cgroup of a container of this id, as systemd names scopes: the one in which its limit acts.
fn cgroup_of(view: &ContainerView) -> PathBuf {
    Path::new(MOUNT).join(&view.limit_cgroup)
}
