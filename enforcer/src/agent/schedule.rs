//! Whose reading comes when. No I/O, no clock.

use crate::{inventory::Home, phase::phase};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// Containers are read in bunches, because those that are read together share what is above them: so many in an interval.
const BUNCHES: u32 = 15;
/// The shortest and the longest time from one bunch to the next.
const BUNCH: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(1));

/// The containers that are read.
#[derive(Debug)]
pub(super) struct Schedule {
    began: Instant,
    interval: Duration,
    followed: BTreeMap<String, Followed>,
    due: BTreeSet<(Instant, String)>,
}

#[derive(Debug)]
struct Followed {
    home: Home,
    due: Instant,
    was_read: bool,
}

impl Schedule {
    pub(super) fn new(now: Instant, interval: Duration) -> Self {
        Self { began: now, interval, followed: BTreeMap::new(), due: BTreeSet::new() }
    }

    /// From now on it is read; at once for the first time.
    pub(super) fn follow(&mut self, id: &str, home: Home, now: Instant) {
        self.forget(id);
        self.due.insert((now, id.into()));
        self.followed.insert(id.into(), Followed { home, due: now, was_read: false });
    }

    pub(super) fn forget(&mut self, id: &str) {
        if let Some(followed) = self.followed.remove(id) {
            self.due.remove(&(followed.due, id.into()));
        }
    }

    /// It is read before its turn.
    pub(super) fn soon(&mut self, id: &str, now: Instant) {
        if let Some(followed) = self.followed.get_mut(id)
            && followed.due > now
        {
            self.due.remove(&(followed.due, id.into()));
            self.due.insert((now, id.into()));
            followed.due = now;
        }
    }

    /// From the next reading of each on.
    pub(super) fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// When there is something to read next.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Those whose turn has come, the longest due first, so many at most. Each has its next turn from here on.
    pub(super) fn take(&mut self, now: Instant, most: usize) -> Vec<(String, Home)> {
        let mut taken = Vec::new();
        while taken.len() < most && self.next().is_some_and(|at| at <= now) {
            let Some((_, id)) = self.due.pop_first() else { break };
            let Some(followed) = self.followed.get_mut(&id) else { continue };
            // After its first reading a pod gets a phase of its own, so that those of one start do not stay together.
            let was_read = std::mem::replace(&mut followed.was_read, true);
            let span = if was_read { self.interval } else { phase_of(&followed.home, self.interval) };
            followed.due = at_bunch(self.began, self.interval, now, span);
            taken.push((id.clone(), followed.home.clone()));
            self.due.insert((followed.due, id));
        }
        taken
    }
}

/// The last bunch within `span` from now, or else the next one.
fn at_bunch(began: Instant, interval: Duration, now: Instant, span: Duration) -> Instant {
    let bunch = (interval / BUNCHES).clamp(BUNCH.0, BUNCH.1);
    let number = |at: Instant| at.duration_since(began).as_nanos() / bunch.as_nanos();
    let number = number(now + span).max(number(now) + 1);
    let nanos = number.saturating_mul(bunch.as_nanos());
    began + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Containers of a pod stay together.
fn phase_of(home: &Home, interval: Duration) -> Duration {
    let pod = home.scope.path.parent().unwrap_or(&home.scope.path);
    phase(pod.as_os_str().as_encoded_bytes(), interval)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Located;
    use enforcer_gate::CgroupId;

    const INTERVAL: Duration = Duration::from_secs(15);

    fn home(path: &str) -> Home {
        let located = Located { path: path.into(), id: CgroupId::new(1) };
        Home { scope: located.clone(), processes: located }
    }

    fn ids(taken: Vec<(String, Home)>) -> Vec<String> {
        taken.into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn each_is_read_at_once_then_within_the_interval_and_then_once_in_each() {
        let began = Instant::now();
        let mut schedule = Schedule::new(began, INTERVAL);
        for id in 0..40 {
            schedule.follow(&format!("{id}"), home(&format!("pod{}/{id}", id / 2)), began);
        }
        assert_eq!(schedule.take(began, 100).len(), 40);
        let mut times = BTreeMap::<String, Vec<u64>>::new();
        for second in 1..=60 {
            // Whoever reads is late, now and then.
            let now = began + Duration::from_secs(second) + Duration::from_millis(second % 7 * 100);
            for id in ids(schedule.take(now, 100)) {
                times.entry(id).or_default().push(second);
            }
        }
        assert_eq!(times.len(), 40);
        for (id, times) in &times {
            assert!(times[0] <= 15, "{id}: {times:?}");
            assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 15), "{id}: {times:?}");
        }
        let of_a_pod = |id: u32| (&times[&id.to_string()], &times[&(id + 1).to_string()]);
        assert!((0..40).step_by(2).all(|id| of_a_pod(id).0 == of_a_pod(id).1), "a pod's are read together");
        let firsts: BTreeSet<_> = times.values().map(|times| times[0]).collect();
        assert!(firsts.len() > 5, "and pods apart: {firsts:?}");
    }

    #[test]
    fn so_many_at_most_and_the_longest_due_first() {
        let began = Instant::now();
        let mut schedule = Schedule::new(began, INTERVAL);
        let later = began + Duration::from_millis(500);
        schedule.follow("b", home("b"), later);
        schedule.follow("a", home("a"), began);
        schedule.follow("c", home("c"), later);
        assert_eq!(ids(schedule.take(began, 2)), ["a"]);
        assert_eq!(ids(schedule.take(later, 1)), ["b"]);
        schedule.forget("c");
        assert!(schedule.next().is_some_and(|at| at > later));
        schedule.forget("a");
        schedule.forget("b");
        assert_eq!((schedule.next(), schedule.take(later + INTERVAL * 9, 9)), (None, Vec::new()));
    }

    #[test]
    fn a_cgroup_anew_is_read_at_once_and_a_short_interval_holds() {
        let began = Instant::now();
        let short = Duration::from_micros(10);
        let mut schedule = Schedule::new(began, INTERVAL);
        schedule.follow("a", home("a"), began);
        schedule.take(began, 9);
        schedule.soon("a", began);
        schedule.soon("unknown", began);
        assert_eq!(ids(schedule.take(began, 9)), ["a"], "before its turn");
        schedule.follow("a", home("other"), began);
        schedule.set_interval(short);
        assert_eq!(schedule.take(began, 9), [("a".to_owned(), home("other"))]);
        assert_eq!(schedule.next(), Some(began + BUNCH.0), "never all the time");
    }
}
