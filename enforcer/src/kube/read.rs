//! Reads pods and nodes from the API server.

use super::{
    call::{CallError, Request, path},
    connect::Server,
    node::NodeState,
    resources,
    state::{PodName, PodState},
};
use http::Method;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::Deserialize;
use serde_json::Value;

/// Most pods of a node that are kept; kubelets run 110 by default.
pub const PODS_MAX: usize = 2048;
/// Objects of one page.
const PAGE: &str = "500";
/// Pages that are read; what is beyond is [`PODS_MAX`] anyhow.
const PAGES_MAX: usize = 16;

/// What a list came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<T> {
    /// In the server's order.
    pub items: Vec<T>,
    /// Where a watch goes on from.
    pub resource_version: String,
    /// Objects that make no sense, or for which there is no room.
    pub left_out: u64,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    items: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
}

/// A request that reads.
pub(super) fn get(call: &'static str, target: String) -> Request {
    Request { call, method: Method::GET, target, body: None }
}

/// Where a pod is.
pub(super) fn pod_parts(name: &PodName) -> [&str; 6] {
    ["api", "v1", "namespaces", &name.namespace, "pods", &name.name]
}

/// One pod.
pub async fn pod(server: &Server, name: &PodName) -> Result<PodState, CallError> {
    ask_for(server, &get("get pod", path(&pod_parts(name), &[])), name).await
}

/// Sends a request whose answer is this pod.
pub(super) async fn ask_for(
    server: &Server,
    request: &Request,
    name: &PodName,
) -> Result<PodState, CallError> {
    let found = resources::pod(&server.ask::<Pod>(request).await?);
    if found.name != *name {
        let PodName { namespace, name } = &found.name;
        return Err(another(server, request.call, &format!("{namespace}/{name}")));
    }
    Ok(found)
}

/// One node.
pub async fn node(server: &Server, name: &str) -> Result<NodeState, CallError> {
    let call = "get node";
    let found: Node = server.ask(&get(call, path(&["api", "v1", "nodes", name], &[]))).await?;
    let found = resources::node(&found);
    if found.name != name {
        return Err(another(server, call, &found.name));
    }
    Ok(found)
}

/// The answer is of something that was not asked for; `{}` is of nothing.
fn another(server: &Server, call: &'static str, found: &str) -> CallError {
    let why = format!("it is of {found:?}, which was not asked for");
    CallError::Garbage { server: server.address().into(), call, why }
}

/// The pods of one node.
pub async fn pods_of(server: &Server, node: &str) -> Result<Listed<PodState>, CallError> {
    let selector = pods_selector(node);
    let read = |value: Value| serde_json::from_value::<Pod>(value).ok().map(|pod| resources::pod(&pod));
    list(server, "list pods", &["api", "v1", "pods"], &selector, read).await
}

/// Only what is on this node: with node authorisation nothing else may be read.
pub(super) fn pods_selector(node: &str) -> String {
    format!("spec.nodeName={node}")
}

pub(super) async fn list<T>(
    server: &Server,
    call: &'static str,
    parts: &[&str],
    selector: &str,
    mut read: impl FnMut(Value) -> Option<T>,
) -> Result<Listed<T>, CallError> {
    let mut listed = Listed { items: Vec::new(), resource_version: String::new(), left_out: 0 };
    let mut next = String::new();
    for _ in 0..PAGES_MAX {
        let mut query = vec![("fieldSelector", selector), ("limit", PAGE)];
        if !next.is_empty() {
            query.push(("continue", next.as_str()));
        }
        let page: Page = server.ask(&get(call, path(parts, &query))).await?;
        for value in page.items {
            match read(value).filter(|_| listed.items.len() < PODS_MAX) {
                Some(item) => listed.items.push(item),
                None => listed.left_out += 1,
            }
        }
        listed.resource_version = page.metadata.resource_version;
        next = page.metadata.next;
        if next.is_empty() {
            break;
        }
    }
    if listed.resource_version.is_empty() {
        return Err(CallError::Garbage {
            server: server.address().into(),
            call,
            why: "the list has no resourceVersion".into(),
        });
    }
    Ok(listed)
}
