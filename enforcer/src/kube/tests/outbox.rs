//! What is held while the API server is away, and what goes out when it is back.

use super::server::{LONG, connect, pod, quick};
use crate::kube::{
    amounts::Amounts,
    event::{self, Event},
    fixture::mib,
    outbox::{Came, DECISIONS_MAX, Decision, EVENTS_MAX, Outbox},
    patch::{Outcome, PlanError, Want},
    state::PodName,
};
use enforcer_test_api::{Asked, Reply, Server, status};
use http::Method;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;

fn decision(pod: &str, n: u64) -> Decision {
    Decision {
        pod: PodName { namespace: "shop".into(), name: pod.into() },
        uid: format!("uid-of-{pod}"),
        generation: 3,
        want: Want { container: Some("main".into()), limits: Amounts { memory: Some(mib(n)), cpu: None } },
    }
}

/// Gives and takes as an API server does.
fn sound(asked: &Asked) -> Reply {
    match asked.method {
        Method::GET => Reply::Json(pod("web-1", "7")),
        _ if asked.path.ends_with("/resize") => {
            let mut pod = pod("web-1", "8");
            pod["metadata"]["generation"] = json!(4);
            Reply::Json(pod)
        }
        _ => Reply::Json(asked.body.clone()),
    }
}

fn away(_: &Asked) -> Reply {
    Reply::No(503, status(503, "ServiceUnavailable", "starting"), None)
}

async fn start(
    script: impl FnMut(&Asked) -> Reply + Send + 'static,
) -> (Server, Outbox, mpsc::Receiver<(Decision, Came)>) {
    let api = Server::start(script).await;
    let server = connect(&api, quick()).await;
    let (outbox, came) = Outbox::start(server);
    (api, outbox, came)
}

async fn until(what: impl Fn() -> bool) {
    let wait = async {
        while !what() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, wait).await.expect("in time");
}

fn bodies(api: &Server, path_end: &str) -> Vec<Value> {
    let asked = api.asked();
    asked.iter().filter(|asked| asked.path.ends_with(path_end)).map(|asked| asked.body.clone()).collect()
}

#[tokio::test]
async fn events_go_out_later_with_their_first_times() {
    let (api, outbox, _came) = start(away).await;
    let first = 1_796_000_000_000_000;
    outbox.event(event::fixture("a", first));
    outbox.event(event::fixture("b", first + 1_000_000));
    outbox.event(Event { note: "again".into(), ..event::fixture("a", first + 60_000_000) });
    until(|| outbox.counters().unavailable.load(Ordering::Relaxed) >= 3).await;
    assert_eq!(outbox.waiting(), (2, 0), "the same again is counted");
    let before = api.asked().len();
    api.say(sound);
    until(|| outbox.waiting() == (0, 0)).await;
    let sent: Vec<_> = bodies(&api, "/events").split_off(before);
    let sent: Vec<_> =
        sent.iter().map(|body| (&body["regarding"]["uid"], &body["eventTime"], &body["note"])).collect();
    let note = json!(event::fixture("a", 0).note);
    assert_eq!(
        sent,
        [
            (&json!("a"), &json!("2026-11-30T00:53:20.000000Z"), &json!("again")),
            (&json!("b"), &json!("2026-11-30T00:53:21.000000Z"), &note)
        ]
    );
    assert_eq!(bodies(&api, "/events").last().map(|body| body["series"].clone()), Some(Value::Null));
    let series = bodies(&api, "/events")[before]["series"].clone();
    assert_eq!(series, json!({"count": 2, "lastObservedTime": "2026-11-30T00:54:20.000000Z"}));
    assert_eq!(outbox.counters().events_sent.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn who_hands_over_never_waits_and_what_has_no_room_is_counted() {
    let (_api, outbox, _came) = start(|_| Reply::Hang).await;
    for n in 0..EVENTS_MAX + 10 {
        outbox.event(event::fixture(&n.to_string(), 1));
    }
    assert_eq!(outbox.waiting().0, EVENTS_MAX);
    assert_eq!(outbox.counters().events_dropped.load(Ordering::Relaxed), 10);
    let taken = (0..DECISIONS_MAX + 5).filter(|n| outbox.decide(decision(&n.to_string(), 200))).count();
    assert_eq!((taken, outbox.waiting().1), (DECISIONS_MAX, DECISIONS_MAX));
    assert_eq!(outbox.counters().decisions_dropped.load(Ordering::Relaxed), 5);
    assert!(outbox.decide(decision("3", 300)), "a newer one takes the older's place");
    assert_eq!(outbox.waiting().1, DECISIONS_MAX);
}

#[tokio::test]
async fn an_event_that_is_refused_holds_up_no_other() {
    let (api, outbox, _came) = start(|asked| {
        let refused = asked.body["regarding"]["uid"] == "a";
        if refused {
            Reply::No(403, status(403, "Forbidden", "namespace is being terminated"), None)
        } else {
            sound(asked)
        }
    })
    .await;
    outbox.event(event::fixture("a", 1));
    outbox.event(event::fixture("b", 2));
    until(|| outbox.waiting() == (0, 0)).await;
    let counters = outbox.counters();
    assert_eq!(counters.events_refused.load(Ordering::Relaxed), 1);
    assert_eq!(counters.events_sent.load(Ordering::Relaxed), 1);
    // One that is there already was sent before.
    api.say(|_| Reply::No(409, status(409, "AlreadyExists", "x"), None));
    outbox.event(event::fixture("c", 3));
    until(|| outbox.waiting() == (0, 0)).await;
    assert_eq!(counters.events_sent.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_decision_is_carried_out_when_the_server_is_back_and_before_events() {
    let (api, outbox, mut came) = start(away).await;
    outbox.event(event::fixture("a", 1));
    assert!(outbox.decide(decision("web-1", 200)));
    assert!(outbox.decide(decision("web-1", 300)), "in its place");
    until(|| outbox.counters().unavailable.load(Ordering::Relaxed) >= 3).await;
    assert!(came.try_recv().is_err());
    api.say(sound);
    let (decided, outcome) = tokio::time::timeout(LONG, came.recv()).await.expect("in time").expect("comes");
    assert_eq!(decided, decision("web-1", 300));
    assert!(matches!(&outcome, Came::Of(Outcome::Patched(pod)) if pod.generation == 4), "{outcome:?}");
    let patches = bodies(&api, "/resize");
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0]["spec"]["containers"][0]["resources"]["limits"]["memory"], "300Mi");
    assert_eq!(patches[0]["metadata"]["resourceVersion"], "7", "as it is now");
    until(|| outbox.waiting() == (0, 0)).await;
}

#[tokio::test]
async fn nothing_is_written_over_what_was_decided_since() {
    for (field, value) in [("generation", json!(4)), ("uid", json!("another"))] {
        let (api, outbox, mut came) = start(move |_| {
            let mut newer = pod("web-1", "9");
            newer["metadata"][field] = value.clone();
            Reply::Json(newer)
        })
        .await;
        outbox.decide(decision("web-1", 200));
        let (_, outcome) = came.recv().await.expect("comes");
        assert!(matches!(&outcome, Came::Overtaken(Some(_))), "{outcome:?}");
        assert_eq!(bodies(&api, "/resize"), [] as [Value; 0]);
    }
    let (_api, outbox, mut came) = start(|_| Reply::No(404, status(404, "NotFound", "x"), None)).await;
    outbox.decide(decision("web-1", 200));
    assert_eq!(came.recv().await.expect("comes").1, Came::Overtaken(None));
}

#[tokio::test]
async fn a_conflict_is_looked_at_again_and_not_for_ever() {
    let mut tries = 0;
    let (api, outbox, mut came) = start(move |asked| {
        if asked.method == Method::GET {
            return Reply::Json(pod("web-1", &format!("{}", 100 + tries)));
        }
        tries += 1;
        if tries < 3 { Reply::No(409, status(409, "Conflict", "modified"), None) } else { sound(asked) }
    })
    .await;
    outbox.decide(decision("web-1", 200));
    let (_, outcome) = came.recv().await.expect("comes");
    assert!(matches!(outcome, Came::Of(Outcome::Patched(_))), "{outcome:?}");
    let versions: Vec<_> =
        bodies(&api, "/resize").iter().map(|body| body["metadata"]["resourceVersion"].clone()).collect();
    assert_eq!(versions, ["100", "101", "102"], "each over the pod as it was then");
    api.say(|asked| match asked.method {
        Method::GET => Reply::Json(pod("web-1", "1")),
        _ => Reply::No(409, status(409, "Conflict", "modified"), None),
    });
    outbox.decide(decision("web-1", 200));
    assert_eq!(came.recv().await.expect("comes").1, Came::GaveUp);
}

#[tokio::test]
async fn a_no_is_told_and_not_repeated() {
    let (api, outbox, mut came) = start(|asked| match asked.method {
        Method::GET => Reply::Json(pod("web-1", "7")),
        _ => Reply::No(403, status(403, "Forbidden", "exceeded quota: team"), None),
    })
    .await;
    outbox.decide(decision("web-1", 800));
    let (_, outcome) = came.recv().await.expect("comes");
    assert!(matches!(&outcome, Came::Of(Outcome::Refused(refusal)) if refusal.status == 403), "{outcome:?}");
    outbox.decide(decision("web-1", 400));
    assert_eq!(came.recv().await.expect("comes").1, Came::Impossible(PlanError::Nothing));
    assert_eq!(bodies(&api, "/resize").len(), 1);
}
