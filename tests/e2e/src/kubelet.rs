//! The kubelet alone: its defects with a lower memory limit, each measured.

use super::cluster::{LogsOnFailure, version};
use super::guest::{block_on, kills, mib, read};
use super::pod::{LONG, Pod, actual_memory, condition, container, is_settled, limits, restarts, status_of};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long a resize that goes nowhere is looked at.
const REFUSED: Duration = Duration::from_secs(75);
/// How often growth is tried.
const TRIES: usize = 5;

fn told(what: &str, text: &str) {
    println!("MEASURED {} {what}: {text}", version());
}

/// 10 MiB of anonymous memory, 120 MiB of clean cache: 160 -> 100 MiB would fit, and is refused.
pub(crate) fn page_cache() {
    block_on(async {
        let _logs = LogsOnFailure;
        let pod = Pod::run("cache", vec![container("app", &limits(160, 200))]).await;
        pod.is_led("app").await;
        pod.lead("app", "grow 10Mi").await;
        pod.lead("app", "cache 120Mi").await;
        let scope = pod.scope("app");
        let usage = mib(&scope, "memory.current");
        assert!(usage >= 120, "{usage} MiB");
        let began = Instant::now();
        pod.resize_memory("app", 100).await;
        let is_refused =
            |pod: &Value| condition(pod, "PodResizeInProgress").is_some_and(|(reason, _)| reason == "Error");
        let (object, took) = pod.until("is refused", LONG, is_refused).await;
        let (_, message) = condition(&object, "PodResizeInProgress").expect("is there");
        told(
            "page cache",
            &format!("{usage} MiB in use; refused after {:.1} s: {message}", took.as_secs_f64()),
        );
        let went = pod.within(REFUSED, |pod| actual_memory(pod, "app") == "100Mi").await;
        let object = went.expect_err("it is refused as long as it is looked at");
        assert!(is_refused(&object), "{object:#}");
        assert_eq!((mib(&scope, "memory.max"), mib(&pod.slice(), "memory.max")), (160, 160));
        let refused = began.elapsed();
        told(
            "page cache",
            &format!(
                "still refused after {:.0} s, {} MiB in use",
                refused.as_secs_f64(),
                mib(&scope, "memory.current")
            ),
        );
        for event in pod.events().await {
            told("page cache", &event);
        }
        // The same write a moment after the cache is gone, and the same kubelet takes it.
        let began = Instant::now();
        let _ = std::fs::write(scope.join("memory.reclaim"), "100M");
        let usage = mib(&scope, "memory.current");
        let lower = |pod: &Value| actual_memory(pod, "app") == "100Mi" && is_settled(pod);
        pod.until("goes through once the cache is gone", LONG, lower).await;
        told(
            "page cache",
            &format!(
                "reclaimed to {usage} MiB by hand: through {:.0} s later",
                began.elapsed().as_secs_f64()
            ),
        );
        assert_eq!((mib(&scope, "memory.max"), mib(&pod.slice(), "memory.max")), (100, 100));
        assert_eq!(kills(&scope), 0);
        pod.end().await;
    });
}

/// Two containers with 200 MiB each and 120 in use, and 400 MiB for the pod as such.
pub(crate) async fn two_in_400(name: &str, metadata: Value) -> Pod {
    let of_pod = json!({
        "resources": {"limits": {"memory": "400Mi", "cpu": "400m"}, "requests": {"memory": "100Mi", "cpu": "200m"}}
    });
    let containers = vec![container("one", &limits(200, 200)), container("two", &limits(200, 200))];
    let pod = Pod::run_with(name, containers, metadata, of_pod).await;
    for name in ["one", "two"] {
        pod.is_led(name).await;
        pod.lead(name, "grow 120Mi").await;
    }
    assert_eq!(mib(&pod.slice(), "memory.max"), 400);
    pod
}

/// A limit of the pod alone, under what its containers use, is written without a look.
pub(crate) fn pod_level() {
    block_on(async {
        let _logs = LogsOnFailure;
        let pod = two_in_400("level", json!({})).await;
        let slice = pod.slice();
        let usage = mib(&slice, "memory.current");
        let began = Instant::now();
        pod.resize(&json!({"resources": {"limits": {"memory": "210Mi"}}})).await;
        let killed = |pod: &Value| restarts(pod, "one") + restarts(pod, "two") > 0;
        let ended = pod.within(LONG, killed).await;
        told(
            "pod level",
            &format!(
                "400 -> 210 MiB with {usage} in use: {} killed after {:.1} s, limit {} MiB",
                kills(&slice),
                began.elapsed().as_secs_f64(),
                mib(&slice, "memory.max")
            ),
        );
        for event in pod.events().await {
            told("pod level", &event);
        }
        let (object, _) = ended.unwrap_or_else(|object| panic!("nobody is killed: {:#}", object["status"]));
        for name in ["one", "two"] {
            told("pod level", &format!("{name}: {}", status_of(&object, name)["lastState"]));
        }
        pod.end().await;
    });
}

/// A container that is to be started anew for another limit, 200 -> 120 MiB.
pub(crate) async fn restarted(name: &str, metadata: Value) -> (Pod, Value) {
    let mut app = container("app", &limits(200, 200));
    app["resizePolicy"] = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
    let pod = Pod::run_with(name, vec![app], metadata, json!({})).await;
    pod.is_led("app").await;
    pod.resize_memory("app", 120).await;
    let done =
        |pod: &Value| restarts(pod, "app") == 1 && actual_memory(pod, "app") == "120Mi" && is_settled(pod);
    let (object, _) = pod.until("is started anew with its new limit", LONG, done).await;
    (pod, object)
}

/// The container has its new limit, and its pod keeps the old one.
pub(crate) fn restart() {
    block_on(async {
        let _logs = LogsOnFailure;
        let (pod, object) = restarted("restart", json!({})).await;
        let (slice, scope) = (pod.slice(), pod.scope_in(&object, "app"));
        let at_once = mib(&slice, "memory.max");
        assert_eq!(mib(&scope, "memory.max"), 120);
        // Nobody says that it never changes: as long as a resize that is refused is looked at.
        let began = Instant::now();
        while mib(&slice, "memory.max") == 200 && began.elapsed() < REFUSED {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let later = mib(&slice, "memory.max");
        told(
            "restart",
            &format!(
                "container 120 MiB; pod {at_once} MiB, and {later} MiB {:.0} s later",
                began.elapsed().as_secs_f64()
            ),
        );
        for event in pod.events().await {
            told("restart", &event);
        }
        assert_eq!((at_once, later), (200, 200), "the defect is there");
        pod.end().await;
    });
}

/// How a pod fared that grew from 40 to 150 MiB, and was asked down from 200 to 100 MiB so long after that.
pub(crate) struct Grown {
    pub(crate) killed: bool,
    pub(crate) text: String,
}

/// The kubelet's figures of what is in use are some seconds old when it looks.
pub(crate) async fn grown(pod: &Pod, seconds: u64) -> Grown {
    pod.is_led("app").await;
    pod.lead("app", "grow 40Mi").await;
    let scope = pod.scope("app");
    // As long as its figures may be old, and then some: it has seen 40 MiB.
    tokio::time::sleep(Duration::from_secs(30)).await;
    pod.lead("app", "grow 110Mi").await;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let began = Instant::now();
    let pod_kills = kills(&pod.slice());
    pod.resize_memory("app", 100).await;
    let ended = |object: &Value| {
        restarts(object, "app") > 0
            || condition(object, "PodResizeInProgress").is_some_and(|(reason, _)| reason == "Error")
    };
    let (object, _) = pod.until("is refused or killed", LONG, ended).await;
    let killed = restarts(&object, "app") > 0 || kills(&pod.slice()) != pod_kills;
    let message = condition(&object, "PodResizeInProgress").map_or("", |(_, message)| message).to_owned();
    let limit = if scope.exists() { read(&scope, "memory.max") } else { "gone".into() };
    let took = began.elapsed().as_secs_f64();
    Grown {
        killed,
        text: format!("asked {seconds} s after: killed {killed} in {took:.1} s, limit {limit}; {message}"),
    }
}

/// What grew after the kubelet took its figures, and before it wrote the limit, is killed.
pub(crate) fn growth() {
    block_on(async {
        let _logs = LogsOnFailure;
        let mut killed = 0;
        for index in 0..TRIES {
            let pod = Pod::run(&format!("growth-{index}"), vec![container("app", &limits(200, 200))]).await;
            let fared = grown(&pod, 3 * index as u64).await;
            told("growth", &fared.text);
            killed += usize::from(fared.killed);
            pod.end().await;
        }
        told("growth", &format!("{killed} of {TRIES} killed"));
        assert!(killed > 0, "the gap is there");
    });
}
