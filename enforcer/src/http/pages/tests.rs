use super::{
    super::tests::{LIMITS, ask},
    *,
};
use crate::{
    admin::model::PartState,
    health::PartName,
    metrics::{ContainerGauges, NodeGauges},
};
use std::{
    future::pending,
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

struct Running {
    address: SocketAddr,
    metrics: Metrics,
    health: Health,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Running {
    /// `refresh` counts how often it was called as the number of pods.
    async fn start() -> Self {
        let metrics = Metrics::new();
        let count = Arc::new(AtomicU64::new(0));
        let shared = metrics.clone();
        Self::with(metrics, move || {
            let pods = count.fetch_add(1, Ordering::Relaxed) + 1;
            shared.set_node(NodeGauges { pods, ..NodeGauges::default() });
            async {}
        })
        .await
    }

    async fn with<R, F>(metrics: Metrics, refresh: R) -> Self
    where
        R: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("has an address");
        let health = Health::new();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving =
            tokio::spawn(serve_pages(listener, LIMITS, metrics.clone(), health.clone(), refresh, async {
                let _ = stopped.await;
            }));
        Self { address, metrics, health, stop, serving }
    }

    async fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await
    }

    async fn ask(&self, request: &str) -> String {
        ask(TcpStream::connect(self.address).await.expect("connects"), request).await
    }

    async fn stop(self) {
        self.stop.send(()).expect("it runs");
        self.serving.await.expect("it ends well");
    }
}

#[tokio::test]
async fn metrics_are_read_anew_and_told_in_the_format_asked_for() {
    let server = Running::start().await;
    server
        .metrics
        .set_containers(vec![ContainerGauges { pod: "web-0".into(), ..ContainerGauges::default() }]);
    let answer = server.get("/metrics").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
    assert!(answer.contains("\nenforcer_pods 1\n"), "{answer}");
    assert!(answer.contains("pod=\"web-0\""), "{answer}");
    let accept = "GET /metrics?a=b HTTP/1.1\r\nhost: x\r\naccept: application/openmetrics-text\r\n\r\n";
    let answer = server.ask(accept).await;
    assert!(answer.contains("content-type: application/openmetrics-text;"), "{answer}");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn a_scraper_in_a_hurry_is_told_the_same_again() {
    let server = Running::start().await;
    let begun = Instant::now();
    let mut last = String::new();
    let mut asked = 0;
    while begun.elapsed() < FRESH {
        last = server.get("/metrics").await;
        asked += 1;
    }
    let pods = last.lines().find_map(|line| line.strip_prefix("enforcer_pods ")).expect("is told");
    let read: u64 = pods.parse().expect("a number");
    assert!(read <= 2, "read {read} times within a second, asked {asked} times");
    server.stop().await;
}

#[tokio::test]
async fn ready_is_told_with_a_line_a_part() {
    let server = Running::start().await;
    let answer = server.get("/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("\r\n\r\ninventory starting\n"), "{answer}");
    for part in PartName::ALL {
        server.health.set(*part, PartState::Ready, "");
    }
    server.health.set(PartName::Guard, PartState::Off, "guard.mode is off");
    server.health.set(PartName::Kernel, PartState::Degraded, "no reclaim hook");
    let answer = server.get("/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\nguard off: guard.mode is off\n"), "{answer}");
    server.health.set(PartName::Recorder, PartState::Failed, "no store");
    let answer = server.get("/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("\nrecorder failed: no store\n"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn alive_is_told_by_the_beat() {
    let server = Running::start().await;
    assert!(server.get("/healthz").await.starts_with("HTTP/1.1 200 OK\r\n"));
    server.health.silence();
    let answer = server.get("/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(
        answer.contains("the loop gave no sign of life for ") && answer.ends_with("; 10s is the most\n"),
        "{answer}"
    );
    server.health.beat();
    assert!(server.get("/healthz").await.starts_with("HTTP/1.1 200 OK\r\n"));
    server.stop().await;
}

#[tokio::test]
async fn other_methods_and_other_pages_are_not_there() {
    let server = Running::start().await;
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        let answer = server.ask(&format!("{method} /metrics HTTP/1.1\r\nhost: x\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        assert!(answer.contains("allow: GET, HEAD\r\n"), "{answer}");
    }
    for path in ["/", "/metrics/", "/../etc/passwd", "/debug"] {
        assert!(server.get(path).await.starts_with("HTTP/1.1 404 "), "{path}");
    }
    let answer = server.ask("HEAD /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-length: 6\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "a HEAD has no body: {answer}");
    server.stop().await;
}

#[tokio::test]
async fn figures_that_never_come_hold_up_no_probe() {
    let server = Running::with(Metrics::new(), pending).await;
    let mut asking = TcpStream::connect(server.address).await.expect("connects");
    tokio::io::AsyncWriteExt::write_all(&mut asking, b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("is sent");
    assert!(server.get("/healthz").await.starts_with("HTTP/1.1 200 OK\r\n"));
    let answer = ask(asking, "").await;
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    assert!(answer.contains("has not told the figures within 5s; its last sign of life was "), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn connections_that_are_cut_show_in_the_metrics() {
    let server = Running::start().await;
    let mut held = Vec::new();
    for _ in 0..LIMITS.connections {
        held.push(TcpStream::connect(server.address).await.expect("connects"));
    }
    // None of those has asked anything: the oldest makes room.
    let newest = TcpStream::connect(server.address).await.expect("connects");
    let mut nothing = String::new();
    let _ = tokio::io::AsyncReadExt::read_to_string(&mut held.remove(0), &mut nothing).await;
    drop((held, newest));
    let began = std::time::Instant::now();
    let counted = "enforcer_dropped_total{what=\"connection_cut\"} 1\n";
    loop {
        let stream = TcpStream::connect(server.address).await.expect("connects");
        let answer = ask(stream, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await;
        if answer.contains(counted) {
            break;
        }
        // It is counted a moment after it was closed.
        assert!(began.elapsed() < std::time::Duration::from_mins(1), "{answer}");
    }
    server.stop().await;
}
