//! An API server that does as a script says, also what no sound one would: HTTP on the loopback, with a kubeconfig that
//! leads there. It knows no object.

mod reply;

use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
pub use reply::{Reply, status};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use tokio::{
    net::TcpListener,
    sync::{Notify, watch},
    task::{JoinHandle, JoinSet},
};

/// What was asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// `GET`, `PATCH`, `POST`.
    pub method: Method,
    /// As it came, encoded.
    pub path: String,
    /// Decoded.
    pub query: BTreeMap<String, String>,
    /// The token that it came with, without `Bearer`.
    pub token: String,
    /// The type of its content.
    pub content: String,
    /// Its content; null where that is no JSON.
    pub body: Value,
}

impl Asked {
    /// It is a watch.
    pub fn is_watch(&self) -> bool {
        self.query.get("watch").is_some_and(|value| value == "true")
    }
}

type Script = dyn FnMut(&Asked) -> Reply + Send;

struct Shared {
    script: Mutex<Box<Script>>,
    asked: Mutex<Vec<Asked>>,
    count: watch::Sender<usize>,
    broken: Notify,
}

/// It listens until it is dropped.
pub struct Server {
    folder: tempfile::TempDir,
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Listens on a free port of the loopback. Must be called in a tokio runtime.
    pub async fn start(script: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("listens");
        let address = listener.local_addr().expect("has an address");
        let folder = tempfile::tempdir().expect("a folder");
        let shared = Arc::new(Shared {
            script: Mutex::new(Box::new(script)),
            asked: Mutex::default(),
            count: watch::Sender::new(0),
            broken: Notify::new(),
        });
        let server = Self { folder, address, accepting: accept(listener, &shared), shared };
        server.set_token("first");
        std::fs::write(server.kubeconfig(), server.config()).expect("writes");
        server
    }

    /// A kubeconfig that leads here; its token is in a file.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    /// The token that the kubeconfig's file has from now on.
    pub fn set_token(&self, token: &str) {
        std::fs::write(self.folder.path().join("token"), token).expect("writes");
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Does as this script says from now on.
    pub fn say(&self, script: impl FnMut(&Asked) -> Reply + Send + 'static) {
        *self.shared.script.lock().expect("nobody panicked") = Box::new(script);
    }

    /// All that was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().expect("nobody panicked").clone()
    }

    /// Waits until so many things were asked in all.
    pub async fn wait_for(&self, count: usize) {
        let mut seen = self.shared.count.subscribe();
        seen.wait_for(|seen| *seen >= count).await.expect("it is there");
    }

    /// It goes away with all connections, as one that is killed.
    pub fn kill(&self) {
        self.accepting.abort();
        self.shared.broken.notify_waiters();
    }

    /// It is there again, where it was.
    pub async fn restart(&mut self) {
        // The listener goes with the task that has it.
        while !self.accepting.is_finished() {
            tokio::task::yield_now().await;
        }
        let listener = TcpListener::bind(self.address).await.expect("listens");
        self.accepting = accept(listener, &self.shared);
    }

    fn config(&self) -> String {
        let token = self.folder.path().join("token");
        let server = self.address();
        config(&server, &token)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn config(server: &str, token: &Path) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         clusters:\n- name: test\n  cluster:\n    server: {server}\n\
         contexts:\n- name: test\n  context:\n    cluster: test\n    user: test\n    namespace: shop\n\
         users:\n- name: test\n  user:\n    tokenFile: {}\n",
        token.display()
    )
}

fn accept(listener: TcpListener, shared: &Arc<Shared>) -> JoinHandle<()> {
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let shared = Arc::clone(&shared);
            connections.spawn(async move {
                let service = service_fn(|request| answer(&shared, request));
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::select! {
                    _ = serving => {}
                    () = shared.broken.notified() => {}
                }
            });
        }
    })
}

async fn answer(
    shared: &Shared,
    request: Request<Incoming>,
) -> Result<http::Response<reply::Content>, reply::Broken> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| reply::Broken)?.to_bytes();
    let text =
        |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let asked = Asked {
        method: head.method.clone(),
        path: head.uri.path().to_owned(),
        query: query(head.uri.query().unwrap_or_default()),
        token: text(header::AUTHORIZATION).trim_start_matches("Bearer ").to_owned(),
        content: text(header::CONTENT_TYPE),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let reply = {
        let mut script = shared.script.lock().expect("nobody panicked");
        shared.asked.lock().expect("nobody panicked").push(asked.clone());
        script(&asked)
    };
    shared.count.send_modify(|count| *count += 1);
    reply.given().await
}

fn query(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let code = (*byte == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &after[2..];
            }
            None => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
