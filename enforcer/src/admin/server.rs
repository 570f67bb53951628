//! Answers on the socket: one request a connection, everything bounded.

use super::{
    ANSWER_BYTES_MAX, ListenError, Listener,
    model::Refusal,
    request::{Question, Refused, Reply, Request, refusal},
};
use crate::{
    health::Health,
    http::{self as server, Beyond, Caller, Limits, Losses},
    json,
};
use bytes::Bytes;
use enforcer_gate::Micros;
use http::{
    HeaderValue, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE},
};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Serialize;
use std::{
    future::Future,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot},
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

    const fn limits(self) -> Limits {
        Limits {
            connections: CONNECTIONS_MAX,
            beyond: Beyond::Wait,
            head_bytes: 8192,
            headers: 32,
            head: self.arrival,
            whole: self.connection,
            // The agent has ended: nobody is there to answer.
            drain: Duration::ZERO,
        }
    }
}

/// What was asked, and what was turned away, since the start.
#[derive(Debug, Default)]
pub struct Counts {
    requests: AtomicU64,
    strangers: AtomicU64,
    unasked: AtomicU64,
    losses: Losses,
}

impl Counts {
    /// With somebody else's count of connections that were not served.
    pub fn with(losses: Losses) -> Self {
        Self { losses, ..Self::default() }
    }

    /// Requests that were read, refused ones included.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Connections of other users.
    pub fn strangers(&self) -> u64 {
        self.strangers.load(Relaxed)
    }

    /// Questions that did not reach the agent's loop, for too many waited for it.
    pub fn unasked(&self) -> u64 {
        self.unasked.load(Relaxed)
    }

    /// Connections that were not served: too slow, or not to be taken.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }
}

/// Serves until `stop` is done, or until nobody takes `requests` any more; the socket is gone then. It is to run on a
/// tokio runtime with I/O and time. `health` tells how long the agent's loop has been silent, where it does not answer.
/// Fails only before it serves.
pub async fn serve(
    listener: Listener,
    requests: mpsc::Sender<Question>,
    health: Health,
    counts: Arc<Counts>,
    stop: impl Future<Output = ()>,
) -> Result<(), ListenError> {
    serve_with(listener, Asking { requests, health, counts, patience: Patience::DEFAULT }, stop).await
}

pub(super) async fn serve_with(
    listener: Listener,
    asking: Asking,
    stop: impl Future<Output = ()>,
) -> Result<(), ListenError> {
    let path = listener.path().to_owned();
    let socket = listener.socket.try_clone().and_then(UnixListener::from_std);
    let socket = socket.map_err(|source| ListenError::Io { path, call: "listen with tokio at", source })?;
    let door = Door { socket, counts: Arc::clone(&asking.counts) };
    let (requests, losses) = (asking.requests.clone(), asking.counts.losses.clone());
    let limits = asking.patience.limits();
    let handler = move |request| {
        let asking = asking.clone();
        async move { asking.answer(request).await }
    };
    let until = async {
        tokio::select! {
            () = stop => {}
            () = requests.closed() => {}
        }
    };
    server::serve(door, limits, losses, handler, until).await;
    Ok(())
}

/// Lets in root and the agent's own user: whoever else connects is cut before a byte is read.
struct Door {
    socket: UnixListener,
    counts: Arc<Counts>,
}

impl server::Listener for Door {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Caller)> {
        loop {
            let (stream, caller) = server::Listener::accept(&self.socket).await?;
            let own = nix::unistd::geteuid().as_raw();
            if caller.uid.is_some_and(|user| user == 0 || user == own) {
                return Ok((stream, caller));
            }
            self.counts.strangers.fetch_add(1, Relaxed);
        }
    }
}

/// What a connection asks with.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    pub(super) requests: mpsc::Sender<Question>,
    pub(super) health: Health,
    pub(super) counts: Arc<Counts>,
    pub(super) patience: Patience,
}

impl Asking {
    async fn answer(&self, request: http::Request<Incoming>) -> Response<Full<Bytes>> {
        self.counts.requests.fetch_add(1, Relaxed);
        let parsed = Request::parse(request.method(), request.uri().path(), request.uri().query());
        let request = match (parsed, arrived(request.into_body(), self.patience.arrival).await) {
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
        match timeout(self.patience.reply, self.reply(request)).await {
            Ok(Reply::Status(status)) => document(StatusCode::OK, &status),
            Ok(Reply::Containers(containers)) => document(StatusCode::OK, &containers),
            Ok(Reply::Explanation(explanation)) => document(StatusCode::OK, &explanation),
            Ok(Reply::Done(done)) => document(StatusCode::OK, &done),
            Ok(Reply::Refused(refused, why)) => refuse(refused, &why),
            Err(_) => refuse(Refused::Late, &self.is_busy("has not answered in time")),
        }
    }

    /// Never waits for room: what waits is bounded, and whoever is refused can ask again.
    async fn reply(&self, request: Request) -> Reply {
        let ends =
            || Reply::Refused(Refused::Busy, refusal("the agent is ending", "ask again once it has started"));
        let (sender, receiver) = oneshot::channel();
        match self.requests.try_send((request, sender)) {
            Ok(()) => receiver.await.unwrap_or_else(|_| ends()),
            Err(mpsc::error::TrySendError::Closed(_)) => ends(),
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.counts.unasked.fetch_add(1, Relaxed);
                Reply::Refused(Refused::Busy, self.is_busy("has too many questions to answer"))
            }
        }
    }

    fn is_busy(&self, what: &str) -> Refusal {
        let beat: Micros = self.health.since_beat();
        let todo = "ask again; if it stays, its log says what keeps it busy: journalctl -u enforcer";
        refusal(format!("the agent's loop {what}; its last sign of life was {beat} ago"), todo)
    }
}

/// Takes the body, so that it does not stand in the way, and forgets it.
async fn arrived(body: Incoming, within: Duration) -> Result<(), (Refused, Refusal)> {
    match timeout(within, server::body(body, BODY_BYTES_MAX)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err((Refused::TooLong, refusal(error.to_string(), "send no body"))),
        Err(_) => Err((Refused::Malformed, refusal("the body has not arrived in time", "send none"))),
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
