//! One set of kernel programs, many listeners.

use crate::probe::{Event, Probe, ProbeError};
use enforcer_gate::CgroupId;
use std::sync::Arc;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;

/// Events that a listener may be behind before it loses some (it is told so).
const BACKLOG: usize = 4096;
/// Watch requests that may wait.
const REQUESTS: usize = 64;

enum Order {
    Watch(CgroupId),
    Unwatch(CgroupId),
}

type Reply = oneshot::Sender<Result<(), ProbeError>>;

/// Why nothing more is heard from the kernel.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The task that reads the kernel programs' records has ended.
    #[error("the kernel programs are no longer read")]
    Stopped,
    /// A kernel program's map can't be used.
    #[error(transparent)]
    Probe(#[from] ProbeError),
}

/// Hands every kernel event to every listener. Clones share the one probe.
#[derive(Clone)]
pub struct Bus {
    events: broadcast::Sender<Arc<Event>>,
    orders: mpsc::Sender<(Order, Reply)>,
}

/// What a listener gets next.
pub enum Heard {
    /// An event.
    Event(Arc<Event>),
    /// The listener was too slow: so many events are lost to it. It must read the files.
    Missed(u64),
}

/// One listener's end.
pub struct Subscription(broadcast::Receiver<Arc<Event>>);

impl Bus {
    /// Starts handing out the events of `probe` on the current runtime. The task ends, with the probe as it
    /// then is, when the last `Bus` is dropped.
    pub fn start(probe: Probe) -> (Self, JoinHandle<Result<Probe, ProbeError>>) {
        let (events, _) = broadcast::channel(BACKLOG);
        let (orders, queue) = mpsc::channel(REQUESTS);
        let task = tokio::spawn(pump(probe, events.clone(), queue));
        (Self { events, orders }, task)
    }

    /// Listens from now on.
    pub fn subscribe(&self) -> Subscription {
        Subscription(self.events.subscribe())
    }

    /// Asks for reclaim events of one cgroup.
    pub async fn watch(&self, id: CgroupId) -> Result<(), BusError> {
        self.order(Order::Watch(id)).await
    }

    /// No more reclaim events of that cgroup.
    pub async fn unwatch(&self, id: CgroupId) -> Result<(), BusError> {
        self.order(Order::Unwatch(id)).await
    }

    async fn order(&self, order: Order) -> Result<(), BusError> {
        let (reply, answer) = oneshot::channel();
        self.orders.send((order, reply)).await.map_err(|_| BusError::Stopped)?;
        Ok(answer.await.map_err(|_| BusError::Stopped)??)
    }
}

impl Subscription {
    /// The next event; an error once the kernel programs no longer deliver. Cancel safe.
    pub async fn next(&mut self) -> Result<Heard, BusError> {
        match self.0.recv().await {
            Ok(event) => Ok(Heard::Event(event)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Ok(Heard::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => Err(BusError::Stopped),
        }
    }
}

async fn pump(
    mut probe: Probe,
    events: broadcast::Sender<Arc<Event>>,
    mut orders: mpsc::Receiver<(Order, Reply)>,
) -> Result<Probe, ProbeError> {
    loop {
        tokio::select! {
            event = probe.next_event() => {
                // Nobody listening is no error.
                drop(events.send(Arc::new(event?)));
            }
            order = orders.recv() => match order {
                Some((Order::Watch(id), reply)) => drop(reply.send(probe.watch(id))),
                Some((Order::Unwatch(id), reply)) => drop(reply.send(probe.unwatch(id))),
                None => return Ok(probe),
            },
        }
    }
}
