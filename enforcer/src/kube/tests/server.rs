//! What the scenarios against a scripted API server share.

use crate::kube::{
    connect::{Deadlines, Server, Source},
    fixture,
};
use enforcer_test_api as api;
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Short waits: the server is on the loopback.
pub(crate) fn quick() -> Deadlines {
    Deadlines {
        connect: Duration::from_secs(5),
        answer: Duration::from_secs(5),
        watch: Duration::from_mins(1),
        retry_min: Duration::from_millis(2),
        retry_max: Duration::from_millis(20),
    }
}

pub(crate) async fn connect(api: &api::Server, deadlines: Deadlines) -> Server {
    let source = Source::Kubeconfig { path: api.kubeconfig(), context: None };
    Server::connect(source, deadlines).await.expect("a client")
}

/// A list of these objects.
pub(crate) fn list(version: &str, items: &[Value]) -> Value {
    json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items})
}

/// The pod of [`fixture::pod_json`] with another name, uid and version.
pub(crate) fn pod(name: &str, version: &str) -> Value {
    let mut pod = fixture::pod_json();
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["uid"] = json!(format!("uid-of-{name}"));
    pod["metadata"]["resourceVersion"] = json!(version);
    pod
}

/// One line of a watch.
#[expect(clippy::needless_pass_by_value, reason = "what is given is made for it")]
pub(crate) fn event(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}
