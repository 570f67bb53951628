//! The drift sentinel of the agent: what a limit should be is what the container runtime has.

use super::{
    book::{Book, Entry},
    suspects::{Place as Suspected, Suspect, Suspects},
};
use crate::{
    actuate::at_work,
    cgroup::{Cgroup, Mount},
    clock::nanos,
    drift::{
        About, Drift, Expected, MendError, Outcome, Place, Report, Turns, Watch, Way, accepted, is_mended,
        mend, parse, who,
    },
    probe::{Event, LimitKind, LimitValue, LimitWrite},
};
use enforcer_gate::CgroupId;
use nix::time::ClockId;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};
use tokio::task::JoinSet;

/// Limits that are put back at the same time.
const MENDS_MAX: usize = 16;

/// Limits that are known to drift.
const DRIFTING_MAX: usize = 4096;

/// What came of putting a limit back.
#[derive(Debug)]
pub(super) struct Mended {
    pub(super) path: PathBuf,
    pub(super) file: LimitKind,
    pub(super) done: Result<(Way, LimitValue), MendError>,
    /// What the limit held before.
    found: Option<LimitValue>,
}

/// A limit that is not what the container runtime has, also after that had time to say so.
#[derive(Debug)]
pub(super) struct Drifted {
    pub(super) cgroup: CgroupId,
    pub(super) file: LimitKind,
    pub(super) value: LimitValue,
    /// The write that made it so, where one was seen.
    pub(super) report: Option<Report>,
    /// Whether it was told before.
    pub(super) is_new: bool,
}

/// Joins writes to reports, and puts limits back where that is wanted.
#[derive(Debug)]
pub(super) struct Sentinel {
    mount: Arc<Mount>,
    watch: Watch,
    suspects: Suspects,
    /// What was judged to drift, until it is seen to do so no more.
    drifting: BTreeMap<Suspected, (LimitValue, Expected)>,
    turns: Turns,
    mends: JoinSet<Mended>,
    /// The values that were said to be left as they are: to put them back would lower memory.
    left: BTreeMap<Place, LimitValue>,
    /// Whether limits are put back.
    pub(super) mends_drift: bool,
}

impl Sentinel {
    pub(super) fn new(mount: Arc<Mount>, mends_drift: bool) -> Self {
        Self {
            mount,
            watch: Watch::default(),
            suspects: Suspects::default(),
            drifting: BTreeMap::new(),
            turns: Turns::default(),
            mends: JoinSet::new(),
            left: BTreeMap::new(),
            mends_drift,
        }
    }

    pub(super) fn take(&mut self, event: &Event, book: &Book) {
        match event {
            Event::LimitWrite(write) => self.watch.told(write, || Some(about(write, &self.mount, book))),
            Event::CgroupLife(life) => self.watch.life(life),
            Event::OomKill(_)
            | Event::OomEnd(_)
            | Event::ReclaimBegin(_)
            | Event::ReclaimEnd(_)
            | Event::Judged(_) => {}
        }
    }

    /// When there is something to do without a further event (`CLOCK_MONOTONIC`).
    pub(super) fn due_ns(&self) -> Option<u64> {
        [self.watch.due_ns(), self.suspects.due_ns(), self.turns.due_ns()].into_iter().flatten().min()
    }

    /// The writes that are whole by now. What was put back before and has drifted again is put back when its turn comes, if
    /// it should be so then; not while `paused`.
    pub(super) fn settle(&mut self, paused: bool, book: &Book) -> Vec<Report> {
        let now_ns = nanos(ClockId::CLOCK_MONOTONIC);
        let reports = self.watch.take(now_ns);
        for report in &reports {
            let Outcome::Ended { drift, .. } = report.outcome else { continue };
            if drift != Drift::No {
                let place = (report.write.cgroup, report.write.file);
                self.suspects.written(place, report.clone(), drift == Drift::New, now_ns);
            }
        }
        for ((path, file), _) in self.turns.due(now_ns) {
            let below = path.strip_prefix(self.mount.point()).unwrap_or(&path);
            if let Some(expected) = book.expected_at(below, file) {
                self.put_back(path, file, expected, paused);
            }
        }
        reports
    }

    /// A limit was read and is not what the runtime was last heard to have. Whether that is news.
    pub(super) fn found(&mut self, cgroup: CgroupId, file: LimitKind) -> bool {
        // A write that was told or is on its way has more to say.
        !self.watch.is_to_be_told(cgroup, file)
            && self.suspects.read((cgroup, file), nanos(ClockId::CLOCK_MONOTONIC))
    }

    /// The cgroups of whose limits the runtime is to be asked once more.
    pub(super) fn ask_again(&mut self) -> Vec<CgroupId> {
        let places = self.suspects.ask_again(nanos(ClockId::CLOCK_MONOTONIC));
        places.into_iter().map(|(cgroup, _)| cgroup).collect()
    }

    /// What has really drifted, of all that the runtime had its time to say something of. It is put back, at once or when
    /// its turn comes; not while `paused`.
    pub(super) fn judge(&mut self, paused: bool, book: &Book) -> Vec<Drifted> {
        let now_ns = nanos(ClockId::CLOCK_MONOTONIC);
        let due = self.suspects.ripe(now_ns);
        due.into_iter().filter_map(|(place, suspect)| self.judge_one(place, suspect, paused, book)).collect()
    }

    fn judge_one(
        &mut self,
        (cgroup, file): Suspected,
        suspect: Suspect,
        paused: bool,
        book: &Book,
    ) -> Option<Drifted> {
        let found = self.drifts(cgroup, file, book);
        let Some((path, value, expected)) = found else {
            self.watch.forget(cgroup, file);
            self.drifting.remove(&(cgroup, file));
            return None;
        };
        if self.drifting.len() < DRIFTING_MAX {
            self.drifting.insert((cgroup, file), (value, expected));
        }
        let is_new = suspect.is_new
            || self.watch.drift(cgroup, file, value, nanos(ClockId::CLOCK_MONOTONIC)) == Drift::New;
        // That it can't be put back is said once a value.
        if is_new || is_mended(file, value, &expected) {
            self.ask(path, file, &expected, paused);
        }
        Some(Drifted { cgroup, file, value, report: suspect.report, is_new })
    }

    /// What drifted of a container does so still, or not any more.
    pub(super) fn look_again(&mut self, entry: &Entry, book: &Book) {
        let known: Vec<_> = self.of(entry).map(|(place, ..)| place).collect();
        for (cgroup, file) in known {
            if self.drifts(cgroup, file, book).is_none() {
                self.drifting.remove(&(cgroup, file));
                self.watch.forget(cgroup, file);
            }
        }
    }

    /// What has drifted of a container: which limit, what it holds and what it should.
    pub(super) fn of(&self, entry: &Entry) -> impl Iterator<Item = (Suspected, LimitValue, Expected)> {
        let all = self.drifting.iter().filter(move |((cgroup, _), _)| entry.has(*cgroup));
        all.map(|(place, (value, expected))| (*place, *value, *expected))
    }

    /// Cgroups that are no more.
    pub(super) fn retain(&mut self, book: &Book) {
        self.drifting.retain(|(cgroup, _), _| book.by_cgroup(*cgroup).is_some());
    }

    /// What a limit holds and should hold, where these differ and nobody is at work on it.
    fn drifts(
        &self,
        cgroup: CgroupId,
        file: LimitKind,
        book: &Book,
    ) -> Option<(PathBuf, LimitValue, Expected)> {
        let expected = book.expected(cgroup, file)?;
        let path = self.mount.path_of(cgroup).ok().flatten()?;
        let open = Cgroup::open_in(&self.mount, &path).ok()?;
        let text = open.read(file.name(), |text| Ok(String::from_utf8_lossy(text).into_owned())).ok()?;
        let value = parse(file, &text)?;
        let is_so = accepted(&expected, value).is_none() && at_work(&open).is_none();
        is_so.then_some((path, value, expected))
    }

    fn ask(&mut self, path: PathBuf, file: LimitKind, expected: &Expected, paused: bool) {
        let place: Place = (path, file);
        if self.mends_drift && !paused && self.turns.ask(&place, expected, nanos(ClockId::CLOCK_MONOTONIC)) {
            self.put_back(place.0, file, *expected, paused);
        }
    }

    fn put_back(&mut self, path: PathBuf, file: LimitKind, expected: Expected, paused: bool) {
        if paused || !self.mends_drift {
            return;
        }
        self.turns.written((path.clone(), file), nanos(ClockId::CLOCK_MONOTONIC));
        if self.mends.len() >= MENDS_MAX {
            // It drifts still, and the next reading finds it.
            return;
        }
        let mount = Arc::clone(&self.mount);
        self.mends.spawn_blocking(move || {
            let mut found = None;
            let done = Cgroup::open_in(&mount, &path).map_err(MendError::from).and_then(|cgroup| {
                let text = cgroup.read(file.name(), |text| Ok(String::from_utf8_lossy(text).into_owned()))?;
                found = parse(file, &text);
                if let Some(pid) = at_work(&cgroup) {
                    return Err(MendError::Busy(pid));
                }
                match found {
                    // It was put right meanwhile.
                    Some(now) if accepted(&expected, now).is_some() => Ok((Way::File, now)),
                    Some(_) | None => mend(&cgroup, file, &expected),
                }
            });
            Mended { path, file, done, found }
        });
    }

    /// Whether a limit is being put back right now.
    pub(super) fn is_mending(&self) -> bool {
        !self.mends.is_empty()
    }

    /// What came of putting a limit back; `None` where nothing is being put back. That one is left as it is comes once a
    /// value. Cancel safe.
    pub(super) async fn mended(&mut self) -> Option<Mended> {
        loop {
            // A task that panicked has no answer.
            if let Ok(mended) = self.mends.join_next().await?
                && self.is_news(&mended)
            {
                return Some(mended);
            }
        }
    }

    fn is_news(&mut self, mended: &Mended) -> bool {
        let place = (mended.path.clone(), mended.file);
        let (Err(MendError::Lowers), Some(found)) = (&mended.done, mended.found) else {
            self.left.remove(&place);
            return true;
        };
        if self.left.len() >= DRIFTING_MAX {
            self.left.clear();
        }
        self.left.insert(place, found) != Some(found)
    }
}

/// What can be found out about a write.
fn about(write: &LimitWrite, mount: &Mount, book: &Book) -> About {
    let path = |cgroup: CgroupId| mount.path_of(cgroup).ok().flatten();
    About {
        cgroup: path(write.cgroup),
        writer_cgroup: write.writer.cgroup.and_then(path),
        who: who(write.writer.tgid),
        expected: book.expected(write.cgroup, write.file),
    }
}
