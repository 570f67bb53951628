//! What is known of one container, and when its turn is.

use super::{Ended, INTERVAL_MIN, Rules, Seen, Why, defaults::MIB, need::Need, target::target};
use enforcer_gate::{Bytes, CgroupId, Instant, Limit, Micros};

/// A kill blocks a container for so many intervals.
pub const OOM_KILL_INTERVALS: u64 = 12;
/// How long it is remembered that a limit was too low.
pub const LEARNED_FOR: Micros = Micros::from_secs(7 * 24 * 3600);
/// So many intervals without trouble halve the interval: more than one, or the wait before each attempt would undo what
/// the attempt before has taught.
const CALM_INTERVALS: u64 = 2;
/// The kernel's average has seen nothing new before this.
const PRESSURE_WINDOW: Micros = Micros::from_secs(10);
/// An attempt of which nobody has heard for this long is lost.
const FLIGHT_LOST: Micros = Micros::from_secs(600);

/// One container of the schedule.
#[derive(Debug)]
pub(super) struct Track {
    rules: Rules,
    /// Where in the interval its turn is, as a share of 2^32.
    phase: u32,
    cgroup: CgroupId,
    born: Instant,
    need: Option<Need>,
    limit: Limit,
    /// The highest limit that was seen in the slot, other than none.
    highest: Bytes,
    due: Instant,
    /// Why not before `due`.
    why: Why,
    /// How often the interval is doubled.
    doublings: u32,
    calm_since: Instant,
    /// The last sighting of pressure that counted.
    pressed: Option<Instant>,
    learned: Option<Learned>,
    flight: Option<Flight>,
}

/// Lower targets are not tried before `until`.
#[derive(Debug, Clone, Copy)]
struct Learned {
    least: Bytes,
    until: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    target: Bytes,
    since: Instant,
}

impl Track {
    pub(super) fn new(now: Instant, phase: u32, rules: &Rules, seen: &Seen) -> Self {
        Self {
            rules: rules.clone(),
            phase,
            cgroup: seen.cgroup,
            born: now,
            need: None,
            limit: seen.limit,
            highest: amount(seen.limit).unwrap_or_default(),
            due: now,
            why: Why::Turn,
            doublings: 0,
            calm_since: now,
            pressed: None,
            learned: None,
            flight: None,
        }
    }

    pub(super) const fn is_in_flight(&self) -> bool {
        self.flight.is_some()
    }

    /// The end of what it waits for.
    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    /// Why it waits until [`Self::due`].
    pub(super) fn why(&self, now: Instant) -> Why {
        let (Why::Turn, Some(need)) = (self.why, &self.need) else { return self.why };
        // What takes longest is what it waits for.
        let (grown, seen) = (self.born.after(self.base()), need.since().after(self.rules.window));
        if now >= grown.max(seen) {
            Why::Turn
        } else if grown >= seen {
            Why::Young
        } else {
            Why::Window
        }
    }

    /// Takes in what was seen; `true` where an attempt is given up for lost.
    pub(super) fn see(&mut self, now: Instant, rules: &Rules, seen: &Seen) -> bool {
        if self.rules != *rules {
            self.rules = rules.clone();
        }
        if self.cgroup != seen.cgroup {
            self.cgroup = seen.cgroup;
            self.born = now;
            self.need = None;
            self.limit = seen.limit;
        }
        self.highest = self.highest.max(amount(seen.limit).unwrap_or_default());
        if let Some(safe_minimum) = seen.safe_minimum {
            self.see_need(now, safe_minimum);
        }
        self.see_pressure(now, seen.psi_some_avg10);
        let lost =
            !seen.in_flight && self.flight.is_some_and(|flight| now.since(flight.since) >= FLIGHT_LOST);
        if lost {
            self.ended(now, Ended::Failed);
        }
        if !seen.in_flight && self.flight.is_none() {
            if seen.limit > self.limit {
                self.trouble(now, Why::Raised);
            }
            self.limit = seen.limit;
        }
        if seen.paused {
            // They don't all come at once when it goes on.
            self.hold(now.after(self.turn()), Why::Turn);
        }
        lost
    }

    fn see_need(&mut self, now: Instant, safe_minimum: Bytes) {
        let window = self.rules.window;
        match &mut self.need {
            Some(need) if need.goes_on(now, window) => need.see(now, safe_minimum),
            Some(_) | None => {
                self.need = Some(Need::new(now, safe_minimum, window));
                let first = now.after(self.base().max(window)).after(self.turn());
                self.hold(first, Why::Turn);
            }
        }
    }

    fn see_pressure(&mut self, now: Instant, some_avg10: u64) {
        if some_avg10 <= self.rules.pressure_avg10 {
            let calm = self.interval().scaled(CALM_INTERVALS, 1);
            if self.doublings > 0 && now.since(self.calm_since) >= calm {
                self.doublings -= 1;
                self.calm_since = now;
            }
            return;
        }
        if self.pressed.is_none_or(|last| now.since(last) >= PRESSURE_WINDOW) {
            self.pressed = Some(now);
            self.trouble(now, Why::Pressure);
        } else {
            self.calm_since = now;
            self.hold(now.after(self.interval()), Why::Pressure);
        }
    }

    /// To what its limit is to be lowered, if it is its turn.
    pub(super) fn target(&self, now: Instant) -> Result<Bytes, Why> {
        let need = self.need.ok_or(Why::Unread)?;
        let least = self.learned.filter(|learned| now < learned.until).map(|learned| learned.least);
        target(&self.rules, self.limit, need.peak(), least)
    }

    /// An attempt begins.
    pub(super) fn start(&mut self, now: Instant, target: Bytes) {
        self.flight = Some(Flight { target, since: now });
    }

    /// Its turn is over; the next is an interval later.
    pub(super) fn pass(&mut self, now: Instant, why: Why) {
        let next = self.due.after(self.interval());
        let next = if next > now { next } else { now.after(self.interval()) };
        self.hold(next, why);
    }

    /// An attempt ended.
    pub(super) fn ended(&mut self, now: Instant, ended: Ended) {
        let target = self.flight.take().map(|flight| flight.target);
        match ended {
            Ended::Committed => {
                self.limit = target.map_or(self.limit, Limit::Bytes);
                self.hold(now.after(self.interval()), Why::Interval);
            }
            Ended::Unjudged => self.hold(now.after(self.interval()), Why::Interval),
            Ended::Failed => self.trouble(now, Why::Failed),
            Ended::TooLow => {
                self.learn(now, target, amount(self.limit));
                self.trouble(now, Why::Failed);
            }
            Ended::Killed => self.killed(now, target),
        }
    }

    /// A process of it was killed for want of memory.
    pub(super) fn oom_killed(&mut self, now: Instant) {
        let target = self.flight.map(|flight| flight.target);
        self.killed(now, target);
    }

    fn killed(&mut self, now: Instant, target: Option<Bytes>) {
        self.learn(now, target.or(amount(self.limit)), Some(self.highest));
        self.trouble(now, Why::OomKill);
        self.hold(now.after(self.base().scaled(OOM_KILL_INTERVALS, 1)), Why::OomKill);
    }

    /// What was too low is not tried again for long: the next try is half way to what is known to be enough.
    fn learn(&mut self, now: Instant, too_low: Option<Bytes>, enough: Option<Bytes>) {
        let Some(too_low) = too_low else { return };
        let half = enough.unwrap_or_default().saturating_sub(too_low).scaled(1, 2);
        let step = self.rules.margin.of(too_low).max(self.rules.gain_min).max(MIB).max(half);
        let known = self.learned.filter(|learned| now < learned.until).map(|learned| learned.least);
        let least = too_low.saturating_add(step).max(known.unwrap_or_default());
        self.learned = Some(Learned { least, until: now.after(LEARNED_FOR) });
    }

    fn trouble(&mut self, now: Instant, why: Why) {
        if self.interval() < self.rules.interval_max {
            self.doublings += 1;
        }
        self.calm_since = now;
        self.hold(now.after(self.interval()), why);
    }

    /// Nothing before `until`; what holds it for longer stays.
    fn hold(&mut self, until: Instant, why: Why) {
        if until > self.due {
            self.due = until;
            self.why = why;
        }
    }

    fn base(&self) -> Micros {
        self.rules.interval.max(INTERVAL_MIN)
    }

    /// The interval, as trouble has stretched it.
    fn interval(&self) -> Micros {
        let longest = self.rules.interval_max.max(self.base());
        let factor = 1_u64.checked_shl(self.doublings).unwrap_or(u64::MAX);
        self.base().scaled(factor, 1).min(longest)
    }

    /// Where in an interval its turn is.
    fn turn(&self) -> Micros {
        self.base().scaled(u64::from(self.phase), 1 << 32)
    }
}

fn amount(limit: Limit) -> Option<Bytes> {
    match limit {
        Limit::Bytes(bytes) => Some(bytes),
        Limit::Max => None,
    }
}
