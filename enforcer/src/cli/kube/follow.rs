//! Follows a resize until the kubelet has carried it out, will not do so, or takes too long.

use super::{changes, no_answer, order::Order};
use crate::{
    cli::{Exit, Failure, output::aside},
    kube::{
        connect::Server,
        read,
        reasons::{Given, Reason, reasons},
        resize::Resize,
        state::PodState,
    },
};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Between looks.
const LOOK: Duration = Duration::from_secs(1);
/// Looks in a row that may fail before it is given up.
const FAILED_MAX: u32 = 10;

/// How a look at the pod leaves it.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Done,
    /// It won't come by waiting.
    Stuck,
    Going,
}

fn seen(pod: &PodState) -> Seen {
    match Resize::of(pod) {
        Resize::None if pod.is_observed() => Seen::Done,
        Resize::Infeasible { .. } if pod.is_observed() => Seen::Stuck,
        Resize::None
        | Resize::InFlight { .. }
        | Resize::Deferred { .. }
        | Resize::Infeasible { .. }
        | Resize::Error { .. } => Seen::Going,
    }
}

/// Follows; how it stands at the end, and why it is not done where it is not.
pub(super) async fn follow(
    order: &Order<'_>,
    server: &Server,
    container: &str,
    patched: &PodState,
) -> Result<(Exit, Option<Resize>, Vec<Reason>), Failure> {
    let began = Instant::now();
    let until = began + Duration::from_micros(order.following.wait.get());
    let mut pod = patched.clone();
    let mut failed = 0;
    let mut told = String::new();
    loop {
        if pod.uid != patched.uid || pod.generation != patched.generation {
            let why = "somebody has changed the pod since";
            let todo = "look who: enforcer explain names the last writer";
            return Err(Failure::new(Exit::Failed, order.what, order.target, &why, todo));
        }
        let standing = changes::standing(&Resize::of(&pod));
        let seen = seen(&pod);
        if seen == Seen::Going && standing != told && !order.json {
            aside(&format!("{standing}\n"));
            told = standing;
        }
        let now = Instant::now();
        match seen {
            Seen::Done => return Ok((Exit::Done, Some(Resize::None), why(server, &pod).await)),
            Seen::Stuck => return Ok((Exit::Refused, Some(Resize::of(&pod)), why(server, &pod).await)),
            Seen::Going if order.following.wait.get() == 0 => {
                return Ok((Exit::Done, Some(Resize::of(&pod)), Vec::new()));
            }
            Seen::Going if now >= until => {
                let mut found = why(server, &pod).await;
                if let Some(first) = found.first_mut() {
                    let back =
                        format!("; until then the pod is asked for it: enforcer resize {}", order.target);
                    let back = if order.target.contains(':') { back } else { format!("{back}:{container}") };
                    first.todo = format!("{}{back} --via kube takes it back", first.todo);
                }
                return Ok((Exit::Failed, Some(Resize::of(&pod)), found));
            }
            Seen::Going => {}
        }
        sleep_until((now + LOOK).min(until)).await;
        match read::pod(server, &pod.name).await {
            Ok(found) => {
                failed = 0;
                pod = found;
            }
            Err(error) if error.is_passing() && failed < FAILED_MAX => failed += 1,
            Err(error) => return Err(no_answer(order.what, order.target, &error)),
        }
    }
}

/// Why it stands so, as far as may be read.
pub(super) async fn why(server: &Server, pod: &PodState) -> Vec<Reason> {
    let node = read::node(server, &pod.node).await.ok();
    let pods = match Resize::of(pod) {
        // Who holds the room.
        Resize::Deferred { .. } => {
            read::pods_of(server, &pod.node).await.map(|listed| listed.items).unwrap_or_default()
        }
        Resize::None | Resize::InFlight { .. } | Resize::Infeasible { .. } | Resize::Error { .. } => {
            Vec::new()
        }
    };
    reasons(&Given { pod, node: node.as_ref(), pods: &pods, kernel: None, flapping: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::fixture::{self, condition, shrink};
    use serde_json::json;

    #[test]
    fn it_is_done_once_the_kubelet_has_seen_it() {
        assert_eq!(seen(&fixture::pod(|_| {})), Seen::Done);
        assert_eq!(seen(&fixture::pod(|value| value["metadata"]["generation"] = json!(4))), Seen::Going);
        assert_eq!(seen(&fixture::pod(|value| shrink(value, &[]))), Seen::Going);
        let of = |kind: &str, reason: &str| {
            seen(&fixture::pod(|value| shrink(value, &[condition(kind, reason, "x")])))
        };
        assert_eq!(of("PodResizePending", "Deferred"), Seen::Going);
        assert_eq!(of("PodResizeInProgress", "Error"), Seen::Going);
        assert_eq!(of("PodResizePending", "Infeasible"), Seen::Stuck);
    }
}
