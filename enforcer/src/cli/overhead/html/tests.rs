use super::*;
use crate::overhead::measured::measured;
use std::collections::BTreeMap;

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
    let run = measured(8, "abc");
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
    let page = page(&measured(8, "<script>alert(1)</script>\"&\u{1b}[31m"));
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
    let mut run = measured(8, "abc");
    run.result = None;
    let counts = elements(&page(&run));
    assert_eq!((counts.get("circle"), counts["h2"]), (None, 2));
}
