use super::*;
use crate::overhead::{
    fit,
    model::{NodeSample, PodSample, Term},
};
use enforcer_gate::Bytes;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// Seven steps of pods that cost 8 MiB each, of which the node confirms all.
fn run(sandbox: &str) -> Run {
    let steps: Vec<u32> = vec![0, 4, 2, 4, 0, 2, 4];
    let nodes = steps.iter().enumerate().map(|(step, pods)| NodeSample {
        step,
        pods: *pods,
        made: 4,
        available: Bytes::new(1000 * MIB - u64::from(*pods) * 8 * MIB + step as u64 * 4096),
        on_cpus: Bytes::ZERO,
        known: BTreeMap::new(),
        unsettled: step == 2,
    });
    let pods = steps.iter().enumerate().flat_map(|(step, pods)| {
        (0..*pods).map(move |pod| PodSample {
            step,
            sandbox: format!("{sandbox}{pod}"),
            terms: [
                (Term::PodKernel, Bytes::new(MIB)),
                (Term::HelperAnon, Bytes::new(7 * MIB + u64::from(pod))),
            ]
            .into(),
            app: Bytes::ZERO,
            app_kept: Bytes::ZERO,
            helpers: Vec::new(),
            flags: Vec::new(),
        })
    });
    let (nodes, pods) = (nodes.collect(), pods.collect());
    let mut run = Run {
        version: 1,
        id: "1".into(),
        runtime: "containerd 1.7".into(),
        handler: "run<c>&\"".into(),
        kernel: "6.12".into(),
        seed: 1,
        steps,
        pods,
        nodes,
        partial: None,
        result: None,
    };
    run.result = fit::outcome(&run, Bytes::new(MIB));
    run
}

/// Every element that is opened is closed, in order, and every text is escaped.
fn elements(page: &str) -> BTreeMap<String, usize> {
    let (mut open, mut counts) = (Vec::new(), BTreeMap::new());
    let page = page.strip_prefix("<!DOCTYPE html>\n").expect("its kind");
    for part in page.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("no end: {part}"));
        assert!(!text.contains('>'), "{text}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name.to_owned()));
            continue;
        }
        let name = tag.split([' ', '/']).next().expect("a name").to_owned();
        *counts.entry(name.clone()).or_default() += 1;
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    counts
}

#[test]
fn every_reading_is_in_the_charts() {
    let run = run("abc");
    let page = page(&run);
    let counts = elements(&page);
    assert_eq!(counts["circle"], run.nodes.len());
    assert_eq!(page.matches("class=\"t2\"").count(), run.pods.len() + 1, "a bar a pod, and the legend");
    assert_eq!(page.matches("class=\"t7\"").count(), run.pods.len() + 1);
    assert_eq!(counts["h2"], 5);
    assert!(page.contains("<strong>accepted</strong>") && page.contains("podFixed.memory: 10Mi"), "{page}");
}

#[test]
fn nothing_is_fetched_and_names_are_only_text() {
    let page = page(&run("<script>alert(1)</script>\"&\u{1b}[31m"));
    let counts = elements(&page);
    for name in ["script", "link", "img", "iframe", "image", "use"] {
        assert_eq!(counts.get(name), None, "{name}");
    }
    let page = page.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xhtml", "");
    for word in ["http:", "https:", "url(", "@import", "src=", "href=", "\u{1b}"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn with_too_little_to_say_there_are_no_charts() {
    let mut run = run("abc");
    run.result = None;
    let counts = elements(&page(&run));
    assert_eq!((counts.get("circle"), counts["h2"]), (None, 2));
}
