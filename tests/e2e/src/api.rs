//! Requests to the API server through `kubectl proxy`, which has the login: plain HTTP on the loopback.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Where the proxy listens.
pub(crate) const PROXY: &str = "127.0.0.1:8001";
/// What one request may take under emulation.
const CALL: Duration = Duration::from_mins(2);
/// One object of a watch is no longer than this.
const LINE_MAX: usize = 4 << 20;

/// A status code and what came with it.
pub(crate) type Answer = (u16, Value);

async fn send(method: &str, path: &str, kind: &str, body: String) -> Result<Response<Incoming>, String> {
    let text = |error: &dyn std::error::Error| format!("{method} {path}: {error}");
    let stream = TcpStream::connect(PROXY).await.map_err(|error| text(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| text(&error))?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Host", PROXY)
        .header("Content-Type", kind)
        .header("Accept", "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| text(&error))?;
    sender.send_request(request).await.map_err(|error| text(&error))
}

/// One request; `Err` where there was no answer.
pub(crate) async fn call(method: &str, path: &str, kind: &str, body: String) -> Result<Answer, String> {
    let whole = async {
        let answer = send(method, path, kind, body).await?;
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        // Not everything is JSON: health pages say "ok".
        let value = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes).into_owned()));
        Ok((status, value))
    };
    timeout(CALL, whole).await.map_err(|_| format!("{method} {path}: no answer"))?
}

/// One that must succeed.
#[track_caller]
fn done(what: &str, answer: Result<Answer, String>) -> Value {
    match answer {
        Ok((200..=299, value)) => value,
        other => panic!("{what}: {other:?}"),
    }
}

pub(crate) async fn get(path: &str) -> Value {
    done(path, call("GET", path, "application/json", String::new()).await)
}

pub(crate) async fn create(path: &str, object: &Value) -> Value {
    done(path, call("POST", path, "application/json", object.to_string()).await)
}

/// A strategic merge patch, whatever comes of it.
pub(crate) async fn try_patch(path: &str, change: &Value) -> Answer {
    let kind = "application/strategic-merge-patch+json";
    call("PATCH", path, kind, change.to_string()).await.expect("an answer")
}

/// What is told of objects, one after another.
pub(crate) struct Watch {
    body: Incoming,
    rest: Vec<u8>,
}

/// Begins with the objects that there are. `path` has the selection already: `/api/v1/pods?fieldSelector=...`.
pub(crate) async fn watch(path: &str) -> Watch {
    let sign = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{sign}watch=1&timeoutSeconds=3600");
    let answer = timeout(CALL, send("GET", &path, "application/json", String::new())).await;
    let answer = answer.expect("an answer in time").expect("an answer");
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    Watch { body: answer.into_body(), rest: Vec::new() }
}

impl Watch {
    /// The next event: its type and its object. `None` after so long without one.
    pub(crate) async fn next(&mut self, wait: Duration) -> Option<(String, Value)> {
        timeout(wait, self.line()).await.ok().map(|line| {
            let mut event: Value = serde_json::from_slice(&line).expect("is JSON");
            (event["type"].as_str().expect("a type").to_owned(), event["object"].take())
        })
    }

    async fn line(&mut self) -> Vec<u8> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let rest = self.rest.split_off(end + 1);
                return std::mem::replace(&mut self.rest, rest);
            }
            assert!(self.rest.len() < LINE_MAX, "an endless event");
            let frame = self.body.frame().await.expect("the watch goes on").expect("the watch goes on");
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }
}
