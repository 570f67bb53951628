//! What the thread that lowers and the thread that raises know of each other. Atomics only: neither waits for the other
//! to let go of a lock.

use super::{
    record::{limit_code, limit_of_code},
    settle::Ours,
};
use enforcer_gate::{Limit, LimitFile};
use nix::unistd::{Pid, gettid};
use std::{
    sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst},
    thread::Thread,
};

/// No value; a lowered limit is never `max`.
const NONE: u64 = u64::MAX;

/// The values of one file that are ours.
#[derive(Debug)]
struct FileState {
    written: AtomicU64,
    pending: AtomicU64,
}

/// State of a session that both threads see.
#[derive(Debug)]
pub(super) struct Shared {
    high: FileState,
    max: FileState,
    /// A restore has been asked for: nothing is lowered any more.
    restoring: AtomicBool,
    /// The thread inside a call that may block, or zero.
    blocked: AtomicI32,
}

/// A call that may block is in flight while this lives.
pub(super) struct Flight<'a> {
    shared: &'a Shared,
    waiter: &'a Thread,
}

impl Shared {
    pub(super) const fn new() -> Self {
        const fn file() -> FileState {
            FileState { written: AtomicU64::new(NONE), pending: AtomicU64::new(NONE) }
        }
        Self { high: file(), max: file(), restoring: AtomicBool::new(false), blocked: AtomicI32::new(0) }
    }

    const fn file(&self, file: LimitFile) -> &FileState {
        match file {
            LimitFile::High => &self.high,
            LimitFile::Max => &self.max,
        }
    }

    pub(super) fn ours(&self, file: LimitFile) -> Ours {
        let state = self.file(file);
        let value = |code: &AtomicU64| {
            let code = code.load(SeqCst);
            (code != NONE).then(|| limit_of_code(code))
        };
        Ours { written: value(&state.written), pending: value(&state.pending) }
    }

    /// Says that `value` is about to be written.
    pub(super) fn set_pending(&self, file: LimitFile, value: Limit) {
        self.file(file).pending.store(limit_code(value), SeqCst);
    }

    /// Says that the write came to nothing: the file does not hold the pending value.
    pub(super) fn drop_pending(&self, file: LimitFile) {
        self.file(file).pending.store(NONE, SeqCst);
    }

    /// Says that the pending value was written and read back.
    pub(super) fn confirm(&self, file: LimitFile) {
        let state = self.file(file);
        state.written.store(state.pending.load(SeqCst), SeqCst);
        state.pending.store(NONE, SeqCst);
    }

    /// Says that the file is no longer our concern.
    pub(super) fn forget(&self, file: LimitFile) {
        let state = self.file(file);
        state.written.store(NONE, SeqCst);
        state.pending.store(NONE, SeqCst);
    }

    /// For good: from here on [`Self::enter`] refuses.
    pub(super) fn start_restoring(&self) {
        self.restoring.store(true, SeqCst);
    }

    pub(super) fn is_restoring(&self) -> bool {
        self.restoring.load(SeqCst)
    }

    /// Marks the calling thread as about to block. `None`: a restore was asked for before.
    ///
    /// Each side writes its own flag before it reads the other's, so either this sees the restore, or the restore sees
    /// this thread in [`Self::blocked`].
    pub(super) fn enter<'a>(&'a self, waiter: &'a Thread) -> Option<Flight<'a>> {
        self.blocked.store(gettid().as_raw(), SeqCst);
        let flight = Flight { shared: self, waiter };
        (!self.is_restoring()).then_some(flight)
    }

    /// The thread that is inside a call that may block.
    pub(super) fn blocked(&self) -> Option<Pid> {
        match self.blocked.load(SeqCst) {
            0 => None,
            tid => Some(Pid::from_raw(tid)),
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.shared.blocked.store(0, SeqCst);
        self.waiter.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enforcer_gate::Bytes;

    fn bytes(n: u64) -> Limit {
        Limit::Bytes(Bytes::new(n))
    }

    #[test]
    fn both_the_written_and_the_pending_value_are_ours() {
        let shared = Shared::new();
        assert_eq!(shared.ours(LimitFile::High), Ours::default());
        shared.set_pending(LimitFile::High, bytes(8192));
        shared.confirm(LimitFile::High);
        shared.set_pending(LimitFile::High, bytes(4096));
        let both = Ours { written: Some(bytes(8192)), pending: Some(bytes(4096)) };
        assert_eq!(shared.ours(LimitFile::High), both);
        assert_eq!(shared.ours(LimitFile::Max), Ours::default());
        shared.drop_pending(LimitFile::High);
        assert_eq!(shared.ours(LimitFile::High).pending, None);
        shared.forget(LimitFile::High);
        assert_eq!(shared.ours(LimitFile::High), Ours::default());
    }

    #[test]
    fn nothing_starts_after_a_restore_was_asked_for() {
        let shared = Shared::new();
        let thread = std::thread::current();
        let flight = shared.enter(&thread).unwrap();
        assert_eq!(shared.blocked(), Some(gettid()));
        drop(flight);
        assert_eq!(shared.blocked(), None);
        shared.start_restoring();
        assert!(shared.enter(&thread).is_none());
        assert_eq!(shared.blocked(), None);
    }
}
