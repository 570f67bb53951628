//! Hostile, slow and too many clients.

use super::{Agent, LONG, PATIENT, healthy};
use crate::admin::{
    ANSWER_BYTES_MAX, AskError, BODY_BYTES_MAX, CONNECTIONS_MAX, Client, Counts, Listener, Refused, Reply,
    Request, fixture,
    model::{ContainerView, Refusal},
    server::{Asking, Patience, serve_with},
};
use crate::{health::Health, inventory::Target};
use std::{
    os::unix::{fs::PermissionsExt as _, net},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    sync::mpsc,
    time::timeout,
};

/// Short enough to wait for.
const SHORT: Duration = Duration::from_millis(200);

fn target(text: &str) -> Target {
    Target::parse(text).expect("a target")
}

/// Others are served: within the short time that each has here, on a busy machine perhaps not at the first try.
async fn answered(agent: &Agent) {
    let served = async {
        while agent.client().status().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    assert!(timeout(LONG, served).await.is_ok(), "nobody else is served");
}

#[tokio::test]
async fn each_request_arrives_and_each_answer_comes_back() {
    let mut agent = Agent::start(PATIENT, healthy);
    let client = agent.client();
    assert_eq!(client.status().await.expect("answers"), fixture::status());
    assert_eq!(client.containers().await.expect("answers"), [fixture::container()]);
    let web = target("pod/shop/web-1:main");
    assert_eq!(client.explain(&web).await.expect("answers"), fixture::explanation());
    assert!(client.pause().await.expect("answers").paused);
    assert_eq!(client.resume().await.expect("answers").text, "resumed");
    let error = client.reload().await.expect_err("is refused");
    assert!(matches!(error, AskError::Refused { status: 422, .. }), "{error:?}");
    assert_eq!((error.to_string().as_str(), error.advice()), ("line 3: no such key", "mend it"));
    let error = client.explain(&target("pod/shop/none")).await.expect_err("is refused");
    assert!(matches!(error, AskError::Refused { status: 404, .. }), "{error:?}");
    for request in [
        Request::Status,
        Request::Containers,
        Request::Explain(web),
        Request::Pause,
        Request::Resume,
        Request::Reload,
        Request::Explain(target("pod/shop/none")),
    ] {
        assert_eq!(agent.asked.recv().await, Some(request));
    }
    assert_eq!((agent.counts.requests(), agent.counts.losses().cut(), agent.counts.strangers()), (7, 0, 0));
    let socket = agent.socket.clone();
    agent.stop().await;
    assert!(!socket.exists());
}

#[tokio::test]
async fn what_is_hostile_is_refused_and_reaches_nobody() {
    let mut agent = Agent::start(PATIENT, healthy);
    let with_body = |bytes: usize| {
        format!("POST /v1/pause HTTP/1.1\r\nhost: x\r\ncontent-length: {bytes}\r\n\r\n{}", "a".repeat(bytes))
    };
    let head = "GET /v1/status HTTP/1.1\r\nhost: x\r\n";
    for (request, code) in [
        ("GET / HTTP/1.1\r\n\r\n".into(), 404),
        ("GET /v1/status/../pause HTTP/1.1\r\n\r\n".into(), 404),
        ("DELETE /v1/status HTTP/1.1\r\n\r\n".into(), 405),
        ("POST /v1/status HTTP/1.1\r\ncontent-length: 0\r\n\r\n".into(), 405),
        ("GET /v1/explain?target=\u{1b} HTTP/1.1\r\n\r\n".into(), 400),
        ("GET /v1/explain?target=pod/a/%1b HTTP/1.1\r\n\r\n".into(), 400),
        ("GET http://elsewhere/ HTTP/1.1\r\n\r\n".into(), 404),
        ("* * *\r\n\r\n".into(), 400),
        ("\u{16}\u{3}\u{1}\0\r\n\r\n".into(), 400),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(5000)), 413),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000)), 431),
        (format!("{head}{}\r\n", "a: b\r\n".repeat(100)), 431),
        (format!("{head}a: {}\r\n\r\n", "b".repeat(100_000)), 431),
        (with_body(BODY_BYTES_MAX + 1), 413),
        (with_body(1 << 20), 413),
        (format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\n"), 413),
    ] {
        let answer = agent.raw(request.as_bytes()).await;
        let shown = request.chars().take(80).collect::<String>();
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{shown:?}: {answer:?}");
        if let Some((_, body)) = answer.split_once("\r\n\r\n").filter(|(_, body)| !body.is_empty()) {
            let refusal: Refusal = serde_json::from_str(body).expect("a refusal");
            assert!(!refusal.error.is_empty() && body.is_ascii(), "{body:?}");
        }
    }
    let answer = agent.raw(b"GET /v1/pause HTTP/1.1\r\n\r\n").await;
    assert!(answer.contains("\r\nallow: POST\r\n"), "{answer}");
    assert!(agent.asked.try_recv().is_err());
    // A body that is small is let be.
    assert!(agent.raw(with_body(BODY_BYTES_MAX).as_bytes()).await.starts_with("HTTP/1.1 200 "));
    assert_eq!(agent.asked.recv().await, Some(Request::Pause));
    agent.stop().await;
}

#[tokio::test]
async fn one_request_a_connection() {
    let mut agent = Agent::start(PATIENT, healthy);
    let twice = "POST /v1/pause HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2);
    let answer = agent.raw(twice.as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    assert_eq!(agent.asked.recv().await, Some(Request::Pause));
    assert_eq!(agent.client().status().await.expect("answers").pid, 42);
    assert_eq!(agent.asked.recv().await, Some(Request::Status));
    agent.stop().await;
}

#[tokio::test]
async fn who_is_slow_is_cut_and_holds_nobody_up() {
    let patience = Patience { arrival: SHORT, ..PATIENT };
    let agent = Agent::start(patience, healthy);
    let mut slow = Vec::new();
    for begun in ["", "G", "GET /v1/status HTTP/1.1\r\nhost:"] {
        let mut stream = UnixStream::connect(&agent.socket).await.expect("connects");
        stream.write_all(begun.as_bytes()).await.expect("is taken");
        slow.push(stream);
    }
    answered(&agent).await;
    for mut stream in slow {
        let mut answer = String::new();
        timeout(LONG, stream.read_to_string(&mut answer)).await.expect("is cut").expect("text");
        assert!(!answer.contains("200"), "{answer}");
    }
    // A body that does not come.
    let answer = agent.raw(b"POST /v1/pause HTTP/1.1\r\ncontent-length: 9\r\n\r\nab").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let counts = agent.counts.clone();
    agent.stop().await;
    assert!(counts.losses().cut() >= 3, "{counts:?}");
}

#[tokio::test]
async fn who_does_not_read_is_cut_and_holds_nobody_up() {
    let patience = Patience { connection: SHORT, ..PATIENT };
    let agent = Agent::start(patience, |request| {
        if request == Request::Containers {
            // More than a socket's buffers hold.
            return Some(Reply::Containers(vec![fixture::container(); 4000]));
        }
        healthy(request)
    });
    let mut stream = UnixStream::connect(&agent.socket).await.expect("connects");
    stream.write_all(b"GET /v1/containers HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("is taken");
    answered(&agent).await;
    while agent.counts.losses().cut() == 0 {
        tokio::task::yield_now().await;
    }
    let mut answer = Vec::new();
    timeout(LONG, stream.read_to_end(&mut answer)).await.expect("an end").expect("what was sent");
    assert!(answer.starts_with(b"HTTP/1.1 200 OK") && !answer.ends_with(b"]\n"), "{} bytes", answer.len());
    agent.stop().await;
}

#[tokio::test]
async fn too_many_wait_and_get_their_turn() {
    let patience = Patience { arrival: SHORT, ..PATIENT };
    let agent = Agent::start(patience, healthy);
    let mut idle = Vec::new();
    for _ in 0..2 * CONNECTIONS_MAX {
        idle.push(UnixStream::connect(&agent.socket).await.expect("connects"));
    }
    // Behind all of them.
    answered(&agent).await;
    assert!(agent.counts.losses().cut() >= CONNECTIONS_MAX as u64, "{:?}", agent.counts);
    drop(idle);
    let asked = (0..100).map(|_| {
        let client = agent.client();
        tokio::spawn(async move { client.status().await.map(|status| status.pid) })
    });
    for answer in asked.collect::<Vec<_>>() {
        assert_eq!(answer.await.expect("no panic").expect("answers"), 42);
    }
    agent.stop().await;
}

#[tokio::test]
async fn a_loop_that_hangs_or_ends_is_told() {
    let patience = Patience { reply: SHORT, ..PATIENT };
    let agent = Agent::start(patience, |_| None);
    // More than wait in the queue.
    let asked = (0..8).map(|_| {
        let client = agent.client();
        tokio::spawn(async move { client.status().await })
    });
    for answer in asked.collect::<Vec<_>>() {
        let error = answer.await.expect("no panic").expect_err("nobody answers");
        assert!(matches!(error, AskError::Refused { status: 504, .. }), "{error:?}");
        assert!(error.to_string().contains("its last sign of life was "), "{error}");
    }
    assert_eq!(agent.counts.unasked(), 0);
    agent.stop().await;
}

#[tokio::test]
async fn what_finds_no_room_on_the_way_to_the_loop_is_refused_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let socket = dir.path().join("admin.sock");
    let listener = Listener::bind(&socket).expect("listens");
    // Its loop hangs: nobody takes a question.
    let (requests, _questions) = mpsc::channel(1);
    let counts = Arc::new(Counts::default());
    let asking = Asking { requests, health: Health::new(), counts: counts.clone(), patience: PATIENT };
    let served = tokio::spawn(serve_with(listener, asking, std::future::pending()));
    let ask = || {
        let client = Client::new(&socket, LONG);
        tokio::spawn(async move { client.status().await })
    };
    let waits = ask();
    while counts.requests() == 0 {
        tokio::task::yield_now().await;
    }
    for refused in 1..=50 {
        let error = ask().await.expect("no panic").expect_err("there is no room");
        assert!(matches!(error, AskError::Refused { status: 503, .. }), "{error:?}");
        assert!(error.to_string().contains("too many questions"), "{error}");
        assert_eq!(counts.unasked(), refused);
    }
    assert!(!waits.is_finished());
    served.abort();
}

#[tokio::test]
async fn an_answer_too_long_is_refused() {
    let agent = Agent::start(PATIENT, |_| {
        let long = ContainerView { policy_state: "a".repeat(ANSWER_BYTES_MAX), ..fixture::container() };
        Some(Reply::Containers(vec![long]))
    });
    let error = agent.client().containers().await.expect_err("is refused");
    assert!(matches!(error, AskError::Refused { status: 500, .. }), "{error:?}");
    agent.stop().await;
}

#[tokio::test]
async fn other_peoples_text_comes_back_as_it_was() {
    let hostile = ContainerView { container: "\u{1b}[2J\u{202e}\"\n".into(), ..fixture::container() };
    let sent = hostile.clone();
    let agent = Agent::start(PATIENT, move |_| Some(Reply::Containers(vec![sent.clone()])));
    assert_eq!(agent.client().containers().await.expect("answers"), [hostile]);
    let answer = agent.raw(b"GET /v1/containers HTTP/1.1\r\n\r\n").await;
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(body.trim_end().bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{body}");
    agent.stop().await;
}

/// What another user's thread gets. The kernel's own call changes the one thread only.
async fn as_nobody<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(|| {
        const NOBODY: libc::uid_t = 65_534;
        // SAFETY: numbers only; the thread ends with this closure.
        let done = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        let _ = sender.send(run());
    });
    let answer = receiver.await.expect("no panic");
    thread.join().expect("no panic");
    answer
}

#[tokio::test]
async fn another_user_is_let_in_neither_by_the_mode_nor_by_the_server() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can be somebody else");
        return;
    }
    let mut agent = Agent::start(PATIENT, healthy);
    let folder = agent.socket.parent().expect("a folder").to_owned();
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("is set");
    };
    open(folder.parent().expect("a folder"), 0o755);
    open(&folder, 0o755);
    let socket = agent.socket.clone();
    let error = as_nobody(|| net::UnixStream::connect(socket)).await.expect_err("the mode");
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    open(&agent.socket, 0o666);
    let socket = agent.socket.clone();
    let connected = as_nobody(|| net::UnixStream::connect(socket)).await.expect("connects");
    connected.set_nonblocking(true).expect("is set");
    let mut connected = UnixStream::from_std(connected).expect("is taken");
    let _ = connected.write_all(b"POST /v1/pause HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut answer = Vec::new();
    // What was sent is not even read: the end may come as an error.
    let _ = timeout(LONG, connected.read_to_end(&mut answer)).await.expect("an end");
    assert_eq!((answer, agent.counts.strangers()), (Vec::new(), 1));
    answered(&agent).await;
    assert_eq!(agent.asked.recv().await, Some(Request::Status));
    agent.stop().await;
}

#[test]
fn each_refusal_has_its_code() {
    let all = [
        (Refused::Malformed, 400),
        (Refused::NoSuch, 404),
        (Refused::Method, 405),
        (Refused::TooLong, 413),
        (Refused::Configuration, 422),
        (Refused::Failed, 500),
        (Refused::Busy, 503),
        (Refused::Late, 504),
    ];
    for (refused, code) in all {
        assert_eq!(refused.status().as_u16(), code);
    }
}
