//! An adversarial world around a gate: readings, outcomes, signals and time as a trace has them, and every
//! command checked against the invariants as it comes.
#![expect(unreachable_pub, reason = "a module of a test binary")]

use enforcer_gate::{
    Action, Bytes, Certificate, Command, Floor, Gate, Headroom, Instant, Limit, LimitFile, MemoryEvents,
    MemoryStat, Micros, Outcome, OutcomeKind, Policy, Pressure, PressureKiller, Protection, Reason, Request,
    Sample, Signal, State, SwapRoom, Verdict,
};

/// One thing that the world does.
#[derive(Debug, Clone)]
pub enum Op {
    /// What a working node does next: answers the command in flight, or lets time pass to the time-out.
    Proceed,
    /// Answers the command in flight as asked, if there is one.
    Answer(Answer),
    /// Time moves to the gate's time-out, plus so much.
    Timeout(u64),
    /// Time moves on by so many microseconds, without a time-out call.
    Wait(u64),
    /// Time moves on by so many microseconds, then the time-out call.
    Jump(u64),
    /// Something happens.
    Signal(Signal),
    /// A request for so many thousandths of the limit in force.
    Request { permille: u64, dry_run: bool, killer: bool, by_other: bool },
    /// Somebody else writes the limit that was asked for, as was foretold, and says so or not.
    Other { told: bool },
    /// An outcome that answers nothing in flight.
    Stray(u64),
    /// The workload changes.
    Workload(Workload),
}

/// How a command is answered.
#[derive(Debug, Clone)]
pub enum Answer {
    /// As a working node would.
    Well,
    /// It fails.
    Fail,
    /// Somebody else's value is in the file.
    Superseded,
    /// The cgroup is gone.
    Gone,
    /// The commit's check finds too much.
    TooHigh,
    /// With something that does not answer it.
    Wrong,
}

/// What the files say besides the limits.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a cgroup")]
pub struct Workload {
    pub anon: u64,
    pub cache: u64,
    pub dirty: u64,
    pub high_events: u64,
    pub stall: u64,
    pub refaults: u64,
    pub oom: bool,
    pub populated: bool,
    pub frozen: bool,
    pub pressure: bool,
}

impl Workload {
    pub const fn quiet() -> Self {
        Self {
            anon: 20 << 20,
            cache: 60 << 20,
            dirty: 0,
            high_events: 0,
            stall: 0,
            refaults: 0,
            oom: false,
            populated: true,
            frozen: false,
            pressure: true,
        }
    }
}

/// What came of a trace.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub commands: Vec<Command>,
    pub states: Vec<State>,
    pub certificates: Vec<Certificate>,
}

/// What one shrink did so far, as seen from outside.
#[derive(Debug, Default)]
struct Shrink {
    braked: bool,
    commit_asked: bool,
    max_may_be_ours: bool,
    restores: Vec<(Option<Limit>, Option<Limit>)>,
    /// `memory.max` before another wrote what was asked for.
    before_other: Option<Limit>,
}

pub struct World {
    pub gate: Gate,
    pub now: Instant,
    policy: Policy,
    max: Limit,
    high: Limit,
    found: (Limit, Limit),
    workload: Workload,
    counters: Workload,
    reclaimed_pages: u64,
    in_flight: Option<(Command, Instant)>,
    last_sample: Option<Sample>,
    shrink: Shrink,
    /// What another may write too.
    foretold: Option<Bytes>,
    ended_before: bool,
    pub record: Record,
}

pub const MAX: u64 = 100 << 20;

impl World {
    pub fn new(policy: &Policy) -> Self {
        Self {
            gate: Gate::new(policy.clone()).expect("a valid policy"),
            now: Instant::new(1),
            policy: policy.clone(),
            max: Limit::Bytes(Bytes::new(MAX)),
            high: Limit::Max,
            found: (Limit::Bytes(Bytes::new(MAX)), Limit::Max),
            workload: Workload::quiet(),
            counters: Workload { stall: 0, high_events: 0, refaults: 0, ..Workload::quiet() },
            reclaimed_pages: 0,
            in_flight: None,
            last_sample: None,
            shrink: Shrink::default(),
            foretold: None,
            ended_before: true,
            record: Record::default(),
        }
    }

    pub fn set_high(&mut self, high: u64) {
        self.high = Limit::Bytes(Bytes::new(high));
    }

    fn sample(&mut self) -> Sample {
        let w = self.workload;
        self.counters.high_events = self.counters.high_events.saturating_add(w.high_events);
        self.counters.stall = self.counters.stall.saturating_add(w.stall);
        self.counters.refaults = self.counters.refaults.saturating_add(w.refaults);
        let b = Bytes::new;
        let oom = u64::from(w.oom);
        let events =
            MemoryEvents { high: self.counters.high_events, oom, oom_kill: oom, ..MemoryEvents::default() };
        Sample {
            current: b(w.anon.saturating_add(w.cache)),
            max: self.max,
            high: self.high,
            stat: MemoryStat {
                anon: b(w.anon),
                file: b(w.cache),
                inactive_anon: b(w.anon),
                inactive_file: b(w.cache),
                file_dirty: b(w.dirty),
                workingset_refault_file: self.counters.refaults,
                pgsteal: self.reclaimed_pages,
                ..MemoryStat::default()
            },
            events_local: events,
            events,
            pressure: w.pressure.then(|| Pressure {
                some_total: Micros::new(self.counters.stall),
                full_total: Micros::new(self.counters.stall / 2),
            }),
            protection: Protection::default(),
            swap: SwapRoom::default(),
            hugetlb: Bytes::ZERO,
            populated: w.populated,
            frozen: w.frozen,
            frozen_below: None,
            ancestors: vec![],
        }
    }

    /// Carries a trace out, checking as it goes; then lets time pass until everything has ended.
    pub fn carry_out(&mut self, ops: &[Op]) {
        for op in ops {
            self.step(op);
            self.look();
        }
        // Whatever happened, time alone ends it, in a bounded number of calls.
        for _ in 0..1_000 {
            let Some(at) = self.gate.poll_timeout() else { break };
            self.now = self.now.max(at);
            self.gate.handle_timeout(self.now);
            self.look();
        }
        let state = self.gate.state();
        assert!(matches!(state, State::Idle | State::Ended), "left in {state} for ever");
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Proceed if self.in_flight.is_some() => self.step(&Op::Answer(Answer::Well)),
            Op::Proceed => self.step(&Op::Timeout(0)),
            Op::Answer(answer) => {
                self.now = self.now.after(Micros::new(200));
                self.answer(answer);
            }
            Op::Timeout(late) => {
                if let Some(at) = self.gate.poll_timeout() {
                    self.now = self.now.max(at).after(Micros::new(*late));
                    self.gate.handle_timeout(self.now);
                }
            }
            Op::Wait(micros) => self.now = self.now.after(Micros::new(*micros)),
            Op::Jump(micros) => {
                self.now = self.now.after(Micros::new(*micros));
                self.gate.handle_timeout(self.now);
            }
            Op::Signal(signal) => self.gate.handle_signal(signal, self.now),
            Op::Request { permille, dry_run, killer, by_other } => {
                let target = match self.max {
                    Limit::Bytes(max) => max.scaled(*permille, 1000),
                    Limit::Max => Bytes::new(MAX),
                };
                let pressure_killer = killer.then(|| PressureKiller {
                    pid: 7,
                    comm: "oomd\x1b[2J".into(),
                    cgroup: "/slice\n".into(),
                });
                let (dry_run, by_other) = (*dry_run, *by_other);
                let is_new = matches!(self.gate.state(), State::Idle | State::Ended);
                if is_new {
                    self.foretold = by_other.then(|| target.page_floor());
                }
                let request = Request { target, dry_run, pressure_killer, by_other };
                self.gate.handle_signal(&Signal::Request(request), self.now);
            }
            Op::Other { told } => self.other_writes(*told),
            Op::Stray(id) => {
                let busy = self.in_flight.as_ref().map(|(command, _)| command.id.0);
                if busy != Some(*id) {
                    let outcome = Outcome { id: enforcer_gate::CommandId(*id), kind: OutcomeKind::Done };
                    let before = (self.gate.state(), self.gate.poll_timeout());
                    self.gate.handle_outcome(&outcome, self.now);
                    assert_eq!(before, (self.gate.state(), self.gate.poll_timeout()), "a stray outcome");
                }
            }
            Op::Workload(workload) => self.workload = *workload,
        }
    }

    /// The foretold write, before the gate's own or after.
    fn other_writes(&mut self, told: bool) {
        let running = !matches!(self.gate.state(), State::Idle | State::Ended | State::Restoring);
        let Some(target) = self.foretold.filter(|_| running) else { return };
        let new = Limit::Bytes(target);
        if self.shrink.commit_asked {
            if told && new == self.max {
                self.gate.handle_signal(
                    &Signal::LimitWritten { file: LimitFile::Max, new, writer_pid: 3 },
                    self.now,
                );
            }
        } else if new < self.max {
            self.shrink.before_other = Some(self.max);
            self.max = new;
            if told {
                self.gate.handle_signal(
                    &Signal::LimitWritten { file: LimitFile::Max, new, writer_pid: 3 },
                    self.now,
                );
            }
        }
    }

    fn answer(&mut self, answer: &Answer) {
        let Some((command, _)) = self.in_flight.take() else { return };
        let kind = match answer {
            Answer::Well => self.carry(&command.action),
            Answer::Fail => OutcomeKind::Failed { what: "write memory.x: \x07".into(), errno: 5 },
            Answer::Superseded => {
                let other = Limit::Bytes(Bytes::new(77 << 20));
                let file = match command.action {
                    Action::Commit { .. } => LimitFile::Max,
                    Action::SetBrake { .. }
                    | Action::Restore { .. }
                    | Action::Observe
                    | Action::Reclaim { .. } => LimitFile::High,
                };
                match file {
                    LimitFile::High => self.high = other,
                    LimitFile::Max => self.max = other,
                }
                if let Action::Restore { max: Some(max), .. } = command.action {
                    self.max = max;
                }
                OutcomeKind::Superseded { file, found: other }
            }
            Answer::Gone => OutcomeKind::Gone,
            Answer::TooHigh => match command.action {
                Action::Commit { .. } => {
                    self.shrink.max_may_be_ours = false;
                    OutcomeKind::UsageTooHigh { usage: Bytes::new(u64::MAX) }
                }
                Action::Observe
                | Action::Reclaim { .. }
                | Action::SetBrake { .. }
                | Action::Restore { .. } => self.carry(&command.action),
            },
            Answer::Wrong => match command.action {
                Action::Observe => OutcomeKind::Done,
                Action::Reclaim { .. } | Action::SetBrake { .. } | Action::Commit { .. } => {
                    OutcomeKind::Sampled(Box::new(self.sample()))
                }
                Action::Restore { .. } => OutcomeKind::Failed { what: String::new(), errno: 0 },
            },
        };
        if let OutcomeKind::Sampled(sample) = &kind {
            self.last_sample = Some((**sample).clone());
        }
        self.gate.handle_outcome(&Outcome { id: command.id, kind }, self.now);
    }

    fn carry(&mut self, action: &Action) -> OutcomeKind {
        match action {
            Action::Observe => OutcomeKind::Sampled(Box::new(self.sample())),
            Action::Reclaim { bytes } => {
                let taken = self.workload.cache.saturating_sub(self.workload.dirty).min(bytes.get());
                self.workload.cache -= taken;
                self.reclaimed_pages += taken / 4096;
                OutcomeKind::Reclaimed { took: Micros::new(300), partial: taken < bytes.get() }
            }
            Action::SetBrake { high } => {
                self.high = *high;
                OutcomeKind::Done
            }
            Action::Commit { max, usage_at_most } => {
                let usage = Bytes::new(self.workload.anon.saturating_add(self.workload.cache));
                if usage > *usage_at_most {
                    self.shrink.max_may_be_ours = false;
                    return OutcomeKind::UsageTooHigh { usage };
                }
                self.max = Limit::Bytes(*max);
                OutcomeKind::Done
            }
            Action::Restore { high, max } => {
                self.high = high.unwrap_or(self.high);
                self.max = max.unwrap_or(self.max);
                OutcomeKind::Done
            }
        }
    }

    /// Fetches commands and checks everything that can be seen.
    fn look(&mut self) {
        while let Some(command) = self.gate.poll_command() {
            self.one_in_flight(&command);
            self.command(&command.action);
            self.in_flight = Some((command.clone(), self.now));
            self.record.commands.push(command);
        }
        let state = self.gate.state();
        if self.record.states.last() != Some(&state) {
            self.record.states.push(state);
        }
        let running = !matches!(state, State::Idle | State::Ended);
        assert_eq!(running, self.gate.poll_timeout().is_some(), "no state without a deadline");
        assert_eq!(running, self.gate.progress().is_some());
        if running {
            self.ended_before = false;
        } else if !self.ended_before {
            self.ended_before = true;
            let certificate = self.gate.certificate().expect("evidence of every end").clone();
            self.end(&certificate);
            self.record.certificates.push(certificate);
            self.shrink = Shrink::default();
            self.last_sample = None;
        }
    }

    /// At most one command in flight; a restore takes the place of another; an overdue one is given up.
    fn one_in_flight(&self, command: &Command) {
        if let Some((other, since)) = &self.in_flight {
            let restore = matches!(command.action, Action::Restore { .. });
            let overdue = self.now.since(*since) >= Micros::from_millis(10);
            let given_up = overdue && self.gate.state() == State::Observing;
            assert!(restore || given_up, "{command:?} while {other:?} is in flight");
        }
    }

    fn command(&mut self, action: &Action) {
        match action {
            Action::Observe => {}
            Action::Reclaim { bytes } => assert!(*bytes > Bytes::ZERO, "a step asks for something"),
            Action::SetBrake { high } => {
                self.found = (self.shrink.before_other.unwrap_or(self.max), self.high);
                let sample = self.last_sample.as_ref().expect("a reading before a brake");
                assert!(*high < sample.high, "a brake only lowers");
                let floor = Floor::of(sample, &self.policy).bytes;
                assert!(Limit::Bytes(floor) <= *high, "braked at {high:?}, under the floor {floor:?}");
                self.shrink.braked = true;
            }
            Action::Commit { max, usage_at_most } => {
                let sample = self.last_sample.as_ref().expect("a reading before a commit");
                if !self.shrink.braked {
                    self.found = (self.shrink.before_other.unwrap_or(self.max), self.high);
                }
                let overtaken = self.shrink.before_other.is_some();
                assert!(overtaken || Limit::Bytes(*max) < sample.max, "a commit only lowers");
                assert!(usage_at_most < max, "room to spare right before the write");
                let floor = Floor::of(sample, &self.policy).bytes;
                let headroom = Headroom::at(*max, Bytes::ZERO, &self.policy).to_hold();
                assert!(
                    floor.saturating_add(headroom) <= *max,
                    "lowered to {max:?} under floor {floor:?} and headroom {headroom:?}"
                );
                self.shrink.commit_asked = true;
                self.shrink.max_may_be_ours = true;
            }
            Action::Restore { high, max } => {
                if !self.shrink.braked && !self.shrink.commit_asked {
                    self.found = (self.shrink.before_other.unwrap_or(self.max), self.high);
                }
                assert!(high.is_none_or(|high| high == self.found.1), "memory.high goes back as found");
                assert!(max.is_none_or(|max| max == self.found.0), "memory.max goes back as found");
                assert!(high.is_some() || max.is_some(), "a restore restores something");
                self.shrink.restores.push((*high, *max));
            }
        }
    }

    fn end(&self, certificate: &Certificate) {
        let shrink = &self.shrink;
        let faults = certificate.check();
        assert!(faults.is_empty(), "{faults:?} in {certificate:#?}");
        let line = certificate.one_line();
        assert!(line.len() <= 1024 && line.bytes().all(|b| (0x20..0x7f).contains(&b)), "{line:?}");
        let json = serde_json::to_string(certificate).expect("a certificate is JSON");
        let back: Certificate = serde_json::from_str(&json).expect("and reads back");
        assert_eq!(&back, certificate);

        let lowered = shrink.braked || shrink.commit_asked;
        let gone = certificate.verdict == Verdict::Failed(Reason::Gone);
        let restored_high = shrink.restores.iter().any(|(high, _)| *high == Some(self.found.1));
        let restored_max = shrink.restores.iter().any(|(_, max)| *max == Some(self.found.0));
        match &certificate.verdict {
            Verdict::Committed => {
                assert!(shrink.commit_asked && !restored_max);
                assert!(!shrink.braked || restored_high, "the brake is off");
            }
            Verdict::Refused(_) if certificate.is_left() => {
                assert!(!shrink.braked || restored_high, "the brake is off");
                assert!(!restored_max, "what another wrote was put back");
            }
            Verdict::Feasible | Verdict::Refused(_) => assert!(!lowered, "a refusal lowered something"),
            Verdict::RolledBack(_) => {
                assert!(!shrink.braked || restored_high, "every way back restores memory.high");
                assert!(!shrink.max_may_be_ours || restored_max, "every way back restores memory.max");
            }
            Verdict::Failed(reason) => {
                assert!(gone || lowered || shrink.before_other.is_some(), "a failure without a write");
                assert!(gone || !shrink.braked || restored_high, "{reason:?} without a try");
            }
        }
        if certificate.dry_run {
            assert!(!lowered, "a dry run changes nothing");
        }
    }
}
