//! One watch: an answer that has no end, a line of JSON for each event.

use super::{
    call::{ApiStatus, CallError, Request},
    connect::Server,
};
use ::kube::client::Body;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// Longest line that is taken: etcd holds objects of up to 1.5 MiB.
const LINE_BYTES_MAX: usize = 8 << 20;

/// What a watch says.
#[derive(Debug)]
pub(super) enum Event {
    /// It is new, or has changed.
    Changed(Value),
    /// It is gone; as it was last.
    Deleted(Value),
    /// Nothing, up to this version.
    Bookmark(Value),
}

/// How a watch ends.
#[derive(Debug)]
pub(super) enum End {
    /// As watches do: its time is over, the server goes or the connection broke. It goes on from where it was.
    Over,
    /// The server has forgotten what came after that version (410): all is listed anew.
    Forgotten,
    /// The server says no, or nonsense.
    Failed(CallError),
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

/// A watch that stands.
pub(super) struct Watching {
    server: String,
    call: &'static str,
    body: Body,
    /// What has come and is no whole line yet.
    begun: Vec<u8>,
    /// Without a word for so long it is dead.
    silence_max: Duration,
}

impl Watching {
    /// Asks for it; the server has said yes when this comes back.
    pub(super) async fn open(server: &Server, request: &Request) -> Result<Self, CallError> {
        let deadlines = server.deadlines();
        let opened = tokio::time::timeout(deadlines.answer, server.open(request)).await;
        let answer = opened.unwrap_or_else(|_| Err(server.too_late(request, deadlines.answer)))?;
        Ok(Self {
            server: server.address().into(),
            call: request.call,
            body: answer.into_body(),
            begun: Vec::new(),
            silence_max: deadlines.watch + deadlines.answer,
        })
    }

    /// What it says next. May be dropped while it waits.
    pub(super) async fn next(&mut self) -> Result<Event, End> {
        loop {
            if let Some(line) = self.line() {
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return self.event(&line);
            }
            if self.begun.len() > LINE_BYTES_MAX {
                let (server, call) = (self.server.clone(), self.call);
                return Err(End::Failed(CallError::TooLong { server, call, bytes_max: LINE_BYTES_MAX }));
            }
            let Ok(frame) = tokio::time::timeout(self.silence_max, self.body.frame()).await else {
                return Err(End::Over);
            };
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.begun.extend_from_slice(&data);
                    }
                }
                // A connection that breaks is as good as an end: whether the server is away, the next try tells.
                Some(Err(_)) | None => return Err(End::Over),
            }
        }
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.begun.iter().position(|byte| *byte == b'\n')?;
        let rest = self.begun.split_off(end + 1);
        Some(std::mem::replace(&mut self.begun, rest))
    }

    fn event(&self, line: &[u8]) -> Result<Event, End> {
        let garbage = |why: String| {
            End::Failed(CallError::Garbage { server: self.server.clone(), call: self.call, why })
        };
        let Line { kind, object } =
            serde_json::from_slice(line).map_err(|error| garbage(error.to_string()))?;
        match kind.as_str() {
            "ADDED" | "MODIFIED" => Ok(Event::Changed(object)),
            "DELETED" => Ok(Event::Deleted(object)),
            "BOOKMARK" => Ok(Event::Bookmark(object)),
            "ERROR" => {
                let said: ApiStatus = serde_json::from_value(object).unwrap_or_default();
                let code = said.code;
                Err(if code == 410 {
                    End::Forgotten
                } else {
                    End::Failed(said.into_error(&self.server, self.call, code, None))
                })
            }
            other => Err(garbage(format!("an event of the type {other}"))),
        }
    }
}
