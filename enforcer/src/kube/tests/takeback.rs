//! Taking back, to each of its ends.

use super::*;
use crate::kube::{
    call::CallError,
    fixture::{self, condition, mib, shrink},
    reasons::Refusal,
};
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000;
const HOUR: Micros = Micros::from_secs(3600);

/// It had 400 MiB, and was shrunk to 200 in generation 4.
fn shrunk(edit: impl FnOnce(&mut Value)) -> PodState {
    fixture::pod(|value| {
        shrink(value, &[]);
        value["status"]["containerStatuses"][0]["resources"]["limits"]["memory"] = json!("200Mi");
        edit(value);
    })
}

/// Our patch is in the spec, in generation 5.
fn patched(conditions: &[Value], actual: &str) -> PodState {
    shrunk(|value| {
        value["metadata"]["generation"] = json!(5);
        value["status"]["observedGeneration"] = json!(5);
        value["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("400Mi");
        value["status"]["conditions"] = json!(conditions);
        value["status"]["containerStatuses"][0]["resources"]["limits"]["memory"] = json!(actual);
    })
}

fn begin() -> TakeBack {
    let uid = shrunk(|_| {}).uid;
    let decided = Decided { uid, generation: 4, container: "main".into(), limit: mib(400) };
    TakeBack::begin(decided, 0, HOUR)
}

fn unavailable() -> Outcome {
    let why = CallError::Unreachable { server: "s".into(), call: "patch pods/resize", why: "refused".into() };
    Outcome::Unavailable { retry_after: None, why }
}

fn held(back: &TakeBack) -> (&str, bool) {
    let Standing::Held { reason, given_up, .. } = back.standing() else { panic!("{back:?}") };
    (reason, *given_up)
}

#[test]
fn restored_once_spec_kubelet_and_kernel_agree() {
    let mut back = begin();
    let Next::Patch(want) = back.on_pod(Some(&shrunk(|_| {})), None, SECOND) else { panic!("{back:?}") };
    assert_eq!(
        (want.container.as_deref(), want.limits.memory, want.limits.cpu),
        (Some("main"), Some(mib(400)), None)
    );
    let in_flight = patched(&[condition("PodResizeInProgress", "", "")], "200Mi");
    assert_eq!(back.on_outcome(&Outcome::Patched(Box::new(in_flight)), 2 * SECOND), Next::Wait);
    assert_eq!(back.standing(), &Standing::Open);
    let done = patched(&[], "400Mi");
    assert_eq!(
        back.on_pod(Some(&done), Some(Limit::Bytes(mib(200))), 3 * SECOND),
        Next::Wait,
        "the kernel has it not"
    );
    assert_eq!(back.on_pod(Some(&done), Some(Limit::Bytes(mib(400))), 4 * SECOND), Next::End);
    assert_eq!(back.standing(), &Standing::Restored);
    assert_eq!(back.on_pod(Some(&shrunk(|_| {})), None, 5 * SECOND), Next::End, "an end is one");
}

#[test]
fn held_while_the_memory_is_taken_or_a_quota_is_in_the_way() {
    let mut back = begin();
    let _ = back.on_pod(Some(&shrunk(|_| {})), None, SECOND);
    let deferred = patched(&[condition("PodResizePending", "Deferred", "no room")], "200Mi");
    assert_eq!(back.on_outcome(&Outcome::Patched(Box::new(deferred.clone())), SECOND), Next::Wait);
    assert_eq!(held(&back), ("no room", false));
    let _ = back.on_pod(Some(&deferred), None, HOUR.get() + SECOND);
    assert_eq!(held(&back), ("no room", true));
    assert_eq!(back.on_pod(Some(&patched(&[], "400Mi")), None, HOUR.get() + 2 * SECOND), Next::End);
    assert_eq!(back.standing(), &Standing::Restored, "late is better than never");

    let mut back = begin();
    let quota = Refusal { status: 403, reason: "Forbidden".into(), message: "exceeded quota: team".into() };
    assert_eq!(back.on_outcome(&Outcome::Refused(quota), SECOND), Next::Wait);
    assert_eq!(held(&back), ("exceeded quota: team", false));
    // It is tried again with the next news, until the deadline.
    assert!(matches!(back.on_pod(Some(&shrunk(|_| {})), None, 2 * SECOND), Next::Patch(_)));
    assert_eq!(back.on_pod(Some(&shrunk(|_| {})), None, HOUR.get()), Next::Wait);
    assert_eq!(held(&back), ("exceeded quota: team", true));
}

#[test]
fn held_while_nobody_answers() {
    let mut back = begin();
    assert_eq!(back.on_outcome(&unavailable(), SECOND), Next::Look);
    assert!(held(&back).0.contains("refused"), "{back:?}");
    assert_eq!(back.on_outcome(&Outcome::Conflict, SECOND), Next::Look);
    // The answer alone was lost: what is in the spec now is what was wanted.
    assert_eq!(back.on_pod(Some(&patched(&[], "400Mi")), None, 2 * SECOND), Next::End);
    assert_eq!(back.standing(), &Standing::Restored);
}

#[test]
fn yielded_to_whoever_decides_anew() {
    let by = |edit: &dyn Fn(&mut Value)| {
        let mut back = begin();
        assert_eq!(back.on_pod(Some(&shrunk(|value| edit(value))), None, SECOND), Next::End, "{back:?}");
        back.standing().clone()
    };
    let newer = by(&|value| value["metadata"]["generation"] = json!(5));
    assert_eq!(newer, Standing::Yielded { manager: "vpa-updater".into() });
    // Never over another pod of the same name, or one that has ended.
    let nobody = Standing::Yielded { manager: String::new() };
    assert_eq!(by(&|value| value["metadata"]["uid"] = json!("another")), nobody);
    assert_eq!(by(&|value| value["status"]["phase"] = json!("Failed")), nobody);
    assert_eq!(by(&|value| value["spec"]["containers"][0]["name"] = json!("other")), nobody);
    let mut back = begin();
    assert_eq!(back.on_pod(None, None, SECOND), Next::End);
    // After our own patch somebody asserts theirs again.
    let mut back = begin();
    let _ = back.on_outcome(&Outcome::Patched(Box::new(patched(&[], "200Mi"))), SECOND);
    let again = shrunk(|value| value["metadata"]["generation"] = json!(6));
    assert_eq!(back.on_pod(Some(&again), None, 2 * SECOND), Next::End);
    assert_eq!(back.standing(), &Standing::Yielded { manager: "vpa-updater".into() });
    assert_eq!(begin().on_outcome(&Outcome::Gone, SECOND), Next::End);
}
