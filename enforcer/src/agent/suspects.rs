//! Limits that seem to have drifted, until it is clear whether they have: whoever updates a container through its runtime
//! has the limit written first and the runtime's books after. No I/O, no clock.

use crate::{drift::Report, probe::LimitKind};
use enforcer_gate::CgroupId;
use std::collections::BTreeMap;

/// What an update may take from the first write of a limit to the runtime's new word on it. The runtime is asked at the
/// begin and once more in the middle.
pub(super) const SETTLES_NS: u64 = 6_000_000_000;
/// Whoever writes again and again puts it off for no longer than this.
const LONGEST_NS: u64 = 4 * SETTLES_NS;
/// Of more, a later reading or write tells.
const SUSPECTS_MAX: usize = 4096;

/// One file of one cgroup.
pub(super) type Place = (CgroupId, LimitKind);

/// One that may have drifted.
#[derive(Debug)]
pub(super) struct Suspect {
    /// The write that made it so, where one was seen.
    pub(super) report: Option<Report>,
    /// Whether a value of it was not told before.
    pub(super) is_new: bool,
    first_ns: u64,
    since_ns: u64,
    asked: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Suspects(BTreeMap<Place, Suspect>);

impl Suspects {
    /// It was written, and differs from what the runtime has; `is_new` where this value of it was not told before. It has
    /// its time anew: this may be another update.
    pub(super) fn written(&mut self, place: Place, report: Report, is_new: bool, now_ns: u64) {
        if let Some(suspect) = self.0.get_mut(&place) {
            suspect.is_new |= is_new;
            suspect.report = Some(report);
            if now_ns < suspect.first_ns.saturating_add(LONGEST_NS) {
                (suspect.since_ns, suspect.asked) = (now_ns, false);
            }
        } else {
            self.insert(place, Some(report), is_new, now_ns);
        }
    }

    /// It was read, and differs from what the runtime has. Whether that is news.
    pub(super) fn read(&mut self, place: Place, now_ns: u64) -> bool {
        !self.0.contains_key(&place) && self.insert(place, None, false, now_ns)
    }

    fn insert(&mut self, place: Place, report: Option<Report>, is_new: bool, now_ns: u64) -> bool {
        let has_room = self.0.len() < SUSPECTS_MAX;
        if has_room {
            let suspect = Suspect { report, is_new, first_ns: now_ns, since_ns: now_ns, asked: false };
            self.0.insert(place, suspect);
        }
        has_room
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
    use crate::{
        drift::{About, Watch, Who, parse},
        probe::{LimitWrite, Task, Text, WriteEnd},
    };

    fn place(id: u64) -> Place {
        (CgroupId::new(id), LimitKind::MemoryMax)
    }

    fn report() -> Report {
        let limit = parse(LimitKind::MemoryMax, "4096").expect("a limit");
        let write = LimitWrite {
            at_ns: 0,
            begin_ns: 0,
            cgroup: CgroupId::new(1),
            file: LimitKind::MemoryMax,
            writer: Task { pid: 7, tgid: 7, comm: Text::new(b"runc"), cgroup: None },
            asked: Text::new(b"4096"),
            old: limit,
            end: Some(WriteEnd { new: limit, result: Ok(4) }),
        };
        let about = About { cgroup: None, writer_cgroup: None, who: Who::Other, expected: None };
        let mut watch = Watch::default();
        watch.told(&write, || Some(about));
        watch.take(0).pop().expect("a report")
    }

    fn judged(suspects: &mut Suspects, now_ns: u64) -> Vec<Place> {
        suspects.ripe(now_ns).into_iter().map(|(place, _)| place).collect()
    }

    #[test]
    fn each_is_asked_of_once_more_and_then_judged_once() {
        let mut suspects = Suspects::default();
        assert!(suspects.read(place(1), 5) && !suspects.read(place(1), 100));
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
        assert!(suspects.read(place(1), 200), "it is news again");
    }

    #[test]
    fn a_further_write_has_its_time_but_not_for_ever() {
        let mut suspects = Suspects::default();
        let written = |suspects: &mut Suspects, is_new, now_ns| {
            suspects.written(place(1), report(), is_new, now_ns);
        };
        written(&mut suspects, true, 0);
        assert_eq!(suspects.ask_again(SETTLES_NS - 1), [place(1)]);
        written(&mut suspects, false, SETTLES_NS - 1);
        assert_eq!(suspects.ask_again(SETTLES_NS), [], "its time begins anew");
        let mut now_ns = SETTLES_NS;
        while now_ns < LONGEST_NS + SETTLES_NS {
            written(&mut suspects, false, now_ns);
            now_ns += 1_000_000;
        }
        suspects.ask_again(now_ns);
        let judged = suspects.ripe(now_ns);
        assert_eq!(judged.len(), 1);
        assert!(judged[0].1.is_new && judged[0].1.report.is_some(), "what was new once is told");
    }

    #[test]
    fn there_is_an_end_to_them() {
        let mut suspects = Suspects::default();
        for id in 0..SUSPECTS_MAX as u64 {
            assert!(suspects.read(place(id), 0));
        }
        assert!(!suspects.read(place(u64::MAX), 0));
        assert_eq!(suspects.0.len(), SUSPECTS_MAX);
    }
}
