//! Events on pods (`events.k8s.io/v1`): one line of evidence for whoever looks with `kubectl describe`.
//!
//! The verb `create` on `events` of `events.k8s.io`. What is in them is other people's text in part: it is escaped, and
//! cut to what the API takes (`pkg/apis/core/validation/events.go`).

use super::{
    call::{CallError, Request, path},
    connect::Server,
    state::PodName,
};
use crate::cgroup::printable;
use http::Method;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// Most bytes of a note that the API takes.
const NOTE_BYTES_MAX: usize = 1024;
/// Most bytes of a name of the API's.
const NAME_BYTES_MAX: usize = 253;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It is as it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

impl Severity {
    const fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Something that happened to a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The pod.
    pub pod: PodName,
    /// Its uid.
    pub uid: String,
    /// The node whose agent says so.
    pub node: String,
    /// In a word, as in `ShrinkRefused`: ours, at most 128 bytes.
    pub reason: &'static str,
    /// What was being done, as in `Shrink`: ours, at most 128 bytes.
    pub action: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The evidence, in a line.
    pub note: String,
    /// When it first happened: microseconds since 1970.
    pub first_us: u64,
    /// When it last did.
    pub last_us: u64,
    /// How often it did.
    pub count: u32,
}

impl Event {
    /// Whether it is the same again, of which only the last note is kept.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.uid == other.uid && self.reason == other.reason && self.first_us <= other.first_us
    }

    /// It happened again.
    pub(super) fn again(&mut self, other: Self) {
        self.note = other.note;
        self.last_us = self.last_us.max(other.last_us);
        self.count = self.count.saturating_add(other.count);
    }

    /// What has come of it since it was `sent`.
    pub(super) fn since(&self, sent: &Self) -> Option<Self> {
        let count = self.count.saturating_sub(sent.count);
        (count > 0).then(|| Self { first_us: self.last_us, count, ..self.clone() })
    }

    /// As the API takes it.
    fn body(&self) -> Value {
        let Self { pod, uid, node, reason, action, severity, note, first_us, last_us, count } = self;
        // As client-go makes it: the pod's name and the time in hexadecimal digits.
        let suffix = format!(".{:x}", u128::from(*first_us) * 1000);
        let room = NAME_BYTES_MAX - suffix.len();
        let name = format!("{}{suffix}", cut(&pod.name, room));
        let mut body = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": pod.namespace},
            "eventTime": time(*first_us),
            "reportingController": "enforcer",
            "reportingInstance": cut(&format!("enforcer-{node}"), 128),
            "action": action,
            "reason": reason,
            "type": severity.name(),
            "note": cut(&printable(note), NOTE_BYTES_MAX),
            "regarding": {
                "apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": uid
            }
        });
        if *count > 1 {
            body["series"] = json!({"count": count, "lastObservedTime": time(*last_us)});
        }
        body
    }
}

/// `metav1.MicroTime`: always six digits.
fn time(wall_us: u64) -> String {
    let time = Timestamp::from_microsecond(i64::try_from(wall_us).unwrap_or(0)).unwrap_or_default();
    format!("{time:.6}")
}

fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Sends one. One that is there already has been sent before, and the answer was lost.
pub(super) async fn send(server: &Server, event: &Event) -> Result<(), CallError> {
    let parts = ["apis", "events.k8s.io", "v1", "namespaces", &event.pod.namespace, "events"];
    let request = Request {
        call: "create event",
        method: Method::POST,
        target: path(&parts, &[("fieldManager", super::patch::FIELD_MANAGER)]),
        body: Some(("application/json", event.body().to_string().into_bytes())),
    };
    match server.ask::<Value>(&request).await {
        Err(CallError::Status { status: 409, .. }) => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
pub(super) fn fixture(uid: &str, at_us: u64) -> Event {
    Event {
        pod: PodName { namespace: "shop".into(), name: "web-1".into() },
        uid: uid.into(),
        node: "node-a".into(),
        reason: "ShrinkRefused",
        action: "Shrink",
        severity: Severity::Warning,
        note: "main: 400Mi -> 200Mi refused: the safe minimum is 240Mi".into(),
        first_us: at_us,
        last_us: at_us,
        count: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_the_api_takes_it() {
        let mut event = fixture("u", 1_796_000_000_000_007);
        let body = event.body();
        assert_eq!(body["eventTime"], "2026-11-30T00:53:20.000007Z");
        assert_eq!(body["metadata"], json!({"name": "web-1.18ecac7c009a1b58", "namespace": "shop"}));
        assert_eq!(body["regarding"]["uid"], "u");
        assert_eq!(body["series"], Value::Null);
        event.pod.name = "ä".repeat(200);
        event.note = "\u{1b}[2J".repeat(1000);
        event.count = 3;
        event.last_us += 1_000_000;
        let body = event.body();
        assert_eq!(body["series"], json!({"count": 3, "lastObservedTime": "2026-11-30T00:53:21.000007Z"}));
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        assert!(text(&body["metadata"]["name"]).len() <= NAME_BYTES_MAX);
        let note = text(&body["note"]);
        assert!(note.len() <= NOTE_BYTES_MAX && !note.contains('\u{1b}'), "{note}");
    }
}
