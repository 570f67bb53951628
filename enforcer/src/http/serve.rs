//! Connections, whatever they come from and whatever they ask for.

use super::{Caller, Listener};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    collections::VecDeque,
    convert::Infallible,
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};

/// A pause after a connection could not be taken: no event tells when there are descriptors again.
const BREATH: Duration = Duration::from_millis(100);

/// What a server takes on, and for how long. A connection has one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// What becomes of those that come beyond.
    pub beyond: Beyond,
    /// Most bytes of a request's head, and of what is read ahead; hyper takes no fewer than 8192.
    pub head_bytes: usize,
    /// Most headers of a request.
    pub headers: usize,
    /// What a request's head may take to come.
    pub head: Duration,
    /// What a connection may take from its first byte to its last, whoever is slow.
    pub whole: Duration,
    /// What connections may still take once the server is told to stop.
    pub drain: Duration,
}

impl Limits {
    /// Those of the node's pages.
    pub const PAGES: Self = Self {
        connections: 32,
        beyond: Beyond::Close,
        head_bytes: 16 << 10,
        headers: 64,
        head: Duration::from_secs(5),
        whole: Duration::from_secs(30),
        drain: Duration::from_secs(2),
    };

    /// Whether one more is taken, to be answered or closed.
    const fn takes(&self, connections: usize) -> bool {
        match self.beyond {
            Beyond::Close => true,
            Beyond::Wait => connections < self.connections,
        }
    }
}

/// What becomes of a connection for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// The oldest connection that has asked nothing yet is cut for it; where each has, it is closed at once. Both are counted.
    Close,
    /// It waits in the socket's queue.
    Wait,
}

/// What a server did not do, since it began. A clone shares them.
#[derive(Debug, Clone, Default)]
pub struct Losses {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    refused: AtomicU64,
    cut: AtomicU64,
    failed: AtomicU64,
}

impl Losses {
    /// Connections that were closed at once, for there were too many.
    pub fn refused(&self) -> u64 {
        self.counts.refused.load(Ordering::Relaxed)
    }

    /// Connections that were cut, for they took too long, or had asked nothing when there was no more room.
    pub fn cut(&self) -> u64 {
        self.counts.cut.load(Ordering::Relaxed)
    }

    /// Times that a connection could not be taken, or its handler panicked.
    pub fn failed(&self) -> u64 {
        self.counts.failed.load(Ordering::Relaxed)
    }
}

/// Answers until `stop` is done, and then what is being answered, within [`Limits::drain`]. Whoever is slow
/// holds up nobody else. The handler's future is dropped where its connection is.
pub async fn serve<L, H, F>(
    listener: L,
    limits: Limits,
    losses: Losses,
    handler: H,
    stop: impl Future<Output = ()>,
) where
    L: Listener,
    H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let mut stop = pin!(stop);
    let (stopping, stopped) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut silent = Silent::default();
    let counts = losses.counts;
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(ended) = connections.join_next(), if !connections.is_empty() => counts.ended(&ended),
            accepted = listener.accept(), if limits.takes(connections.len()) => {
                // Those that ended meanwhile take no room.
                while let Some(ended) = connections.try_join_next() {
                    counts.ended(&ended);
                }
                match accepted {
                Ok((stream, caller)) if connections.len() < limits.connections || silent.cut_oldest() => {
                    let has_asked = Arc::<AtomicBool>::default();
                    let handler = told(handler.clone(), Arc::clone(&has_asked));
                    let answer = answer(stream, caller, limits, handler, stopped.clone());
                    silent.add(connections.spawn(answer), has_asked);
                }
                Ok(_) => {
                    counts.refused.fetch_add(1, Ordering::Relaxed);
                }
                Err(_) => {
                    counts.failed.fetch_add(1, Ordering::Relaxed);
                    tokio::select! {
                        () = &mut stop => break,
                        () = sleep(BREATH) => {}
                    }
                }
                }
            }
        }
    }
    drop(listener);
    drop(stopping);
    let drained = timeout(limits.drain, async {
        while let Some(ended) = connections.join_next().await {
            counts.ended(&ended);
        }
    });
    if drained.await.is_err() {
        let left = u64::try_from(connections.len()).unwrap_or(u64::MAX);
        counts.cut.fetch_add(left, Ordering::Relaxed);
        connections.shutdown().await;
    }
}

/// The connections by age, with whether their request has come.
#[derive(Default)]
struct Silent(VecDeque<(AbortHandle, Arc<AtomicBool>)>);

impl Silent {
    fn add(&mut self, connection: AbortHandle, has_asked: Arc<AtomicBool>) {
        self.0.retain(|(connection, _)| !connection.is_finished());
        self.0.push_back((connection, has_asked));
    }

    /// Cuts the oldest that has asked nothing; `false` where there is none.
    fn cut_oldest(&mut self) -> bool {
        let is_silent = |(connection, has_asked): &(AbortHandle, Arc<AtomicBool>)| {
            !connection.is_finished() && !has_asked.load(Ordering::Relaxed)
        };
        let Some(oldest) = self.0.iter().position(is_silent).and_then(|place| self.0.remove(place)) else {
            return false;
        };
        oldest.0.abort();
        true
    }
}

/// A handler that notes that it was asked.
fn told<H, F>(handler: H, has_asked: Arc<AtomicBool>) -> impl Fn(Request<Incoming>) -> F
where
    H: Fn(Request<Incoming>) -> F,
{
    move |request| {
        has_asked.store(true, Ordering::Relaxed);
        handler(request)
    }
}

impl Counts {
    fn ended(&self, ended: &Result<End, tokio::task::JoinError>) {
        match ended {
            Ok(End::Done) => {}
            Ok(End::Cut) => {
                self.cut.fetch_add(1, Ordering::Relaxed);
            }
            Err(ended) if ended.is_cancelled() => {
                self.cut.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

enum End {
    Done,
    Cut,
}

async fn answer<S, H, F>(
    stream: S,
    caller: Caller,
    limits: Limits,
    handler: H,
    mut stopped: watch::Receiver<()>,
) -> End
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(caller);
        let answer = handler(request);
        async { Ok::<_, Infallible>(answer.await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .keep_alive(false)
        .max_headers(limits.headers)
        .max_buf_size(limits.head_bytes);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let whole = timeout(limits.whole, async {
        tokio::select! {
            ended = connection.as_mut() => return ended,
            _ = stopped.changed() => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    });
    match whole.await {
        Ok(Err(error)) if error.is_timeout() => End::Cut,
        // Whatever else the client did wrong, or the network, is the client's to notice.
        Ok(Ok(()) | Err(_)) => End::Done,
        Err(_) => End::Cut,
    }
}
