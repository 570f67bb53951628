//! The thread that raises, and the handle that asks it to.

use super::{
    ActuateError,
    above::{Above, settle_below},
    interrupt::Interrupt,
    limit_fd::LimitFd,
    record::{limit_code, limit_of_code},
    settle::{Settled, settle},
    shared::Shared,
    urgent::run_first,
};
use crate::cgroup::Cgroup;
use enforcer_gate::{Limit, LimitFile, OutcomeKind};
use nix::errno::Errno;
use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    thread::{JoinHandle, Thread},
    time::{Duration, Instant},
};

/// How long a blocked call is waited for after it was interrupted. Both files are raised before the wait already; it is
/// there to see that the call did not lower one afterwards.
const INTERRUPT_SPAN_MAX: Duration = Duration::from_secs(2);
/// A signal that comes before the thread has entered the kernel is lost, so it is repeated.
const INTERRUPT_AGAIN: Duration = Duration::from_micros(500);

/// Asks for files to be put back. May be called from any thread, also while a call of the session blocks: that call is
/// interrupted.
#[derive(Debug, Clone)]
pub struct RestoreHandle {
    inner: Arc<Inner>,
    thread: Thread,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    high: AtomicU64,
    high_wanted: AtomicBool,
    max: AtomicU64,
    max_wanted: AtomicBool,
    asked: AtomicU64,
    stop: AtomicBool,
    /// Number of the request that was answered last, and the answer. The raising thread takes it after it has raised.
    answer: Mutex<Answer>,
    answered: Condvar,
    /// One request at a time.
    turn: Mutex<()>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Answer {
    number: u64,
    high: Option<Settled>,
    max: Option<Settled>,
    /// A call that blocked did not return after it was interrupted.
    stuck: bool,
    stopped: bool,
}

/// The thread, ended when this is dropped.
#[derive(Debug)]
pub(super) struct Raiser {
    handle: RestoreHandle,
    join: Option<JoinHandle<()>>,
}

impl RestoreHandle {
    /// Puts the named files back to these values, as they were found: `memory.max` first. Only where a file still holds a
    /// value that this session wrote, and only up.
    ///
    /// From the first call on the session lowers nothing any more. [`OutcomeKind::Superseded`] names the first file that
    /// holds somebody else's value.
    pub fn restore(&self, high: Option<Limit>, max: Option<Limit>) -> OutcomeKind {
        let inner = &self.inner;
        inner.shared.start_restoring();
        let _turn = lock(&inner.turn);
        for (limit, value, wanted) in
            [(high, &inner.high, &inner.high_wanted), (max, &inner.max, &inner.max_wanted)]
        {
            value.store(limit.map_or(0, limit_code), SeqCst);
            wanted.store(limit.is_some(), SeqCst);
        }
        let number = inner.asked.fetch_add(1, SeqCst) + 1;
        self.thread.unpark();
        let mut answer = lock(&inner.answer);
        while answer.number < number && !answer.stopped {
            answer = inner.answered.wait(answer).unwrap_or_else(PoisonError::into_inner);
        }
        outcome(*answer, number)
    }
}

fn outcome(answer: Answer, number: u64) -> OutcomeKind {
    if answer.number < number {
        return OutcomeKind::Failed { what: "the session has ended".into(), errno: 0 };
    }
    let each = [(LimitFile::Max, answer.max), (LimitFile::High, answer.high)];
    let outcomes =
        each.map(|(file, settled)| settled.map_or(OutcomeKind::Done, |settled| settled.outcome(file)));
    let worst = outcomes.into_iter().find(|outcome| *outcome != OutcomeKind::Done);
    match worst {
        Some(outcome) => outcome,
        None if answer.stuck => OutcomeKind::Failed {
            what: "a blocked write did not return".into(),
            errno: Errno::ETIMEDOUT as i32,
        },
        None => OutcomeKind::Done,
    }
}

impl Raiser {
    /// Opens files of its own and starts the thread; it is ready when this returns.
    pub(super) fn start(
        cgroup: &Cgroup,
        above: Option<Above>,
        shared: Arc<Shared>,
        interrupt: Interrupt,
    ) -> Result<Self, ActuateError> {
        let files = Files {
            above,
            high: LimitFd::open(cgroup, LimitFile::High)?,
            max: LimitFd::open(cgroup, LimitFile::Max)?,
        };
        let inner = Arc::new(Inner {
            shared,
            high: AtomicU64::new(0),
            high_wanted: AtomicBool::new(false),
            max: AtomicU64::new(0),
            max_wanted: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            answer: Mutex::new(Answer::default()),
            answered: Condvar::new(),
            turn: Mutex::new(()),
        });
        let (ready, is_ready) = mpsc::sync_channel(1);
        let join = std::thread::Builder::new()
            .name("enforcer-raise".into())
            .spawn({
                let inner = Arc::clone(&inner);
                move || {
                    // As good as it gets: a machine that refuses it is slower to restore, and no less safe.
                    let _ = run_first();
                    // Brings in the code of a restore; nothing is ours yet, so nothing is written.
                    raise(&inner, &files, interrupt);
                    let _ = ready.send(());
                    serve(&inner, &files, interrupt);
                }
            })
            .map_err(|source| ActuateError::system("start a thread", source))?;
        let thread = join.thread().clone();
        is_ready.recv().map_err(|_| ActuateError::system("start a thread", Errno::ESRCH))?;
        Ok(Self { handle: RestoreHandle { inner, thread }, join: Some(join) })
    }

    pub(super) fn handle(&self) -> &RestoreHandle {
        &self.handle
    }

    /// The thread that wants to know when a call that may block has returned.
    pub(super) fn thread(&self) -> &Thread {
        &self.handle.thread
    }
}

impl Drop for Raiser {
    fn drop(&mut self) {
        self.handle.inner.stop.store(true, SeqCst);
        self.handle.thread.unpark();
        if let Some(join) = self.join.take() {
            // A panic there was printed; the restorer process acts for it.
            let _ = join.join();
        }
        lock(&self.handle.inner.answer).stopped = true;
        self.handle.inner.answered.notify_all();
    }
}

struct Files {
    above: Option<Above>,
    high: LimitFd,
    max: LimitFd,
}

fn serve(inner: &Inner, files: &Files, interrupt: Interrupt) {
    let mut served = 0;
    loop {
        let asked = inner.asked.load(SeqCst);
        if asked != served {
            let mut answer = raise(inner, files, interrupt);
            answer.number = asked;
            *lock(&inner.answer) = answer;
            inner.answered.notify_all();
            served = asked;
        } else if inner.stop.load(SeqCst) {
            return;
        } else {
            std::thread::park();
        }
    }
}

/// Interrupts what blocks, raises at once, and raises again if the call that blocked might have lowered in between.
///
/// Raising before that call has returned does no harm: its signal is pending by then, so its next look ends it.
fn raise(inner: &Inner, files: &Files, interrupt: Interrupt) -> Answer {
    let blocked = inner.shared.blocked();
    if let Some(thread) = blocked {
        interrupt.kick(thread);
    }
    let mut answer = pass(inner, files);
    if blocked.is_some() {
        let until = Instant::now() + INTERRUPT_SPAN_MAX;
        while let Some(thread) = inner.shared.blocked() {
            if Instant::now() >= until {
                answer.stuck = true;
                break;
            }
            interrupt.kick(thread);
            std::thread::park_timeout(INTERRUPT_AGAIN);
        }
        let again = pass(inner, files);
        answer.high = again.high;
        answer.max = again.max;
    }
    answer
}

fn pass(inner: &Inner, files: &Files) -> Answer {
    let found = |wanted: &AtomicBool, value: &AtomicU64| {
        wanted.load(SeqCst).then(|| limit_of_code(value.load(SeqCst)))
    };
    let (max, high) = (found(&inner.max_wanted, &inner.max), found(&inner.high_wanted, &inner.high));
    let ours = |file| inner.shared.ours(file);
    let max = max.map(|found| settle_below(files.above.as_ref(), &files.max, ours(LimitFile::Max), found));
    let high = high.map(|found| settle(&files.high, ours(LimitFile::High), found));
    Answer { high, max, ..Answer::default() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
