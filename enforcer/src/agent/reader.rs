//! Reads every container in turn, on a thread of its own: a file of a cgroup may keep whoever reads it waiting.

use super::reading::Reading;
use crate::{
    cgroup::{CgroupError, Mount},
    inventory::Home,
    shrink::now,
};
use enforcer_gate::Policy;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// Readings that may wait for the loop. Where it does not take them the reader waits for it.
const QUEUE: usize = 256;

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
    reads: mpsc::Receiver<Read>,
}

/// What to read, and how often.
#[derive(Debug)]
struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    homes: BTreeMap<String, Home>,
    /// Those that are read before their turn.
    soon: BTreeSet<String>,
    interval: Duration,
    ended: bool,
}

impl Reader {
    pub(super) fn start(mount: Arc<Mount>, policy: Policy, interval: Duration) -> io::Result<Self> {
        let state =
            Mutex::new(State { homes: BTreeMap::new(), soon: BTreeSet::new(), interval, ended: false });
        let board = Arc::new(Board { state, changed: Condvar::new() });
        let (send, reads) = mpsc::channel(QUEUE);
        let of_thread = Arc::clone(&board);
        std::thread::Builder::new()
            .name("reader".into())
            .spawn(move || of_thread.work(&mount, &policy, &send))?;
        Ok(Self { board, reads })
    }

    /// From now on this container is read; at once for the first time.
    pub(super) fn follow(&self, id: &str, home: Home) {
        self.board.locked().homes.insert(id.into(), home);
        self.board.changed.notify_one();
    }

    /// This container is read at once.
    pub(super) fn soon(&self, id: &str) {
        self.board.locked().soon.insert(id.into());
        self.board.changed.notify_one();
    }

    pub(super) fn forget(&self, id: &str) {
        self.board.locked().homes.remove(id);
    }

    /// Time from one reading of a container to the next.
    pub(super) fn set_interval(&self, interval: Duration) {
        self.board.locked().interval = interval;
        self.board.changed.notify_one();
    }

    /// The next reading. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Read> {
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

    fn work(&self, mount: &Arc<Mount>, policy: &Policy, send: &mpsc::Sender<Read>) {
        let mut due: BTreeMap<String, Instant> = BTreeMap::new();
        while let Some((id, home)) = self.turn(&mut due) {
            let result = Reading::take(mount, &home, policy, now());
            if send.blocking_send(Read { id, result }).is_err() {
                return;
            }
        }
    }

    /// Waits for the container whose turn comes next; `None` at the end.
    fn turn(&self, due: &mut BTreeMap<String, Instant>) -> Option<(String, Home)> {
        let mut state = self.locked();
        loop {
            if state.ended {
                return None;
            }
            let now = Instant::now();
            due.retain(|id, _| state.homes.contains_key(id));
            for id in std::mem::take(&mut state.soon) {
                due.entry(id).and_modify(|due| *due = now);
            }
            let next = state.homes.keys().map(|id| (due.get(id).copied().unwrap_or(now), id)).min();
            state = match next {
                Some((at, id)) if at <= now => {
                    let id = id.clone();
                    let home = state.homes.get(&id)?.clone();
                    due.insert(id.clone(), now + spread(&id, state.interval, due.contains_key(&id)));
                    return Some((id, home));
                }
                Some((at, _)) => {
                    let waited = self.changed.wait_timeout(state, at.duration_since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// After its first reading a container gets a phase of its own, so that those of one start do not stay together.
fn spread(id: &str, interval: Duration, known: bool) -> Duration {
    if known {
        return interval;
    }
    let part = u32::from(crc32fast::hash(id.as_bytes()).to_le_bytes()[0]) + 1;
    interval * part / 256
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cgroup::fixture::Fixture, inventory::Located};
    use enforcer_gate::CgroupId;

    #[test]
    fn the_second_reading_comes_within_the_interval() {
        let interval = Duration::from_secs(16);
        for id in ["a", "b", "0123"] {
            let first = spread(id, interval, false);
            assert!(first > Duration::ZERO && first <= interval, "{first:?}");
            assert_eq!(spread(id, interval, true), interval);
        }
        assert_ne!(spread("a", interval, false), spread("b", interval, false));
    }

    #[tokio::test]
    async fn who_is_followed_is_read_and_who_is_gone_is_told() {
        let tree = Fixture::new();
        tree.cgroup("a");
        let mount = tree.open("a").expect("is there").mount().clone();
        let located = |path: &str, id| Located { path: path.into(), id };
        let of = |path: &str, id| Home { scope: located(path, id), processes: located(path, id) };
        let id = tree.open("a").expect("is there").id();
        let mut reader = Reader::start(mount, Policy::default(), Duration::from_millis(5)).expect("starts");
        reader.follow("one", of("a", id));
        for _ in 0..3 {
            let read = reader.next().await.expect("is read");
            assert_eq!((read.id.as_str(), read.result.is_ok()), ("one", true));
        }
        reader.follow("other", of("b", CgroupId::new(1)));
        loop {
            let read = reader.next().await.expect("is read");
            if read.id == "other" {
                assert!(read.result.is_err());
                break;
            }
        }
        reader.forget("one");
        reader.forget("other");
    }
}
