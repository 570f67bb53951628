//! Patches: what is in them, and what is not patched at all.

use super::*;
use crate::{
    kube::fixture::{self, mib},
    resize::MilliCpu,
};

fn memory(container: &str, n: u64) -> Want {
    Want { container: Some(container.into()), limits: Amounts { memory: Some(mib(n)), cpu: None } }
}

fn check(edit: impl FnOnce(&mut Value), wants: &[Want], spec: &Value) {
    let pod = fixture::pod(edit);
    let patch = plan(&pod, wants).expect("a patch");
    assert_eq!(patch.body["spec"], *spec);
    assert_eq!(patch.body["metadata"], json!({"uid": pod.uid, "resourceVersion": "1000"}));
    assert_eq!((patch.generation, patch.pod), (3, pod.name));
}

fn refused(edit: impl FnOnce(&mut Value), wants: &[Want], error: &PlanError) {
    assert_eq!(plan(&fixture::pod(edit), wants), Err(error.clone()));
    assert!(!error.to_string().is_empty());
}

#[test]
fn limits_alone_where_that_will_do() {
    let spec = json!({"containers": [{"name": "main", "resources": {"limits": {"memory": "200Mi"}}}]});
    check(|_| {}, &[memory("main", 200)], &spec);
    let both = Want {
        limits: Amounts { cpu: Some(MilliCpu::new(250)), ..memory("main", 200).limits },
        ..memory("main", 0)
    };
    let spec = json!({"containers": [{"name": "main", "resources": {"limits": {"memory": "200Mi", "cpu": "250m"}}}]});
    check(|_| {}, &[both], &spec);
    let spec = json!({
        "initContainers": [{"name": "proxy", "resources": {"limits": {"memory": "60Mi"}, "requests": {"memory": "60Mi"}}}],
        "containers": [{"name": "side", "resources": {"limits": {"memory": "120Mi"}}}]
    });
    check(|_| {}, &[memory("proxy", 60), memory("side", 120)], &spec);
    let own = Want { container: None, ..memory("", 210) };
    let with_own = |value: &mut Value| value["spec"]["resources"] = json!({"limits": {"memory": "400Mi"}});
    check(with_own, &[own], &json!({"resources": {"limits": {"memory": "210Mi"}}}));
}

#[test]
fn requests_where_the_class_or_the_limit_demands_it() {
    let spec = json!({"containers": [{"name": "main", "resources": {"limits": {"memory": "90Mi"}, "requests": {"memory": "90Mi"}}}]});
    check(|_| {}, &[memory("main", 90)], &spec);
    let guaranteed = |value: &mut Value| {
        value["status"]["qosClass"] = json!("Guaranteed");
        value["spec"]["initContainers"] = json!([]);
        let all = json!({"memory": "400Mi", "cpu": "1"});
        value["spec"]["containers"] =
            json!([{"name": "main", "resources": {"limits": all, "requests": all}}]);
    };
    let spec = json!({"containers": [{"name": "main", "resources": {"limits": {"memory": "500Mi"}, "requests": {"memory": "500Mi"}}}]});
    check(guaranteed, &[memory("main", 500)], &spec);
}

#[test]
fn what_the_api_server_would_refuse_is_not_sent() {
    refused(|_| {}, &[memory("main", 400)], &PlanError::Nothing);
    refused(|_| {}, &[memory("no\u{1b}", 4)], &PlanError::NoContainer("no\u{1b}".into()));
    refused(|_| {}, &[memory("main", 0)], &PlanError::TooLittle(mib(0)));
    let with_init = |value: &mut Value| {
        value["spec"]["initContainers"][0].as_object_mut().expect("an object").remove("restartPolicy");
    };
    refused(with_init, &[memory("proxy", 10)], &PlanError::InitContainer("proxy".into()));
    let mirror =
        |value: &mut Value| value["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    refused(mirror, &[memory("main", 10)], &PlanError::Static);
    refused(|value| value["status"]["phase"] = json!("Failed"), &[memory("main", 10)], &PlanError::Ended);
    let best_effort = |value: &mut Value| {
        value["status"]["qosClass"] = json!("BestEffort");
        value["spec"]["initContainers"] = json!([]);
        value["spec"]["containers"] = json!([{"name": "main"}]);
    };
    refused(best_effort, &[memory("main", 10)], &PlanError::QosChange(Qos::BestEffort, Qos::Burstable));
    let would_be_guaranteed = |value: &mut Value| {
        value["spec"]["initContainers"] = json!([]);
        let limits = json!({"memory": "400Mi", "cpu": "1"});
        let requests = json!({"memory": "100Mi", "cpu": "1"});
        value["spec"]["containers"] =
            json!([{"name": "main", "resources": {"limits": limits, "requests": requests}}]);
    };
    refused(
        would_be_guaranteed,
        &[memory("main", 100)],
        &PlanError::QosChange(Qos::Burstable, Qos::Guaranteed),
    );
}
