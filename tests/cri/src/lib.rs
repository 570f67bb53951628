//! A container runtime that does as a script says, also what no sound one would: gRPC over a Unix socket, with messages
//! of whoever writes the script.

use bytes::Bytes;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use prost::Message;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{Notify, mpsc},
    task::{JoinHandle, JoinSet},
};

/// What comes of a call.
pub enum Reply {
    /// This message.
    Answer(Vec<u8>),
    /// This code of gRPC, with a message.
    Status(u32, &'static str),
    /// Nothing, ever.
    Hang,
    /// The whole connection breaks.
    Break,
    /// These messages as they come; the end is a good one.
    Stream(mpsc::Receiver<Vec<u8>>),
}

impl Reply {
    /// A message, encoded.
    pub fn of(message: &impl Message) -> Self {
        Self::Answer(message.encode_to_vec())
    }
}

/// Calls so far, by name.
type Calls = Mutex<BTreeMap<String, usize>>;
/// From a call's name and its message, encoded, to what comes of it.
type Script = dyn FnMut(&str, &[u8]) -> Reply + Send;

/// It listens until it is dropped.
pub struct Server {
    folder: tempfile::TempDir,
    calls: Arc<Calls>,
    script: Arc<Mutex<Script>>,
    accepting: JoinHandle<()>,
    broken: Arc<Notify>,
}

impl Server {
    /// Listens in a folder of its own. Must be called in a tokio runtime.
    pub fn start(script: impl FnMut(&str, &[u8]) -> Reply + Send + 'static) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(script));
        let calls = Arc::default();
        let broken = Arc::new(Notify::new());
        let accepting = accept(&folder.path().join("sock"), &script, &calls, &broken);
        Self { folder, calls, script, accepting, broken }
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("sock")
    }

    /// How often each call was made, by name.
    pub fn all_calls(&self) -> BTreeMap<String, usize> {
        self.calls.lock().expect("nobody panicked").clone()
    }

    /// How often it was called so.
    pub fn calls(&self, call: &str) -> usize {
        self.calls.lock().expect("nobody panicked").get(call).copied().unwrap_or(0)
    }

    /// It goes away with all connections, as one that is killed.
    pub fn kill(&self) {
        self.accepting.abort();
        self.broken.notify_waiters();
        std::fs::remove_file(self.socket()).expect("it is there");
    }

    /// It is there again.
    pub fn restart(&mut self) {
        self.accepting = accept(&self.socket(), &self.script, &self.calls, &self.broken);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn accept(
    socket: &Path,
    script: &Arc<Mutex<Script>>,
    calls: &Arc<Calls>,
    broken: &Arc<Notify>,
) -> JoinHandle<()> {
    let listener = UnixListener::bind(socket).expect("listens");
    let (script, calls, broken) = (Arc::clone(script), Arc::clone(calls), Arc::clone(broken));
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let (script, calls, broken) = (Arc::clone(&script), Arc::clone(&calls), Arc::clone(&broken));
            connections.spawn(async move {
                tokio::select! {
                    () = serve(stream, &script, &calls, &broken) => {}
                    () = broken.notified() => {}
                }
            });
        }
    })
}

async fn serve(stream: UnixStream, script: &Mutex<Script>, calls: &Calls, broken: &Arc<Notify>) {
    let mut connection = h2::server::handshake(stream).await.expect("speaks HTTP/2");
    let mut hung = Vec::new();
    let mut streams = JoinSet::new();
    let (work, mut at_work) = mpsc::channel::<(http::Request<h2::RecvStream>, SendResponse<Bytes>)>(64);
    loop {
        tokio::select! {
            accepted = connection.accept() => {
                let Some(Ok(accepted)) = accepted else { return };
                let work = work.clone();
                streams.spawn(async move {
                    let (request, respond) = accepted;
                    drop(work.send((request, respond)).await);
                });
            }
            Some((request, mut respond)) = at_work.recv() => {
                let path = request.uri().path().to_owned();
                let call = path.strip_prefix("/runtime.v1.RuntimeService/").expect("of the service").to_owned();
                // What is asked is read by a task of its own, for the connection to go on.
                let mut body = request.into_body();
                let reply = {
                    let bytes = tokio::select! {
                        bytes = whole(&mut body) => bytes,
                        _ = std::future::poll_fn(|context| connection.poll_closed(context)) => return,
                    };
                    *calls.lock().expect("nobody panicked").entry(call.clone()).or_default() += 1;
                    (script.lock().expect("nobody panicked"))(&call, &bytes)
                };
                match reply {
                    Reply::Hang => hung.push(respond),
                    Reply::Break => {
                        broken.notify_waiters();
                        return;
                    }
                    Reply::Status(code, message) => {
                        let response = head().header("grpc-status", code).header("grpc-message", message);
                        respond.send_response(response.body(()).expect("a response"), true).expect("sends");
                    }
                    Reply::Answer(message) => {
                        streams.spawn(async move { send(respond, vec![message], None).await });
                    }
                    Reply::Stream(messages) => {
                        streams.spawn(async move { send(respond, Vec::new(), Some(messages)).await });
                    }
                }
            }
        }
    }
}

fn head() -> http::response::Builder {
    Response::builder().status(StatusCode::OK).header("content-type", "application/grpc")
}

async fn whole(body: &mut h2::RecvStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(part)) = body.data().await {
        drop(body.flow_control().release_capacity(part.len()));
        bytes.extend(part);
    }
    // One byte of flags, four of length.
    bytes.split_off(5.min(bytes.len()))
}

async fn send(
    mut respond: SendResponse<Bytes>,
    messages: Vec<Vec<u8>>,
    more: Option<mpsc::Receiver<Vec<u8>>>,
) {
    let Ok(mut stream) = respond.send_response(head().body(()).expect("a response"), false) else { return };
    let frame = |message: Vec<u8>| {
        let length = u32::try_from(message.len()).expect("short");
        [&[0][..], &length.to_be_bytes(), &message].concat().into()
    };
    for message in messages {
        drop(stream.send_data(frame(message), false));
    }
    if let Some(mut more) = more {
        while let Some(message) = more.recv().await {
            drop(stream.send_data(frame(message), false));
        }
    }
    let end = HeaderMap::from_iter([("grpc-status".parse().expect("a name"), HeaderValue::from_static("0"))]);
    drop(stream.send_trailers(end));
}
