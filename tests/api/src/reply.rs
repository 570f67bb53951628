//! What the script has the server answer.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use hyper::body::{Body, Frame};
use serde_json::{Value, json};
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::mpsc;

/// What comes of a request.
pub enum Reply {
    /// This object.
    Json(Value),
    /// No, with this object and what is to be waited in seconds.
    No(u16, Value, Option<u64>),
    /// These bytes with this number, whatever they are.
    Raw(u16, Vec<u8>),
    /// Nothing, ever.
    Hang,
    /// The whole connection breaks before an answer.
    Break,
    /// It breaks within the answer, after these bytes.
    Half(Vec<u8>),
    /// These events as they come; the end is a good one.
    Stream(mpsc::UnboundedReceiver<Value>),
    /// These bytes, and then nothing for ever.
    Silence(Vec<u8>),
}

/// `metav1.Status`.
pub fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message
    })
}

/// The connection breaks.
#[derive(Debug)]
pub(crate) struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("as the script says")
    }
}

impl std::error::Error for Broken {}

/// An answer's content.
pub(super) struct Content {
    first: Option<Bytes>,
    then: Then,
}

enum Then {
    End,
    /// Once what came before has been sent.
    Break {
        sent: bool,
    },
    Silence,
    Events(mpsc::UnboundedReceiver<Value>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        match &mut self.then {
            Then::End => Poll::Ready(None),
            Then::Break { sent: true } => Poll::Ready(Some(Err(Broken))),
            Then::Break { sent } => {
                // Hyper sends what it has where it has to wait for more.
                *sent = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Then::Silence => Poll::Pending,
            Then::Events(events) => events
                .poll_recv(cx)
                .map(|event| event.map(|event| Ok(Frame::data(format!("{event}\n").into_bytes().into())))),
        }
    }
}

impl Reply {
    pub(super) async fn given(self) -> Result<Response<Content>, Broken> {
        let text = |value: Value| value.to_string().into_bytes();
        let (code, wait, first, then) = match self {
            Self::Json(value) => (200, None, Some(text(value)), Then::End),
            Self::No(code, value, wait) => (code, wait, Some(text(value)), Then::End),
            Self::Raw(code, bytes) => (code, None, Some(bytes), Then::End),
            Self::Hang => std::future::pending().await,
            Self::Break => return Err(Broken),
            Self::Half(bytes) => (200, None, Some(bytes), Then::Break { sent: false }),
            Self::Stream(events) => (200, None, None, Then::Events(events)),
            Self::Silence(bytes) => (200, None, Some(bytes), Then::Silence),
        };
        let mut response = Response::new(Content { first: first.map(Into::into), then });
        *response.status_mut() = StatusCode::from_u16(code).expect("a number of HTTP's");
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        if let Some(wait) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, wait.into());
        }
        Ok(response)
    }
}
