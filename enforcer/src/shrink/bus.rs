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

/// What a listener asks of whoever has the kernel programs.
pub struct Request {
    order: Order,
    reply: oneshot::Sender<Result<(), ProbeError>>,
}

impl Request {
    /// Does it, and answers.
    pub fn serve(self, probe: &mut Probe) {
        let done = match self.order {
            Order::Watch(id) => probe.watch(id),
            Order::Unwatch(id) => probe.unwatch(id),
        };
        // Who asked may have gone.
        drop(self.reply.send(done));
    }
}

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
    orders: mpsc::Sender<Request>,
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
        let (bus, feed) = Self::fed();
        (bus, tokio::spawn(pump(probe, feed)))
    }

    /// A bus whose events come from whoever has the other end, and the kernel programs.
    pub fn fed() -> (Self, Feed) {
        let (events, _) = broadcast::channel(BACKLOG);
        let (orders, requests) = mpsc::channel(REQUESTS);
        (Self { events: events.clone(), orders }, Feed { events, requests })
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
        self.orders.send(Request { order, reply }).await.map_err(|_| BusError::Stopped)?;
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

/// The other end of a bus.
pub struct Feed {
    events: broadcast::Sender<Arc<Event>>,
    requests: mpsc::Receiver<Request>,
}

impl Feed {
    /// Hands an event to every listener. Nobody listening is no error.
    pub fn send(&self, event: Event) {
        if self.events.receiver_count() > 0 {
            drop(self.events.send(Arc::new(event)));
        }
    }

    /// What is asked next; `None` once every [`Bus`] is gone. Cancel safe.
    pub async fn request(&mut self) -> Option<Request> {
        self.requests.recv().await
    }
}

async fn pump(mut probe: Probe, mut feed: Feed) -> Result<Probe, ProbeError> {
    loop {
        tokio::select! {
            event = probe.next_event() => feed.send(event?),
            request = feed.request() => match request {
                Some(request) => request.serve(&mut probe),
                None => return Ok(probe),
            },
        }
    }
}
