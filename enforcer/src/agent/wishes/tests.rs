use super::{REST, REST_MAX, Tries, Wish, wishes};
use crate::kube::fixture::{condition, mib, pod, shrink};
use enforcer_gate::{Instant, Micros};
use serde_json::{Value, json};

fn wished(edit: impl FnOnce(&mut Value)) -> Vec<Wish> {
    wishes(&pod(edit))
}

#[test]
fn what_the_kubelet_is_at_is_wished() {
    for conditions in [
        vec![],
        vec![condition("PodResizeInProgress", "", "")],
        vec![condition("PodResizeInProgress", "Error", "cannot decrease memory limits")],
    ] {
        let wished = wished(|value| shrink(value, &conditions));
        let [wish] = wished.as_slice() else { panic!("{wished:?}") };
        assert_eq!((wish.container.as_str(), wish.id.as_str()), ("main", "id-of-main"));
        assert_eq!((wish.to, wish.generation), (mib(200), 4));
    }
}

#[test]
fn what_it_is_not_at_is_not() {
    assert_eq!(wished(|_| {}), []);
    for reason in ["Deferred", "Infeasible"] {
        assert_eq!(
            wished(|value| shrink(value, &[condition("PodResizePending", reason, "")])),
            [],
            "{reason}"
        );
    }
    let with = |edit: fn(&mut Value)| {
        wished(|value| {
            shrink(value, &[]);
            edit(value);
        })
    };
    assert_eq!(
        with(|value| value["spec"]["containers"][0]["resizePolicy"][1]["restartPolicy"] =
            json!("RestartContainer")),
        []
    );
    assert_eq!(with(|value| value["status"]["containerStatuses"][0]["state"] = json!({"waiting": {}})), []);
    let raised =
        with(|value| value["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("600Mi"));
    assert_eq!(raised, []);
    let mirror = with(|value| {
        value["metadata"]["annotations"] =
            json!({"kubernetes.io/config.mirror": "a", "kubernetes.io/config.source": "file"});
    });
    assert_eq!(mirror, [], "a mirror of a static pod");
    let cpu = wished(|value| {
        value["metadata"]["generation"] = json!(4);
        value["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("100m");
    });
    assert_eq!(cpu, [], "only memory kills");
}

#[test]
fn what_came_to_nothing_rests_ever_longer() {
    let wish = |generation| {
        wished(|value| {
            shrink(value, &[]);
            value["metadata"]["generation"] = json!(generation);
        })
        .remove(0)
    };
    let (mut tries, mut now) = (Tries::default(), Instant::new(7));
    assert!(tries.is_due(&wish(4), now));
    let mut rests = Vec::new();
    for _ in 0..8 {
        tries.failed(&wish(4), now);
        let rest =
            (1..=REST_MAX.get() / REST.get()).find(|n| tries.is_due(&wish(4), now.after(REST.scaled(*n, 1))));
        let rest = rest.expect("it ends");
        assert!(!tries.is_due(&wish(4), now.after(Micros::new(REST.scaled(rest, 1).get() - 1))));
        now = now.after(REST.scaled(rest, 1));
        rests.push(rest);
    }
    assert_eq!(rests, [1, 2, 4, 8, 16, 30, 30, 30], "minutes");
    tries.failed(&wish(4), now);
    assert!(tries.is_due(&wish(5), now), "another spec is another wish");
    tries.failed(&wish(5), now);
    assert!(tries.is_due(&wish(5), now.after(REST)), "which begins anew");
    tries.retain(|_| false);
    assert!(tries.is_due(&wish(5), now));
}
