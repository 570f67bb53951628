//! One request to the API server, and what comes of it: bounded in time and size, and told apart by what can be done.

use super::connect::{Server, chain};
use crate::cgroup::{printable, shown};
use ::kube::client::Body;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use serde::{Deserialize, de::DeserializeOwned};
use std::{fmt::Write as _, time::Duration};

/// Greatest answer that is taken: a list of a node's pods, of some 30 KiB each.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Greatest text of an error that is read.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// Longest wait that a server can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

/// What is asked.
#[derive(Debug, Clone)]
pub struct Request {
    /// For messages, as in "list pods".
    pub call: &'static str,
    /// `GET`, `PATCH`, `POST`.
    pub method: Method,
    /// Path and query, as [`path`] makes it.
    pub target: String,
    /// The type of its content, and that.
    pub body: Option<(&'static str, Vec<u8>)>,
}

/// Why there is no answer, or none that helps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No connection, or it broke before the answer's head.
    #[error("{}: {call}: {}", shown(server), printable(why))]
    Unreachable {
        /// The server's address.
        server: String,
        /// What was asked.
        call: &'static str,
        /// Why.
        why: String,
    },
    /// It hangs, or is too slow.
    #[error("{}: no answer to {call} within {} ms", shown(server), deadline.as_millis())]
    Deadline {
        /// The server's address.
        server: String,
        /// What was asked.
        call: &'static str,
        /// What was waited.
        deadline: Duration,
    },
    /// The connection broke within the answer. What was asked may have been done.
    #[error("{}: the answer to {call} broke off: {}", shown(server), printable(why))]
    Broken {
        /// The server's address.
        server: String,
        /// What was asked.
        call: &'static str,
        /// Why.
        why: String,
    },
    /// More than [`ANSWER_BYTES_MAX`].
    #[error("{}: the answer to {call} is longer than {bytes_max} bytes", shown(server))]
    TooLong {
        /// The server's address.
        server: String,
        /// What was asked.
        call: &'static str,
        /// The bound.
        bytes_max: usize,
    },
    /// It is not what an API server says.
    #[error("{}: the answer to {call} makes no sense: {}", shown(server), printable(why))]
    Garbage {
        /// The server's address.
        server: String,
        /// What was asked.
        call: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The API server says no.
    #[error("{}: {call}: {status} {}: {}", shown(server), printable(reason), printable(message))]
    Status {
        /// The server's address.
        server: String,
        /// What was asked.
        call: &'static str,
        /// HTTP's number.
        status: u16,
        /// `status.reason`, as in `Forbidden`.
        reason: String,
        /// In its words.
        message: String,
        /// What it asks to be waited.
        retry_after: Option<Duration>,
    },
}

impl CallError {
    /// HTTP's number, where the API server said no.
    pub const fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            Self::Unreachable { .. }
            | Self::Deadline { .. }
            | Self::Broken { .. }
            | Self::TooLong { .. }
            | Self::Garbage { .. } => None,
        }
    }

    /// What the API server asks to be waited.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::Unreachable { .. }
            | Self::Deadline { .. }
            | Self::Broken { .. }
            | Self::TooLong { .. }
            | Self::Garbage { .. } => None,
        }
    }

    /// Whether the same may well do later: the server is away, overloaded or broken, or who asks is not known to it now.
    pub fn is_passing(&self) -> bool {
        self.status().is_none_or(|status| status >= 500 || matches!(status, 401 | 408 | 429))
    }

    /// The way out.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } | Self::Deadline { .. } | Self::Broken { .. } => {
                "look whether the API server runs and can be reached from here"
            }
            Self::TooLong { .. } | Self::Garbage { .. } => {
                "look whether this is the address of an API server"
            }
            Self::Status { status: 401, .. } => {
                "renew the token or certificate of the kubeconfig, or of the service account"
            }
            Self::Status { status: 403, .. } => "grant it by RBAC: deploy/ has the role",
            Self::Status { status: 404, .. } => "look at namespace and name; kubectl get pods -A lists them",
            Self::Status { .. } => "",
        }
    }
}

/// `/api/v1/namespaces/NS/...?name=value`, each part encoded.
pub fn path(parts: &[&str], query: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for part in parts {
        text.push('/');
        encode(&mut text, part);
    }
    for (n, (name, value)) in query.iter().enumerate() {
        text.push(if n == 0 { '?' } else { '&' });
        encode(&mut text, name);
        text.push('=');
        encode(&mut text, value);
    }
    text
}

/// All but what RFC 3986 calls unreserved.
fn encode(text: &mut String, part: &str) {
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a String can't fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
}

impl Server {
    /// Asks, and gives the answer as it is read from JSON.
    pub async fn ask<A: DeserializeOwned>(&self, request: &Request) -> Result<A, CallError> {
        let deadline = self.deadlines().answer;
        let asked = async {
            let answer = self.open(request).await?;
            let text = read(self.address(), request.call, answer.into_body(), ANSWER_BYTES_MAX).await?;
            serde_json::from_slice(&text).map_err(|error| CallError::Garbage {
                server: self.address().into(),
                call: request.call,
                why: error.to_string(),
            })
        };
        tokio::time::timeout(deadline, asked).await.unwrap_or_else(|_| Err(self.too_late(request, deadline)))
    }

    /// Asks, and gives the head of a good answer, of which the body is still to come. A token that has expired is read
    /// again, and it is asked once more; a 401 means that nothing was done. Whoever calls has the deadline.
    pub(super) async fn open(&self, request: &Request) -> Result<http::Response<Body>, CallError> {
        let first = self.send(request).await;
        let Err(error) = &first else { return first };
        if error.status() != Some(401) || !self.renew().await.unwrap_or(false) {
            return first;
        }
        self.send(request).await
    }

    async fn send(&self, request: &Request) -> Result<http::Response<Body>, CallError> {
        let (server, call) = (self.address(), request.call);
        let unreachable = |why: String| CallError::Unreachable { server: server.into(), call, why };
        let mut built = http::Request::builder().method(&request.method).uri(&request.target);
        built = built.header(header::ACCEPT, "application/json");
        let body = match &request.body {
            Some((content, bytes)) => {
                built = built.header(header::CONTENT_TYPE, *content);
                Body::from(bytes.clone())
            }
            None => Body::empty(),
        };
        let built = built.body(body).map_err(|error| unreachable(error.to_string()))?;
        let answer = self.client().send(built).await.map_err(|error| unreachable(chain(&error)))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        // What it says besides is a help; without it the number has to do.
        let text = read(server, call, body, ERROR_BYTES_MAX).await.unwrap_or_default();
        Err(refused(server, call, head.status, &head.headers, &text))
    }

    pub(super) fn too_late(&self, request: &Request, deadline: Duration) -> CallError {
        CallError::Deadline { server: self.address().into(), call: request.call, deadline }
    }
}

/// The whole of an answer.
async fn read(
    server: &str,
    call: &'static str,
    mut body: Body,
    bytes_max: usize,
) -> Result<Vec<u8>, CallError> {
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| CallError::Broken { server: server.into(), call, why: chain(&error) })?;
        let Ok(data): Result<Bytes, _> = frame.into_data() else { continue };
        if text.len() + data.len() > bytes_max {
            return Err(CallError::TooLong { server: server.into(), call, bytes_max });
        }
        text.extend_from_slice(&data);
    }
    Ok(text)
}

/// `metav1.Status`, as far as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiStatus {
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) code: u16,
    pub(super) details: Option<ApiDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ApiDetails {
    retry_after_seconds: Option<u64>,
}

impl ApiStatus {
    pub(super) fn into_error(
        self,
        server: &str,
        call: &'static str,
        status: u16,
        head: Option<u64>,
    ) -> CallError {
        let in_body = self.details.and_then(|details| details.retry_after_seconds);
        let wait = head.or(in_body.filter(|seconds| *seconds > 0));
        CallError::Status {
            server: server.into(),
            call,
            status,
            reason: super::resources::text(Some(&self.reason)),
            message: super::resources::text(Some(&self.message)),
            retry_after: wait.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX)),
        }
    }
}

fn refused(
    server: &str,
    call: &'static str,
    status: StatusCode,
    headers: &HeaderMap,
    text: &[u8],
) -> CallError {
    let mut said: ApiStatus = serde_json::from_slice(text).unwrap_or_default();
    if said.reason.is_empty() {
        said.reason = status.canonical_reason().unwrap_or("no reason").into();
    }
    if said.message.is_empty() {
        said.message = String::from_utf8_lossy(text).into_owned();
    }
    let wait = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    said.into_error(server, call, status.as_u16(), wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_encoded() {
        assert_eq!(
            path(&["api", "v1", "pods"], &[("fieldSelector", "spec.nodeName=node/a"), ("limit", "5")]),
            "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode%2Fa&limit=5"
        );
        assert_eq!(path(&["a b", "..%2f", "ä"], &[]), "/a%20b/..%252f/%C3%A4");
    }

    #[test]
    fn a_no_is_read_with_and_without_a_status() {
        let mut headers = HeaderMap::new();
        let of = |headers: &HeaderMap, text: &str| {
            refused("s", "list pods", StatusCode::TOO_MANY_REQUESTS, headers, text.as_bytes())
        };
        let body = r#"{"kind":"Status","reason":"TooManyRequests","message":"slow down","details":{"retryAfterSeconds":7}}"#;
        assert_eq!(of(&headers, body).retry_after(), Some(Duration::from_secs(7)));
        headers.insert(header::RETRY_AFTER, http::HeaderValue::from_static("3"));
        let error = of(&headers, body);
        assert_eq!((error.retry_after(), error.status()), (Some(Duration::from_secs(3)), Some(429)));
        assert!(error.is_passing());
        assert_eq!(error.to_string(), "s: list pods: 429 TooManyRequests: slow down");
        headers.insert(header::RETRY_AFTER, http::HeaderValue::from_static("99999999"));
        let error = of(&headers, "\u{1b}[2J");
        assert_eq!(error.retry_after(), Some(RETRY_AFTER_MAX));
        assert_eq!(error.to_string(), "s: list pods: 429 Too Many Requests: \\u{1b}[2J");
        headers.insert(header::RETRY_AFTER, http::HeaderValue::from_static("Wed, 21 Oct 2026 07:28:00 GMT"));
        assert_eq!(of(&headers, "").retry_after(), None);
    }
}
