//! What there may be to see: told by whoever hears of it first, looked into by the watch. No I/O.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// Containers and sandboxes that wait for a look. For more than that everything is listed.
const IDS_MAX: usize = 256;
/// Looks in the time from a hint to its first look: names of cgroups are anybody's choice, and a look is calls.
const LOOKS_MAX: u32 = 16;

/// What was heard of a container or sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cue {
    /// Its cgroup was made: it runs, or will soon.
    Born,
    /// Its cgroup was removed: it has ended.
    Died,
    /// It may have other limits.
    Changed,
}

/// Tells a watch that there may be something to see. Costs next to nothing, never waits; many count as one.
#[derive(Debug, Clone, Default)]
pub struct Hints(Arc<Board>);

#[derive(Debug, Default)]
struct Board {
    notify: Notify,
    told: Mutex<Told>,
}

/// What was told since it was looked for last.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Something, of which it is not known what.
    pub(super) anything: bool,
    /// By id.
    pub(super) ids: BTreeMap<String, Cue>,
}

impl Hints {
    /// Something may have come or gone: everything is listed.
    pub fn hint(&self) {
        self.locked().anything = true;
        self.0.notify.notify_one();
    }

    /// The container or sandbox with this id is worth a look.
    pub fn look_at(&self, id: &str, cue: Cue) {
        let mut told = self.locked();
        if told.ids.len() < IDS_MAX || told.ids.contains_key(id) {
            told.ids.insert(id.into(), cue);
        } else {
            told.anything = true;
        }
        drop(told);
        self.0.notify.notify_one();
    }

    /// Waits until something was told. Cancel safe.
    pub(super) async fn told(&self) -> Told {
        self.0.notify.notified().await;
        std::mem::take(&mut *self.locked())
    }

    /// Who panicked while holding it left it whole.
    fn locked(&self) -> MutexGuard<'_, Told> {
        self.0.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks that are to come.
#[derive(Debug)]
pub(super) struct Looks {
    hint: Duration,
    waiting: BTreeMap<String, Look>,
    /// When the first of the last looks was taken, and how many were since.
    taken: Option<(Instant, u32)>,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) cue: Cue,
    at: Instant,
    wait: Duration,
}

impl Looks {
    /// `hint`: from a hint to its first look. Three more follow, each after twice the wait, while what was heard of is
    /// not to be seen.
    pub(super) fn new(hint: Duration) -> Self {
        Self { hint, waiting: BTreeMap::new(), taken: None }
    }

    /// `false`: there is no room, and everything is to be listed.
    pub(super) fn add(&mut self, id: String, cue: Cue, now: Instant) -> bool {
        if self.waiting.len() >= IDS_MAX && !self.waiting.contains_key(&id) {
            return false;
        }
        // One that is told all the time is looked at all the same.
        let at = now + self.hint;
        let at = self.waiting.get(&id).map_or(at, |look| look.at.min(at));
        self.waiting.insert(id, Look { cue, at, wait: self.hint });
        true
    }

    /// When the next look is due.
    pub(super) fn next(&self) -> Option<Instant> {
        let first = self.waiting.values().map(|look| look.at).min()?;
        match self.taken {
            Some((since, count)) if count >= LOOKS_MAX => Some(first.max(since + self.hint)),
            Some(_) | None => Some(first),
        }
    }

    /// The look that is due.
    pub(super) fn take(&mut self, now: Instant) -> Option<(String, Look)> {
        if self.next()? > now {
            return None;
        }
        let (id, _) = self.waiting.iter().min_by_key(|(_, look)| look.at)?;
        let taken = self.waiting.remove_entry(&id.clone());
        self.taken = match self.taken {
            Some((since, count)) if now.duration_since(since) < self.hint => Some((since, count + 1)),
            Some(_) | None => Some((now, 1)),
        };
        taken
    }

    /// It was not to be seen yet.
    pub(super) fn again(&mut self, id: String, look: Look, now: Instant) {
        let wait = look.wait * 2;
        // What was told meanwhile is newer.
        if wait <= self.hint * 8 && !self.waiting.contains_key(&id) && self.waiting.len() < IDS_MAX {
            self.waiting.insert(id, Look { cue: look.cue, at: now + wait, wait });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HINT: Duration = Duration::from_millis(250);

    #[test]
    fn four_looks_each_after_twice_the_wait() {
        let start = Instant::now();
        let mut looks = Looks::new(HINT);
        assert!(looks.add("a".into(), Cue::Born, start));
        assert_eq!(looks.take(start), None);
        let mut waits = Vec::new();
        let mut now = start;
        while let Some(at) = looks.next() {
            waits.push(at.duration_since(now).as_millis());
            now = at;
            let (id, look) = looks.take(now).expect("is due");
            assert_eq!((id.as_str(), look.cue), ("a", Cue::Born));
            looks.again(id, look, now);
        }
        assert_eq!(waits, [250, 500, 1000, 2000]);
    }

    #[test]
    fn what_is_told_last_counts() {
        let start = Instant::now();
        let mut looks = Looks::new(HINT);
        looks.add("a".into(), Cue::Born, start);
        let (id, look) = looks.take(start + HINT).expect("is due");
        looks.add("a".into(), Cue::Died, start + HINT);
        looks.again(id, look, start + HINT);
        let (_, look) = looks.take(start + HINT * 2).expect("is due");
        assert_eq!((look.cue, looks.next()), (Cue::Died, None));
    }

    #[test]
    fn what_is_told_all_the_time_is_looked_at() {
        let start = Instant::now();
        let mut looks = Looks::new(HINT);
        for turn in 0..10 {
            looks.add("a".into(), Cue::Changed, start + HINT / 10 * turn);
        }
        assert!(looks.take(start + HINT).is_some());
    }

    #[test]
    fn names_without_end_bring_few_looks() {
        let start = Instant::now();
        let hints = Hints::default();
        for id in 0..10_000 {
            hints.look_at(&id.to_string(), Cue::Born);
        }
        let told = std::mem::take(&mut *hints.locked());
        assert!(told.anything, "what had no room is found by a listing");
        assert_eq!(told.ids.len(), IDS_MAX);
        let mut looks = Looks::new(HINT);
        for id in told.ids.into_keys() {
            assert!(looks.add(id, Cue::Born, start));
        }
        assert!(!looks.add("one more".into(), Cue::Born, start));
        let mut count = 0;
        let mut now = start;
        while now < start + HINT * 11 {
            while looks.take(now).is_some() {
                count += 1;
            }
            now += Duration::from_millis(10);
        }
        assert_eq!(count, 10 * LOOKS_MAX);
    }
}
