//! What is to be said to the API server, held while it is away: events, and decisions about limits.
//!
//! Whoever hands something over never waits. Both queues are bounded and count what they dropped. An event keeps the time
//! at which it first happened; the same again is counted and not queued twice. A decision replaces an older one about the
//! same container, and is carried out only over the generation that it was taken on.

use super::{
    call::CallError,
    connect::Server,
    event::{self, Event},
    patch::{self, Outcome, PlanError, Want},
    read,
    state::{PodName, PodState},
    watch::Wait,
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::sleep,
};

/// Events that wait.
pub const EVENTS_MAX: usize = 512;
/// Decisions that wait.
pub const DECISIONS_MAX: usize = 128;
/// Outcomes that wait to be taken.
const OUTCOMES_MAX: usize = DECISIONS_MAX;
/// How often a decision is looked at again after a conflict.
const CONFLICTS_MAX: u32 = 5;

/// A limit that a container is to have, decided on one generation of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The pod.
    pub pod: PodName,
    /// Its uid.
    pub uid: String,
    /// Over a newer one it is not carried out.
    pub generation: i64,
    /// What it is to have.
    pub want: Want,
}

/// What came of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Came {
    /// The API server answered; never [`Outcome::Conflict`] or [`Outcome::Unavailable`].
    Of(Outcome),
    /// The pod has another generation, or another uid: somebody has decided since. It as it is now.
    Overtaken(Option<Box<PodState>>),
    /// There is no patch that would do it.
    Impossible(PlanError),
    /// It changed under each try.
    GaveUp,
}

/// What was dropped and done, for metrics.
#[derive(Debug, Default)]
pub struct Counters {
    /// Events for which there was no room.
    pub events_dropped: AtomicU64,
    /// Events that the API server refused.
    pub events_refused: AtomicU64,
    /// Events that were sent.
    pub events_sent: AtomicU64,
    /// Decisions for which there was no room, or whose outcome nobody took.
    pub decisions_dropped: AtomicU64,
    /// Times that nobody answered.
    pub unavailable: AtomicU64,
}

#[derive(Debug, Default)]
struct Queues {
    events: VecDeque<Event>,
    decisions: VecDeque<Decision>,
}

#[derive(Debug, Default)]
struct Shared {
    queues: Mutex<Queues>,
    more: Notify,
    counters: Counters,
}

impl Shared {
    fn queues(&self) -> std::sync::MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// It is sent until this is dropped; what waits then is lost.
#[derive(Debug)]
pub struct Outbox {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Outbox {
    /// Begins. Must be called in a tokio runtime. What comes of decisions is to be taken from the receiver.
    pub fn start(server: Server) -> (Self, mpsc::Receiver<(Decision, Came)>) {
        let shared = Arc::<Shared>::default();
        let (came, taken) = mpsc::channel(OUTCOMES_MAX);
        let sender = Sender { server, shared: Arc::clone(&shared), came };
        let task = tokio::spawn(async move { sender.run().await });
        (Self { shared, task }, taken)
    }

    /// Hands an event over. The oldest makes room where there is none.
    pub fn event(&self, event: Event) {
        let mut queues = self.shared.queues();
        if let Some(same) = queues.events.iter_mut().find(|waiting| waiting.is_same(&event)) {
            same.again(event);
        } else {
            if queues.events.len() == EVENTS_MAX {
                queues.events.pop_front();
                self.shared.counters.events_dropped.fetch_add(1, Ordering::Relaxed);
            }
            queues.events.push_back(event);
        }
        drop(queues);
        self.shared.more.notify_one();
    }

    /// Hands a decision over. `false`: there is no room, and it is dropped.
    pub fn decide(&self, decision: Decision) -> bool {
        let mut queues = self.shared.queues();
        let same = |waiting: &&mut Decision| {
            waiting.uid == decision.uid && waiting.want.container == decision.want.container
        };
        let taken = if let Some(older) = queues.decisions.iter_mut().find(same) {
            *older = decision;
            true
        } else if queues.decisions.len() < DECISIONS_MAX {
            queues.decisions.push_back(decision);
            true
        } else {
            false
        };
        drop(queues);
        if taken {
            self.shared.more.notify_one();
        } else {
            self.shared.counters.decisions_dropped.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Events and decisions that wait.
    pub fn waiting(&self) -> (usize, usize) {
        let queues = self.shared.queues();
        (queues.events.len(), queues.decisions.len())
    }

    /// What was dropped and done.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Sender {
    server: Server,
    shared: Arc<Shared>,
    came: mpsc::Sender<(Decision, Came)>,
}

impl Sender {
    async fn run(&self) {
        let mut wait = Wait::new(&self.server);
        loop {
            // It stays in its queue while it is sent, so that a newer one can take its place.
            let next = self.shared.queues().decisions.front().cloned();
            let done = if let Some(decision) = next {
                self.carry_out(&decision).await
            } else {
                let next = self.shared.queues().events.front().cloned();
                let Some(event) = next else {
                    self.shared.more.notified().await;
                    continue;
                };
                self.tell(&event).await
            };
            match done {
                Ok(()) => wait.is_over(),
                Err(error) => {
                    self.shared.counters.unavailable.fetch_add(1, Ordering::Relaxed);
                    sleep(wait.next(error.retry_after())).await;
                }
            }
        }
    }

    /// An error: nobody answers, and it is tried again.
    async fn carry_out(&self, decision: &Decision) -> Result<(), CallError> {
        let came = self.came_of(decision).await?;
        self.shared.queues().decisions.retain(|waiting| waiting != decision);
        if self.came.try_send((decision.clone(), came)).is_err() {
            self.shared.counters.decisions_dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn came_of(&self, decision: &Decision) -> Result<Came, CallError> {
        for _ in 0..CONFLICTS_MAX {
            let pod = match read::pod(&self.server, &decision.pod).await {
                Ok(pod) => pod,
                Err(error) => match patch::outcome(error) {
                    Outcome::Unavailable { why, .. } => return Err(why),
                    Outcome::Gone => return Ok(Came::Overtaken(None)),
                    other @ (Outcome::Patched(_) | Outcome::Conflict | Outcome::Refused(_)) => {
                        return Ok(Came::Of(other));
                    }
                },
            };
            if pod.uid != decision.uid || pod.generation != decision.generation {
                return Ok(Came::Overtaken(Some(Box::new(pod))));
            }
            let planned = match patch::plan(&pod, std::slice::from_ref(&decision.want)) {
                Ok(planned) => planned,
                Err(error) => return Ok(Came::Impossible(error)),
            };
            match patch::send(&self.server, &planned, false).await {
                Outcome::Conflict => {}
                Outcome::Unavailable { why, .. } => return Err(why),
                other @ (Outcome::Patched(_) | Outcome::Gone | Outcome::Refused(_)) => {
                    return Ok(Came::Of(other));
                }
            }
        }
        Ok(Came::GaveUp)
    }

    async fn tell(&self, sent: &Event) -> Result<(), CallError> {
        let counters = &self.shared.counters;
        match event::send(&self.server, sent).await {
            Ok(()) => counters.events_sent.fetch_add(1, Ordering::Relaxed),
            Err(error) if error.is_passing() => return Err(error),
            Err(_) => counters.events_refused.fetch_add(1, Ordering::Relaxed),
        };
        // The oldest may have made room meanwhile; the same again since then is told on its own.
        let mut queues = self.shared.queues();
        if let Some(at) = queues.events.iter().position(|waiting| waiting.is_same(sent)) {
            let rest = queues.events[at].since(sent);
            match rest {
                Some(rest) => queues.events[at] = rest,
                None => drop(queues.events.remove(at)),
            }
        }
        Ok(())
    }
}
