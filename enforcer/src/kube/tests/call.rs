//! One request and what can come of it.

use super::server::{LONG, connect, pod, quick};
use crate::kube::{
    amounts::Amounts,
    call::{ANSWER_BYTES_MAX, CallError, Request, path},
    connect::{Deadlines, Source},
    fixture::mib,
    patch::{self, Outcome, Want},
    read, resources,
    state::{PodName, PodState},
};
use enforcer_test_api::{Asked, Reply, Server, status};
use http::Method;
use serde_json::{Value, json};
use std::{os::unix::fs::OpenOptionsExt as _, time::Duration};

fn name() -> PodName {
    PodName { namespace: "shop".into(), name: "web-1".into() }
}

async fn get(
    reply: impl FnMut(&Asked) -> Reply + Send + 'static,
    deadlines: Deadlines,
) -> Result<PodState, CallError> {
    let api = Server::start(reply).await;
    let server = connect(&api, deadlines).await;
    tokio::time::timeout(LONG, read::pod(&server, &name())).await.expect("in time")
}

#[tokio::test]
async fn a_pod_is_read() {
    let found = get(|_| Reply::Json(pod("web-1", "7")), quick()).await.expect("is there");
    assert_eq!((found.name, found.resource_version.as_str()), (name(), "7"));
}

#[tokio::test]
async fn what_hangs_is_cut_at_the_deadline() {
    let deadlines = Deadlines { answer: Duration::from_millis(100), ..quick() };
    for reply in [|| Reply::Hang, || Reply::Silence(b"{\"metadata\":".to_vec())] {
        let error = get(move |_| reply(), deadlines).await.expect_err("nothing comes");
        assert!(matches!(error, CallError::Deadline { call: "get pod", .. }), "{error:?}");
        assert!(error.is_passing() && error.to_string().contains("within 100 ms"), "{error}");
    }
}

#[tokio::test]
async fn what_breaks_off_is_no_answer() {
    let error =
        get(|_| Reply::Half(b"{\"metadata\": {\"na".to_vec()), quick()).await.expect_err("half an answer");
    assert!(matches!(error, CallError::Broken { .. }), "{error:?}");
    assert!(error.is_passing());
    let error = get(|_| Reply::Break, quick()).await.expect_err("no answer");
    assert!(matches!(error, CallError::Unreachable { .. }) && error.is_passing(), "{error:?}");
}

#[tokio::test]
async fn who_is_not_there_is_named() {
    let api = Server::start(|_| Reply::Hang).await;
    let server = connect(&api, quick()).await;
    api.kill();
    let error = loop {
        let error = read::pod(&server, &name()).await.expect_err("nobody is there");
        // The listener goes a moment after the connections.
        if error.to_string().contains("refused") {
            break error;
        }
    };
    assert!(error.to_string().starts_with(&api.address()), "{error}");
    assert!(error.advice().contains("can be reached"), "{error:?}");
}

#[tokio::test]
async fn another_pod_than_asked_for_is_no_answer() {
    for answer in [json!({}), pod("web-2", "7")] {
        let error = get(move |_| Reply::Json(answer.clone()), quick()).await.expect_err("another pod");
        assert!(matches!(error, CallError::Garbage { .. }), "{error:?}");
        assert!(error.to_string().contains("which was not asked for"), "{error}");
    }
}

#[tokio::test]
async fn garbage_and_too_much_are_told() {
    for text in [&b"<html>"[..], b"", b"\xff\xfe", b"[1, 2]", br#"{"metadata": {"name": 7}}"#] {
        let error = get(move |_| Reply::Raw(200, text.to_vec()), quick()).await.expect_err("no pod");
        assert!(matches!(error, CallError::Garbage { .. }), "{error:?}");
        assert!(error.advice().contains("address of an API server"));
    }
    let much = |_: &Asked| Reply::Raw(200, vec![b' '; ANSWER_BYTES_MAX + 1]);
    let error = get(much, Deadlines { answer: LONG, ..quick() }).await.expect_err("too much");
    assert!(matches!(error, CallError::TooLong { bytes_max: ANSWER_BYTES_MAX, .. }), "{error:?}");
    // A proxy's page is bounded and escaped too.
    let page = |_: &Asked| Reply::Raw(502, "\u{1b}[2J".repeat(100_000).into_bytes());
    let error = get(page, quick()).await.expect_err("a page");
    let text = error.to_string();
    assert!(text.len() < 8192 && !text.contains('\u{1b}') && error.is_passing(), "{}", text.len());
}

#[tokio::test]
async fn an_expired_token_is_read_again_and_asked_once_more() {
    let api = Server::start(|asked| match asked.token.as_str() {
        "second" => Reply::Json(pod("web-1", "7")),
        _ => Reply::No(401, status(401, "Unauthorized", "the token has expired"), None),
    })
    .await;
    let server = connect(&api, quick()).await;
    // The file still has the old one.
    let error = read::pod(&server, &name()).await.expect_err("it has expired");
    assert_eq!((error.status(), error.is_passing()), (Some(401), true));
    assert!(error.advice().contains("renew the token"));
    assert_eq!(api.asked().len(), 2, "once more");
    api.set_token("second");
    // The configuration is read again no more often than once a second.
    let found = async {
        loop {
            if let Ok(found) = read::pod(&server, &name()).await {
                return found;
            }
        }
    };
    let found = tokio::time::timeout(LONG, found).await.expect("with the new one");
    assert_eq!(found.name, name());
    let tokens: Vec<_> = api.asked().iter().map(|asked| asked.token.clone()).collect();
    assert_eq!(tokens.last().map(String::as_str), Some("second"));
}

#[tokio::test]
async fn a_missing_pod_is_no_outage() {
    let error =
        get(|_| Reply::No(404, status(404, "NotFound", "pods \"web-1\" not found"), None), quick()).await;
    let error = error.expect_err("it is gone");
    assert_eq!((error.status(), error.is_passing()), (Some(404), false));
}

/// What comes of a patch of the main container's limit to 200 MiB.
async fn patched(reply: fn(&Asked) -> Reply, dry_run: bool) -> (Outcome, Vec<Asked>) {
    let api = Server::start(reply).await;
    let server = connect(&api, Deadlines { answer: Duration::from_millis(500), ..quick() }).await;
    let found = resources::pod(&serde_json::from_value(pod("web-1", "7")).expect("a pod"));
    let limits = Amounts { memory: Some(mib(200)), cpu: None };
    let want = Want { container: Some("main".into()), limits };
    let patch = patch::plan(&found, &[want]).expect("a patch");
    (patch::send(&server, &patch, dry_run).await, api.asked())
}

#[tokio::test]
async fn a_patch_says_who_over_what_and_goes_to_the_subresource() {
    let answer = |asked: &Asked| {
        let mut pod = pod("web-1", "8");
        pod["metadata"]["generation"] = json!(4);
        pod["spec"]["containers"][0]["resources"]["limits"] =
            asked.body["spec"]["containers"][0]["resources"]["limits"].clone();
        Reply::Json(pod)
    };
    let (outcome, asked) = patched(answer, false).await;
    let Outcome::Patched(pod) = outcome else { panic!("{outcome:?}") };
    assert_eq!((pod.generation, pod.resource_version.as_str()), (4, "8"));
    assert_eq!(pod.container("main").and_then(|main| main.level.desired.limits.memory), Some(mib(200)));
    let [asked] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(
        (&asked.method, asked.path.as_str()),
        (&Method::PATCH, "/api/v1/namespaces/shop/pods/web-1/resize")
    );
    assert_eq!(asked.content, "application/strategic-merge-patch+json");
    assert_eq!(asked.query.get("fieldManager").map(String::as_str), Some("enforcer"));
    assert_eq!(asked.query.get("dryRun"), None);
    assert_eq!(asked.body["metadata"], json!({"uid": "uid-of-web-1", "resourceVersion": "7"}));
    let (_, asked) = patched(answer, true).await;
    assert_eq!(asked[0].query.get("dryRun").map(String::as_str), Some("All"));
}

#[tokio::test]
async fn each_answer_to_a_patch_has_its_outcome() {
    let (outcome, _) =
        patched(|_| Reply::No(409, status(409, "Conflict", "the object has been modified"), None), false)
            .await;
    assert_eq!(outcome, Outcome::Conflict);
    let (outcome, _) = patched(|_| Reply::No(404, status(404, "NotFound", "x"), None), false).await;
    assert_eq!(outcome, Outcome::Gone);
    for code in [403, 422, 400] {
        let reply: fn(&Asked) -> Reply = match code {
            403 => |_| Reply::No(403, status(403, "Forbidden", "exceeded quota: team"), None),
            422 => |_| Reply::No(422, status(422, "Invalid", "Pod QOS Class may not change"), None),
            _ => |_| Reply::No(400, status(400, "BadRequest", "odd"), None),
        };
        let (outcome, asked) = patched(reply, false).await;
        let Outcome::Refused(refusal) = outcome else { panic!("{outcome:?}") };
        assert_eq!((refusal.status, asked.len()), (code, 1));
        assert!(!refusal.message.is_empty());
    }
    for (reply, wait) in [
        (
            (|_| Reply::No(429, status(429, "TooManyRequests", "slow down"), Some(17)))
                as fn(&Asked) -> Reply,
            Some(17),
        ),
        (|_| Reply::No(503, status(503, "ServiceUnavailable", "x"), Some(3)), Some(3)),
        (|_| Reply::No(500, Value::Null, None), None),
        (|_| Reply::No(401, Value::Null, None), None),
        (|_| Reply::Hang, None),
        (|_| Reply::Break, None),
        (|_| Reply::Half(b"{".to_vec()), None),
        (|_| Reply::Raw(200, b"<html>".to_vec()), None),
    ] {
        let (outcome, _) = patched(reply, false).await;
        let Outcome::Unavailable { retry_after, why } = outcome else { panic!("{outcome:?}") };
        assert_eq!(retry_after, wait.map(Duration::from_secs), "{why}");
    }
}

#[tokio::test]
async fn a_long_list_comes_in_pages() {
    let api = Server::start(|asked| {
        assert_eq!(asked.query["fieldSelector"], "spec.nodeName=node-a");
        let (items, next) = match asked.query.get("continue").map(String::as_str) {
            None => (vec![pod("a", "1"), json!({"metadata": "nonsense"})], "more/1"),
            Some("more/1") => (vec![pod("b", "2")], ""),
            Some(other) => panic!("{other}"),
        };
        Reply::Json(json!({"metadata": {"resourceVersion": "9", "continue": next}, "items": items}))
    })
    .await;
    let server = connect(&api, quick()).await;
    let listed = read::pods_of(&server, "node-a").await.expect("a list");
    let names: Vec<_> = listed.items.iter().map(|pod| pod.name.name.as_str()).collect();
    assert_eq!((names, listed.resource_version.as_str(), listed.left_out), (vec!["a", "b"], "9", 1));
    // One that never ends does not go on for ever.
    api.say(|_| Reply::Json(json!({"metadata": {"resourceVersion": "9", "continue": "x"}, "items": []})));
    let before = api.asked().len();
    read::pods_of(&server, "node-a").await.expect("a list");
    assert_eq!(api.asked().len() - before, 16);
    api.say(|_| Reply::Json(json!({"items": []})));
    let error = read::pods_of(&server, "node-a").await.expect_err("it has no version");
    assert!(matches!(error, CallError::Garbage { .. }), "{error:?}");
}

#[tokio::test]
async fn a_request_that_is_none_is_not_sent() {
    let api = Server::start(|_| Reply::Hang).await;
    let server = connect(&api, quick()).await;
    let target = format!("{}\n", path(&["api"], &[]));
    let request = Request { call: "get pod", method: Method::GET, target, body: None };
    let error = server.ask::<Value>(&request).await.expect_err("no target");
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    assert_eq!(api.asked().len(), 0);
}

/// A named pipe stands for a disk that hangs.
#[tokio::test]
async fn a_kubeconfig_that_hangs_keeps_only_its_reader_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("config");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let source = Source::Kubeconfig { path: pipe.clone(), context: None };
    let connecting = crate::kube::connect::Server::connect(source, quick());
    let passed = tokio::time::timeout(Duration::from_millis(50), connecting).await;
    assert!(passed.is_err(), "the loop goes on");
    // Its reader goes on too: the runtime waits for it at its end.
    let mut options = std::fs::OpenOptions::new();
    while options.write(true).custom_flags(libc::O_NONBLOCK).open(&pipe).is_err() {
        tokio::task::yield_now().await;
    }
}
