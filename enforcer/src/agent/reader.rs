//! Reads every container in turn, on a thread of its own: a file of a cgroup may keep whoever reads it waiting.

use super::{reading::Reading, schedule::Schedule};
use crate::{
    cgroup::{CgroupError, Herd, Mount},
    inventory::Home,
    shrink::now,
};
use enforcer_gate::Policy;
use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
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
    pub(super) result: Result<Reading, CgroupError>,
}

/// The thread. It ends with this.
#[derive(Debug)]
pub(super) struct Reader {
    board: Arc<Board>,
    reads: mpsc::Receiver<Vec<Read>>,
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
    ended: bool,
}

impl Reader {
    pub(super) fn start(
        herd: Herd,
        mount: Arc<Mount>,
        policy: Policy,
        interval: Duration,
    ) -> io::Result<Self> {
        let state = Mutex::new(State { schedule: Schedule::new(Instant::now(), interval), ended: false });
        let board = Arc::new(Board { state, changed: Condvar::new() });
        let (send, reads) = mpsc::channel(QUEUE);
        let of_thread = Arc::clone(&board);
        std::thread::Builder::new()
            .name("reader".into())
            .spawn(move || of_thread.work(herd, &mount, &policy, &send))?;
        Ok(Self { board, reads })
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

    /// The next readings. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Vec<Read>> {
        self.reads.recv().await
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.reads.close();
        self.board.locked().ended = true;
        self.board.changed.notify_one();
    }
}

impl Board {
    /// Who panicked while holding it left it whole: nothing in here can panic half-way.
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, mut herd: Herd, mount: &Arc<Mount>, policy: &Policy, send: &mpsc::Sender<Vec<Read>>) {
        while let Some(bunch) = self.turn() {
            let read = |(id, home): (String, Home)| Read {
                id,
                result: Reading::take(&mut herd, mount, &home, policy, now()),
            };
            if send.blocking_send(bunch.into_iter().map(read).collect()).is_err() {
                return;
            }
        }
    }

    /// Waits for the containers whose turn comes next; `None` at the end.
    fn turn(&self) -> Option<Vec<(String, Home)>> {
        let mut state = self.locked();
        while !state.ended {
            let now = Instant::now();
            state = match state.schedule.next() {
                Some(at) if at <= now => return Some(state.schedule.take(now, BUNCH_MAX)),
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
    use crate::{cgroup::fixture::Fixture, inventory::Located};
    use enforcer_gate::CgroupId;

    #[tokio::test]
    async fn who_is_followed_is_read_and_who_is_gone_is_told() {
        let tree = Fixture::new();
        tree.cgroup("a");
        let mount = tree.open("a").expect("is there").mount().clone();
        let located = |path: &str, id| Located { path: path.into(), id };
        let of = |path: &str, id| Home { scope: located(path, id), processes: located(path, id) };
        let id = tree.open("a").expect("is there").id();
        let herd = Herd::new().expect("this host");
        let mut reader =
            Reader::start(herd, mount, Policy::default(), Duration::from_millis(5)).expect("starts");
        reader.follow("one", of("a", id));
        for _ in 0..3 {
            for read in reader.next().await.expect("is read") {
                assert_eq!((read.id.as_str(), read.result.is_ok()), ("one", true));
            }
        }
        reader.follow("other", of("b", CgroupId::new(1)));
        let mut other = None;
        while other.is_none() {
            other = reader.next().await.expect("is read").into_iter().find(|read| read.id == "other");
        }
        assert!(other.is_some_and(|read| read.result.is_err()));
        reader.forget("one");
        reader.forget("other");
    }
}
