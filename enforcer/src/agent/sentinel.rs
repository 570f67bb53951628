//! The drift sentinel of the agent: what a limit should be is what the container runtime has.

use super::book::Book;
use crate::{
    cgroup::{Cgroup, Mount},
    clock::nanos,
    drift::{
        About, Drift, Expected, MendError, Outcome, Place, Report, Turns, Watch, Way, accepted, mend, parse,
        who,
    },
    probe::{Event, LimitKind, LimitValue, LimitWrite},
};
use enforcer_gate::CgroupId;
use nix::time::ClockId;
use std::{path::PathBuf, sync::Arc};
use tokio::task::JoinSet;

/// Limits that are put back at the same time.
const MENDS_MAX: usize = 16;

/// What came of putting a limit back.
#[derive(Debug)]
pub(super) struct Mended {
    pub(super) path: PathBuf,
    pub(super) file: LimitKind,
    pub(super) done: Result<(Way, LimitValue), MendError>,
}

/// Joins writes to reports, and puts limits back where that is wanted.
#[derive(Debug)]
pub(super) struct Sentinel {
    mount: Arc<Mount>,
    watch: Watch,
    turns: Turns,
    mends: JoinSet<Mended>,
    /// Whether limits are put back.
    pub(super) mends_drift: bool,
}

impl Sentinel {
    pub(super) fn new(mount: Arc<Mount>, mends_drift: bool) -> Self {
        Self { mount, watch: Watch::default(), turns: Turns::default(), mends: JoinSet::new(), mends_drift }
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
        self.watch.due_ns().into_iter().chain(self.turns.due_ns()).min()
    }

    /// What there is to tell by now. What drifts is put back, at once or when its turn comes, if it should be so then; not
    /// while `paused`.
    pub(super) fn settle(&mut self, paused: bool, book: &Book) -> Vec<Report> {
        let now_ns = nanos(ClockId::CLOCK_MONOTONIC);
        let reports = self.watch.take(now_ns);
        for report in &reports {
            if let (Outcome::Ended { drift: Drift::New | Drift::Known, .. }, Some(cgroup), Some(expected)) =
                (report.outcome, &report.about.cgroup, report.about.expected)
            {
                self.ask(cgroup.clone(), report.write.file, &expected, paused);
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

    /// A limit was found to drift without a write that was told or is on its way. Whether that is new.
    pub(super) fn found(
        &mut self,
        cgroup: CgroupId,
        path: PathBuf,
        (file, value): (LimitKind, LimitValue),
        expected: &Expected,
        paused: bool,
    ) -> bool {
        if self.watch.is_to_be_told(cgroup, file) {
            return false;
        }
        let is_new = self.watch.drift(cgroup, file, value, nanos(ClockId::CLOCK_MONOTONIC)) == Drift::New;
        self.ask(path, file, expected, paused);
        is_new
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
            let done = Cgroup::open_in(&mount, &path).map_err(MendError::from).and_then(|cgroup| {
                let text = cgroup.read(file.name(), |text| Ok(String::from_utf8_lossy(text).into_owned()))?;
                match parse(file, &text) {
                    // It was put right meanwhile.
                    Some(now) if accepted(&expected, now).is_some() => Ok((Way::File, now)),
                    Some(_) | None => mend(&cgroup, file, &expected),
                }
            });
            Mended { path, file, done }
        });
    }

    /// Whether a limit is being put back right now.
    pub(super) fn is_mending(&self) -> bool {
        !self.mends.is_empty()
    }

    /// What came of putting a limit back; `None` where nothing is being put back. Cancel safe.
    pub(super) async fn mended(&mut self) -> Option<Mended> {
        loop {
            // A task that panicked has no answer.
            if let Ok(mended) = self.mends.join_next().await? {
                return Some(mended);
            }
        }
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
