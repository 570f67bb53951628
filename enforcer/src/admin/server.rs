//! Answers on the socket: HTTP/1.1, one request a connection, everything bounded.

use super::{
    ANSWER_BYTES_MAX, ListenError, Listener,
    model::Refusal,
    request::{Question, Refused, Reply, Request, refusal},
};
use crate::json;
use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE},
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use std::{
    convert::Infallible,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};

/// Connections at once; more wait to be taken, each of them ends within ten seconds.
pub const CONNECTIONS_MAX: usize = 16;
/// Most bytes that a request's body may have; what is in it is not looked at.
pub const BODY_BYTES_MAX: usize = 1024;
/// How long is waited for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For the request to arrive: its head, and then its body.
    pub(super) arrival: Duration,
    /// For the agent's loop to answer.
    pub(super) reply: Duration,
    /// For all of a connection, whatever its client does.
    pub(super) connection: Duration,
}

impl Patience {
    const DEFAULT: Self = Self {
        arrival: Duration::from_secs(2),
        reply: Duration::from_secs(5),
        connection: Duration::from_secs(10),
    };
}

/// Bytes of a request's head that are kept; hyper takes no less.
const HEAD_BYTES_MAX: usize = 8192;
const HEADERS_MAX: usize = 32;
/// Where connections can't be taken (no descriptor is left), until it is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What was asked, and what was turned away, since the start.
#[derive(Debug, Default)]
pub struct Counts {
    requests: AtomicU64,
    strangers: AtomicU64,
    cut: AtomicU64,
    not_taken: AtomicU64,
}

impl Counts {
    /// Requests that were read, refused ones included.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Connections of other users.
    pub fn strangers(&self) -> u64 {
        self.strangers.load(Relaxed)
    }

    /// Connections that ended without a whole answer: too slow, malformed or broken.
    pub fn cut(&self) -> u64 {
        self.cut.load(Relaxed)
    }

    /// Times that a connection could not be taken.
    pub fn not_taken(&self) -> u64 {
        self.not_taken.load(Relaxed)
    }
}

/// Serves until `stop` is done, or until nobody takes `requests` any more; the socket is gone then. It is to run on a
/// tokio runtime with I/O and time. Fails only before it serves.
pub async fn serve(
    listener: Listener,
    requests: mpsc::Sender<Question>,
    counts: Arc<Counts>,
    stop: impl Future<Output = ()>,
) -> Result<(), ListenError> {
    serve_with(listener, requests, counts, stop, Patience::DEFAULT).await
}

pub(super) async fn serve_with(
    listener: Listener,
    requests: mpsc::Sender<Question>,
    counts: Arc<Counts>,
    stop: impl Future<Output = ()>,
    patience: Patience,
) -> Result<(), ListenError> {
    let path = listener.path().to_owned();
    let socket = listener.socket.try_clone().and_then(UnixListener::from_std);
    let socket = socket.map_err(|source| ListenError::Io { path, call: "listen with tokio at", source })?;
    // Dropped, and with it all of its connections, with this future.
    let mut connections = JoinSet::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    tokio::pin!(stop);
    loop {
        let taken = async {
            let place = places.clone().acquire_owned().await;
            (place, socket.accept().await)
        };
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = requests.closed() => return Ok(()),
            Some(_) = connections.join_next() => {}
            (place, accepted) = taken => if let Ok((stream, _)) = accepted {
                let (requests, counts) = (requests.clone(), counts.clone());
                connections.spawn(async move {
                    connection(stream, requests, &counts, patience).await;
                    drop(place);
                });
            } else {
                counts.not_taken.fetch_add(1, Relaxed);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            },
        }
    }
}

async fn connection(
    stream: UnixStream,
    requests: mpsc::Sender<Question>,
    counts: &Counts,
    patience: Patience,
) {
    let user = stream.peer_cred().map(|peer| peer.uid());
    let own = nix::unistd::geteuid().as_raw();
    if !user.is_ok_and(|user| user == 0 || user == own) {
        counts.strangers.fetch_add(1, Relaxed);
        return;
    }
    let service = service_fn(|request| async {
        counts.requests.fetch_add(1, Relaxed);
        Ok::<_, Infallible>(answer(request, &requests, patience).await)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience.arrival);
    http.keep_alive(false).max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX);
    let served = timeout(patience.connection, http.serve_connection(TokioIo::new(stream), service)).await;
    if !matches!(served, Ok(Ok(()))) {
        counts.cut.fetch_add(1, Relaxed);
    }
}

async fn answer(
    request: http::Request<Incoming>,
    requests: &mpsc::Sender<Question>,
    patience: Patience,
) -> Response<Full<Bytes>> {
    let parsed = Request::parse(request.method(), request.uri().path(), request.uri().query());
    let request = match (parsed, arrived(request.into_body(), patience.arrival).await) {
        (Ok(request), Ok(())) => request,
        (Ok(_), Err((refused, why))) => return refuse(refused, &why),
        (Err((refused, why, allow)), _) => {
            let mut response = refuse(refused, &why);
            if let Some(allow) = allow.and_then(|method| HeaderValue::from_str(method.as_str()).ok()) {
                response.headers_mut().insert(ALLOW, allow);
            }
            return response;
        }
    };
    match timeout(patience.reply, reply(request, requests)).await {
        Ok(Reply::Status(status)) => document(StatusCode::OK, &status),
        Ok(Reply::Containers(containers)) => document(StatusCode::OK, &containers),
        Ok(Reply::Explanation(explanation)) => document(StatusCode::OK, &explanation),
        Ok(Reply::Done(done)) => document(StatusCode::OK, &done),
        Ok(Reply::Refused(refused, why)) => refuse(refused, &why),
        Err(_) => {
            let todo = "look what keeps it busy: its log (journalctl -u enforcer) says more";
            refuse(Refused::Late, &refusal("the agent's loop has not answered in time", todo))
        }
    }
}

/// Takes the body, so that it does not stand in the way, and forgets it.
async fn arrived(body: Incoming, within: Duration) -> Result<(), (Refused, Refusal)> {
    match timeout(within, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err((Refused::TooLong, refusal("the body is too long, or broke off", "send none"))),
        Err(_) => Err((Refused::Malformed, refusal("the body has not arrived in time", "send none"))),
    }
}

async fn reply(request: Request, requests: &mpsc::Sender<Question>) -> Reply {
    let ends =
        || Reply::Refused(Refused::Busy, refusal("the agent is ending", "ask again once it has started"));
    let (sender, receiver) = oneshot::channel();
    match requests.send((request, sender)).await {
        Ok(()) => receiver.await.unwrap_or_else(|_| ends()),
        Err(_) => ends(),
    }
}

fn refuse(refused: Refused, why: &Refusal) -> Response<Full<Bytes>> {
    document(refused.status(), why)
}

fn document(status: StatusCode, value: &impl Serialize) -> Response<Full<Bytes>> {
    let text = json::line(value);
    if text.len() > ANSWER_BYTES_MAX {
        let why = format!("the answer would have {} bytes, and {ANSWER_BYTES_MAX} is the most", text.len());
        return refuse(Refused::Failed, &refusal(why, ""));
    }
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
