//! Server and client over a real socket.

mod client;
mod listener;
mod server;

use super::{
    Client, Counts, Listener,
    model::Done,
    request::{Reply, Request, refusal},
    server::{Asking, Patience, serve_with},
};
use crate::{
    admin::{Refused, fixture},
    health::Health,
};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};

/// What a test waits at most, on a machine however busy.
const LONG: Duration = Duration::from_mins(1);

/// Questions that wait for the loop.
const QUEUE: usize = 32;

/// An agent of which only the socket is real.
struct Agent {
    socket: PathBuf,
    counts: Arc<Counts>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
    asked: mpsc::UnboundedReceiver<Request>,
    _dir: TempDir,
}

/// Long enough for everybody.
const PATIENT: Patience = Patience { arrival: LONG, reply: LONG, connection: LONG };

impl Agent {
    fn start(patience: Patience, answer: impl Fn(Request) -> Option<Reply> + Send + 'static) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let socket = dir.path().join("run/admin.sock");
        let listener = Listener::bind(&socket).expect("listens");
        let (requests, mut questions) = mpsc::channel(QUEUE);
        let (stop, stopped) = oneshot::channel();
        let counts = Arc::new(Counts::default());
        let asking = Asking { requests, health: Health::new(), counts: counts.clone(), patience };
        let serving = serve_with(listener, asking, async {
            let _ = stopped.await;
        });
        let served = tokio::spawn(async { serving.await.expect("serves") });
        let (told, asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut unanswered = Vec::new();
            while let Some((request, reply)) = questions.recv().await {
                let _ = told.send(request.clone());
                match answer(request) {
                    Some(answer) => drop(reply.send(answer)),
                    None => unanswered.push(reply),
                }
            }
        });
        Self { socket, counts, stop, served, asked, _dir: dir }
    }

    fn client(&self) -> Client {
        Client::new(&self.socket, LONG)
    }

    async fn stop(self) {
        drop(self.stop);
        timeout(LONG, self.served).await.expect("ends").expect("no panic");
    }

    /// Sends these bytes and says what came back until the end.
    async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(&self.socket).await.expect("connects");
        // Whoever is refused early reads no further.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = timeout(LONG, stream.read_to_end(&mut answer)).await.expect("an end");
        String::from_utf8(answer).expect("text")
    }
}

fn healthy(request: Request) -> Option<Reply> {
    let done = |paused, text: &str| Some(Reply::Done(Done { paused, text: text.into(), under_way: vec![] }));
    match request {
        Request::Status => Some(Reply::Status(Box::new(fixture::status()))),
        Request::Containers => Some(Reply::Containers(vec![fixture::container()])),
        Request::Explain(target) if target.name == "web-1" => {
            Some(Reply::Explanation(Box::new(fixture::explanation())))
        }
        Request::Explain(target) => {
            Some(Reply::Refused(Refused::NoSuch, refusal(format!("there is no {target}"), "enforcer ps")))
        }
        Request::Pause => done(true, "paused"),
        Request::Resume => done(false, "resumed"),
        Request::Reload => {
            Some(Reply::Refused(Refused::Configuration, refusal("line 3: no such key", "mend it")))
        }
    }
}
