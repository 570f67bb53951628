//! Limits that seem to have drifted, until it is clear whether they have: whoever updates a container through its runtime
//! has the limit written first and the runtime's books after. No I/O, no clock.

use crate::{drift::Report, probe::LimitKind};
use enforcer_gate::CgroupId;
use std::collections::BTreeMap;

/// What an update may take from the first write of a limit to the runtime's new word on it. The runtime is asked at the
/// begin and once more in the middle.
pub(super) const SETTLES_NS: u64 = 6_000_000_000;
/// Of more, a later reading or write tells.
const SUSPECTS_MAX: usize = 4096;

/// One file of one cgroup.
pub(super) type Place = (CgroupId, LimitKind);

/// One that may have drifted.
#[derive(Debug)]
pub(super) struct Suspect {
    /// The write that made it so, where one was seen.
    pub(super) report: Option<Report>,
    since_ns: u64,
    asked: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Suspects(BTreeMap<Place, Suspect>);

impl Suspects {
    /// It was found to differ from what the runtime has, by this write or by a reading. Whether that is news.
    pub(super) fn add(&mut self, place: Place, report: Option<Report>, now_ns: u64) -> bool {
        if let Some(suspect) = self.0.get_mut(&place) {
            suspect.report = report.or(suspect.report.take());
            return false;
        }
        if self.0.len() >= SUSPECTS_MAX {
            return false;
        }
        self.0.insert(place, Suspect { report, since_ns: now_ns, asked: false });
        true
    }

    /// Those of which the runtime is to be asked once more.
    pub(super) fn ask_again(&mut self, now_ns: u64) -> Vec<Place> {
        let is_due = |suspect: &Suspect| !suspect.asked && suspect.due_ns() <= now_ns;
        let due = self.0.iter_mut().filter(|(_, suspect)| is_due(suspect));
        due.map(|(place, suspect)| {
            suspect.asked = true;
            *place
        })
        .collect()
    }

    /// Those of which the runtime has had its time.
    pub(super) fn ripe(&mut self, now_ns: u64) -> Vec<(Place, Suspect)> {
        self.0.extract_if(.., |_, suspect| suspect.asked && suspect.due_ns() <= now_ns).collect()
    }

    /// When there is something to do without a further event.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.0.values().map(Suspect::due_ns).min()
    }
}

impl Suspect {
    const fn due_ns(&self) -> u64 {
        self.since_ns.saturating_add(if self.asked { SETTLES_NS } else { SETTLES_NS / 2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(id: u64) -> Place {
        (CgroupId::new(id), LimitKind::MemoryMax)
    }

    fn judged(suspects: &mut Suspects, now_ns: u64) -> Vec<Place> {
        suspects.ripe(now_ns).into_iter().map(|(place, _)| place).collect()
    }

    #[test]
    fn each_is_asked_of_once_more_and_then_judged_once() {
        let mut suspects = Suspects::default();
        assert!(suspects.add(place(1), None, 5) && !suspects.add(place(1), None, 100));
        assert_eq!(suspects.due_ns(), Some(5 + SETTLES_NS / 2));
        assert_eq!(suspects.ask_again(4 + SETTLES_NS / 2), []);
        // Not before it was asked of, however late it is.
        assert_eq!(judged(&mut suspects, u64::MAX), []);
        assert_eq!(suspects.ask_again(5 + SETTLES_NS / 2), [place(1)]);
        assert_eq!(suspects.ask_again(u64::MAX), [], "once");
        assert_eq!(suspects.due_ns(), Some(5 + SETTLES_NS));
        assert_eq!(judged(&mut suspects, 4 + SETTLES_NS), []);
        assert_eq!(judged(&mut suspects, 5 + SETTLES_NS), [place(1)]);
        assert_eq!((judged(&mut suspects, u64::MAX), suspects.due_ns()), (vec![], None));
        assert!(suspects.add(place(1), None, 200), "it is news again");
    }

    #[test]
    fn there_is_an_end_to_them() {
        let mut suspects = Suspects::default();
        for id in 0..SUSPECTS_MAX as u64 {
            assert!(suspects.add(place(id), None, 0));
        }
        assert!(!suspects.add(place(u64::MAX), None, 0));
        assert_eq!(suspects.0.len(), SUSPECTS_MAX);
    }
}
