//! A server on a real socket, and clients of every kind.

use super::*;
use http::Method;
use hyper::{Request, body::Incoming};
use std::{
    future::{Future, pending},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::{Notify, oneshot},
    task::JoinHandle,
};

/// What no test waits for.
const LONG: Duration = Duration::from_mins(10);
const SHORT: Duration = Duration::from_millis(50);
pub(super) const LIMITS: Limits =
    Limits { connections: 4, head: LONG, whole: LONG, drain: LONG, ..Limits::PAGES };

struct Running {
    address: SocketAddr,
    losses: Losses,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Running {
    async fn start<H, F>(limits: Limits, handler: H) -> Self
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("has an address");
        let losses = Losses::default();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(serve(listener, limits, losses.clone(), handler, async {
            let _ = stopped.await;
        }));
        Self { address, losses, stop, serving }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connects")
    }

    /// The whole answer to what is sent.
    async fn ask(&self, request: &str) -> String {
        ask(self.connect().await, request).await
    }

    async fn stop(self) {
        self.stop.send(()).expect("it runs");
        self.serving.await.expect("it ends well");
    }
}

pub(super) async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.expect("is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("is answered");
    answer
}

async fn hello(request: Request<Incoming>) -> Response<Full<Bytes>> {
    text(StatusCode::OK, TEXT, format!("{} {}", request.method(), request.uri().path()))
}

/// Until the other end has closed; what was read before.
async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut all).await;
    all
}

#[tokio::test]
async fn one_request_is_answered_and_the_connection_closed() {
    let server = Running::start(LIMITS, hello).await;
    let answer = server.ask("GET /a HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nGET /a"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn a_unix_socket_tells_who_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sock");
    let listener = UnixListener::bind(&path).expect("listens");
    let (stop, stopped) = oneshot::channel::<()>();
    let handler = |request: Request<Incoming>| async move {
        let caller = request.extensions().get::<Caller>().copied().expect("there is a caller");
        text(StatusCode::OK, TEXT, format!("{caller:?}"))
    };
    let serving = tokio::spawn(serve(listener, LIMITS, Losses::default(), handler, async {
        let _ = stopped.await;
    }));
    let stream = UnixStream::connect(&path).await.expect("connects");
    let answer = ask(stream, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let caller = Caller {
        uid: Some(nix::unistd::geteuid().as_raw()),
        pid: Some(i32::try_from(std::process::id()).expect("it fits")),
    };
    assert!(answer.ends_with(&format!("{caller:?}")), "{answer}");
    stop.send(()).expect("it runs");
    serving.await.expect("it ends well");
}

#[tokio::test]
async fn a_head_that_does_not_come_is_not_waited_for() {
    let limits = Limits { head: SHORT, ..LIMITS };
    let server = Running::start(limits, hello).await;
    let mut silent = server.connect().await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET / HTTP/1.1\r\nhost:").await.expect("is sent");
    assert!(
        server.ask("GET /b HTTP/1.1\r\nhost: x\r\n\r\n").await.ends_with("GET /b"),
        "others are answered"
    );
    until_closed(&mut slow).await;
    until_closed(&mut silent).await;
    let losses = server.losses.clone();
    server.stop().await;
    assert_eq!((losses.cut(), losses.refused(), losses.failed()), (2, 0, 0));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut() {
    let limits = Limits { whole: Duration::from_millis(300), ..LIMITS };
    // More than the socket's buffers take.
    let server =
        Running::start(limits, async |_| text(StatusCode::OK, TEXT, Bytes::from(vec![b'x'; 64 << 20]))).await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("is sent");
    while server.losses.cut() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(until_closed(&mut slow).await.len() < 64 << 20);
    server.stop().await;
}

#[tokio::test]
async fn too_many_connections_are_closed_at_once() {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(tokio::sync::Semaphore::new(0)));
    let handler = {
        let (begun, go_on) = (Arc::clone(&begun), Arc::clone(&go_on));
        move |request| {
            let (begun, go_on) = (Arc::clone(&begun), Arc::clone(&go_on));
            async move {
                begun.notify_one();
                drop(go_on.acquire().await);
                hello(request).await
            }
        }
    };
    let server = Running::start(LIMITS, handler).await;
    let mut held = Vec::new();
    for _ in 0..LIMITS.connections {
        let mut stream = server.connect().await;
        stream.write_all(b"GET /c HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("is sent");
        begun.notified().await;
        held.push(stream);
    }
    for _ in 0..3 {
        assert_eq!(until_closed(&mut server.connect().await).await, b"");
    }
    assert_eq!((server.losses.refused(), server.losses.cut()), (3, 0));
    go_on.add_permits(LIMITS.connections + 1);
    for mut stream in held {
        let answer = String::from_utf8(until_closed(&mut stream).await).expect("text");
        assert!(answer.ends_with("GET /c"), "those that were there are answered: {answer}");
    }
    let answer = server.ask("GET /d HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(answer.ends_with("GET /d"), "there is room again: {answer}");
    server.stop().await;
}

/// A probe of the node's health is answered, however many hold connections open.
#[tokio::test]
async fn who_asks_nothing_makes_room_for_who_does() {
    let server = Running::start(LIMITS, hello).await;
    let mut held = Vec::new();
    for _ in 0..LIMITS.connections {
        let mut stream = server.connect().await;
        stream.write_all(b"GET /e HT").await.expect("is sent");
        held.push(stream);
    }
    for _ in 0..3 {
        let answer = server.ask("GET /f HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(answer.ends_with("GET /f"), "{answer}");
    }
    // Each of those took the place of the oldest, and left it when it was answered.
    assert_eq!(until_closed(&mut held.remove(0)).await, b"");
    for stream in held {
        let answer = ask(stream, "TP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(answer.ends_with("GET /e"), "{answer}");
    }
    let losses = server.losses.clone();
    server.stop().await;
    assert_eq!((losses.cut(), losses.refused(), losses.failed()), (1, 0, 0));
}

#[tokio::test]
async fn a_stop_lets_a_request_end_and_waits_for_no_idle_connection() {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (begun, go_on) = (Arc::clone(&begun), Arc::clone(&go_on));
        move |_| {
            let (begun, go_on) = (Arc::clone(&begun), Arc::clone(&go_on));
            async move {
                begun.notify_one();
                go_on.notified().await;
                text(StatusCode::OK, TEXT, "late")
            }
        }
    };
    let Running { address, losses, stop, serving } = Running::start(LIMITS, handler).await;
    let mut idle = TcpStream::connect(address).await.expect("connects");
    let asking = tokio::spawn(async move {
        let stream = TcpStream::connect(address).await.expect("connects");
        ask(stream, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await
    });
    begun.notified().await;
    stop.send(()).expect("it runs");
    until_closed(&mut idle).await;
    TcpStream::connect(address).await.expect_err("nobody listens any more");
    go_on.notify_one();
    assert!(asking.await.expect("is asked").ends_with("late"));
    serving.await.expect("it ends well");
    assert_eq!((losses.cut(), losses.failed()), (0, 0));
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let begun = Arc::new(Notify::new());
    let handler = {
        let begun = Arc::clone(&begun);
        move |_| {
            let begun = Arc::clone(&begun);
            async move {
                begun.notify_one();
                pending().await
            }
        }
    };
    let server = Running::start(Limits { drain: SHORT, ..LIMITS }, handler).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("is sent");
    begun.notified().await;
    let losses = server.losses.clone();
    server.stop().await;
    assert_eq!(until_closed(&mut stream).await, b"");
    assert_eq!(losses.cut(), 1);
}

#[tokio::test]
async fn a_handler_that_panics_takes_its_own_connection_only() {
    let handler = async |request: Request<Incoming>| {
        assert_ne!(request.uri().path(), "/panic", "on purpose");
        text(StatusCode::OK, TEXT, "well")
    };
    let server = Running::start(LIMITS, handler).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /panic HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("is sent");
    assert_eq!(until_closed(&mut stream).await, b"");
    assert!(server.ask("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.ends_with("well"));
    assert_eq!(server.losses.failed(), 1);
    server.stop().await;
}

#[tokio::test]
async fn nonsense_and_too_much_of_it_is_refused() {
    let server = Running::start(LIMITS, hello).await;
    let many = "a: b\r\n".repeat(100);
    for (request, status) in [
        ("nonsense\r\n\r\n".to_owned(), "400"),
        (format!("GET / HTTP/1.1\r\n{many}\r\n"), "431"),
        (format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(20 << 10)), "431"),
    ] {
        let mut stream = server.connect().await;
        stream.write_all(request.as_bytes()).await.expect("is sent");
        let answer = String::from_utf8(until_closed(&mut stream).await).expect("is text");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_body_is_taken_up_to_its_bound() {
    let server = Running::start(LIMITS, async |request: Request<Incoming>| {
        assert_eq!(request.method(), Method::POST);
        match body(request.into_body(), 8).await {
            Ok(body) => text(StatusCode::OK, TEXT, body),
            Err(error) => text(StatusCode::PAYLOAD_TOO_LARGE, TEXT, error.to_string()),
        }
    })
    .await;
    let answer = server.ask("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 8\r\n\r\n12345678").await;
    assert!(answer.ends_with("12345678"), "{answer}");
    let answer = server.ask("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n").await;
    assert!(answer.ends_with("the request is longer than 8 bytes"), "{answer}");
    let answer = server
        .ask("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n9\r\n123456789\r\n")
        .await;
    assert!(answer.ends_with("the request is longer than 8 bytes"), "{answer}");
    server.stop().await;
}
