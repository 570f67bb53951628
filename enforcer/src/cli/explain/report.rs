//! What `enforcer explain` tells, as text.

use super::why;
use crate::{
    admin::model::{ContainerView, Explanation, Happening},
    cgroup::printable,
    cli::{
        status::happenings,
        table::{Align, table},
    },
};
use enforcer_gate::{Bytes, Limit};
use std::fmt::Write as _;

/// For people; each container with its figures, its sentences, and what happened to it.
pub(in crate::cli) fn render(explanation: &Explanation) -> String {
    let Explanation { containers, in_flight, recent, paused } = explanation;
    if containers.is_empty() {
        return "nothing of it runs; enforcer ps --all lists what has ended\n".into();
    }
    let mut told = vec![false; recent.len()];
    let mut text = String::new();
    for view in containers {
        let target = view.target();
        let flights = in_flight.iter().filter(|flight| flight.target == target);
        let mine: Vec<_> = recent
            .iter()
            .zip(&mut told)
            .filter(|(happening, _)| is_about(happening, view, &target))
            .map(|(happening, told)| {
                *told = true;
                Happening { target: String::new(), ..happening.clone() }
            })
            .collect();
        let blank = if text.is_empty() { "" } else { "\n" };
        // Writing to a String can't fail, here and below.
        let _ = write!(text, "{blank}{}", head(view));
        text.push_str(&table(2, [Align::Left, Align::Right, Align::Left], &figures(view)));
        text.push('\n');
        for sentence in why::limit(view).into_iter().chain(why::actuation(view, flights, *paused)) {
            let _ = writeln!(text, "  {sentence}");
        }
        if !mine.is_empty() {
            let _ = write!(text, "\n  lately\n{}", happenings(&mine, 4));
        }
    }
    let rest: Vec<_> =
        recent.iter().zip(told).filter(|(_, told)| !told).map(|(one, _)| one.clone()).collect();
    if !rest.is_empty() {
        let _ = write!(text, "\nlately, elsewhere in its pod\n{}", happenings(&rest, 2));
    }
    text
}

fn is_about(happening: &Happening, view: &ContainerView, target: &str) -> bool {
    let cgroup = [&view.cgroup, &view.limit_cgroup]
        .into_iter()
        .any(|cgroup| !cgroup.is_empty() && happening.target == *cgroup);
    happening.target == target || cgroup
}

fn head(view: &ContainerView) -> String {
    let handler = match view.handler.as_str() {
        "" => "the default runtime handler".into(),
        handler => format!("runtime handler {}", printable(handler)),
    };
    let cgroup = match view.cgroup.as_str() {
        "" => "none that is known".into(),
        cgroup => printable(cgroup),
    };
    format!(
        "{}\n  image {}, {handler}, id {}\n  cgroup {cgroup}\n\n",
        printable(&view.target()),
        printable(&view.image),
        printable(&view.id)
    )
}

fn figures(view: &ContainerView) -> Vec<[String; 3]> {
    let share = match (view.usage, view.limit) {
        (Some(usage), Some(Limit::Bytes(limit))) if limit > Bytes::ZERO => {
            format!("{}% of the limit", u128::from(usage.get()) * 100 / u128::from(limit.get()))
        }
        (Some(_) | None, Some(Limit::Bytes(_) | Limit::Max) | None) => String::new(),
    };
    let holder = match (view.limit, view.limit_cgroup.as_str()) {
        (None, _) | (_, "") => String::new(),
        (Some(_), cgroup) => format!("memory.max of {}", printable(cgroup)),
    };
    let row =
        |name: &str, value: Option<String>, more| [name.into(), value.unwrap_or_else(|| "-".into()), more];
    let limit = |limit: Option<Limit>| limit.map(|limit| limit.to_string());
    let bytes = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.to_string());
    let none = String::new;
    vec![
        row("usage", bytes(view.usage), share),
        row("floor", bytes(view.floor), why::floor_terms(view)),
        row("safe minimum", bytes(view.safe_minimum), none()),
        row("limit in force", limit(view.limit), holder),
        row("memory.high", limit(view.high), none()),
        row("the runtime's limit", limit(view.runtime_limit), none()),
        row("the pod's limit", limit(view.pod_limit), none()),
        row("refaults", Some(view.refaults.to_string()), none()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::{fixture, model::HappeningKind};

    #[test]
    fn for_people() {
        let scope = "kubepods.slice/kubepods-pod1.slice/cri-containerd-c1.scope";
        let expected = format!(
            "pod/shop/web-1:main\n  \
               image docker.io/library/nginx:1.29, runtime handler crun, id c1\n  \
               cgroup {scope}\n\n  \
               usage                120Mi  46% of the limit\n  \
               floor                 90Mi  anon 84Mi, slab 6Mi\n  \
               safe minimum         106Mi\n  \
               limit in force       256Mi  memory.max of {scope}/container\n  \
               memory.high            max\n  \
               the runtime's limit  256Mi\n  \
               the pod's limit      512Mi\n  \
               refaults               789\n\n  \
               Its limit is 256Mi, which is what the runtime has.\n  \
               It is held below the container's own cgroup, in container.\n  \
               It could go down to 106Mi; 90Mi of it stay whatever is reclaimed (anon 84Mi, slab 6Mi).\n  \
               In the last ten seconds some of it waited for memory 12.34% of the time, all of it 0.56%.\n  \
               The agent saw one OOM kill in it.\n  \
               It is being taken from 256Mi to 128Mi by policy: trial, for 3s.\n  \
               Its policy is auto-shrink: the next look is in 8m.\n  \
               Its last shrink: committed at 128Mi.\n\n  \
               lately\n    \
                 2026-11-30T00:51:50Z  oom      sh (process 77) was killed: 64Mi of 64Mi\n    \
                 2026-11-30T00:52:50Z  verdict  committed at 128Mi\n"
        );
        assert_eq!(render(&fixture::explanation()), expected);
    }

    #[test]
    fn a_whole_pod_has_each_explained_and_the_rest_told_once() {
        let side = ContainerView { container: "side".into(), id: "c2".into(), ..fixture::container() };
        let mut explanation = fixture::explanation();
        explanation.containers.push(ContainerView { limit_cgroup: "elsewhere".into(), ..side });
        explanation.recent.push(fixture::happening(9, "elsewhere", HappeningKind::Guard, "an unsafe write"));
        explanation.recent.push(fixture::happening(8, "pod/shop/web-1", HappeningKind::Drift, "of the pod"));
        let text = render(&explanation);
        let (first, second) = text.split_once("\npod/shop/web-1:side\n").expect("two containers");
        assert!(first.starts_with("pod/shop/web-1:main\n") && first.contains("It is being taken"), "{text}");
        assert!(!second.contains("It is being taken") && second.contains("guard  an unsafe write"), "{text}");
        assert!(
            text.ends_with(
                "lately, elsewhere in its pod\n  2026-11-30T00:53:12Z  drift  pod/shop/web-1: of the pod\n"
            ),
            "{text}"
        );
        for happening in ["was killed", "an unsafe write", "of the pod"] {
            assert_eq!(text.matches(happening).count(), 1, "{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_a_dash_and_nothing_hostile_is_printed() {
        let hostile = "\u{1b}[2J\n\u{202e}".to_owned();
        let view = ContainerView {
            namespace: hostile.clone(),
            pod: hostile.clone(),
            container: hostile.clone(),
            id: hostile.clone(),
            handler: hostile.clone(),
            image: hostile.clone(),
            cgroup: hostile.clone(),
            limit_cgroup: format!("{hostile}/{hostile}"),
            usage: None,
            limit: None,
            high: None,
            runtime_limit: None,
            pod_limit: None,
            floor: None,
            floor_terms: [(hostile.clone(), Bytes::ZERO)].into(),
            safe_minimum: None,
            policy: hostile.clone(),
            policy_state: hostile.clone(),
            last_verdict: hostile.clone(),
            drift: vec![hostile.clone()],
            missing: hostile.clone(),
            ..fixture::container()
        };
        let recent =
            vec![Happening { text: hostile.clone(), target: hostile, ..fixture::status().recent[0].clone() }];
        let text = render(&Explanation { containers: vec![view], recent, ..fixture::explanation() });
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        assert!(text.contains("limit in force         -\n"), "{text}");
        assert!(text.contains("Which limit is in force is not known.\n"), "{text}");
        assert_eq!(
            render(&Explanation { containers: vec![], ..fixture::explanation() }),
            "nothing of it runs; enforcer ps --all lists what has ended\n"
        );
    }
}
