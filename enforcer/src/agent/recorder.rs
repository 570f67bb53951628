//! The OOM recorder, on a thread of its own: it waits for the disk.

use crate::{
    clock::nanos,
    oom::{Follower, Stored},
    probe::{Event, Kind},
};
use nix::time::ClockId;
use std::{
    collections::BTreeMap,
    io,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread::JoinHandle,
    time::Duration,
};
use tokio::sync::mpsc;

/// Events that may wait for the disk: as many as the kernel's own buffer holds.
const QUEUE: usize = 32_768;
/// Records that may wait to be told. One that finds no room is stored all the same.
const TOLD: usize = 1024;
/// How long the end waits for a disk that hangs.
const GRACE: Duration = Duration::from_secs(2);

/// What it has to say.
#[derive(Debug)]
pub(super) enum Told {
    /// Its store is open, and it records.
    Begun,
    /// It could not begin, and has ended.
    Failed(String),
    /// A record; it is in the store, if the store takes records.
    Record(Box<Stored>),
    /// The store takes no records, and why; or it takes them again.
    Trouble(Option<String>),
}

enum Job {
    Take(Box<Event>),
    Settle(BTreeMap<Kind, u64>),
}

/// The agent's side of it.
#[derive(Debug)]
pub(super) struct Recorder {
    jobs: Option<SyncSender<Job>>,
    told: mpsc::Receiver<Told>,
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
    /// Events that found no room, by kind.
    unqueued: BTreeMap<Kind, u64>,
    /// Some were handed over since the last settling.
    dirty: bool,
}

impl Recorder {
    /// Begins on its own thread, for that waits for the disk as well. What happens meanwhile is kept for it.
    pub(super) fn start(
        begin: impl FnOnce() -> Result<Follower, String> + Send + 'static,
    ) -> io::Result<Self> {
        let (jobs, to_do) = sync_channel(QUEUE);
        let (tell, told) = mpsc::channel(TOLD);
        let (end, ended) = sync_channel(1);
        let thread = std::thread::Builder::new().name("recorder".into()).spawn(move || {
            match begin() {
                Ok(follower) => {
                    let _ = tell.blocking_send(Told::Begun);
                    work(follower, &to_do, &tell);
                }
                Err(why) => drop(tell.blocking_send(Told::Failed(why))),
            }
            // Nobody waits where the agent has gone.
            let _ = end.send(());
        })?;
        let unqueued = BTreeMap::new();
        Ok(Self { jobs: Some(jobs), told, ended, thread: Some(thread), unqueued, dirty: false })
    }

    /// Hands an event over, if it is about an OOM; never waits.
    pub(super) fn take(&mut self, event: &Event) {
        let kind = match event {
            Event::OomKill(_) => Kind::OomKill,
            Event::OomEnd(_) => Kind::OomEnd,
            Event::LimitWrite(_) => Kind::LimitWrite,
            Event::CgroupLife(_) => Kind::CgroupLife,
            Event::ReclaimBegin(_) | Event::ReclaimEnd(_) | Event::Judged(_) => return,
        };
        self.dirty = true;
        let taken = self.jobs.as_ref().is_some_and(|jobs| jobs.try_send(Job::Take(Box::new(*event))).is_ok());
        if !taken {
            let count = self.unqueued.entry(kind).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// After a batch of events. `drops`: what had no room in the kernel's buffer.
    pub(super) fn settle(&mut self, drops: &BTreeMap<Kind, u64>) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        let mut lost = drops.clone();
        for (kind, count) in &self.unqueued {
            let sum = lost.entry(*kind).or_default();
            *sum = sum.saturating_add(*count);
        }
        let taken = self.jobs.as_ref().is_some_and(|jobs| jobs.try_send(Job::Settle(lost)).is_ok());
        self.dirty = !taken;
    }

    /// Events that found no room on the way to the disk.
    pub(super) fn unqueued(&self) -> u64 {
        self.unqueued.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// What it has to say next. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Told> {
        self.told.recv().await
    }

    /// Has the rest recorded. `false`: the disk does not take it in time.
    pub(super) fn end(&mut self) -> bool {
        self.jobs = None;
        let is_done = self.ended.recv_timeout(GRACE).is_ok();
        if is_done && let Some(thread) = self.thread.take() {
            // It has said that it is done.
            let _ = thread.join();
        }
        is_done
    }
}

fn work(mut follower: Follower, jobs: &Receiver<Job>, tell: &mpsc::Sender<Told>) {
    // What is not told is in the store.
    let mut each = |stored: &Stored| drop(tell.try_send(Told::Record(Box::new(stored.clone()))));
    let mut troubled = None;
    let mut dropped = BTreeMap::new();
    loop {
        let job = match follower.due_ns() {
            Some(due_ns) => {
                let left = due_ns.saturating_sub(nanos(ClockId::CLOCK_MONOTONIC));
                match jobs.recv_timeout(Duration::from_nanos(left)) {
                    Err(RecvTimeoutError::Timeout) => Some(Job::Settle(dropped.clone())),
                    Err(RecvTimeoutError::Disconnected) => None,
                    Ok(job) => Some(job),
                }
            }
            None => jobs.recv().ok(),
        };
        match job {
            Some(Job::Take(event)) => follower.take(&event, &mut each),
            Some(Job::Settle(drops)) => {
                let named = drops.iter().map(|(kind, count)| (kind.name().to_owned(), *count)).collect();
                dropped = drops;
                follower.settle(named, &mut each);
            }
            None => break,
        }
        if follower.trouble() != troubled.as_deref() {
            let trouble = follower.trouble().map(str::to_owned);
            // Where it is not told now it is with the next one.
            if tell.try_send(Told::Trouble(trouble.clone())).is_ok() {
                troubled = trouble;
            }
        }
    }
    follower.end(&mut each);
}
