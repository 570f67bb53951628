//! Tells who changes a pod's limits to and fro. No I/O, no clock.
//!
//! A *turn* is a change of a limit in the direction opposite to the one before. Turns are reported and damped (the agent
//! keeps out), never fought.

use super::state::PodState;
use enforcer_gate::{Bytes, Micros};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Turns within [`WINDOW`] from which on it is flapping.
pub const TURNS_MIN: usize = 3;
/// How far back turns count.
pub const WINDOW: Micros = Micros::from_secs(1800);
/// Containers that are followed; the one that changed longest ago makes room.
const FOLLOWED_MAX: usize = 1024;
/// Changes of one container that are kept.
const KEPT_MAX: usize = 16;

/// Somebody changes it to and fro.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flapping {
    /// Their field managers, each once.
    pub managers: Vec<String>,
    /// Turns within the window.
    pub turns: usize,
    /// The limits that it goes between, each once, ascending.
    pub values: Vec<Bytes>,
    /// The first change of them: microseconds since 1970.
    pub since_us: Option<u64>,
}

/// A change that was seen.
#[derive(Debug, Clone)]
struct Seen {
    at_us: u64,
    limit: Bytes,
    manager: String,
}

/// Follows the memory limits of containers.
#[derive(Debug, Default)]
pub struct Tracker {
    followed: BTreeMap<(String, String), VecDeque<Seen>>,
    /// Containers that made room while they were followed.
    pub forgotten: u64,
}

impl Tracker {
    /// Takes in what is known of a pod now.
    pub fn note(&mut self, pod: &PodState, now_us: u64) {
        let manager = pod.last_resize.as_ref().map(|writer| writer.manager.clone()).unwrap_or_default();
        for one in &pod.containers {
            let Some(limit) = one.level.desired.limits.memory else { continue };
            let key = (pod.uid.clone(), one.name.clone());
            if !self.followed.contains_key(&key) {
                self.make_room();
            }
            let seen = self.followed.entry(key).or_default();
            if seen.back().is_some_and(|last| last.limit == limit) {
                continue;
            }
            if seen.len() == KEPT_MAX {
                seen.pop_front();
            }
            seen.push_back(Seen { at_us: now_us, limit, manager: manager.clone() });
        }
    }

    /// The pod is gone.
    pub fn forget(&mut self, uid: &str) {
        self.followed.retain(|(of, _), _| of != uid);
    }

    /// Who changes a container's limit to and fro, if anybody does.
    pub fn of(&self, uid: &str, container: &str, now_us: u64) -> Option<Flapping> {
        let seen = self.followed.get(&(uid.to_owned(), container.to_owned()))?;
        let from = now_us.saturating_sub(WINDOW.get());
        let recent: Vec<_> = seen.iter().filter(|one| one.at_us >= from).collect();
        let ups: Vec<_> = recent.windows(2).map(|pair| pair[1].limit > pair[0].limit).collect();
        let turns = ups.windows(2).filter(|pair| pair[0] != pair[1]).count();
        if turns < TURNS_MIN {
            return None;
        }
        let unique = |mut all: Vec<String>| {
            all.sort_unstable();
            all.dedup();
            all
        };
        let mut values: Vec<_> = recent.iter().map(|one| one.limit).collect();
        values.sort_unstable();
        values.dedup();
        // The first was there before anybody changed it.
        let managers = recent.iter().skip(1).map(|one| one.manager.clone()).filter(|name| !name.is_empty());
        let since_us = recent.first().map(|one| one.at_us);
        Some(Flapping { managers: unique(managers.collect()), turns, values, since_us })
    }

    fn make_room(&mut self) {
        if self.followed.len() < FOLLOWED_MAX {
            return;
        }
        let oldest = self.followed.iter().min_by_key(|(_, seen)| seen.back().map_or(0, |last| last.at_us));
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.followed.remove(&key);
            self.forgotten += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::fixture;
    use serde_json::json;

    const SECOND: u64 = 1_000_000;

    fn note(tracker: &mut Tracker, uid: &str, mib: u64, manager: &str, at: u64) {
        let mut pod = fixture::pod(|value| {
            value["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!(format!("{mib}Mi"));
            value["metadata"]["managedFields"][2]["manager"] = json!(manager);
        });
        pod.uid = uid.into();
        tracker.note(&pod, at * SECOND);
    }

    #[test]
    fn to_and_fro_is_flapping_and_a_way_in_steps_is_not() {
        let mut tracker = Tracker::default();
        for (at, mib) in [400, 300, 200, 100, 50].into_iter().enumerate() {
            note(&mut tracker, "steps", mib, "vpa", at as u64);
        }
        assert_eq!(tracker.of("steps", "main", 10 * SECOND), None);
        for (at, (mib, manager)) in
            [(400, "x"), (200, "vpa"), (400, "operator"), (200, "vpa"), (200, "vpa"), (400, "operator")]
                .into_iter()
                .enumerate()
        {
            assert_eq!(tracker.of("u", "main", 10 * SECOND), None, "{at}");
            note(&mut tracker, "u", mib, manager, at as u64);
        }
        let found = tracker.of("u", "main", 10 * SECOND).expect("flaps");
        assert_eq!((found.turns, found.since_us), (3, Some(0)));
        assert_eq!(found.managers, ["operator", "vpa"]);
        assert_eq!(found.values, [fixture::mib(200), fixture::mib(400)]);
        assert_eq!(tracker.of("u", "side", 10 * SECOND), None);
        // It was long ago.
        assert_eq!(tracker.of("u", "main", 2000 * SECOND), None);
        tracker.forget("u");
        assert_eq!(tracker.of("u", "main", 10 * SECOND), None);
    }

    #[test]
    fn it_is_bounded() {
        let mut tracker = Tracker::default();
        for n in 0..400 {
            note(&mut tracker, &format!("pod-{n}"), 400, "x", n);
        }
        assert_eq!(tracker.followed.len(), FOLLOWED_MAX);
        assert_eq!(tracker.forgotten, 400 * 3 - FOLLOWED_MAX as u64);
        for n in 0..100 {
            note(&mut tracker, "pod-399", 100 + n % 2, "x", 400 + n);
        }
        let kept = &tracker.followed[&("pod-399".to_owned(), "main".to_owned())];
        assert_eq!(kept.len(), KEPT_MAX);
    }
}
