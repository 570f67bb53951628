//! A real Prometheus scrapes the pages, and takes every series and rule.

use super::{deploy, full};
use enforcer::{
    health::Health,
    http::{Limits, serve_pages},
    metrics::Format,
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Where `cargo xtask test` has put Prometheus' programs.
const NAMED_BY: &str = "ENFORCER_PROMETHEUS";
/// It is there within two seconds, and scrapes every second.
const PATIENCE: Duration = Duration::from_mins(2);

/// One of its programs; `None` where there are none.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(NAMED_BY).filter(|folder| !folder.is_empty());
    if folder.is_none() {
        eprintln!("SKIP: {NAMED_BY} names no folder with {name} (cargo xtask test does)");
    }
    folder.map(|folder| Path::new(&folder).join(name))
}

struct Server {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// It scrapes `target` every second, and looks after the alerts.
    async fn start(program: &Path, target: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let port = free_port().await;
        let rules = fs::canonicalize(deploy::rules()).expect("is there");
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs:\n- job_name: enforcer\n  static_configs:\n  - targets: ['{target}']\n    \
             labels: {{pod: agent}}\n  honor_labels: true\n",
            rules.display()
        );
        fs::write(path("prometheus.yaml"), config).expect("is written");
        let log = fs::File::create(path("log")).expect("is made");
        let child = Command::new(program)
            .arg(format!("--config.file={}", path("prometheus.yaml").display()))
            .arg(format!("--storage.tsdb.path={}", path("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("is shared"))
            .stderr(log)
            .spawn()
            .expect("it starts");
        Self { child, port, folder }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// What its API answers, without the envelope; `None` while it is not there.
    async fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        let request = format!("GET /api/v1/{path} HTTP/1.0\r\nhost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str::<Value>(body).ok().map(|mut body| body["data"].take())
    }

    /// Asks until it answers what is wanted: nothing tells when it has scraped.
    async fn until<T>(&self, path: &str, wanted: impl Fn(&Value) -> Option<T>) -> T {
        let begun = Instant::now();
        let mut last = None;
        while begun.elapsed() < PATIENCE {
            last = self.ask(path).await;
            if let Some(found) = last.as_ref().and_then(&wanted) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{path}: {last:?}\n{}", self.log());
    }

    /// The one number that a query gives, as Prometheus writes it.
    async fn number(&self, query: &str) -> String {
        let path = format!("query?query={}", encoded(query));
        self.until(&path, |data| data["result"][0]["value"][1].as_str().map(str::to_owned)).await
    }
}

async fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
    listener.local_addr().expect("has an address").port()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat()
}

#[tokio::test]
async fn prometheus_scrapes_every_series_and_evaluates_every_alert() {
    let Some(program) = program("prometheus") else { return };
    let metrics = full::metrics();
    metrics.set_containers(vec![
        full::container("default", "web-0", "app"),
        full::container("\"\n\\", "é\u{1b}", "app"),
    ]);
    let text = metrics.render_as(Format::Text);
    let told = text.lines().filter(|line| !line.starts_with('#')).count();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
    let target = listener.local_addr().expect("has an address").to_string();
    let health = Health::new();
    tokio::spawn(serve_pages(listener, Limits::PAGES, metrics, health, || async {}, std::future::pending()));
    let server = Server::start(&program, &target).await;

    let targets = server
        .until("targets?state=active", |data| {
            let target = &data["activeTargets"][0];
            (target["health"].as_str()? != "unknown").then(|| target.clone())
        })
        .await;
    assert_eq!((&targets["health"], &targets["lastError"]), (&"up".into(), &"".into()), "{targets}");
    let scraped = server.number("scrape_samples_scraped").await;
    assert_eq!(scraped, told.to_string(), "{text}");
    let usage = r#"enforcer_container_memory_usage_bytes{namespace="default", pod="web-0", container="app"}"#;
    assert_eq!(server.number(usage).await, "104857600", "the container's own labels are kept");

    let rules = server
        .until("rules", |data| {
            let groups = data["groups"].as_array()?.iter();
            let rules: Vec<Value> =
                groups.flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect();
            (!rules.is_empty() && rules.iter().all(|rule| rule["health"] != "unknown")).then_some(rules)
        })
        .await;
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    let log = server.log();
    for word in ["level=warn", "level=error"] {
        assert!(!log.contains(word), "{log}");
    }
}
