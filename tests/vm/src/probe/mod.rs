//! The kernel programs on a real kernel: every hook tells the right thing, nothing is lost uncounted.

mod health;
mod life;
mod limit;
mod oom;
mod reclaim;

use enforcer::probe::{Event, Need, Probe, ProbeOptions};
use enforcer_vm_tests::case::{Case, Tier, nothing};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// What is waited for happens at once; a time-out means that it never will.
const NEVER: Duration = Duration::from_mins(2);

const fn smoke(name: &'static str, run: fn()) -> Case {
    Case { name, tier: Tier::Smoke, needs: nothing, run }
}

const fn full(name: &'static str, run: fn()) -> Case {
    Case { name, tier: Tier::Full, needs: nothing, run }
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        smoke("probe::the_verifier_takes_every_program", health::verifier),
        smoke("probe::the_best_hooks_are_in_use", health::best_hooks),
        smoke("probe::an_oom_kill_names_victim_and_owner", oom::victim_and_owner),
        smoke("probe::a_parents_limit_is_named_as_owner", oom::parents_limit),
        smoke("probe::a_group_kill_lists_all_members", oom::group_kill),
        smoke("probe::every_oom_hook_tells_the_same", oom::fallbacks),
        smoke("probe::a_victim_with_threads_is_told_once", oom::threads),
        smoke("probe::a_limit_write_names_writer_old_and_new", limit::memory_max),
        smoke("probe::every_limit_file_is_told", limit::every_file),
        smoke("probe::a_refused_write_is_told_with_its_error", limit::refused),
        smoke("probe::an_oom_inside_a_write_names_its_writer", limit::kills_inside),
        smoke("probe::cgroups_are_told_from_birth_to_release", life::birth_to_release),
        smoke("probe::names_that_are_long_or_hostile_are_cut_and_kept", life::hostile_names),
        smoke("probe::reclaim_that_is_asked_for_is_told_with_its_pages", reclaim::proactive),
        smoke("probe::reclaim_that_a_limit_forces_is_told", reclaim::forced),
        smoke("probe::reclaim_of_others_is_not_told", reclaim::unwatched),
        smoke("probe::reclaim_by_tracepoint_tells_the_same", reclaim::tracepoint),
        smoke("probe::drops_are_counted_exactly", health::drops),
        smoke("probe::costs_count_every_run", health::costs),
        full("probe::an_exiting_victim_is_no_new_kill", oom::exiting),
        full("probe::hundreds_of_kills_in_a_row_are_all_told", oom::in_a_row),
        full("probe::waiting_wakes_up_for_an_event", health::wakes_up),
        full("probe::the_watch_list_is_bounded", health::watch_list),
        full("probe::a_need_without_hook_says_what_is_lost", health::no_hook),
        full("probe::without_privilege_it_says_what_to_do", health::no_privilege),
    ]
}

/// A probe and what it told so far.
struct Told {
    probe: Probe,
    events: Vec<Event>,
}

impl Told {
    /// Listens for this.
    fn of(needs: impl IntoIterator<Item = Need>) -> Self {
        Self::with(&ProbeOptions::only(needs))
    }

    fn with(options: &ProbeOptions) -> Self {
        let probe = Probe::load(options).unwrap_or_else(|error| panic!("load the probe: {error}"));
        Self { probe, events: Vec::new() }
    }

    /// Takes in what is there.
    fn take(&mut self) {
        let Self { probe, events } = self;
        probe.drain(|event| events.push(event)).expect("every record makes sense");
    }

    /// Waits until `found` sees in all events what it looks for.
    fn until<T>(&mut self, what: &str, found: impl Fn(&[Event]) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            self.take();
            if let Some(found) = found(&self.events) {
                return found;
            }
            let left = NEVER.saturating_sub(began.elapsed());
            assert!(!left.is_zero(), "{what} was never told; told was: {:#?}", self.events);
            let mut ready = [PollFd::new(self.probe.as_fd(), PollFlags::POLLIN)];
            poll(&mut ready, PollTimeout::try_from(left).expect("two minutes fit")).expect("poll the probe");
        }
    }
}

/// This process, as the kernel knows it.
fn own_cgroup() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let text = std::fs::read_to_string("/proc/self/cgroup").expect("read /proc/self/cgroup");
    let path = text.lines().find_map(|line| line.strip_prefix("0::")).expect("a v2 cgroup");
    let folder = format!("{}{path}", enforcer_vm_tests::scratch::MOUNT);
    std::fs::metadata(&folder).expect("stat our cgroup").ino()
}
