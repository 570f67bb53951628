//! Reads every container in turn, on a thread of its own: a file of a cgroup may keep whoever reads it waiting.

use super::{StartError, reading::Reading, schedule::Schedule};
use crate::{cgroup::CgroupError, inventory::Home, shrink::now};
use enforcer_gate::Policy;
use std::{
    future::pending,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc::sync_channel},
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// Readings that are handed over at once: one that hangs keeps so many less one others waiting.
const BUNCH_MAX: usize = 32;
/// Bunches that may wait for the loop. Where it does not take them the reader waits for it.
const QUEUE: usize = 8;

/// A container and what was read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) id: String,
    /// When that was over.
    pub(super) at: enforcer_gate::Instant,
    pub(super) result: Result<Reading, CgroupError>,
}

/// Containers that are read together.
type Bunch = Vec<(String, Home)>;
/// Reads one container.
pub(super) type Take = Box<dyn FnMut(&Home, &Policy) -> Result<Reading, CgroupError>>;
/// Makes one, on the thread that is to use it.
pub(super) type Make = Box<dyn Fn() -> Result<Take, CgroupError> + Send + Sync>;

/// The thread. It ends with this.
pub(super) struct Reader {
    board: Arc<Board>,
    make: Arc<Make>,
    /// Nothing where the thread has ended, which it should not.
    reads: Option<mpsc::Receiver<Vec<Read>>>,
}

/// What to read, and how often.
#[derive(Debug)]
struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    schedule: Schedule,
    policy: Arc<Policy>,
    ended: bool,
}

impl Reader {
    pub(super) fn start(make: Make, policy: Policy, interval: Duration) -> Result<Self, StartError> {
        let schedule = Schedule::new(Instant::now(), interval);
        let state = Mutex::new(State { schedule, policy: Arc::new(policy), ended: false });
        let board = Arc::new(Board { state, changed: Condvar::new() });
        let mut reader = Self { board, make: Arc::new(make), reads: None };
        reader.begin()?;
        Ok(reader)
    }

    /// Begins again where the thread has ended; what is followed stays.
    pub(super) fn begin(&mut self) -> Result<(), StartError> {
        if self.reads.is_some() {
            return Ok(());
        }
        let (send, reads) = mpsc::channel(QUEUE);
        let (tell, told) = sync_channel(1);
        let (board, make) = (Arc::clone(&self.board), Arc::clone(&self.make));
        let work = move || match make() {
            Ok(take) => {
                let _ = tell.send(Ok(()));
                board.work(take, &send);
            }
            Err(error) => drop(tell.send(Err(error))),
        };
        let io = StartError::io("start the reader's thread");
        std::thread::Builder::new().name("reader".into()).spawn(work).map_err(io)?;
        // Where it panicked nobody reads, and whoever waits for the next reading is told.
        told.recv().unwrap_or(Ok(()))?;
        self.reads = Some(reads);
        Ok(())
    }

    /// From now on this container is read; at once for the first time.
    pub(super) fn follow(&self, id: &str, home: Home) {
        self.board.locked().schedule.follow(id, home, Instant::now());
        self.board.changed.notify_one();
    }

    /// This container is read at once.
    pub(super) fn soon(&self, id: &str) {
        self.board.locked().schedule.soon(id, Instant::now());
        self.board.changed.notify_one();
    }

    pub(super) fn forget(&self, id: &str) {
        self.board.locked().schedule.forget(id);
    }

    /// Time from one reading of a container to the next.
    pub(super) fn set_interval(&self, interval: Duration) {
        self.board.locked().schedule.set_interval(interval);
    }

    /// From the next reading of each on.
    pub(super) fn set_policy(&self, policy: Policy) {
        self.board.locked().policy = Arc::new(policy);
    }

    /// The next readings; nothing, once, where the thread has ended. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Vec<Read>> {
        let Some(reads) = &mut self.reads else { return pending().await };
        let read = reads.recv().await;
        if read.is_none() {
            self.reads = None;
        }
        read
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.reads = None;
        self.board.locked().ended = true;
        self.board.changed.notify_one();
    }
}

impl Board {
    /// Who panicked while holding it left it whole: nothing in here can panic half-way.
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, mut take: Take, send: &mpsc::Sender<Vec<Read>>) {
        while let Some((bunch, policy)) = self.turn() {
            let read = |(id, home): (String, Home)| {
                let result = take(&home, &policy);
                Read { id, at: now(), result }
            };
            if send.blocking_send(bunch.into_iter().map(read).collect()).is_err() {
                return;
            }
        }
    }

    /// Waits for the containers whose turn comes next; `None` at the end.
    fn turn(&self) -> Option<(Bunch, Arc<Policy>)> {
        let mut state = self.locked();
        while !state.ended {
            let now = Instant::now();
            state = match state.schedule.next() {
                Some(at) if at <= now => {
                    let bunch = state.schedule.take(now, BUNCH_MAX);
                    return Some((bunch, Arc::clone(&state.policy)));
                }
                Some(at) => {
                    let waited = self.changed.wait_timeout(state, at.duration_since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cgroup::{Herd, fixture::Fixture},
        inventory::Located,
    };
    use enforcer_gate::{Bytes, CgroupId};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn home(path: &str, id: CgroupId) -> Home {
        let located = || Located { path: path.into(), id };
        Home { scope: located(), processes: located() }
    }

    /// Reads what a tree has.
    fn taking(tree: &Fixture) -> Make {
        let mount = tree.open("a").expect("is there").mount().clone();
        Box::new(move || {
            let (mut herd, mount) = (Herd::new()?, mount.clone());
            Ok(Box::new(move |home, policy| Reading::take(&mut herd, &mount, home, policy, now())))
        })
    }

    const OFTEN: Duration = Duration::from_millis(5);

    #[tokio::test]
    async fn who_is_followed_is_read_and_who_is_gone_is_told() {
        let tree = Fixture::new();
        tree.cgroup("a");
        let id = tree.open("a").expect("is there").id();
        let mut reader = Reader::start(taking(&tree), Policy::default(), OFTEN).expect("starts");
        reader.follow("one", home("a", id));
        for _ in 0..3 {
            for read in reader.next().await.expect("is read") {
                assert_eq!((read.id.as_str(), read.result.is_ok()), ("one", true));
            }
        }
        reader.follow("other", home("b", CgroupId::new(1)));
        let mut other = None;
        while other.is_none() {
            other = reader.next().await.expect("is read").into_iter().find(|read| read.id == "other");
        }
        assert!(other.is_some_and(|read| read.result.is_err()));
        reader.forget("one");
        reader.forget("other");
    }

    #[tokio::test]
    async fn one_that_died_is_told_once_and_reads_on_when_it_is_begun_again() {
        let tree = Fixture::new();
        tree.cgroup("a");
        let id = tree.open("a").expect("is there").id();
        let (whole, is_broken) = (taking(&tree), Arc::new(AtomicBool::new(true)));
        let breaks = Arc::clone(&is_broken);
        let make: Make = Box::new(move || {
            let (mut take, breaks) = (whole()?, Arc::clone(&breaks));
            Ok(Box::new(move |home, policy| {
                assert!(!breaks.load(Ordering::Relaxed), "on purpose");
                take(home, policy)
            }))
        });
        let mut reader = Reader::start(make, Policy::default(), OFTEN).expect("starts");
        reader.follow("one", home("a", id));
        assert!(reader.next().await.is_none());
        tokio::select! {
            biased;
            read = reader.next() => panic!("it was told: {read:?}"),
            () = tokio::task::yield_now() => {}
        }
        is_broken.store(false, Ordering::Relaxed);
        reader.begin().expect("starts");
        let reads = reader.next().await.expect("is read");
        assert_eq!((reads[0].id.as_str(), reads[0].result.is_ok()), ("one", true));
    }

    #[tokio::test]
    async fn another_policy_is_gone_by_from_the_next_reading_on() {
        let tree = Fixture::new();
        tree.cgroup("a");
        let id = tree.open("a").expect("is there").id();
        let (tell, mut told) = mpsc::unbounded_channel();
        let whole = taking(&tree);
        let make: Make = Box::new(move || {
            let (mut take, tell) = (whole()?, tell.clone());
            Ok(Box::new(move |home, policy| {
                // The test may have seen enough.
                let _ = tell.send(policy.headroom_min);
                take(home, policy)
            }))
        });
        let other = Bytes::from_mib(77);
        let mut reader = Reader::start(make, Policy::default(), OFTEN).expect("starts");
        reader.follow("one", home("a", id));
        assert_ne!(told.recv().await, Some(other));
        reader.set_policy(Policy { headroom_min: other, ..Policy::default() });
        loop {
            tokio::select! {
                headroom = told.recv() => if headroom == Some(other) { break },
                read = reader.next() => assert!(read.is_some()),
            }
        }
    }
}
