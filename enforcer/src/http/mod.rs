//! HTTP/1 for few and simple requests: the node's pages for Prometheus and for probes, and the admin socket.
//!
//! [`serve`] knows of connections and of no page; [`serve_pages`] answers `/metrics`, `/healthz` and `/readyz`.

mod listen;
mod pages;
mod serve;
#[cfg(test)]
mod tests;

pub use listen::{Caller, Listener};
pub use pages::serve_pages;
pub use serve::{Beyond, Limits, Losses, serve};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Response, body::Body};
use std::error::Error;

/// An answer of text, with the type that it has.
pub fn text(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    let no_sniffing = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    for (name, value) in [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store"), no_sniffing] {
        let _: Option<HeaderValue> = answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// What was sent along, unless it is longer than `bytes_max` or broke off.
pub async fn body<B>(body: B, bytes_max: usize) -> Result<Bytes, BodyError>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // What is announced need not come first.
    if body.size_hint().lower() > u64::try_from(bytes_max).unwrap_or(u64::MAX) {
        return Err(BodyError::TooLong { bytes_max });
    }
    match Limited::new(body, bytes_max).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(BodyError::TooLong { bytes_max }),
        Err(_) => Err(BodyError::Broken),
    }
}

/// Why a request's body can't be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is too long.
    #[error("the request is longer than {bytes_max} bytes")]
    TooLong {
        /// The bound.
        bytes_max: usize,
    },
    /// The connection ended before the request did.
    #[error("the request broke off")]
    Broken,
}

/// The answer to a method that a page does not have.
pub fn method_not_allowed(allowed: &'static str) -> Response<Full<Bytes>> {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, TEXT, format!("only {allowed}\n"));
    let _: Option<HeaderValue> =
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// Plain text's type.
pub const TEXT: &str = "text/plain; charset=utf-8";
