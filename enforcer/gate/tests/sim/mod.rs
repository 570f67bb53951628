//! A small model of a memory cgroup and of a driver, to run whole shrinks purely: charging, `memory.high`
//! with its penalty, `memory.max` with reclaim and kill, `memory.reclaim`, swap. Time moves in ticks.
#![allow(dead_code, reason = "each test binary uses its part")]
#![expect(unreachable_pub, reason = "a module shared by test binaries")]

use enforcer_gate::{
    Action, AncestorLimit, Bytes, Certificate, Command, Gate, Instant, Limit, MemoryEvents, MemoryStat,
    Micros, Outcome, OutcomeKind, PAGE_SIZE, Policy, Pressure, Protection, Request, Sample, Signal, State,
    SwapRoom,
};

pub const MIB: u64 = 1024 * 1024;
pub const TICK: Micros = Micros::from_millis(1);

/// What the workload does in one tick.
pub type Workload = Box<dyn FnMut(&mut Sim)>;

#[expect(clippy::struct_excessive_bools, reason = "independent facts of a cgroup")]
pub struct Sim {
    pub now: Instant,
    pub max: Limit,
    pub high: Limit,
    pub anon: u64,
    pub shmem: u64,
    pub locked: u64,
    pub cache: u64,
    pub mapped: u64,
    pub dirty: u64,
    /// Cache that looks clean and that reclaim can't take all the same.
    pub pinned: u64,
    pub kernel: u64,
    pub slab: u64,
    pub swap_free: u64,
    pub swapped: u64,
    pub refault_pages: u64,
    pub pgsteal: u64,
    pub events: MemoryEvents,
    pub some: u64,
    pub full: u64,
    pub psi: bool,
    pub populated: bool,
    pub frozen: bool,
    pub frozen_below: Option<String>,
    pub protected: u64,
    pub ancestors: Vec<AncestorLimit>,
    /// The workload sleeps in the penalty until then.
    pub asleep_until: Instant,
    /// Signals that the kernel's side would give, not yet delivered.
    pub signals: Vec<Signal>,
    pub killed: bool,
}

impl Sim {
    pub fn new(max: u64) -> Self {
        Self {
            now: Instant::new(1_000_000),
            max: Limit::Bytes(Bytes::new(max)),
            high: Limit::Max,
            anon: 0,
            shmem: 0,
            locked: 0,
            cache: 0,
            mapped: 0,
            dirty: 0,
            pinned: 0,
            kernel: MIB / 2,
            slab: MIB / 8,
            swap_free: 0,
            swapped: 0,
            refault_pages: 0,
            pgsteal: 0,
            events: MemoryEvents::default(),
            some: 0,
            full: 0,
            psi: true,
            populated: true,
            frozen: false,
            frozen_below: None,
            protected: 0,
            ancestors: Vec::new(),
            asleep_until: Instant::ZERO,
            signals: Vec::new(),
            killed: false,
        }
    }

    pub fn usage(&self) -> u64 {
        self.anon + self.shmem + self.locked + self.cache + self.kernel
    }

    /// Frees up to `want`; what it freed.
    pub fn reclaim(&mut self, want: u64) -> u64 {
        let clean = self.cache.saturating_sub(self.dirty + self.protected + self.pinned);
        let from_cache = clean.min(want);
        self.cache -= from_cache;
        self.mapped = self.mapped.min(self.cache);
        let from_anon = (want - from_cache).min(self.anon).min(self.swap_free);
        self.anon -= from_anon;
        self.swap_free -= from_anon;
        self.swapped += from_anon;
        self.pgsteal += (from_cache + from_anon) / PAGE_SIZE;
        from_cache + from_anon
    }

    /// Charges `bytes` to one of the counters, with all that follows; nothing while the workload sleeps.
    pub fn charge(&mut self, bytes: u64, to: impl Fn(&mut Self) -> &mut u64) {
        if self.killed || self.now < self.asleep_until {
            return;
        }
        let bytes = bytes / PAGE_SIZE * PAGE_SIZE;
        if let Limit::Bytes(max) = self.max {
            let over = (self.usage() + bytes).saturating_sub(max.get());
            if over > 0 {
                self.events.max += 1;
                let freed = self.reclaim(over);
                if freed < over {
                    self.events.oom += 1;
                    self.events.oom_kill += 1;
                    self.killed = true;
                    self.anon = 0;
                    self.locked = 0;
                    self.signals.push(Signal::OomKill { victim_pid: 4242, own_limit: true });
                    return;
                }
            }
        }
        *to(self) += bytes;
        if let Limit::Bytes(high) = self.high {
            let over = self.usage().saturating_sub(high.get());
            if over > 0 {
                self.events.high += 1;
                self.signals.push(Signal::ReclaimBegin);
                let want = over.max(64 * PAGE_SIZE);
                let freed = self.reclaim(want);
                // Reclaim of clean cache costs some microseconds a batch.
                self.stall(5);
                let reclaimed = Bytes::new(freed);
                self.signals.push(Signal::ReclaimEnd { reclaimed, took: Micros::new(5) });
                let left = self.usage().saturating_sub(high.get());
                self.penalty(left, high.get(), bytes);
            }
        }
    }

    /// `calculate_high_delay`: 64 f^2 seconds a batch, nothing under 10 ms, 2 s at most.
    fn penalty(&mut self, over: u64, high: u64, charged: u64) {
        let f = u128::from(over << 20) / u128::from(high.max(1));
        let batches = u128::from((charged / (64 * PAGE_SIZE)).max(1));
        let micros = (f * f * 1_000_000 * batches) >> 34;
        if micros >= 10_000 {
            let micros = u64::try_from(micros.min(2_000_000)).expect("two million at most");
            self.asleep_until = self.now.after(Micros::new(micros));
        }
    }

    pub fn stall(&mut self, micros: u64) {
        self.some += micros;
        self.full += micros;
    }

    /// Reads file data in: cache that is not there yet is charged.
    pub fn read_cache(&mut self, bytes: u64) {
        self.charge(bytes, |sim| &mut sim.cache);
    }

    pub fn tick(&mut self, workload: &mut Workload) {
        self.now = self.now.after(TICK);
        if self.now < self.asleep_until {
            self.stall(TICK.get());
        }
        if self.populated && !self.killed && !self.frozen {
            workload(self);
        }
    }

    pub fn sample(&self) -> Sample {
        let b = Bytes::new;
        Sample {
            current: b(self.usage()),
            max: self.max,
            high: self.high,
            stat: MemoryStat {
                anon: b(self.anon + self.locked),
                file: b(self.cache + self.shmem),
                kernel: b(self.kernel),
                shmem: b(self.shmem),
                file_mapped: b(self.mapped),
                file_dirty: b(self.dirty),
                inactive_anon: b(self.anon + self.shmem),
                inactive_file: b(self.cache),
                unevictable: b(self.locked),
                slab_reclaimable: b(self.slab),
                workingset_refault_file: self.refault_pages,
                pgsteal: self.pgsteal,
                ..MemoryStat::default()
            },
            events_local: self.events,
            events: self.events,
            pressure: self
                .psi
                .then(|| Pressure { some_total: Micros::new(self.some), full_total: Micros::new(self.full) }),
            protection: Protection { min: b(self.protected), low: b(0) },
            swap: SwapRoom { free: b(self.swap_free), zswap: false },
            hugetlb: b(0),
            populated: self.populated,
            frozen: self.frozen,
            frozen_below: self.frozen_below.clone(),
            ancestors: self.ancestors.clone(),
        }
    }

    /// Carries a command out, as the real driver would.
    pub fn execute(&mut self, command: &Command, found: (Limit, Limit)) -> Outcome {
        let kind = match &command.action {
            Action::Observe => OutcomeKind::Sampled(Box::new(self.sample())),
            Action::Reclaim { bytes } => {
                let freed = self.reclaim(bytes.get());
                OutcomeKind::Reclaimed {
                    took: Micros::new(100 + freed / MIB * 50),
                    partial: freed < bytes.get(),
                }
            }
            Action::SetBrake { high } => {
                assert!(*high < self.high, "a brake only lowers");
                self.high = *high;
                if let Limit::Bytes(high) = *high {
                    self.reclaim(self.usage().saturating_sub(high.get()));
                }
                OutcomeKind::Done
            }
            Action::Commit { max, usage_at_most } => {
                if self.usage() > usage_at_most.get() {
                    OutcomeKind::UsageTooHigh { usage: Bytes::new(self.usage()) }
                } else {
                    self.max = Limit::Bytes(*max);
                    OutcomeKind::Done
                }
            }
            Action::Restore { high, max } => {
                if let Some(high) = high {
                    assert_eq!(*high, found.0, "memory.high goes back as found");
                    self.high = *high;
                    self.asleep_until = self.asleep_until.min(self.now);
                }
                if let Some(max) = max {
                    assert_eq!(*max, found.1, "memory.max goes back as found");
                    self.max = *max;
                }
                OutcomeKind::Done
            }
        };
        Outcome { id: command.id, kind }
    }
}

/// One whole shrink of a simulated cgroup.
pub struct Shrink {
    pub gate: Gate,
    pub sim: Sim,
    pub commands: Vec<Action>,
    /// State by state, as entered.
    pub states: Vec<State>,
    /// The limits when the shrink was asked for: high, max.
    found: (Limit, Limit),
}

impl Shrink {
    pub fn new(policy: Policy, sim: Sim) -> Self {
        let gate = Gate::new(policy).expect("a valid policy");
        let found = (sim.high, sim.max);
        Self { gate, sim, commands: Vec::new(), states: Vec::new(), found }
    }

    pub fn request(&mut self, target: u64) {
        self.found = (self.sim.high, self.sim.max);
        let request =
            Request { target: Bytes::new(target), dry_run: false, pressure_killer: None, by_other: false };
        self.signal(&Signal::Request(request));
    }

    pub fn signal(&mut self, signal: &Signal) {
        self.gate.handle_signal(signal, self.sim.now);
        self.note_state();
    }

    fn note_state(&mut self) {
        let state = self.gate.state();
        if self.states.last() != Some(&state) {
            self.states.push(state);
        }
    }

    /// Runs until the gate has ended or for so many ticks; `each` may interfere.
    pub fn run(
        &mut self,
        workload: &mut Workload,
        ticks_max: u64,
        mut each: impl FnMut(&mut Gate, &mut Sim),
    ) {
        for _ in 0..ticks_max {
            self.sim.tick(workload);
            each(&mut self.gate, &mut self.sim);
            let now = self.sim.now;
            for signal in std::mem::take(&mut self.sim.signals) {
                self.gate.handle_signal(&signal, now);
            }
            if self.gate.poll_timeout().is_some_and(|at| at <= now) {
                self.gate.handle_timeout(now);
            }
            self.note_state();
            while let Some(command) = self.gate.poll_command() {
                let outcome = self.sim.execute(&command, self.found);
                self.commands.push(command.action);
                self.gate.handle_outcome(&outcome, now);
                self.note_state();
            }
            if self.gate.state() == State::Ended {
                return;
            }
        }
    }

    /// Runs a shrink to its end.
    pub fn run_to_end(&mut self, target: u64, workload: &mut Workload) -> Certificate {
        self.request(target);
        self.run_on(workload);
        self.certificate()
    }

    /// Runs to the end what is on its way.
    pub fn run_on(&mut self, workload: &mut Workload) {
        self.run(workload, 120_000, |_, _| {});
        assert_eq!(self.gate.state(), State::Ended, "a shrink ends");
    }

    /// Asks for a shrink and runs it until a state is reached.
    pub fn run_to(&mut self, state: State, target: u64, workload: &mut Workload) {
        self.request(target);
        for _ in 0..120_000 {
            if self.gate.state() == state {
                return;
            }
            self.run(workload, 1, |_, _| {});
        }
        panic!("{state} is not reached, but {:?}", self.states);
    }

    /// The evidence, which has to be without contradiction.
    pub fn certificate(&self) -> Certificate {
        let certificate = self.gate.certificate().expect("it has ended").clone();
        let faults = certificate.check();
        assert!(faults.is_empty(), "{faults:?} in {certificate:#?}");
        certificate
    }

    /// Nothing of ours is left: both limits are as given.
    pub fn assert_limits(&self, max: u64, high: Limit) {
        assert_eq!(self.sim.max, Limit::Bytes(Bytes::new(max)), "memory.max");
        assert_eq!(self.sim.high, high, "memory.high");
    }
}

pub fn idle() -> Workload {
    Box::new(|_| {})
}

/// Windows as short as a test likes them, two CPUs.
pub fn policy() -> Policy {
    Policy {
        observe_window: Micros::from_millis(500),
        trial_window: Micros::from_secs(2),
        watch_window: Micros::from_secs(1),
        sample_interval: Micros::from_millis(50),
        cpus: 2,
        ..Policy::default()
    }
}
