//! What the client makes of agents that are none, hang, or are of another version.

use super::{Agent, LONG, PATIENT, healthy};
use crate::admin::{ANSWER_BYTES_MAX, AskError, Client, fixture};
use serde_json::Value;
use std::{path::Path, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixListener,
};

/// Answers every connection with these bytes.
fn scripted(answer: Vec<u8>) -> (TempDir, Client) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("s");
    let listener = UnixListener::bind(&path).expect("listens");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(&answer).await;
        }
    });
    (dir, Client::new(path, LONG))
}

fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[tokio::test]
async fn no_agent_is_told_as_such() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("admin.sock");
    let ask = async |path: &Path| Client::new(path, LONG).status().await.expect_err("nobody is there");
    for dead in [false, true] {
        if dead {
            drop(std::os::unix::net::UnixListener::bind(&path).expect("listens"));
        }
        let error = ask(&path).await;
        assert!(matches!(error, AskError::NoAgent { .. }) && error.is_silence(), "{error:?}");
        assert!(
            error.advice().contains("enforcer run") && error.to_string().contains("no agent runs"),
            "{error}"
        );
    }
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("writes");
    assert!(matches!(ask(&file).await, AskError::NoAgent { .. }));
    assert!(matches!(ask(&file.join("below")).await, AskError::Connect { .. }));
    assert!(matches!(ask(Path::new(&"a".repeat(200))).await, AskError::Connect { .. }));
}

#[tokio::test]
async fn one_that_hangs_is_not_waited_for() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("s");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("listens");
    let short = Duration::from_millis(50);
    let client = Client::new(&path, short);
    let mut queued = Vec::new();
    // In its queue, and once that is full.
    while let Ok(stream) = connect_at_once(&path) {
        let error = client.status().await.expect_err("nobody answers");
        assert!(matches!(error, AskError::Deadline { .. }), "{error:?}");
        queued.push(stream);
        if queued.len() == 3 {
            std::iter::from_fn(|| connect_at_once(&path).ok()).for_each(|stream| queued.push(stream));
        }
    }
    let error = client.status().await.expect_err("nobody answers");
    assert!(matches!(error, AskError::Deadline { .. }), "{error:?}");
    assert!(error.to_string().contains("no answer within 50ms"), "{error}");
    drop(listener);
}

fn connect_at_once(path: &Path) -> nix::Result<std::os::fd::OwnedFd> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
    use std::os::fd::AsRawFd as _;
    let made = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_NONBLOCK, None)?;
    connect(made.as_raw_fd(), &UnixAddr::new(path)?).map(|()| made)
}

#[tokio::test]
async fn what_breaks_or_makes_no_sense_is_told() {
    for (answer, says) in [
        (Vec::new(), "the connection broke"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_vec(), "the connection broke"),
        (b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(), "makes no sense"),
        (ok(""), "makes no sense"),
        (ok("[]"), "makes no sense"),
        (ok("{\"\u{1b}"), "makes no sense"),
        (b"HTTP/1.1 500 X\r\ncontent-length: 2\r\n\r\n{}".to_vec(), "missing field `error`"),
        (
            b"HTTP/1.1 500 X\r\ncontent-length: 34\r\n\r\n{\"error\":\"\\u001b[2J\",\"todo\":\"now\"}"
                .to_vec(),
            "\\u{1b}[2J",
        ),
    ] {
        let (_dir, client) = scripted(answer.clone());
        let error = client.status().await.expect_err("no status").to_string();
        assert!(
            error.contains(says) && !error.contains('\u{1b}'),
            "{:?}: {error}",
            answer.escape_ascii().to_string()
        );
    }
}

#[tokio::test]
async fn an_answer_without_end_is_not_taken() {
    let mut answer = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    answer.resize(ANSWER_BYTES_MAX + 4096, b' ');
    let (_dir, client) = scripted(answer);
    let error = client.status().await.expect_err("too long");
    assert!(matches!(error, AskError::TooLong { .. }), "{error:?}");
}

#[tokio::test]
async fn another_version_is_understood_or_told_apart() {
    let mut status = serde_json::to_value(fixture::status()).expect("is JSON");
    status["of_tomorrow"] = "x".into();
    status["parts"][0]["of_tomorrow"] = 1.into();
    let (_dir, client) = scripted(ok(&status.to_string()));
    assert_eq!(client.status().await.expect("is understood"), fixture::status());
    let Value::Object(fields) = &mut status else { panic!("no object") };
    fields.remove("paused");
    let (_dir, client) = scripted(ok(&status.to_string()));
    let error = client.status().await.expect_err("what is missing can't be made up");
    assert!(error.to_string().contains("missing field `paused`"), "{error}");
    assert!(error.advice().contains("upgrade") && !error.is_silence());
}

#[tokio::test]
async fn an_agent_that_ends_in_between_is_told() {
    let agent = Agent::start(PATIENT, |_| None);
    let client = agent.client();
    let asked = tokio::spawn(async move { client.status().await });
    while agent.counts.requests() == 0 {
        tokio::task::yield_now().await;
    }
    let client = agent.client();
    agent.stop().await;
    let error = asked.await.expect("no panic").expect_err("it ended");
    assert!(matches!(error, AskError::Broken { .. }), "{error:?}");
    assert!(matches!(client.status().await, Err(AskError::NoAgent { .. })));
    let again = Agent::start(PATIENT, healthy);
    assert!(again.client().status().await.is_ok());
    again.stop().await;
}
