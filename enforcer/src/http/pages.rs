//! The node's pages: `/metrics` for Prometheus, `/healthz` and `/readyz` for probes.

use super::{Limits, Listener, TEXT, method_not_allowed, serve, text};
use crate::{
    health::{BEAT_MAX, Health},
    metrics::{Format, Metrics},
};
use bytes::Bytes;
use enforcer_gate::Micros;
use http::{Method, StatusCode, header};
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

/// Figures that are no older are told again: whoever asks more often costs nothing.
const FRESH: Duration = Duration::from_secs(1);
/// What reading the figures may take.
const REFRESH_MAX: Duration = Duration::from_secs(5);
const METHODS: &str = "GET, HEAD";

struct Pages<R> {
    metrics: Metrics,
    health: Health,
    refresh: R,
    /// When the figures were read last; held while they are.
    refreshed: Mutex<Option<Instant>>,
}

/// Answers until `stop` is done. `refresh` hands the figures of now to the metrics; it is called before they are
/// told, at most once a second and never twice at once.
pub async fn serve_pages<R, F>(
    listener: impl Listener,
    limits: Limits,
    metrics: Metrics,
    health: Health,
    refresh: R,
    stop: impl Future<Output = ()>,
) where
    R: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let losses = metrics.connections();
    let pages = Arc::new(Pages { metrics, health, refresh, refreshed: Mutex::new(None) });
    let handler = move |request: Request<Incoming>| {
        let pages = Arc::clone(&pages);
        async move { pages.answer(&request).await }
    };
    serve(listener, limits, losses, handler, stop).await;
}

impl<R, F> Pages<R>
where
    R: Fn() -> F,
    F: Future<Output = ()>,
{
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            "/metrics" | "/healthz" | "/readyz" if !is_read => method_not_allowed(METHODS),
            "/metrics" => {
                let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
                self.metrics(Format::accepted(accept.unwrap_or_default())).await
            }
            "/healthz" if self.health.is_alive() => text(StatusCode::OK, TEXT, "alive\n"),
            "/healthz" => {
                let silent = self.health.since_beat();
                let why = format!("the loop gave no sign of life for {silent}; {BEAT_MAX} is the most\n");
                text(StatusCode::SERVICE_UNAVAILABLE, TEXT, why)
            }
            "/readyz" if self.health.is_ready() => text(StatusCode::OK, TEXT, self.health.lines()),
            "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, TEXT, self.health.lines()),
            _ => text(StatusCode::NOT_FOUND, TEXT, "there are /metrics, /healthz and /readyz\n"),
        }
    }

    async fn metrics(&self, format: Format) -> Response<Full<Bytes>> {
        if timeout(REFRESH_MAX, self.refresh()).await.is_err() {
            let waited = Micros::new(u64::try_from(REFRESH_MAX.as_micros()).unwrap_or(u64::MAX));
            let beat = self.health.since_beat();
            let why = format!(
                "the agent's loop has not told the figures within {waited}; its last sign of life was {beat} ago\n"
            );
            return text(StatusCode::GATEWAY_TIMEOUT, TEXT, why);
        }
        text(StatusCode::OK, format.content_type(), self.metrics.render_as(format))
    }

    async fn refresh(&self) {
        let mut refreshed = self.refreshed.lock().await;
        if refreshed.is_none_or(|at| at.elapsed() >= FRESH) {
            (self.refresh)().await;
            *refreshed = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
