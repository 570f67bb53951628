//! Appending beside the guard, which must never wait for a disk: a thread of its own has the store.
//!
//! What is handed over is waited for, for a moment, so that what the guard tells is kept before it is told. A store
//! that is slower is not waited for again until it has caught up.

use super::record::{Began, Ended, Lost, Standing};
use super::stored::Stored;
use crate::clock::{boot_id, kernel_release, wall_us};
use crate::labels::labels;
use crate::store::{Bounds, Keeper, StoreError};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

/// Records that may wait for the disk.
const QUEUE: usize = 1024;
/// How long the guard waits for a record to be appended; far less than what makes it stale.
const PATIENCE: Duration = Duration::from_millis(200);
/// The same for the last ones.
const GRACE: Duration = Duration::from_secs(1);

/// The guard's side of its log.
#[derive(Debug)]
pub struct Log {
    jobs: SyncSender<Job>,
    done: Receiver<Done>,
    /// Jobs that are not done.
    waiting: u64,
    /// They were waited for in vain, and are not waited for until all are done.
    behind: bool,
    /// No wait goes on beyond this.
    hurry: Option<Instant>,
    /// Records that had no room in the queue.
    unqueued: u64,
    /// Records that were not kept: those, and what the store did not take.
    not_kept: u64,
    failing: bool,
    news: Vec<News>,
}

/// What became of the log that is worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// From here on records are not kept, and why. Said once, until one is kept again.
    Failing(String),
    /// They are kept again.
    Keeping,
    /// So much was lost, and a note of that is in the store.
    Lost(Lost),
}

/// How much was lost since the guard began.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    dropped: u64,
    unqueued: u64,
}

/// The thread's side: a store that is open, or is to be.
struct Store {
    folder: PathBuf,
    bounds: Bounds,
    keeper: Option<Keeper>,
    /// Records that came before it was open.
    unstored: u64,
}

impl Store {
    fn open(&mut self) -> Result<&mut Keeper, StoreError> {
        let keeper = match self.keeper.take() {
            Some(keeper) => keeper,
            None => Keeper::open(&self.folder, self.bounds)?,
        };
        Ok(self.keeper.insert(keeper))
    }

    fn keep(&mut self, stored: &Stored) -> Result<(), StoreError> {
        match self.open() {
            Ok(keeper) => keeper.keep(stored),
            Err(error) => {
                self.unstored = self.unstored.saturating_add(1);
                Err(error)
            }
        }
    }

    /// Notes what was lost since that was last noted, and hands it all to the disk.
    fn beat(&mut self, totals: Totals, told: Totals) -> Option<Lost> {
        let before = self.unstored;
        // The next beat tries again.
        let keeper = self.open().ok()?;
        let lost = note_lost(keeper, totals, told, before);
        let _ = keeper.sync();
        if lost.is_some() {
            self.unstored = 0;
        }
        lost
    }
}

enum Job {
    Keep(Stored),
    Beat(Totals),
}

enum Done {
    Kept(Result<(), String>),
    Beat(Option<Lost>),
}

impl Log {
    /// Opens the store, which has no other writer then, and starts the thread.
    pub fn open(folder: &Path, bounds: Bounds) -> Result<Self, StoreError> {
        let keeper = Keeper::open(folder, bounds)?;
        Self::start(Store { folder: folder.into(), bounds, keeper: Some(keeper), unstored: 0 })
    }

    /// Has the thread open the store, for a disk that may hang or be full: it tries again at every beat. Until then records
    /// are not kept, and [`News::Failing`] says why. Fails where there is no thread to be had.
    pub fn opening(folder: &Path, bounds: Bounds) -> Result<Self, StoreError> {
        Self::start(Store { folder: folder.into(), bounds, keeper: None, unstored: 0 })
    }

    fn start(store: Store) -> Result<Self, StoreError> {
        let folder = store.folder.clone();
        let (jobs, to_do) = sync_channel(QUEUE);
        let (tell, done) = channel();
        std::thread::Builder::new()
            .name("guard-log".into())
            .spawn(move || work(store, &to_do, &tell))
            .map_err(|source| StoreError::Io { path: folder, call: "start a thread for", source })?;
        Ok(Self {
            jobs,
            done,
            waiting: 0,
            behind: false,
            hurry: None,
            unqueued: 0,
            not_kept: 0,
            failing: false,
            news: Vec::new(),
        })
    }

    /// Keeps that a guard stands.
    pub fn begin(&mut self, standing: Standing) {
        self.keep(Stored::Began(Began {
            wall_us: wall_us(),
            boot_id: boot_id(),
            kernel: kernel_release(),
            pid: std::process::id(),
            standing,
        }));
    }

    /// Keeps a record, and waits for that for 200 ms at most.
    pub fn keep(&mut self, stored: Stored) {
        if self.jobs.try_send(Job::Keep(stored)).is_ok() {
            self.waiting += 1;
            self.settle(if self.behind { Duration::ZERO } else { PATIENCE });
            self.behind = self.waiting > 0;
        } else {
            self.unqueued += 1;
            self.not_kept += 1;
            self.fail("it does not take records in time".into());
        }
    }

    /// Hands what was kept to the disk, and has told what was lost; without waiting. `dropped`: verdicts that had no
    /// room in the kernel's buffer since the guard began.
    pub fn beat(&mut self, dropped: u64) {
        // One that is behind gets the next.
        let is_taken = self.jobs.try_send(Job::Beat(Totals { dropped, unqueued: self.unqueued })).is_ok();
        self.waiting += u64::from(is_taken);
        self.settle(Duration::ZERO);
    }

    /// The guard is about to end: from here on it waits for a second in all, however many records are left.
    pub fn hurry(&mut self) {
        self.hurry = Some(Instant::now() + GRACE);
    }

    /// What is worth telling since this was last asked.
    pub fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Records that were not kept until now.
    pub const fn not_kept(&self) -> u64 {
        self.not_kept
    }

    /// Keeps that the guard ended, waits a second at most, and says how many records were not kept in all.
    pub fn end(mut self, why: &str, dropped: u64) -> u64 {
        self.keep(Stored::Ended(Ended {
            wall_us: wall_us(),
            pid: std::process::id(),
            why: crate::cgroup::printable(why),
        }));
        self.beat(dropped);
        self.hurry = None;
        self.settle(GRACE);
        // The last of those is the beat.
        self.not_kept.saturating_add(self.waiting.saturating_sub(1))
    }

    /// Waits for all that was asked, on a machine as slow as it may be.
    #[cfg(test)]
    pub(super) fn catch_up(&mut self) {
        self.settle(Duration::from_mins(1));
        self.behind = self.waiting > 0;
    }

    /// Takes what is done, until nothing is left to do or the time is up.
    fn settle(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        let until = self.hurry.map_or(until, |hurry| hurry.min(until));
        while self.waiting > 0 {
            let Ok(done) = self.done.recv_timeout(until.saturating_duration_since(Instant::now())) else {
                return;
            };
            self.waiting -= 1;
            match done {
                Done::Kept(Ok(())) => self.keeps(),
                Done::Kept(Err(why)) => {
                    self.not_kept += 1;
                    self.fail(why);
                }
                Done::Beat(Some(lost)) => {
                    self.keeps();
                    self.news.push(News::Lost(lost));
                }
                Done::Beat(None) => {}
            }
        }
    }

    fn keeps(&mut self) {
        if std::mem::take(&mut self.failing) {
            self.news.push(News::Keeping);
        }
    }

    fn fail(&mut self, why: String) {
        if !self.failing {
            self.failing = true;
            self.news.push(News::Failing(why));
        }
    }
}

fn work(mut store: Store, jobs: &Receiver<Job>, done: &Sender<Done>) {
    let mut told = Totals::default();
    for job in jobs {
        let result = match job {
            Job::Keep(mut stored) => {
                label(&mut stored);
                Done::Kept(store.keep(&stored).map_err(|error| error.to_string()))
            }
            Job::Beat(totals) => {
                let lost = store.beat(totals, told);
                if lost.is_some() {
                    told = totals;
                }
                Done::Beat(lost)
            }
        };
        if done.send(result).is_err() {
            return;
        }
    }
}

/// `before`: records that came before the store was open.
fn note_lost(keeper: &mut Keeper, totals: Totals, told: Totals, before: u64) -> Option<Lost> {
    let dropped = totals.dropped.saturating_sub(told.dropped);
    let unqueued = totals.unqueued.saturating_sub(told.unqueued);
    if dropped == 0 && unqueued == 0 && before == 0 && keeper.unstored() == 0 {
        return None;
    }
    let note = |unstored: u64| {
        let unstored = unstored.saturating_add(unqueued).saturating_add(before);
        Stored::Lost(Lost { wall_us: wall_us(), dropped, unstored })
    };
    match keeper.note_lost(note)? {
        Stored::Lost(lost) => Some(lost),
        Stored::Verdict(_) | Stored::Began(_) | Stored::Ended(_) => None,
    }
}

/// Adds the names that take a look at a disk.
fn label(stored: &mut Stored) {
    if let Stored::Verdict(record) = stored
        && let Some(place) = &record.place
    {
        let labels = labels(place);
        (record.pod, record.container) = (labels.pod, labels.container);
    }
}
