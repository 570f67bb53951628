//! What comes from outside, in every state: the cgroup vanishes, somebody else writes a limit, a second
//! request, a kill, a probe that fails, files that can't be written. Each has its defined end.

mod sim;

use enforcer_gate::{
    Action, Bytes, Command, Gate, Instant, Limit, LimitFile, Micros, Outcome, OutcomeKind, Policy, Reason,
    Request, Signal, State, Verdict,
};
use sim::{MIB, Shrink, Sim, Workload, idle, policy};

const STATES: [State; 5] =
    [State::Observing, State::Reclaiming, State::Trial, State::Committing, State::Watching];

fn service() -> Sim {
    let mut sim = Sim::new(160 * MIB);
    sim.anon = 10 * MIB;
    sim.cache = 120 * MIB;
    sim
}

/// A gate stepped command by command, so that it can be stopped in every state.
struct Stepped {
    gate: Gate,
    sim: Sim,
    found: (Limit, Limit),
    in_flight: Option<Command>,
    actions: Vec<Action>,
}

impl Stepped {
    /// Up to the first command of `state` that comes after a reading, which is in flight and not answered.
    fn stopped_in(state: State, policy: Policy) -> Self {
        Self::reached(state, policy, false)
    }

    /// The same of a shrink that somebody else is to write as well.
    fn of_another(state: State) -> Self {
        Self::reached(state, policy(), true)
    }

    fn reached(state: State, policy: Policy, by_other: bool) -> Self {
        let sim = service();
        let found = (sim.high, sim.max);
        let gate = Gate::new(policy).unwrap();
        let mut stepped = Self { gate, sim, found, in_flight: None, actions: vec![] };
        stepped.ask(100 * MIB, by_other);
        for _ in 0..10_000 {
            let read = stepped.gate.progress().is_some_and(|progress| progress.usage > Bytes::ZERO);
            if stepped.gate.state() == state && stepped.in_flight.is_some() && read {
                return stepped;
            }
            stepped.step();
        }
        panic!("{state} is not reached");
    }

    fn request(&mut self, target: u64) {
        self.ask(target, false);
    }

    fn ask(&mut self, target: u64, by_other: bool) {
        let target = Bytes::new(target);
        self.signal(&Signal::Request(Request { target, dry_run: false, pressure_killer: None, by_other }));
    }

    fn signal(&mut self, signal: &Signal) {
        self.gate.handle_signal(signal, self.sim.now);
        self.fetch();
    }

    fn fetch(&mut self) {
        if let Some(command) = self.gate.poll_command() {
            self.actions.push(command.action.clone());
            self.in_flight = Some(command);
        }
    }

    fn answer(&mut self, kind: OutcomeKind) {
        let id = self.in_flight.take().expect("a command in flight").id;
        self.gate.handle_outcome(&Outcome { id, kind }, self.sim.now);
        self.fetch();
    }

    /// Answers well, or lets time pass.
    fn step(&mut self) {
        if let Some(command) = self.in_flight.take() {
            let outcome = self.sim.execute(&command, self.found);
            self.gate.handle_outcome(&outcome, self.sim.now);
        } else if let Some(at) = self.gate.poll_timeout() {
            self.sim.now = self.sim.now.max(at);
            self.gate.handle_timeout(self.sim.now);
        }
        self.fetch();
    }

    fn into_end(mut self) -> (Verdict, Self) {
        for _ in 0..10_000 {
            if self.gate.state() == State::Ended {
                let certificate = self.gate.certificate().unwrap();
                assert!(certificate.check().is_empty(), "{:?} in {certificate:#?}", certificate.check());
                return (certificate.verdict.clone(), self);
            }
            self.step();
        }
        panic!("it does not end");
    }

    /// Both limits hold what they held before.
    fn assert_as_found(&self) {
        assert_eq!((self.sim.high, self.sim.max), self.found);
    }
}

fn lowered(state: State) -> bool {
    !matches!(state, State::Observing | State::Reclaiming)
}

/// A verdict with this reason: refused before anything was lowered, rolled back after.
fn stopped(state: State, reason: Reason) -> Verdict {
    if lowered(state) { Verdict::RolledBack(reason) } else { Verdict::Refused(reason) }
}

#[test]
fn a_signal_that_stops_it_stops_it_in_every_state() {
    let signals = [
        (Signal::Cancel, Reason::Cancelled),
        (Signal::RestorerGone, Reason::RestorerGone),
        (Signal::ProbeFailed, Reason::ProbeFailed),
        (Signal::OomKill { victim_pid: 12, own_limit: true }, Reason::OomKill { victim_pid: 12 }),
        (
            Signal::LimitWritten {
                file: LimitFile::High,
                new: Limit::Bytes(Bytes::new(4096)),
                writer_pid: 1,
            },
            Reason::LimitWritten { file: LimitFile::High, found: Limit::Bytes(Bytes::new(4096)) },
        ),
    ];
    for state in STATES {
        for (signal, reason) in &signals {
            let mut stepped = Stepped::stopped_in(state, policy());
            stepped.signal(signal);
            let (verdict, stepped) = stepped.into_end();
            assert_eq!(verdict, stopped(state, reason.clone()), "{signal:?} in {state}");
            stepped.assert_as_found();
        }
    }
}

#[test]
fn gone_ends_every_state_without_another_command() {
    for state in STATES.into_iter().chain([State::Restoring]) {
        for by_signal in [true, false] {
            let mut stepped = Stepped::stopped_in(state, policy());
            let commands = stepped.actions.len();
            if by_signal {
                stepped.signal(&Signal::Gone);
            } else {
                stepped.answer(OutcomeKind::Gone);
            }
            assert_eq!(stepped.gate.state(), State::Ended, "{state}");
            assert_eq!(stepped.gate.certificate().unwrap().verdict, Verdict::Failed(Reason::Gone));
            assert_eq!(stepped.gate.poll_command(), None);
            assert_eq!(stepped.actions.len(), commands, "a command for what is no more");
        }
    }
}

#[test]
fn a_limit_raised_by_somebody_else_stays() {
    let theirs = Limit::Bytes(Bytes::from_mib(300));
    for state in STATES {
        let mut stepped = Stepped::stopped_in(state, policy());
        stepped.sim.max = theirs;
        stepped.signal(&Signal::LimitWritten { file: LimitFile::Max, new: theirs, writer_pid: 1 });
        // What a driver does with a restore of memory.max that is not ours any more.
        if let Some(Command { action: Action::Restore { max: Some(_), .. }, .. }) = stepped.in_flight {
            stepped.sim.high = stepped.found.0;
            stepped.answer(OutcomeKind::Superseded { file: LimitFile::Max, found: theirs });
        }
        let (verdict, stepped) = stepped.into_end();
        let reason = Reason::LimitWritten { file: LimitFile::Max, found: theirs };
        assert_eq!(verdict, stopped(state, reason), "{state}");
        assert_eq!(stepped.sim.max, theirs);
        assert_eq!(stepped.sim.high, stepped.found.0, "our brake is off");
    }
}

/// Without eBPF nobody tells; the next reading does.
#[test]
fn a_limit_written_without_a_signal_is_seen_in_the_next_reading() {
    for (file, state) in [
        (LimitFile::Max, State::Observing),
        (LimitFile::Max, State::Trial),
        (LimitFile::High, State::Trial),
        (LimitFile::High, State::Watching),
    ] {
        let mut stepped = Stepped::stopped_in(state, policy());
        stepped.step();
        stepped.step();
        assert_eq!(stepped.gate.state(), state);
        let theirs = Limit::Bytes(Bytes::from_mib(150));
        match file {
            LimitFile::High => stepped.sim.high = theirs,
            LimitFile::Max => stepped.sim.max = theirs,
        }
        while !matches!(stepped.gate.state(), State::Restoring | State::Ended) {
            stepped.step();
        }
        let (verdict, _) = stepped.into_end();
        assert_eq!(verdict, stopped(state, Reason::LimitWritten { file, found: theirs }));
    }
}

/// The kernel tells of our own writes too.
#[test]
fn our_own_writes_are_not_somebody_elses() {
    for state in [State::Trial, State::Watching, State::Restoring] {
        let mut stepped = Stepped::stopped_in(state, policy());
        stepped.step();
        for (file, new) in [(LimitFile::High, stepped.sim.high), (LimitFile::Max, stepped.sim.max)] {
            stepped.signal(&Signal::LimitWritten { file, new, writer_pid: 1 });
        }
        assert_eq!(stepped.into_end().0, Verdict::Committed);
    }
}

/// Also while the outcome of the restore is still on its way.
#[test]
fn our_own_restore_is_not_somebody_elses() {
    let mut stepped = Stepped::stopped_in(State::Restoring, policy());
    let new = stepped.found.0;
    stepped.signal(&Signal::LimitWritten { file: LimitFile::High, new, writer_pid: 1 });
    assert_eq!(stepped.into_end().0, Verdict::Committed);
}

/// What ended it first is the reason; what follows neither changes that nor restores anew.
#[test]
fn the_first_reason_stays_the_reason() {
    let mut stepped = Stepped::stopped_in(State::Watching, policy());
    stepped.signal(&Signal::Cancel);
    let commands = stepped.actions.len();
    let max = Limit::Bytes(Bytes::from_mib(300));
    for signal in [
        Signal::ProbeFailed,
        Signal::OomKill { victim_pid: 1, own_limit: true },
        Signal::LimitWritten { file: LimitFile::Max, new: max, writer_pid: 1 },
        Signal::Cancel,
        Signal::ReclaimBegin,
    ] {
        stepped.signal(&signal);
    }
    assert_eq!(stepped.actions.len(), commands);
    assert_eq!(stepped.into_end().0, Verdict::RolledBack(Reason::Cancelled));
}

#[test]
fn a_second_request_does_not_disturb_the_first() {
    for state in STATES.into_iter().chain([State::Restoring]) {
        let mut stepped = Stepped::stopped_in(state, policy());
        stepped.request(50 * MIB);
        let (verdict, stepped) = stepped.into_end();
        assert_eq!(verdict, Verdict::Committed, "{state}");
        assert_eq!(stepped.sim.max, Limit::Bytes(Bytes::from_mib(100)));
        let notes = &stepped.gate.certificate().unwrap().notes;
        assert!(notes.iter().any(|note| note.contains("second request")), "{notes:?}");
    }
}

#[test]
fn a_kill_for_another_cgroups_limit_is_noted() {
    for state in STATES {
        let mut stepped = Stepped::stopped_in(state, policy());
        stepped.signal(&Signal::OomKill { victim_pid: 5, own_limit: false });
        let (verdict, stepped) = stepped.into_end();
        assert_eq!(verdict, Verdict::Committed, "{state}");
        let notes = &stepped.gate.certificate().unwrap().notes;
        assert!(notes.iter().any(|note| note.contains("pid 5")), "{notes:?}");
    }
}

#[test]
fn a_command_that_fails_ends_it() {
    for state in STATES {
        let mut stepped = Stepped::stopped_in(state, policy());
        stepped.answer(OutcomeKind::Failed { what: "write memory.high: I/O error\n".into(), errno: 5 });
        let (verdict, stepped) = stepped.into_end();
        let reason = Reason::Io { what: "write memory.high: I/O error\\n".into(), errno: 5 };
        assert_eq!(verdict, stopped(state, reason), "{state}");
        stepped.assert_as_found();
    }
}

#[test]
fn a_command_that_is_never_answered_ends_it() {
    for state in STATES {
        let mut stepped = Stepped::stopped_in(state, policy());
        let unanswered = stepped.in_flight.take().unwrap();
        for _ in 0..100 {
            if stepped.in_flight.is_some() || stepped.gate.state() == State::Ended {
                break;
            }
            stepped.step();
        }
        let (verdict, mut stepped) = stepped.into_end();
        assert_eq!(verdict, stopped(state, Reason::Deadline { state }), "{state}");
        stepped.assert_as_found();
        // Its outcome comes at last, and means nothing.
        let late = Outcome { id: unanswered.id, kind: OutcomeKind::Done };
        stepped.gate.handle_outcome(&late, stepped.sim.now);
        assert_eq!(stepped.gate.state(), State::Ended);
        assert_eq!(stepped.gate.poll_command(), None);
    }
}

/// A process that was stopped hears of it all at once when it goes on, and the restore still gets its time.
#[test]
fn what_stops_it_finds_a_command_long_overdue() {
    for state in STATES {
        let mut stepped = Stepped::stopped_in(state, policy());
        stepped.sim.now = stepped.sim.now.after(Micros::from_secs(7));
        stepped.signal(&Signal::RestorerGone);
        if lowered(state) {
            assert!(matches!(stepped.in_flight.as_ref().unwrap().action, Action::Restore { .. }), "{state}");
        }
        let (verdict, stepped) = stepped.into_end();
        assert_eq!(verdict, stopped(state, Reason::RestorerGone), "{state}");
        stepped.assert_as_found();
    }
}

/// The restorer may act at the last moment: before the brake is off, or after the end.
#[test]
fn what_the_restorer_put_back_is_not_committed() {
    let letting_go = |stepped: &Stepped| {
        let brake = Action::Restore { high: Some(stepped.found.0), max: None };
        stepped.in_flight.as_ref().is_some_and(|command| command.action == brake)
    };
    let mut stepped = Stepped::stopped_in(State::Watching, policy());
    while !letting_go(&stepped) {
        stepped.step();
    }
    stepped.signal(&Signal::RestorerGone);
    let (verdict, stepped) = stepped.into_end();
    assert_eq!(verdict, Verdict::RolledBack(Reason::RestorerGone));
    stepped.assert_as_found();

    for (signal, expected) in [
        (Signal::Cancel, Verdict::Committed),
        (Signal::ProbeFailed, Verdict::Committed),
        (Signal::RestorerGone, Verdict::RolledBack(Reason::RestorerGone)),
    ] {
        let (verdict, mut stepped) = Stepped::stopped_in(State::Watching, policy()).into_end();
        assert_eq!(verdict, Verdict::Committed);
        stepped.signal(&signal);
        let certificate = stepped.gate.certificate().unwrap();
        assert_eq!((&certificate.verdict, certificate.check()), (&expected, Vec::new()), "{signal:?}");
        assert_eq!((stepped.gate.state(), stepped.gate.poll_command()), (State::Ended, None));
    }
    // What was refused stays so, with its reason.
    let mut stepped = Stepped::stopped_in(State::Observing, policy());
    stepped.signal(&Signal::Cancel);
    let (verdict, mut stepped) = stepped.into_end();
    stepped.signal(&Signal::RestorerGone);
    assert_eq!(stepped.gate.certificate().unwrap().verdict, verdict);
}

#[test]
fn a_restore_is_tried_until_it_works() {
    let mut stepped = Stepped::stopped_in(State::Watching, policy());
    stepped.signal(&Signal::Cancel);
    for _ in 0..3 {
        assert!(matches!(
            stepped.in_flight.as_ref().unwrap().action,
            Action::Restore { high: Some(Limit::Max), max: Some(_) }
        ));
        stepped.answer(OutcomeKind::Failed { what: "write memory.max".into(), errno: 16 });
        assert!(stepped.in_flight.is_none(), "tries are paced");
        stepped.step();
    }
    let (verdict, stepped) = stepped.into_end();
    assert_eq!(verdict, Verdict::RolledBack(Reason::Cancelled));
    stepped.assert_as_found();
}

#[test]
fn a_restore_that_never_works_says_what_is_left() {
    for (state, left) in [(State::Trial, false), (State::Watching, true)] {
        let mut stepped = Stepped::stopped_in(state, policy());
        stepped.step();
        stepped.signal(&Signal::Cancel);
        let start = stepped.sim.now;
        while stepped.gate.state() == State::Restoring {
            if stepped.in_flight.is_some() {
                stepped.answer(OutcomeKind::Failed { what: "write: device busy".into(), errno: 16 });
            } else {
                stepped.step();
            }
        }
        assert!(stepped.sim.now.since(start) <= Policy::default().restore_deadline);
        let verdict = stepped.gate.certificate().unwrap().verdict.clone();
        let Verdict::Failed(Reason::Io { what, errno: 16 }) = verdict else { panic!("{verdict:?}") };
        assert!(what.contains("memory.high may be left at 98304000 (was max)"), "{what}");
        assert_eq!(what.contains("memory.max may be left at 104857600 (was 167772160)"), left, "{what}");
        assert!(what.contains("device busy"), "{what}");
    }
}

#[test]
fn the_brake_that_can_not_be_lifted_is_a_failure() {
    let mut stepped = Stepped::stopped_in(State::Restoring, policy());
    while stepped.gate.state() == State::Restoring {
        stepped.in_flight = None;
        stepped.step();
    }
    let verdict = stepped.gate.certificate().unwrap().verdict.clone();
    assert!(matches!(verdict, Verdict::Failed(Reason::Io { .. })), "{verdict:?}");
}

/// The verdict is not out yet, so even letting go of the brake can turn into a roll-back.
#[test]
fn a_kill_while_the_brake_is_lifted_still_takes_it_back() {
    let mut stepped = Stepped::stopped_in(State::Restoring, policy());
    stepped.signal(&Signal::OomKill { victim_pid: 3, own_limit: true });
    let (verdict, stepped) = stepped.into_end();
    assert_eq!(verdict, Verdict::RolledBack(Reason::OomKill { victim_pid: 3 }));
    stepped.assert_as_found();
}

#[test]
fn a_commit_that_finds_too_much_usage_reclaims_and_tries_again() {
    let mut stepped = Stepped::stopped_in(State::Committing, policy());
    stepped.answer(OutcomeKind::UsageTooHigh { usage: Bytes::from_mib(99) });
    let Action::Reclaim { bytes } = stepped.in_flight.as_ref().unwrap().action else {
        panic!("{:?}", stepped.actions)
    };
    assert!(bytes > Bytes::from_mib(2) && bytes < Bytes::from_mib(4), "{bytes:?}");
    assert_eq!(stepped.into_end().0, Verdict::Committed);

    let mut stepped = Stepped::stopped_in(State::Committing, policy());
    let mut commits = 0;
    while stepped.gate.state() == State::Committing {
        match stepped.in_flight.as_ref().map(|command| &command.action) {
            Some(Action::Commit { .. }) => {
                commits += 1;
                stepped.answer(OutcomeKind::UsageTooHigh { usage: Bytes::from_mib(99) });
            }
            Some(
                Action::Observe | Action::Reclaim { .. } | Action::SetBrake { .. } | Action::Restore { .. },
            )
            | None => stepped.step(),
        }
    }
    assert_eq!(commits, 6, "bounded");
    let (verdict, stepped) = stepped.into_end();
    assert_eq!(verdict, Verdict::RolledBack(Reason::ReclaimStuck { usage: Bytes::from_mib(99) }));
    stepped.assert_as_found();
    let restored_max = stepped.actions.iter().any(|a| matches!(a, Action::Restore { max: Some(_), .. }));
    assert!(!restored_max, "memory.max was never written");
}

/// Signals make readings come sooner, but not without end.
#[test]
fn a_signal_in_trial_is_looked_into_at_once_and_a_flood_is_paced() {
    let mut stepped = Stepped::stopped_in(State::Trial, policy());
    stepped.step();
    stepped.step();
    assert!(stepped.in_flight.is_none());
    stepped.sim.now = stepped.sim.now.after(Micros::from_millis(45));
    stepped.signal(&Signal::ReclaimBegin);
    assert!(matches!(stepped.in_flight.as_ref().unwrap().action, Action::Observe));

    let mut readings_in_half_a_second = |reading_takes: Micros| {
        let start = stepped.sim.now;
        let before = stepped.actions.len();
        let mut asked_at = start;
        while stepped.sim.now.since(start) < Micros::from_millis(500) {
            stepped.sim.now = stepped.sim.now.after(Micros::new(100));
            let was_busy = stepped.in_flight.is_some();
            stepped.signal(&Signal::ReclaimBegin);
            if stepped.in_flight.is_some() && !was_busy {
                asked_at = stepped.sim.now;
            }
            let is_read = stepped.in_flight.is_some() && stepped.sim.now.since(asked_at) >= reading_takes;
            if is_read {
                stepped.step();
            }
        }
        stepped.actions.len() - before
    };
    let fast = readings_in_half_a_second(Micros::ZERO);
    assert!((15..=60).contains(&fast), "{fast} readings");
    let slow = readings_in_half_a_second(Micros::from_millis(12));
    assert!((8..=12).contains(&slow), "{slow} readings of 12 ms");
}

/// A flood of signals can't keep a deadline from its effect, whoever calls for time-outs late.
#[test]
fn signals_let_time_pass_too() {
    for state in STATES {
        let mut stepped = Stepped::stopped_in(state, policy());
        let start = stepped.sim.now;
        while stepped.gate.state() == state {
            stepped.sim.now = stepped.sim.now.after(Micros::from_millis(10));
            stepped.signal(&Signal::ReclaimBegin);
            assert!(stepped.sim.now.since(start) < Micros::from_secs(60), "{state} for ever");
        }
        assert_eq!(stepped.into_end().0, stopped(state, Reason::Deadline { state }), "{state}");
    }
}

#[test]
fn limits_up_and_down_case() {
    // 15 -> 20 -> 15 -> 10 MiB with about 12 MiB in use, then a sane target.
    let mut sim = Sim::new(20 * MIB);
    sim.anon = 11 * MIB;
    let small = Policy { cpus: 1, headroom_min: Bytes::from_mib(1), ..policy() };
    let mut shrink = Shrink::new(small, sim);
    assert_eq!(shrink.run_to_end(15 * MIB, &mut idle()).verdict, Verdict::Committed);
    let refused = shrink.run_to_end(10 * MIB, &mut idle());
    assert_eq!(refused.verdict, Verdict::Refused(Reason::BelowSafeMinimum));
    let safe = refused.safe_minimum.unwrap();
    shrink.assert_limits(15 * MIB, Limit::Max);
    // The next sane target goes through at once, however often the other was refused.
    let certificate = shrink.run_to_end(safe.get(), &mut idle());
    assert_eq!(certificate.verdict, Verdict::Committed, "{certificate:#?}");
}

#[test]
fn too_low_again_and_again_is_backed_off_and_never_touched() {
    let mut sim = Sim::new(160 * MIB);
    sim.anon = 93 * MIB;
    let mut shrink = Shrink::new(policy(), sim);
    let first = shrink.run_to_end(64 * MIB, &mut idle());
    assert_eq!(first.verdict, Verdict::Refused(Reason::BelowSafeMinimum));
    for target in [64, 47, 60, 64] {
        let again = shrink.run_to_end(target * MIB, &mut idle());
        assert!(matches!(again.verdict, Verdict::Refused(Reason::BackOff { .. })), "{:?}", again.verdict);
        assert!(again.safe_minimum.unwrap() > Bytes::from_mib(93), "a refusal has the safe minimum");
    }
    assert!(shrink.commands.iter().all(|action| matches!(action, Action::Observe)));
    // The floor falls: it is tried at once.
    shrink.sim.anon = 40 * MIB;
    assert_eq!(shrink.run_to_end(64 * MIB, &mut idle()).verdict, Verdict::Committed);
}

#[test]
fn after_a_failed_trial_the_target_rests_and_rests_longer() {
    let mut shrink = Shrink::new(policy(), service());
    let fail = |shrink: &mut Shrink| {
        shrink.run_to(State::Trial, 100 * MIB, &mut idle());
        shrink.signal(&Signal::ProbeFailed);
        shrink.run_on(&mut idle());
        assert_eq!(shrink.certificate().verdict, Verdict::RolledBack(Reason::ProbeFailed));
    };
    let rests = |shrink: &mut Shrink, target: u64| -> Option<Micros> {
        let now = shrink.sim.now;
        match shrink.run_to_end(target, &mut idle()).verdict {
            Verdict::Refused(Reason::BackOff { until }) => Some(until.since(now)),
            Verdict::Committed => None,
            other @ (Verdict::Refused(_)
            | Verdict::RolledBack(_)
            | Verdict::Feasible
            | Verdict::Failed(_)) => {
                panic!("{other:?}")
            }
        }
    };
    fail(&mut shrink);
    let once = rests(&mut shrink, 100 * MIB).expect("a back-off");
    assert!(once <= Micros::from_secs(60));
    assert!(rests(&mut shrink, 90 * MIB).is_some(), "lower is no better");

    shrink.sim.now = shrink.sim.now.after(Micros::from_secs(61));
    fail(&mut shrink);
    let twice = rests(&mut shrink, 100 * MIB).expect("a back-off");
    assert!(twice > Micros::from_secs(100) && twice <= Micros::from_secs(120), "{twice:?}");
    // A higher target is another matter.
    assert_eq!(rests(&mut shrink, 130 * MIB), None);
}

/// A fall of the floor is what a kill leaves behind; it does not lift the back-off.
#[test]
fn after_a_kill_the_same_target_rests_though_the_floor_fell() {
    let mut shrink = Shrink::new(policy(), service());
    shrink.run_to(State::Watching, 100 * MIB, &mut idle());
    shrink.sim.events.oom += 1;
    shrink.sim.events.oom_kill += 1;
    shrink.sim.anon = MIB;
    shrink.run_on(&mut idle());
    assert_eq!(shrink.certificate().verdict, Verdict::RolledBack(Reason::OomKill { victim_pid: 0 }));
    shrink.assert_limits(160 * MIB, Limit::Max);
    let again = shrink.run_to_end(100 * MIB, &mut idle()).verdict;
    assert!(matches!(again, Verdict::Refused(Reason::BackOff { .. })), "{again:?}");
}

#[test]
fn idle_and_ended_want_nothing() {
    let mut gate = Gate::new(policy()).unwrap();
    assert_eq!((gate.state(), gate.poll_timeout(), gate.poll_command()), (State::Idle, None, None));
    assert!(gate.progress().is_none() && gate.certificate().is_none());
    for signal in [Signal::Gone, Signal::Cancel, Signal::ReclaimBegin, Signal::ProbeFailed] {
        gate.handle_signal(&signal, Instant::new(1));
        gate.handle_timeout(Instant::new(2));
        assert_eq!((gate.state(), gate.poll_timeout(), gate.poll_command()), (State::Idle, None, None));
    }
}

#[test]
fn progress_shows_each_state() {
    for state in STATES {
        let stepped = Stepped::stopped_in(state, policy());
        let progress = stepped.gate.progress().unwrap();
        assert_eq!(progress.state, state);
        assert_eq!(progress.target, Bytes::from_mib(100));
        assert!(progress.deadline > progress.since);
        assert_eq!(progress.brake.is_some(), lowered(state));
        if state != State::Observing {
            assert!(progress.usage > progress.floor && progress.floor > Bytes::from_mib(10));
            assert!(progress.safe_minimum.unwrap() > progress.peak_floor);
        }
        if matches!(state, State::Watching) {
            assert!(progress.window_end.is_some() && progress.reclaimed > Bytes::from_mib(30));
        }
    }
}

#[test]
fn a_note_of_the_callers_is_in_the_certificate() {
    let mut stepped = Stepped::stopped_in(State::Trial, policy());
    stepped.gate.note("-Xmx120m\x07 is over the target");
    for n in 0..100 {
        stepped.gate.note(&format!("{n}{}", "x".repeat(10_000)));
    }
    let (_, stepped) = stepped.into_end();
    let certificate = stepped.gate.certificate().unwrap();
    assert_eq!(certificate.notes[0], "-Xmx120m\\u{7} is over the target");
    assert!(certificate.notes.len() == 16 && certificate.notes.iter().all(|note| note.len() <= 400));
    assert_eq!(certificate.notes_dropped, 85);
}

#[test]
fn a_bad_policy_is_no_gate() {
    let bad = Policy { cpus: 0, sample_interval: Micros::ZERO, ..Policy::default() };
    assert_eq!(Gate::new(bad).unwrap_err().0.len(), 2);
}

#[test]
fn workloads_that_refill_as_fast_as_we_reclaim_are_left_to_the_brake() {
    let mut shrink = Shrink::new(policy(), service());
    let mut fast: Workload = Box::new(|sim| {
        let room = (150 * MIB).saturating_sub(sim.usage());
        sim.read_cache(room);
    });
    let certificate = shrink.run_to_end(100 * MIB, &mut fast);
    assert_eq!(certificate.verdict, Verdict::Committed, "{certificate:#?}");
}

#[test]
fn reclaim_that_frees_nothing_is_stuck() {
    let mut sim = service();
    sim.pinned = sim.cache;
    let mut shrink = Shrink::new(policy(), sim);
    let certificate = shrink.run_to_end(100 * MIB, &mut idle());
    assert!(
        matches!(certificate.verdict, Verdict::Refused(Reason::ReclaimStuck { usage }) if usage > Bytes::from_mib(100)),
        "{certificate:#?}"
    );
    assert!(certificate.reclaim.iter().all(|step| step.partial && step.freed == Bytes::ZERO));
}

/// As a kubelet does while its node agent makes way for it: reclaim by the kernel's own hand, then the limit.
fn written_by_another(stepped: &mut Stepped, target: u64) {
    let over = stepped.sim.usage().saturating_sub(target);
    stepped.sim.reclaim(over);
    stepped.sim.max = Limit::Bytes(Bytes::new(target));
}

#[test]
fn a_write_that_was_foretold_is_watched_as_the_gates_own() {
    for state in STATES.into_iter().filter(|state| *state != State::Watching) {
        for told in [true, false] {
            let mut stepped = Stepped::of_another(state);
            written_by_another(&mut stepped, 100 * MIB);
            if told {
                let new = stepped.sim.max;
                stepped.signal(&Signal::LimitWritten { file: LimitFile::Max, new, writer_pid: 1 });
            }
            let (verdict, stepped) = stepped.into_end();
            assert_eq!(verdict, Verdict::Committed, "in {state}, told: {told}");
            assert_eq!(
                (stepped.sim.high, stepped.sim.max),
                (Limit::Max, Limit::Bytes(Bytes::new(100 * MIB)))
            );
            let braked = stepped.actions.iter().any(|action| matches!(action, Action::SetBrake { .. }));
            assert!(braked, "in {state} nothing holds it while it is watched");
            let windows: Micros =
                stepped.gate.certificate().unwrap().states.iter().map(|state| state.took).sum();
            assert!(windows >= policy().watch_window, "{windows}");
        }
    }
}

/// Also where the gate had not lowered anything itself: what another was let do is taken back.
#[test]
fn a_write_that_was_foretold_is_taken_back_when_more_is_needed() {
    for state in STATES.into_iter().filter(|state| *state != State::Watching) {
        let mut stepped = Stepped::of_another(state);
        written_by_another(&mut stepped, 100 * MIB);
        stepped.sim.cache = 0;
        stepped.sim.anon = 97 * MIB;
        let new = stepped.sim.max;
        stepped.signal(&Signal::LimitWritten { file: LimitFile::Max, new, writer_pid: 1 });
        let (verdict, stepped) = stepped.into_end();
        assert!(matches!(verdict, Verdict::RolledBack(Reason::Growth { .. })), "in {state}: {verdict:?}");
        stepped.assert_as_found();
    }
}

/// Whoever stops the gate wants its hands off: what another has written too is theirs.
#[test]
fn stopped_it_leaves_what_another_has_written() {
    for state in STATES.into_iter().chain([State::Restoring]) {
        for (signal, reason) in
            [(Signal::Cancel, Reason::Cancelled), (Signal::ProbeFailed, Reason::ProbeFailed)]
        {
            let mut stepped = Stepped::of_another(state);
            written_by_another(&mut stepped, 100 * MIB);
            let target = stepped.sim.max;
            // While the brake is let go of it is too late to tell.
            let is_left = reason == Reason::Cancelled && state != State::Restoring;
            stepped.signal(&Signal::LimitWritten { file: LimitFile::Max, new: target, writer_pid: 1 });
            stepped.signal(&signal);
            let (verdict, stepped) = stepped.into_end();
            let certificate = stepped.gate.certificate().unwrap();
            assert_eq!(certificate.is_left(), is_left, "{signal:?} in {state}");
            assert_eq!(stepped.sim.high, stepped.found.0, "{signal:?} in {state}");
            if is_left {
                assert_eq!((verdict, stepped.sim.max), (Verdict::Refused(reason), target), "in {state}");
            } else {
                assert_eq!(verdict, stopped(state, reason), "in {state}");
            }
        }
        // Nobody else has written it.
        let mut stepped = Stepped::of_another(state);
        stepped.signal(&Signal::Cancel);
        let (verdict, stepped) = stepped.into_end();
        assert_eq!(verdict, stopped(state, Reason::Cancelled), "in {state}");
        stepped.assert_as_found();
    }
}

/// runc's update goes through systemd, which writes `memory.high` of the unit as well (seen with a kubelet of 1.35.8).
#[test]
fn a_brake_that_the_others_update_took_off_is_set_anew() {
    for state in [State::Trial, State::Committing, State::Watching] {
        for told in [true, false] {
            let mut stepped = Stepped::of_another(state);
            while stepped.sim.high == stepped.found.0 {
                stepped.step();
            }
            written_by_another(&mut stepped, 100 * MIB);
            stepped.sim.high = stepped.found.0;
            if told {
                let new = stepped.sim.high;
                stepped.signal(&Signal::LimitWritten { file: LimitFile::High, new, writer_pid: 1 });
            }
            let before = stepped.actions.len();
            let (verdict, stepped) = stepped.into_end();
            assert_eq!(verdict, Verdict::Committed, "in {state}, told: {told}");
            let again = stepped.actions[before..].iter();
            let again = again.filter(|action| matches!(action, Action::SetBrake { .. })).count();
            assert_eq!(again, 1, "in {state}, told: {told}");
            assert_eq!(
                (stepped.sim.high, stepped.sim.max),
                (Limit::Max, Limit::Bytes(Bytes::new(100 * MIB)))
            );
        }
        // Another value is somebody's who wants it.
        let mut stepped = Stepped::of_another(state);
        let theirs = Limit::Bytes(Bytes::from_mib(150));
        stepped.sim.high = theirs;
        stepped.signal(&Signal::LimitWritten { file: LimitFile::High, new: theirs, writer_pid: 1 });
        let (verdict, _) = stepped.into_end();
        let reason = Reason::LimitWritten { file: LimitFile::High, found: theirs };
        assert_eq!(verdict, Verdict::RolledBack(reason), "in {state}");
    }
}

#[test]
fn only_the_very_value_and_only_where_it_was_foretold() {
    for state in STATES.into_iter().filter(|state| *state != State::Watching) {
        for (foretold, bytes) in [(true, 99 * MIB), (true, 101 * MIB), (false, 100 * MIB)] {
            let mut stepped =
                if foretold { Stepped::of_another(state) } else { Stepped::stopped_in(state, policy()) };
            written_by_another(&mut stepped, bytes);
            let theirs = stepped.sim.max;
            stepped.signal(&Signal::LimitWritten { file: LimitFile::Max, new: theirs, writer_pid: 1 });
            if let Some(Command { action: Action::Restore { max: Some(_), .. }, .. }) = stepped.in_flight {
                stepped.sim.high = stepped.found.0;
                stepped.answer(OutcomeKind::Superseded { file: LimitFile::Max, found: theirs });
            }
            let (verdict, stepped) = stepped.into_end();
            if state == State::Committing && !foretold {
                // It can't be told from the gate's own.
                assert_eq!(verdict, Verdict::Committed);
                continue;
            }
            let reason = Reason::LimitWritten { file: LimitFile::Max, found: theirs };
            assert_eq!(verdict, stopped(state, reason), "in {state}");
            assert_eq!(stepped.sim.max, theirs, "theirs stays");
        }
    }
}
