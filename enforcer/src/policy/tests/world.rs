//! A model of a node: containers that need, press, are killed and start anew, and a gate that takes its time.

use super::*;

/// Numbers that are the same for the same seed.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// From zero to `below`, which is left out.
    pub(super) fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below.max(1)
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }
}

/// How a container's need goes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Workload {
    /// It stays.
    Steady(u64),
    /// It goes up and down by a few MiB at a time, within bounds.
    Walk(u64),
    /// It is high for a part of every period.
    Period { low: u64, high: u64, period: Micros },
}

/// What may go wrong; one in so many readings, zero for never.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trouble {
    pub(super) pressure: u64,
    pub(super) unread: u64,
    pub(super) raise: u64,
    pub(super) restart: u64,
    pub(super) pause: u64,
    /// Of attempts.
    pub(super) fail: u64,
}

#[derive(Debug)]
pub(super) struct Container {
    pub(super) slot: Slot,
    pub(super) rules: Rules,
    pub(super) workload: Workload,
    /// The limit that it starts with.
    pub(super) specified: u64,
    pub(super) cgroup: u64,
    pub(super) limit: u64,
    pub(super) need: u64,
    pub(super) started: Instant,
    flight: Option<(Bytes, Instant)>,
}

/// What happened, in the order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Happened {
    /// What was seen, and what was decided on it.
    Looked(Seen, Decision),
    Ended(Bytes, Ended),
    Killed(u64),
    Started,
}

/// One line of the node's story: when, of which container.
pub(super) type Line = (Instant, usize, Happened);

#[derive(Debug)]
pub(super) struct World {
    pub(super) scheduler: Scheduler,
    pub(super) containers: Vec<Container>,
    pub(super) now: Instant,
    pub(super) story: Vec<Line>,
    trouble: Trouble,
    dice: Dice,
    cgroups: u64,
    paused: bool,
}

impl Container {
    pub(super) fn new(slot: Slot, rules: Rules, workload: Workload, specified: u64) -> Self {
        Self {
            slot,
            rules,
            workload,
            specified,
            cgroup: 0,
            limit: specified,
            need: workload.at(Instant::new(0), 0, &mut Dice::new(1)),
            started: Instant::new(0),
            flight: None,
        }
    }

    /// What the gate would let in: what is needed and a twelfth.
    pub(super) fn safe_minimum(&self) -> Bytes {
        mib(self.need).scaled(13, 12)
    }
}

impl Workload {
    fn at(self, now: Instant, before: u64, dice: &mut Dice) -> u64 {
        match self {
            Self::Steady(need) => need,
            Self::Walk(most) => (before.max(8) + dice.roll(9)).saturating_sub(4).clamp(8, most),
            Self::Period { low, high, period } => {
                if now.get() % period.get() < period.get() / 10 {
                    high
                } else {
                    low
                }
            }
        }
    }
}

impl World {
    pub(super) fn new(
        changes_per_hour: u32,
        containers: Vec<Container>,
        trouble: Trouble,
        seed: u64,
    ) -> Self {
        let mut world = Self {
            scheduler: Scheduler::new(changes_per_hour),
            containers: Vec::new(),
            now: Instant::new(3_000_000_000 + seed % 1_000_000_000),
            story: Vec::new(),
            trouble,
            dice: Dice::new(seed),
            cgroups: 1,
            paused: false,
        };
        for container in containers {
            let cgroup = world.next_cgroup();
            world.containers.push(Container { cgroup, started: world.now, ..container });
        }
        world
    }

    fn next_cgroup(&mut self) -> u64 {
        self.cgroups += 1;
        self.cgroups
    }

    fn strikes(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.dice.one_in(one_in)
    }

    pub(super) fn run(&mut self, span: Micros, step: Micros) {
        let end = self.now.after(span);
        while self.now < end {
            self.now = self.now.after(step);
            if self.strikes(self.trouble.pause) {
                self.paused = !self.paused;
            }
            for at in 0..self.containers.len() {
                self.live(at);
                self.land(at);
                self.look(at);
            }
        }
    }

    /// What the container itself does.
    fn live(&mut self, at: usize) {
        let (now, mut dice) = (self.now, self.dice.clone());
        let container = &mut self.containers[at];
        // Its owner gave it what it needs.
        container.need = container.workload.at(now, container.need, &mut dice).min(container.specified);
        self.dice = dice;
        let container = &self.containers[at];
        let killed = container.need > container.limit;
        if killed {
            let Container { limit, slot, .. } = container;
            self.story.push((now, at, Happened::Killed(*limit)));
            self.scheduler.oom_killed(now, slot);
        }
        if killed || self.strikes(self.trouble.restart) {
            let cgroup = self.next_cgroup();
            let container = &mut self.containers[at];
            container.cgroup = cgroup;
            container.limit = container.specified;
            container.started = now;
            self.story.push((now, at, Happened::Started));
            if let Some((target, _)) = self.containers[at].flight.take() {
                self.ended(at, target, Ended::Unjudged);
            }
        }
        if self.strikes(self.trouble.raise) {
            let container = &mut self.containers[at];
            container.limit = container.specified.max(container.limit);
        }
    }

    /// The gate says how an attempt ended.
    fn land(&mut self, at: usize) {
        let Some((target, until)) = self.containers[at].flight else { return };
        if self.now < until {
            return;
        }
        let fails = self.strikes(self.trouble.fail);
        let how = self.dice.roll(3);
        let container = &mut self.containers[at];
        container.flight = None;
        let ended = match how {
            _ if target < container.safe_minimum() => Ended::TooLow,
            0 if fails => Ended::TooLow,
            1 if fails => Ended::Failed,
            _ if fails => Ended::Unjudged,
            _ => Ended::Committed,
        };
        if ended == Ended::Committed {
            container.limit = target.get() >> 20;
        }
        self.ended(at, target, ended);
    }

    fn ended(&mut self, at: usize, target: Bytes, ended: Ended) {
        self.story.push((self.now, at, Happened::Ended(target, ended)));
        self.scheduler.ended(self.now, &self.containers[at].slot, ended);
    }

    fn look(&mut self, at: usize) {
        let pressed = self.strikes(self.trouble.pressure);
        let unread = self.strikes(self.trouble.unread);
        let psi_some_avg10 = if pressed { self.dice.roll(2_000) } else { 0 };
        let container = &self.containers[at];
        let mut others = self.containers.iter().enumerate().filter(|(other, _)| *other != at);
        let pod_busy =
            others.any(|(_, other)| other.slot.pod == container.slot.pod && other.flight.is_some());
        let seen = Seen {
            cgroup: CgroupId::new(container.cgroup),
            limit: limit(container.limit),
            usage: mib(container.need.max(container.limit / 2)),
            safe_minimum: (!unread).then(|| container.safe_minimum()),
            psi_some_avg10,
            in_flight: container.flight.is_some(),
            paused: self.paused,
            // The schedule is to know of its own attempts without being told.
            pod_busy: pod_busy && self.dice.one_in(2),
        };
        let decision = self.scheduler.consider(self.now, &container.slot, &container.rules, &seen);
        self.story.push((self.now, at, Happened::Looked(seen, decision)));
        if let Decision::Shrink { target, .. } = decision {
            let until = self.now.after(Micros::from_secs(self.dice.roll(90)));
            self.containers[at].flight = Some((target, until));
        }
    }

    /// Targets of attempts, with when and how they ended.
    pub(super) fn ends(&self, of: usize) -> Vec<(Instant, Bytes, Ended)> {
        let end = |(when, at, happened): &Line| match happened {
            Happened::Ended(target, ended) if *at == of => Some((*when, *target, *ended)),
            Happened::Ended(..) | Happened::Looked(..) | Happened::Killed(_) | Happened::Started => None,
        };
        self.story.iter().filter_map(end).collect()
    }
}
