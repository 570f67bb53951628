//! One shrink on its way: what it was asked, what it saw, what it wrote.

use super::{
    back_off::Need,
    committing::Committing,
    monitor::{Baseline, Breaker, alarm, stall_added},
    reclaiming::ReclaimStep,
    restoring::Restoring,
    sight::{Change, Sight, gap_max},
    stage::{Stage, Step, Window},
};
use crate::{
    Action, Bytes, Instant, Limit, LimitFile, Micros, Policy, PressureKiller, Reason, Request, Sample, State,
    Verdict,
    certificate::{Notes, StallAdded, StateTime},
    headroom::{admits, brake_for, holds, safe_minimum},
    history::{Counters, History, Point},
    text::escaped,
};
use alloc::{format, vec::Vec};

/// A reading takes milliseconds; one that takes this long means that nobody reads.
pub(super) const OBSERVE_DEADLINE: Micros = Micros::from_secs(2);
/// No faster growth of a floor is reckoned with when readings are spaced: 4 KiB a microsecond, 4 GB/s.
const GROWTH_BYTES_PER_MICRO_MAX: u64 = 4096;
/// After a reading that a signal asked for, so many times as long as it took before the next.
const READING_REST: u64 = 3;
/// States that one shrink passes through, with room.
const STATES_MAX: usize = 16;
const STEPS_MAX: usize = 256;
const ANCESTORS_NOTED_MAX: usize = 4;
const NAME_BYTES_MAX: usize = 120;

/// The reclaim steps of one shrink.
#[derive(Debug, Clone, Default)]
pub(super) struct Curve {
    pub(super) steps: Vec<ReclaimStep>,
    pub(super) dropped: u64,
}

impl Curve {
    pub(super) fn add(&mut self, step: ReclaimStep) {
        if self.steps.len() < STEPS_MAX {
            self.steps.push(step);
        } else {
            self.dropped = self.dropped.saturating_add(1);
        }
    }
}

/// The limits as they were found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) max: Limit,
    pub(super) high: Limit,
}

/// One shrink.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not one state")]
pub(super) struct Run {
    pub(super) number: u64,
    pub(super) request: Request,
    /// The request's target in whole pages.
    pub(super) target: Bytes,
    pub(super) stage: Stage,
    pub(super) entered: Instant,
    pub(super) deadline: Instant,
    /// When to read again, or in Restoring to try again.
    pub(super) wake: Option<Instant>,
    /// Something happened while a command was in flight: read again soon.
    pub(super) nudged: bool,
    /// How long the last reading took.
    pub(super) reading_took: Micros,
    pub(super) states: Vec<StateTime>,
    pub(super) history: Option<History>,
    pub(super) found: Option<Found>,
    pub(super) populated: bool,
    pub(super) sight: Sight,
    /// The trial was skipped, for nobody was there.
    pub(super) untried: bool,
    pub(super) has_pressure: bool,
    pub(super) baseline: Option<Baseline>,
    /// What the cgroup was seen to need when observing ended well.
    pub(super) accepted: Option<Need>,
    /// Time that allocations waited for direct reclaim since the request, and until work began.
    pub(super) direct_reclaim: Micros,
    pub(super) direct_reclaim_before: Micros,
    pub(super) breaker: Breaker,
    pub(super) curve: Curve,
    /// The brake, from the moment its write is asked for.
    pub(super) high_written: Option<Limit>,
    /// `memory.max` may hold the target.
    pub(super) max_written: bool,
    /// Another wrote it there.
    pub(super) overtaken: bool,
    /// Another wrote it there, or wrote it once more.
    pub(super) taken: bool,
    /// Another has taken the brake off.
    pub(super) unbraked: bool,
    pub(super) notes: Notes,
}

impl Run {
    pub(super) fn new(number: u64, request: &Request, policy: &Policy, now: Instant) -> Self {
        Self {
            number,
            request: request.clone(),
            target: request.target.page_floor(),
            stage: Stage::Observing,
            entered: now,
            deadline: now.after(time_for(State::Observing, policy)),
            wake: None,
            nudged: false,
            reading_took: Micros::ZERO,
            states: Vec::new(),
            history: None,
            found: None,
            populated: true,
            sight: Sight::default(),
            untried: false,
            has_pressure: true,
            baseline: None,
            accepted: None,
            direct_reclaim: Micros::ZERO,
            direct_reclaim_before: Micros::ZERO,
            breaker: Breaker::default(),
            curve: Curve::default(),
            high_written: None,
            max_written: false,
            overtaken: false,
            taken: false,
            unbraked: false,
            notes: Notes::default(),
        }
    }

    /// Goes to a state; what it wants first.
    pub(super) fn enter(&mut self, stage: Stage, policy: &Policy, now: Instant) -> Step {
        self.close_state(now);
        self.stage = stage;
        self.entered = now;
        self.deadline = now.after(time_for(self.stage.state(), policy));
        self.wake = None;
        match &self.stage {
            Stage::Observing | Stage::Reclaiming(_) => Step::Observe(now),
            Stage::Trial(_) => {
                let brake = Limit::Bytes(self.brake(policy));
                if brake < self.found_high() {
                    Step::Act(Action::SetBrake { high: brake })
                } else {
                    self.notes.add(format!("memory.high was found at {brake} and brakes as it is"));
                    self.open_window(now)
                }
            }
            Stage::Committing(_) => Committing::commit(self, policy),
            Stage::Watching(_) => self.open_window(now),
            Stage::Restoring(restoring) => Step::Act(restoring.action()),
        }
    }

    /// Adds the time in the present state to the record.
    pub(super) fn close_state(&mut self, now: Instant) {
        if self.states.len() < STATES_MAX {
            let state = self.stage.state();
            self.states.push(StateTime { state, took: now.since(self.entered) });
        }
    }

    /// The window of trial or watch begins.
    pub(super) fn open_window(&mut self, now: Instant) -> Step {
        match &mut self.stage {
            Stage::Trial(window) | Stage::Watching(window) => window.opened = Some(now),
            Stage::Observing | Stage::Reclaiming(_) | Stage::Committing(_) | Stage::Restoring(_) => {}
        }
        Step::Observe(now)
    }

    /// A reading came in: the checks of every state, then the state's own.
    pub(super) fn sampled(&mut self, sample: &Sample, policy: &Policy, now: Instant) -> Step {
        self.take(sample, policy, now);
        if let Some(reason) = self.disturbed(sample) {
            return Step::Stop(reason);
        }
        if core::mem::take(&mut self.unbraked) {
            let high = Limit::Bytes(self.brake(policy));
            return match alarm(self, policy) {
                Some(reason) => Step::Stop(reason),
                None => Step::Act(Action::SetBrake { high }),
            };
        }
        // Taken out so that a state can look at the shrink it is part of.
        match core::mem::replace(&mut self.stage, Stage::Observing) {
            Stage::Observing if self.max_written => {
                self.begin_work(policy);
                self.brake_at_once(policy)
            }
            Stage::Observing => self.observed(policy, now),
            Stage::Reclaiming(reclaiming) if self.max_written => {
                self.stage = Stage::Reclaiming(reclaiming);
                self.brake_at_once(policy)
            }
            Stage::Reclaiming(mut reclaiming) => {
                let step = reclaiming.sampled(self, policy, now);
                self.stage = Stage::Reclaiming(reclaiming);
                step
            }
            Stage::Trial(window) => {
                self.stage = Stage::Trial(window);
                let next = Step::Go(Stage::Committing(Committing::default()));
                self.braked(next, policy, now)
            }
            Stage::Committing(committing) => {
                self.stage = Stage::Committing(committing);
                match alarm(self, policy) {
                    Some(reason) => Step::Stop(reason),
                    None => Committing::commit(self, policy),
                }
            }
            Stage::Watching(window) => {
                self.stage = Stage::Watching(window);
                let high = self.high_written.and(self.found).map(|found| found.high);
                let next = match high {
                    Some(_) => Step::Go(Stage::Restoring(Restoring::new(Verdict::Committed, high, None))),
                    None => Step::Finish(Verdict::Committed),
                };
                self.braked(next, policy, now)
            }
            Stage::Restoring(restoring) => {
                let step = Step::Act(restoring.action());
                self.stage = Stage::Restoring(restoring);
                step
            }
        }
    }

    /// Another wrote the target before there was a brake: it goes on now, unless it came too late already.
    fn brake_at_once(&mut self, policy: &Policy) -> Step {
        match alarm(self, policy) {
            Some(reason) => Step::Stop(reason),
            None => Step::Go(Stage::Trial(Window::default())),
        }
    }

    /// Trial or watch: an alarm ends it, the window's end leads on.
    fn braked(&mut self, next: Step, policy: &Policy, now: Instant) -> Step {
        if let Some(reason) = alarm(self, policy) {
            return Step::Stop(reason);
        }
        if self.overtaken && matches!(self.stage, Stage::Trial(_)) {
            return next;
        }
        if self.sight.is_empty_throughout() {
            self.untried = true;
            return next;
        }
        let soon = now.after(policy.sample_interval);
        match self.window_end(policy) {
            Some(end) if end <= now => next,
            Some(end) => Step::Observe(soon.min(end)),
            // Empty for now: a window opens when a process comes, or the deadline does.
            None => Step::Observe(soon),
        }
    }

    /// When the window of trial or watch ends, if nothing breaks it: it is whole only where readings have
    /// shown the cgroup's processes all through it.
    pub(super) fn window_end(&self, policy: &Policy) -> Option<Instant> {
        let (window, length) = match &self.stage {
            Stage::Trial(window) => (window, policy.trial_window),
            Stage::Watching(window) => (window, policy.watch_window),
            Stage::Observing | Stage::Reclaiming(_) | Stage::Committing(_) | Stage::Restoring(_) => {
                return None;
            }
        };
        Some(window.opened?.max(self.sight.since()?).after(length))
    }

    /// Whether what this state waits for is a window that readings have not shown whole.
    pub(super) fn lacks_window(&self) -> bool {
        let windowed = matches!(self.stage, Stage::Observing | Stage::Trial(_) | Stage::Watching(_));
        windowed && self.sight.since().is_none_or(|since| since > self.entered)
    }

    /// Takes a reading into the record.
    fn take(&mut self, sample: &Sample, policy: &Policy, now: Instant) {
        match &mut self.history {
            Some(history) => history.add(sample, policy, now),
            None => self.first_sample(sample, policy, now),
        }
        self.populated = sample.populated;
        // Observing changes nothing and takes readings as they come, a recorder's minutes apart too.
        let braked = matches!(self.stage, Stage::Trial(_) | Stage::Watching(_));
        let change = self.sight.add(sample.populated, braked.then(|| gap_max(policy)), now);
        let text = match change {
            Some(Change::Empty) => "no process lives in the cgroup: windows are skipped",
            Some(Change::Populated) => {
                "a process came into the empty cgroup: windows run in full from then on"
            }
            Some(Change::Emptied) => "the cgroup was without a process for a while: its window began anew",
            Some(Change::Missed) => "readings stopped for seconds: the window began anew",
            None => return,
        };
        self.notes.add(text);
    }

    fn first_sample(&mut self, sample: &Sample, policy: &Policy, now: Instant) {
        self.history = Some(History::begin(sample, policy, now));
        self.found = Some(Found { max: sample.max, high: sample.high });
        self.has_pressure = sample.pressure.is_some();
        if !self.has_pressure {
            self.notes.add("memory.pressure is not there (boot with psi=1): only direct reclaim is timed");
        }
        let tighter = |limit: Limit| limit <= Limit::Bytes(self.target);
        let ancestors = sample.ancestors.iter();
        for ancestor in ancestors.filter(|a| tighter(a.max)).take(ANCESTORS_NOTED_MAX) {
            let path = escaped(&ancestor.path, NAME_BYTES_MAX);
            let limit = ancestor.max;
            self.notes.add(format!("{path} has the tighter limit: memory.max {limit}"));
        }
    }

    /// Whether that is the write of `memory.max` which somebody else was to make too.
    pub(super) fn awaits(&self, max: Limit) -> bool {
        let expects = self.request.by_other && !self.request.dry_run && !self.max_written;
        let restoring = matches!(self.stage, Stage::Restoring(_));
        let is_lower = self.found.is_some_and(|found| max < found.max);
        expects && !restoring && is_lower && max == Limit::Bytes(self.target)
    }

    /// Whether the other's update has put `memory.high` back as it was found. A runtime that goes through systemd does: with any
    /// memory limit of a unit systemd writes all of them.
    pub(super) fn loses_brake(&self, high: Limit) -> bool {
        let lowered = matches!(self.stage, Stage::Trial(_) | Stage::Committing(_) | Stage::Watching(_));
        let as_found = self.found.is_some_and(|found| found.high == high);
        lowered && self.request.by_other && as_found && self.high_written.is_some_and(|ours| ours != high)
    }

    /// What no state goes on with.
    fn disturbed(&mut self, sample: &Sample) -> Option<Reason> {
        let target = Limit::Bytes(self.target);
        let expected_max = if self.max_written { Some(target) } else { self.found.map(|f| f.max) };
        if self.awaits(sample.max) {
            (self.max_written, self.overtaken, self.taken) = (true, true, true);
            self.notes.add("another wrote the target before the gate did: the brake goes on at once");
        } else if expected_max.is_some_and(|expected| expected != sample.max) {
            return Some(Reason::LimitWritten { file: LimitFile::Max, found: sample.max });
        }
        let expected_high = self.high_written.or(self.found.map(|f| f.high));
        if self.loses_brake(sample.high) {
            self.unbraked = true;
            self.notes.add("another's update took the brake off: it is set anew");
        } else if expected_high.is_some_and(|expected| expected != sample.high) {
            return Some(Reason::LimitWritten { file: LimitFile::High, found: sample.high });
        }
        if sample.frozen && sample.populated {
            return Some(Reason::Frozen);
        }
        if let Some(path) = &sample.frozen_below {
            return Some(Reason::FrozenBelow { cgroup: path.clone() });
        }
        if self.untried && sample.populated {
            return Some(Reason::Unseen { state: State::Trial });
        }
        let risen = self.risen();
        if risen.oom > 0 {
            // The kernel's record; the victim comes with the signal, if it comes.
            return Some(Reason::OomKill { victim_pid: 0 });
        }
        if risen.oom_kill > 0 {
            self.notes.add("a process was killed for another cgroup's limit");
        }
        None
    }

    /// When a reading that a signal asks for may come: a floor far from the brake can't be there sooner,
    /// and where readings are slow they must not be all that the CPU does.
    pub(super) fn nudged_at(&self, policy: &Policy, now: Instant) -> Instant {
        let Some(history) = &self.history else { return now };
        let last = history.last();
        let distance = self.brake(policy).saturating_sub(last.floor.bytes);
        let gap = Micros::new(distance.get() / GROWTH_BYTES_PER_MICRO_MAX)
            .clamp(policy.reaction_time.scaled(1, 25), policy.reaction_time)
            .max(self.reading_took.scaled(READING_REST, 1))
            .min(policy.sample_interval);
        last.at.after(gap).max(now)
    }

    /// The brake: `memory.high` as found where that is lower already.
    pub(super) fn brake(&self, policy: &Policy) -> Bytes {
        let ours = brake_for(self.target, policy);
        match self.found_high() {
            Limit::Bytes(found) => ours.min(found),
            Limit::Max => ours,
        }
    }

    pub(super) fn found_high(&self) -> Limit {
        self.found.map_or(Limit::Max, |found| found.high)
    }

    /// Whether the target is at the safe minimum or above.
    pub(super) fn admitted(&self, policy: &Policy) -> bool {
        self.history
            .as_ref()
            .is_some_and(|h| admits(self.target, h.peak().floor.bytes, h.growth_per_second(), policy))
    }

    /// Whether the target is still safe enough to go on.
    pub(super) fn holds(&self, policy: &Policy) -> bool {
        self.history
            .as_ref()
            .is_some_and(|h| holds(self.target, h.peak().floor.bytes, h.growth_per_second(), policy))
    }

    /// What the cgroup was seen to need so far.
    pub(super) fn need(&self, policy: &Policy) -> Option<Need> {
        let peak = self.history.as_ref()?.peak().floor.bytes;
        Some(Need { peak, safe_minimum: self.safe_minimum(policy)? })
    }

    pub(super) fn safe_minimum(&self, policy: &Policy) -> Option<Bytes> {
        self.history.as_ref().map(|h| safe_minimum(h.peak().floor.bytes, h.growth_per_second(), policy))
    }

    /// The last reading; states that ask come after the first one.
    pub(super) fn last(&self) -> Point {
        self.history.as_ref().map(|h| *h.last()).unwrap_or_default()
    }

    /// Where a second's deltas begin: a second ago, but not before the shrink began to work.
    pub(super) fn second_ago_within_shrink(&self) -> Point {
        let second_ago = self.history.as_ref().map(|h| *h.second_ago()).unwrap_or_default();
        match &self.baseline {
            Some(base) if second_ago.at < base.from.at => base.from,
            Some(_) | None => second_ago,
        }
    }

    /// Counters since the first reading.
    pub(super) fn risen(&self) -> Counters {
        self.history.as_ref().map_or_else(Counters::default, |h| h.last().counters.since(&h.first().counters))
    }

    /// Stall that the shrink added so far.
    pub(super) fn stall(&self) -> StallAdded {
        match (&self.baseline, &self.history) {
            (Some(base), Some(history)) => {
                let mut stall = stall_added(base, history.second_ago(), history.last());
                if !self.has_pressure {
                    stall.direct_reclaim = self.direct_reclaim.saturating_sub(self.direct_reclaim_before);
                }
                stall
            }
            (None, _) | (_, None) => StallAdded::default(),
        }
    }

    pub(super) fn killer(&self) -> Option<&PressureKiller> {
        self.request.pressure_killer.as_ref()
    }
}

/// How long a state may take.
pub(super) fn time_for(state: State, policy: &Policy) -> Micros {
    let reading = OBSERVE_DEADLINE.scaled(2, 1);
    match state {
        State::Idle | State::Ended => Micros::ZERO,
        State::Observing => policy.observe_window.scaled(2, 1).saturating_add(reading),
        State::Reclaiming => policy.reclaim_deadline,
        State::Trial => policy.commit_deadline.saturating_add(policy.trial_window).saturating_add(reading),
        State::Committing => policy.commit_deadline.scaled(3, 1).saturating_add(reading),
        State::Watching => policy.watch_window.saturating_add(reading),
        State::Restoring => policy.restore_deadline,
    }
}
