//! Following a node against a server that does all that servers do.

use super::server::{LONG, connect, event, list, pod, quick};
use crate::kube::{
    connect::Deadlines,
    fixture,
    watch::{News, Watch},
};
use enforcer_test_api::{Asked, Reply, Server, status};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// The way into a watch of pods.
type Feed = Arc<Mutex<Option<mpsc::UnboundedSender<Value>>>>;

fn node() -> Value {
    fixture::node_json()
}

/// A node at rest: its list, and a watch that says nothing.
fn quiet_node(asked: &Asked) -> Option<Reply> {
    if !asked.path.ends_with("/nodes") {
        return None;
    }
    assert_eq!(asked.query["fieldSelector"], "metadata.name=node-a");
    Some(if asked.is_watch() { Reply::Silence(Vec::new()) } else { Reply::Json(list("900", &[node()])) })
}

fn feed(feed: &Feed) -> Reply {
    let (events, taken) = mpsc::unbounded_channel();
    *feed.lock().expect("nobody panicked") = Some(events);
    Reply::Stream(taken)
}

fn say(feed: &Feed, event: Value) {
    let feed = feed.lock().expect("nobody panicked");
    feed.as_ref().expect("a watch").send(event).expect("is heard");
}

struct Follower {
    watch: Watch,
    news: mpsc::Receiver<News>,
}

impl Follower {
    async fn start(api: &Server, deadlines: Deadlines) -> Self {
        let server = connect(api, deadlines).await;
        let (watch, news) = Watch::start(server, "node-a".into());
        Self { watch, news }
    }

    async fn next(&mut self) -> News {
        tokio::time::timeout(LONG, self.news.recv()).await.expect("in time").expect("goes on")
    }

    /// The next that is not about the node.
    async fn of_pods(&mut self) -> News {
        loop {
            let news = self.next().await;
            if !matches!(news, News::Node(_)) {
                return news;
            }
        }
    }

    async fn pods(&mut self) -> Vec<String> {
        let news = self.of_pods().await;
        let News::Pods(pods) = news else { panic!("{news:?}") };
        pods.into_iter().map(|pod| pod.name.name).collect()
    }

    async fn pod(&mut self) -> (String, String) {
        let news = self.of_pods().await;
        let News::Pod(pod) = news else { panic!("{news:?}") };
        (pod.name.name, pod.resource_version)
    }
}

fn named(name: &str, version: &str) -> (String, String) {
    (name.into(), version.into())
}

fn watches_of_pods(api: &Server) -> Vec<String> {
    let asked = api.asked();
    let watches = asked.iter().filter(|asked| asked.path.ends_with("/pods") && asked.is_watch());
    watches.map(|asked| asked.query["resourceVersion"].clone()).collect()
}

#[tokio::test]
async fn pods_and_node_are_told_as_they_come_and_go() {
    let fed = Feed::default();
    let script = Arc::clone(&fed);
    let api = Server::start(move |asked| {
        if let Some(reply) = quiet_node(asked) {
            return reply;
        }
        assert_eq!(asked.query["fieldSelector"], "spec.nodeName=node-a", "only this node's");
        if asked.is_watch() { feed(&script) } else { Reply::Json(list("10", &[pod("a", "5")])) }
    })
    .await;
    let mut follower = Follower::start(&api, quick()).await;
    assert_eq!(follower.pods().await, ["a"]);
    while fed.lock().expect("nobody panicked").is_none() {
        tokio::task::yield_now().await;
    }
    say(&fed, event("ADDED", pod("b", "11")));
    assert_eq!(follower.pod().await, named("b", "11"));
    say(&fed, event("MODIFIED", pod("a", "12")));
    assert_eq!(follower.pod().await, named("a", "12"));
    say(&fed, event("BOOKMARK", json!({"kind": "Pod", "metadata": {"resourceVersion": "20"}})));
    say(&fed, event("ADDED", json!({"metadata": {"name": 7, "resourceVersion": "21"}})));
    say(&fed, event("DELETED", pod("b", "22")));
    let news = follower.of_pods().await;
    let News::PodGone { uid, name } = news else { panic!("{news:?}") };
    assert_eq!((uid.as_str(), name.name.as_str()), ("uid-of-b", "b"));
    assert_eq!(follower.watch.counters().left_out.load(Ordering::Relaxed), 1);
    // Its time is over: it goes on from where it was, and nothing is told.
    *fed.lock().expect("nobody panicked") = None;
    while watches_of_pods(&api).len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(watches_of_pods(&api), ["10", "22"]);
    assert!(follower.news.try_recv().is_err());
}

/// A server whose first watch of pods ends so, and whose later ones are silent.
async fn after_firstwatch(end: fn() -> Reply) -> (Server, Follower) {
    let mut watches = 0;
    let mut lists = 0;
    let api = Server::start(move |asked| {
        if let Some(reply) = quiet_node(asked) {
            return reply;
        }
        if asked.is_watch() {
            watches += 1;
            return if watches == 1 { end() } else { Reply::Silence(Vec::new()) };
        }
        lists += 1;
        Reply::Json(list(&format!("{lists}00"), &[pod("a", "5")]))
    })
    .await;
    let follower = Follower::start(&api, quick()).await;
    (api, follower)
}

#[tokio::test]
async fn what_the_server_has_forgotten_is_listed_anew() {
    let in_the_answer: fn() -> Reply =
        || Reply::No(410, status(410, "Expired", "too old resource version"), None);
    let in_the_stream: fn() -> Reply =
        || Reply::Silence(format!("{}\n", event("ERROR", status(410, "Expired", "too old"))).into_bytes());
    for end in [in_the_answer, in_the_stream] {
        let (api, mut follower) = after_firstwatch(end).await;
        assert_eq!(follower.pods().await, ["a"]);
        assert_eq!(follower.pods().await, ["a"], "the whole list again, and no outage");
        while watches_of_pods(&api).len() < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(watches_of_pods(&api), ["100", "200"]);
    }
}

#[tokio::test]
async fn awatch_that_breaks_goes_on_from_where_it_was() {
    let line = || format!("{}\n{{\"type\": \"MODI", event("MODIFIED", pod("a", "77"))).into_bytes();
    let (api, mut follower) = after_firstwatch(|| Reply::Half(Vec::new())).await;
    assert_eq!(follower.pods().await, ["a"]);
    while watches_of_pods(&api).len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(watches_of_pods(&api), ["100", "100"]);
    drop(follower);
    let mut watches = 0;
    api.say(move |asked| {
        if let Some(reply) = quiet_node(asked) {
            return reply;
        }
        watches += u32::from(asked.is_watch());
        match (asked.is_watch(), watches) {
            (false, _) => Reply::Json(list("1", &[])),
            (true, 1) => Reply::Half(line()),
            (true, _) => Reply::Silence(Vec::new()),
        }
    });
    let before = watches_of_pods(&api).len();
    let mut follower = Follower::start(&api, quick()).await;
    assert_eq!(follower.pods().await, Vec::<String>::new());
    assert_eq!(follower.pod().await, named("a", "77"));
    while watches_of_pods(&api).len() < before + 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(watches_of_pods(&api)[before..], ["1", "77"], "the half line counts for nothing");
}

#[tokio::test]
async fn nonsense_is_an_outage_and_listed_anew() {
    for line in [&b"<html>\n"[..], b"{\"type\": \"ODD\", \"object\": {}}\n"] {
        let mut watches = 0;
        let api = Server::start(move |asked| {
            if let Some(reply) = quiet_node(asked) {
                return reply;
            }
            watches += u32::from(asked.is_watch());
            match (asked.is_watch(), watches) {
                (false, _) => Reply::Json(list("1", &[])),
                (true, 1) => Reply::Silence(line.to_vec()),
                (true, _) => Reply::Silence(Vec::new()),
            }
        })
        .await;
        let mut follower = Follower::start(&api, quick()).await;
        assert_eq!(follower.pods().await, Vec::<String>::new());
        assert!(matches!(follower.of_pods().await, News::CutOff(_)));
        assert_eq!(follower.pods().await, Vec::<String>::new());
        assert_eq!(follower.of_pods().await, News::Back);
    }
}

#[tokio::test]
async fn an_outage_is_told_once_and_its_end_once() {
    let mut api = Server::start(|asked| {
        quiet_node(asked).unwrap_or_else(|| {
            if asked.is_watch() {
                Reply::Silence(Vec::new())
            } else {
                Reply::Json(list("10", &[pod("a", "5")]))
            }
        })
    })
    .await;
    let mut follower = Follower::start(&api, quick()).await;
    assert_eq!(follower.pods().await, ["a"]);
    while api.asked().iter().filter(|asked| asked.is_watch()).count() < 2 {
        tokio::task::yield_now().await;
    }
    api.kill();
    let cut = follower.of_pods().await;
    assert!(matches!(&cut, News::CutOff(why) if why.is_passing()), "{cut:?}");
    let failures = || follower.watch.counters().failures.load(Ordering::Relaxed);
    while failures() < 10 {
        tokio::task::yield_now().await;
    }
    assert!(follower.news.try_recv().is_err(), "once");
    api.restart().await;
    // It goes on from where it was: nothing is listed anew.
    assert_eq!(follower.of_pods().await, News::Back);
    assert!(follower.news.try_recv().is_err(), "once");
}

#[tokio::test]
async fn overload_is_waited_for_as_asked() {
    let failed = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&failed);
    let api = Server::start(move |asked| {
        if let Some(reply) = quiet_node(asked) {
            return reply;
        }
        if asked.is_watch() {
            return Reply::Silence(Vec::new());
        }
        match counted.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::No(429, status(429, "TooManyRequests", "slow down"), Some(1)),
            _ => Reply::Json(list("1", &[])),
        }
    })
    .await;
    let began = Instant::now();
    let mut follower = Follower::start(&api, quick()).await;
    let cut = follower.of_pods().await;
    assert!(matches!(&cut, News::CutOff(why) if why.status() == Some(429)), "{cut:?}");
    assert_eq!(follower.pods().await, Vec::<String>::new());
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(follower.of_pods().await, News::Back);
    assert_eq!(failed.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_server_that_hangs_is_told_and_left() {
    let deadlines = Deadlines { answer: Duration::from_millis(200), ..quick() };
    let api = Server::start(|asked| quiet_node(asked).unwrap_or(Reply::Hang)).await;
    let mut follower = Follower::start(&api, deadlines).await;
    let cut = follower.of_pods().await;
    assert!(
        matches!(&cut, News::CutOff(why) if why.to_string().contains("no answer to list pods")),
        "{cut:?}"
    );
    api.say(|asked| {
        quiet_node(asked).unwrap_or_else(|| {
            if asked.is_watch() { Reply::Silence(Vec::new()) } else { Reply::Json(list("1", &[])) }
        })
    });
    assert_eq!(follower.pods().await, Vec::<String>::new());
    assert_eq!(follower.of_pods().await, News::Back);
}

#[tokio::test]
async fn awatch_that_falls_silent_is_opened_anew() {
    let deadlines =
        Deadlines { answer: Duration::from_millis(100), watch: Duration::from_millis(100), ..quick() };
    let (api, mut follower) = {
        let api = Server::start(|asked| {
            quiet_node(asked).unwrap_or_else(|| {
                if asked.is_watch() { Reply::Silence(Vec::new()) } else { Reply::Json(list("1", &[])) }
            })
        })
        .await;
        let follower = Follower::start(&api, deadlines).await;
        (api, follower)
    };
    assert_eq!(follower.pods().await, Vec::<String>::new());
    let several = async {
        while watches_of_pods(&api).len() < 3 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, several).await.expect("in time");
    assert!(!matches!(follower.news.try_recv(), Ok(News::CutOff(_))), "it answers");
}

#[tokio::test]
async fn who_takes_nothing_holds_up_thewatch_alone_and_loses_nothing() {
    let many: usize = 2000;
    let fed = Feed::default();
    let script = Arc::clone(&fed);
    let api = Server::start(move |asked| {
        quiet_node(asked)
            .unwrap_or_else(|| if asked.is_watch() { feed(&script) } else { Reply::Json(list("10", &[])) })
    })
    .await;
    let mut follower = Follower::start(&api, quick()).await;
    assert_eq!(follower.pods().await, Vec::<String>::new());
    while fed.lock().expect("nobody panicked").is_none() {
        tokio::task::yield_now().await;
    }
    for n in 0..many {
        say(&fed, event("MODIFIED", pod("a", &(n + 100).to_string())));
    }
    // The channel has been full for a while once nothing more goes into it.
    while follower.news.len() < crate::kube::watch::NEWS_MAX {
        tokio::task::yield_now().await;
    }
    for n in 0..many {
        assert_eq!(follower.pod().await, named("a", &(n + 100).to_string()));
    }
}
