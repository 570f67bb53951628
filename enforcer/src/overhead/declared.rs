//! What a `RuntimeClass` declares (`overhead.podFixed` of node.k8s.io/v1), from text of YAML or JSON. No I/O.

use crate::{
    cgroup::shown,
    quantity::{QuantityError, parse_bytes, parse_millicores},
};
use enforcer_gate::Bytes;
use serde_json::Value;

/// Most bytes of a text that are read.
pub const TEXT_BYTES_MAX: usize = 4 << 20;
/// Most classes of one text.
pub const CLASSES_MAX: usize = 1000;
/// How deep lists may lie in lists.
const DEPTH_MAX: usize = 4;
const KIND: &str = "RuntimeClass";
/// The versions that have `handler` and `overhead` where they are looked for.
const VERSIONS: [&str; 2] = ["node.k8s.io/v1", "node.k8s.io/v1beta1"];

/// A `RuntimeClass`, as far as it says what a pod costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// The runtime's handler that its pods have.
    pub handler: String,
    /// `podFixed.memory`; `None` where nothing is declared, which counts as none.
    pub memory: Option<Bytes>,
    /// `podFixed.cpu`, in thousandths of a CPU.
    pub cpu: Option<u64>,
}

/// What was found in a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The classes, in their order.
    pub classes: Vec<Declared>,
    /// Objects of another kind, which say nothing here.
    pub others: usize,
}

/// Why a text says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeclaredError {
    /// Larger than [`TEXT_BYTES_MAX`].
    #[error("it is larger than {TEXT_BYTES_MAX} bytes")]
    TooLong,
    /// Neither YAML nor JSON.
    #[error("it is no YAML: {}", shown(.0))]
    Syntax(String),
    /// A document is no object of Kubernetes.
    #[error("a document in it is no object with a kind")]
    NoObject,
    /// Lists in lists without end.
    #[error("lists lie in it more than {DEPTH_MAX} deep")]
    Depth,
    /// More than [`CLASSES_MAX`].
    #[error("there are more than {CLASSES_MAX} runtime classes in it")]
    TooMany,
    /// A version of the API that has these fields elsewhere, or is none.
    #[error("RuntimeClass {}: its apiVersion is \"{}\"; {} is known", shown(name), shown(version), VERSIONS[0])]
    Version {
        /// Whose.
        name: String,
        /// What it is.
        version: String,
    },
    /// A field has another type than in the API, or is missing where it is needed.
    #[error("RuntimeClass {}: {field} is {}", shown(name), if *is_missing { "missing" } else { "of another type" })]
    Field {
        /// Whose.
        name: String,
        /// Which.
        field: &'static str,
        /// It is not there at all.
        is_missing: bool,
    },
    /// An amount is none.
    #[error("RuntimeClass {}: podFixed.{resource}: {error}", shown(name))]
    Amount {
        /// Whose.
        name: String,
        /// Of what.
        resource: &'static str,
        /// Why.
        error: QuantityError,
    },
}

/// Every `RuntimeClass` in a text: documents of YAML, or JSON, each an object or a list of them (`List` as kubectl
/// prints it, `RuntimeClassList` as the API does). Objects of other kinds are counted and passed over.
pub fn declared(text: &str) -> Result<Found, DeclaredError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(DeclaredError::TooLong);
    }
    // Depth, events and replays of anchors are bounded by default.
    let options = serde_saphyr::options! { with_snippet: false };
    let documents = serde_saphyr::from_multiple_with_options::<Value>(text, options);
    let documents = documents.map_err(|error| DeclaredError::Syntax(error.to_string()))?;
    let mut found = Found::default();
    for document in &documents {
        object(document, None, 0, &mut found)?;
    }
    Ok(found)
}

/// Takes in an object. Those of a list of one kind need not say which.
fn object(
    object: &Value,
    of_list: Option<&str>,
    depth: usize,
    found: &mut Found,
) -> Result<(), DeclaredError> {
    let kind = object.get("kind").and_then(Value::as_str).or(of_list);
    let kind = kind.filter(|_| object.is_object()).ok_or(DeclaredError::NoObject)?;
    if let Some(items) = object.get("items").and_then(Value::as_array).filter(|_| kind.ends_with("List")) {
        if depth == DEPTH_MAX {
            return Err(DeclaredError::Depth);
        }
        let of_list = kind.strip_suffix("List").filter(|kind| !kind.is_empty());
        return items.iter().try_for_each(|item| self::object(item, of_list, depth + 1, found));
    }
    if kind != KIND {
        found.others += 1;
        return Ok(());
    }
    if found.classes.len() == CLASSES_MAX {
        return Err(DeclaredError::TooMany);
    }
    found.classes.push(class(object, of_list.is_some())?);
    Ok(())
}

fn class(object: &Value, is_in_list: bool) -> Result<Declared, DeclaredError> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = text(object.get("metadata").and_then(|metadata| metadata.get("name")));
    let fault = |field, is_missing| DeclaredError::Field { name: name.clone(), field, is_missing };
    let version = object.get("apiVersion").and_then(Value::as_str);
    match version {
        Some(version) if VERSIONS.contains(&version) => {}
        // A list of the API's has it once for all.
        None if is_in_list => {}
        other => {
            let version = other.unwrap_or_default().to_owned();
            return Err(DeclaredError::Version { name, version });
        }
    }
    if name.is_empty() {
        return Err(fault("metadata.name", true));
    }
    let handler = text(object.get("handler"));
    if handler.is_empty() {
        return Err(fault("handler", object.get("handler").is_none_or(Value::is_string)));
    }
    let fixed = match object.get("overhead") {
        None | Some(Value::Null) => None,
        Some(Value::Object(overhead)) => overhead.get("podFixed"),
        Some(_) => return Err(fault("overhead", false)),
    };
    let fixed = match fixed {
        None | Some(Value::Null) => None,
        Some(Value::Object(fixed)) => Some(fixed),
        Some(_) => return Err(fault("overhead.podFixed", false)),
    };
    // A quantity may be a bare number, as Kubernetes reads it.
    let amount = |resource: &'static str| match fixed.and_then(|fixed| fixed.get(resource)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(fault(if resource == "memory" { "podFixed.memory" } else { "podFixed.cpu" }, false)),
    };
    let bad = |resource| {
        let name = name.clone();
        move |error| DeclaredError::Amount { name, resource, error }
    };
    let memory = amount("memory")?.map(|text| parse_bytes(&text).map_err(bad("memory"))).transpose()?;
    let cpu = amount("cpu")?.map(|text| parse_millicores(&text).map_err(bad("cpu"))).transpose()?;
    Ok(Declared { name, handler, memory, cpu })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Write as _;

    const KATA: &str = "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata:\n  name: kata\nhandler: kata-qemu\n\
                        overhead:\n  podFixed:\n    memory: \"160Mi\"\n    cpu: 250m\n";

    fn kata() -> Declared {
        let memory = Some(Bytes::from_mib(160));
        Declared { name: "kata".into(), handler: "kata-qemu".into(), memory, cpu: Some(250) }
    }

    fn check(text: &str, classes: &[Declared], others: usize) {
        assert_eq!(declared(text), Ok(Found { classes: classes.to_vec(), others }), "{text}");
    }

    #[test]
    fn one_many_and_lists() {
        check(KATA, &[kata()], 0);
        check(&format!("---\n{KATA}---\n# nothing\n---\n{KATA}"), &[kata(), kata()], 0);
        let json = r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass",
            "metadata":{"name":"kata"},"handler":"kata-qemu","overhead":{"podFixed":{"memory":167772160,"cpu":0.25}}},
            {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}]}"#;
        check(json, &[kata()], 1);
        // As the API server answers: items without kind and version.
        let api = r#"{"kind":"RuntimeClassList","apiVersion":"node.k8s.io/v1","items":[{"metadata":{"name":"kata"},
            "handler":"kata-qemu","overhead":{"podFixed":{"memory":"160Mi","cpu":"250m"}}}]}"#;
        check(api, &[kata()], 0);
        check("", &[], 0);
    }

    #[test]
    fn nothing_declared_is_nothing() {
        let bare = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: a}, handler: runc";
        let none = Declared { name: "a".into(), handler: "runc".into(), memory: None, cpu: None };
        for overhead in ["", ", overhead: null", ", overhead: {}", ", overhead: {podFixed: null}"] {
            check(&format!("{bare}{overhead}}}"), std::slice::from_ref(&none), 0);
        }
        let zero = Declared { memory: Some(Bytes::ZERO), cpu: Some(0), ..none };
        check(&format!("{bare}, overhead: {{podFixed: {{memory: 0, cpu: \"0\"}}}}}}"), &[zero], 0);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let with = |from: &str, to: &str| KATA.replace(from, to);
        for (text, why) in [
            (with("160Mi", "160Mb"), "podFixed.memory: \"Mb\" is no suffix; did you mean M?"),
            (with("160Mi", "-1"), "podFixed.memory: it is negative"),
            (with("250m", "much"), "podFixed.cpu:"),
            (with("250m", "[]"), "podFixed.cpu is of another type"),
            (with("handler: kata-qemu\n", ""), "handler is missing"),
            (with("kata-qemu", "{}"), "handler is of another type"),
            (with("  name: kata\n", "  labels: {}\n"), "metadata.name is missing"),
            (with("node.k8s.io/v1", "node.k8s.io/v1alpha1"), "apiVersion is \"node.k8s.io/v1alpha1\""),
            (with("apiVersion: node.k8s.io/v1\n", ""), "apiVersion is \"\""),
            ("just text".into(), "no object"),
            ("[1, 2]".into(), "no object"),
            ("a: [".into(), "no YAML"),
            ("a: 1\na: 2\n".into(), "no YAML"),
            ("x".repeat(TEXT_BYTES_MAX + 1), "larger than"),
        ] {
            let error = declared(&text).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
        let mut nested = "{}".to_owned();
        for _ in 0..=DEPTH_MAX + 1 {
            nested = format!("{{kind: List, items: [{nested}]}}");
        }
        assert_eq!(declared(&nested), Err(DeclaredError::Depth));
    }

    /// A text of a kilobyte that would be gigabytes is refused.
    #[test]
    fn anchors_do_not_multiply() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for level in 1..20 {
            let before = level - 1;
            let refs = vec![format!("*a{before}"); 9].join(", ");
            writeln!(bomb, "a{level}: &a{level} [{refs}]").expect("a string takes it");
        }
        assert!(matches!(declared(&bomb), Err(DeclaredError::Syntax(_))));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(kind|RuntimeClass|List|items|: |\\[|\\{|\\}|&a|\\*a|- |\n|  |\\PC){0,60}") {
            let _ = declared(&text);
        }
    }
}
