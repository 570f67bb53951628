//! Asks a running agent: one connection a request, a deadline for all of it, bounded answers.

use super::{
    ANSWER_BYTES_MAX, AskError,
    model::{ContainerView, Done, Explanation, Refusal, Status},
    request::Request,
};
use crate::inventory::Target;
use bytes::Bytes;
use enforcer_gate::Micros;
use http::{Response, header::HOST};
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use nix::sys::{
    socket::{AddressFamily, SockFlag, SockType, UnixAddr, setsockopt, socket, sockopt},
    time::{TimeVal, TimeValLike as _},
};
use serde::de::DeserializeOwned;
use std::{
    error::Error,
    io,
    os::{fd::AsRawFd as _, unix::net},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{net::UnixStream, time::timeout};

/// What an answer may take where nothing else is said; a healthy agent needs milliseconds.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// Where an agent is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    socket: PathBuf,
    deadline: Duration,
}

impl Client {
    /// Each answer may take `deadline`, the connecting included. Nothing is connected to yet.
    pub fn new(socket: impl Into<PathBuf>, deadline: Duration) -> Self {
        Self { socket: socket.into(), deadline }
    }

    /// What the agent says of itself.
    pub async fn status(&self) -> Result<Status, AskError> {
        self.ask(&Request::Status).await
    }

    /// The containers that run.
    pub async fn containers(&self) -> Result<Vec<ContainerView>, AskError> {
        self.ask(&Request::Containers).await
    }

    /// Why a container, or each of a pod's, is at its limit.
    pub async fn explain(&self, target: &Target) -> Result<Explanation, AskError> {
        self.ask(&Request::Explain(target.clone())).await
    }

    /// Lifts every brake and stops all actuation.
    pub async fn pause(&self) -> Result<Done, AskError> {
        self.ask(&Request::Pause).await
    }

    /// Lets actuation go on.
    pub async fn resume(&self) -> Result<Done, AskError> {
        self.ask(&Request::Resume).await
    }

    /// Has the configuration read again.
    pub async fn reload(&self) -> Result<Done, AskError> {
        self.ask(&Request::Reload).await
    }

    async fn ask<A: DeserializeOwned>(&self, request: &Request) -> Result<A, AskError> {
        let late = |_| AskError::Deadline { socket: self.socket.clone(), deadline: micros(self.deadline) };
        let (status, body) = timeout(self.deadline, self.exchange(request)).await.map_err(late)??;
        let unknown = |error: serde_json::Error| AskError::Unknown {
            socket: self.socket.clone(),
            why: error.to_string(),
        };
        if status == 200 {
            return serde_json::from_slice(&body).map_err(unknown);
        }
        let Refusal { error, todo } = serde_json::from_slice(&body).map_err(unknown)?;
        Err(AskError::Refused { status, error, todo })
    }

    async fn exchange(&self, request: &Request) -> Result<(u16, Bytes), AskError> {
        let broken = |error: &dyn Error| AskError::Broken { socket: self.socket.clone(), why: chain(error) };
        let stream = self.connected().await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
        let (method, uri) = request.line();
        let request = http::Request::builder().method(method).uri(uri).header(HOST, "enforcer");
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| broken(&error))?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(|error| self.not_http(&error))?;
            self.whole(response).await
        };
        tokio::pin!(connection, answer);
        tokio::select! {
            biased;
            answered = &mut answer => answered,
            // What came before the end still counts.
            _ = &mut connection => answer.await,
        }
    }

    async fn whole(&self, response: Response<Incoming>) -> Result<(u16, Bytes), AskError> {
        let status = response.status().as_u16();
        match Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await {
            Ok(body) => Ok((status, body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(AskError::TooLong { socket: self.socket.clone(), bytes_max: ANSWER_BYTES_MAX })
            }
            Err(error) => Err(AskError::Broken { socket: self.socket.clone(), why: chain(error.as_ref()) }),
        }
    }

    async fn connected(&self) -> Result<UnixStream, AskError> {
        let (path, deadline) = (self.socket.clone(), self.deadline);
        let connected = tokio::task::spawn_blocking(move || connect(&path, deadline)).await;
        let stream = connected.unwrap_or_else(|error| Err(io::Error::other(error)));
        stream.and_then(UnixStream::from_std).map_err(|source| {
            let socket = self.socket.clone();
            let kind = source.kind();
            if matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
                AskError::NoAgent { socket, source }
            } else if kind == io::ErrorKind::WouldBlock {
                AskError::Deadline { socket, deadline: micros(self.deadline) }
            } else {
                AskError::Connect { socket, source }
            }
        })
    }

    fn not_http(&self, error: &hyper::Error) -> AskError {
        let (socket, why) = (self.socket.clone(), chain(error));
        if error.is_parse() { AskError::Unknown { socket, why } } else { AskError::Broken { socket, why } }
    }
}

/// Waits for a place in the queue of whoever listens, which a socket that does not block can't.
fn connect(path: &Path, deadline: Duration) -> io::Result<net::UnixStream> {
    let address = UnixAddr::new(path)?;
    let made = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(
        &made,
        sockopt::SendTimeout,
        &TimeVal::microseconds(i64::try_from(deadline.as_micros()).unwrap_or(i64::MAX)),
    )?;
    nix::sys::socket::connect(made.as_raw_fd(), &address)?;
    let stream = net::UnixStream::from(made);
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn micros(span: Duration) -> Micros {
    Micros::new(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
