//! The guard on a real kernel: who writes what by which way, and what becomes of it.

mod command;
mod lacks;
mod leases;
mod log;
mod queued;
mod routes;
mod values;
mod verdicts;
mod writers;

use enforcer::cgroup::Cgroup;
use enforcer::guard::{Count, Cover, Guard, GuardMode, GuardOptions, Reason, Verdict};
use enforcer::probe::{Judged, LimitKind};
use enforcer_gate::{Bytes, CgroupId};
use enforcer_vm_tests::case::{Case, Tier, nothing};
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const BUSY: Result<(), i32> = Err(libc::EBUSY);
/// With [`wide`], a limit that is refused and yet kills nobody.
const NEAR: &[u8] = b"32M";

/// A margin so wide that the guard refuses limits which the tenant would survive.
fn wide(cover: &mut Cover) {
    cover.margin = Bytes::from_mib(24);
}

fn enforce(cover: &mut Cover) {
    wide(cover);
    cover.mode = GuardMode::Enforce;
}

fn id(cgroup: &Scratch) -> CgroupId {
    CgroupId::new(cgroup.id())
}

const fn smoke(name: &'static str, run: fn()) -> Case {
    Case { name, tier: Tier::Smoke, needs: nothing, run }
}

const fn full(name: &'static str, run: fn()) -> Case {
    Case { name, tier: Tier::Full, needs: nothing, run }
}

const fn debian(name: &'static str, run: fn()) -> Case {
    Case { name, tier: Tier::Debian, needs: nothing, run }
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        smoke("guard::a_limit_under_usage_is_refused", verdicts::refused),
        smoke("guard::it_answers_as_cgroup_v1_did", verdicts::as_cgroup_v1_did),
        smoke("guard::what_is_safe_goes_through", verdicts::safe),
        smoke("guard::audit_lets_through_and_tells", verdicts::audit),
        smoke("guard::without_a_beat_it_is_disarmed", verdicts::heartbeat),
        smoke("guard::a_lease_allows_what_it_says_for_as_long", leases::in_force),
        smoke("guard::what_is_not_known_goes_by_the_lease", leases::unavailable),
        full("guard::a_lease_comes_from_the_gates_evidence", leases::evidence),
        full("guard::two_guards_are_both_asked", leases::two_guards),
        smoke("guard::a_cgroup_without_processes_is_exempt", verdicts::empty_cgroups),
        smoke("guard::what_is_made_below_is_guarded_from_birth", verdicts::below),
        smoke("guard::other_files_only_where_asked", verdicts::files),
        smoke("guard::other_writers_are_not_looked_at", verdicts::others),
        full("guard::a_crowd_of_writers_gets_the_same_answer", verdicts::crowd),
        smoke("guard::it_sees_what_the_files_say", verdicts::sight),
        full("guard::the_list_is_bounded", verdicts::bounded),
        smoke("guard::what_is_not_told_is_counted", verdicts::drops),
        smoke("guard::every_route_of_a_write_is_judged", routes::every_route),
        smoke("guard::values_are_read_as_the_kernel_reads_them", values::agree),
        smoke("guard::the_program_reads_values_as_the_kernel_does", values::program_agrees),
        smoke("guard::an_empty_write_is_no_value", values::empty),
        smoke("guard::a_value_may_be_a_page_long", values::long),
        smoke("guard::the_command_tells_and_ends_cleanly", command::lines),
        smoke("guard::killed_it_is_gone", command::killed),
        full("guard::stopped_it_is_in_nobodys_way", command::stopped),
        full("guard::stopped_while_loading_it_ends_at_once", command::stopped_while_loading),
        full("guard::unread_it_stays_armed_and_can_be_ended", command::unread),
        full("guard::ancestors_that_are_not_guarded_are_named", command::unguarded_above),
        full("guard::log_holds_what_a_killed_guard_told", log::killed),
        full("guard::log_shows_what_is_asked_for", log::filters),
        full("guard::log_has_one_writer", log::one_writer),
        full("guard::log_on_a_full_disk_counts_what_it_lacks", log::full_disk),
        full("guard::log_that_was_removed_disarms_nobody", log::removed),
        smoke("guard::status_shows_what_the_kernel_holds", command::shown),
        smoke("guard::an_own_shrink_takes_a_lease", command::own_shrink),
        full("guard::what_can_not_be_guarded_is_named", lacks::wrong),
        full("guard::all_of_the_node_can_be_guarded", command::whole_node),
        full("guard::a_cgroup_and_what_is_below_it_can_be_guarded", command::named_twice),
        full("guard::without_bpf_among_the_modules_it_says_what_to_do", lacks::no_bpf),
        full("guard::without_privilege_status_says_what_to_do", lacks::no_privilege),
        debian("guard::ebusy_makes_systemd_keep_what_is_in_force", writers::systemd_for_now),
        debian("guard::ebusy_makes_systemd_keep_it_beyond_a_boot", writers::systemd_for_ever),
        debian("guard::ebusy_fails_runc_and_changes_nothing", writers::runc),
        debian("guard::ebusy_fails_runc_through_systemd_and_changes_nothing", writers::runc_by_systemd),
        debian("guard::ebusy_fails_crun_and_changes_nothing", writers::crun),
        debian("guard::ebusy_fails_crun_through_systemd", writers::crun_by_systemd),
        Case {
            name: "guard::memory_in_swap_is_not_waited_for",
            tier: Tier::Full,
            needs: crate::guest::swap_disk,
            run: routes::swapped,
        },
    ]
}

/// A cgroup in which so much anonymous memory is in use, without swap; the limit is 64 MiB.
struct Tenant {
    cgroup: Scratch,
    _workload: Workload,
}

impl Tenant {
    fn new(name: &str) -> Self {
        let cgroup = Scratch::new(name);
        cgroup.write_if_there("memory.swap.max", "0");
        cgroup.write("memory.max", "64M");
        let workload = Workload::run(&cgroup, "anon --size 24Mi");
        Self { cgroup, _workload: workload }
    }
}

/// An armed guard and the cgroups that it guards.
struct Armed {
    guard: Guard,
}

impl Armed {
    fn new() -> Self {
        Self::with(GuardOptions { stale: Duration::from_hours(1), ..GuardOptions::default() })
    }

    fn with(options: GuardOptions) -> Self {
        let mut guard = Guard::load(options).unwrap_or_else(|error| panic!("{error}"));
        guard.beat().expect("arm it");
        Self { guard }
    }

    fn over(cgroup: &Scratch, mode: GuardMode) -> Self {
        let mut armed = Self::new();
        armed.cover(cgroup, mode);
        armed
    }

    fn cover(&mut self, cgroup: &Scratch, mode: GuardMode) {
        self.cover_with(cgroup, |cover| cover.mode = mode);
    }

    /// Guards `memory.max` in audit, but for what `change` says.
    fn cover_with(&mut self, cgroup: &Scratch, change: impl FnOnce(&mut Cover)) {
        let mut cover = Cover {
            mode: GuardMode::Audit,
            files: vec![LimitKind::MemoryMax],
            margin: Bytes::from_mib(1),
            own: true,
            below: false,
        };
        change(&mut cover);
        self.guard.cover(CgroupId::new(cgroup.id()), &cover).expect("guard it");
    }

    /// What was told since the last look.
    fn told(&mut self) -> Vec<Judged> {
        std::iter::from_fn(|| self.guard.try_next()).map(|judged| judged.expect("it makes sense")).collect()
    }

    /// The one verdict since the last look.
    fn one(&mut self, what: &str) -> Judged {
        let told = self.told();
        assert_eq!(told.len(), 1, "{what}: {told:#?}");
        told[0]
    }

    fn count(&self, verdict: Verdict, reason: Reason) -> u64 {
        let counts = self.guard.counts().expect("read the counters");
        let found = counts.iter().find(|count| count.verdict == verdict && count.reason == reason);
        found.map_or(0, |Count { writes, .. }| *writes)
    }
}

/// What a write to a file of it says.
fn write(cgroup: &Scratch, file: &str, value: &[u8]) -> Result<(), i32> {
    std::fs::OpenOptions::new()
        .write(true)
        .open(cgroup.path().join(file))
        .and_then(|mut file| std::io::Write::write_all(&mut file, value))
        .map_err(|error| error.raw_os_error().unwrap_or(0))
}

fn opened(cgroup: &Scratch) -> Cgroup {
    Cgroup::open(cgroup.path()).expect("open the cgroup")
}
