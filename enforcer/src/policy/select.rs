//! Which pods a node's policy is for: by namespace, and by Kubernetes' label selectors. No I/O.

use crate::cgroup::shown;
use kube::core::{Expression, Selector, SelectorExt as _};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

/// Longest name of a namespace, and longest value of a label (RFC 1123, `IsValidLabelValue`).
const NAME_BYTES_MAX: usize = 63;
/// Longest key of a label: a prefix, a slash and a name (`IsQualifiedName`).
const KEY_BYTES_MAX: usize = 253 + 1 + NAME_BYTES_MAX;

/// Namespaces by name: all, these only (`a,b`), or all but these (`!a,!b`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Namespaces {
    /// Each.
    #[default]
    All,
    /// These only.
    Only(BTreeSet<String>),
    /// All but these.
    AllBut(BTreeSet<String>),
}

impl Namespaces {
    /// Whether it is one of them.
    pub fn has(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(namespace),
            Self::AllBut(names) => !names.contains(namespace),
        }
    }
}

impl FromStr for Namespaces {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
        let names = |parts: &[&str]| -> Result<BTreeSet<String>, String> {
            let is = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let wrong = parts
                .iter()
                .find(|name| name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is));
            match wrong {
                Some(name) => Err(format!("\"{}\" is no name of a namespace", shown(name))),
                None => Ok(parts.iter().map(|name| (*name).to_owned()).collect()),
            }
        };
        let but: Vec<_> = parts.iter().filter_map(|part| part.strip_prefix('!')).map(str::trim).collect();
        match (parts.len(), but.len()) {
            (0, _) => Ok(Self::All),
            (_, 0) => names(&parts).map(Self::Only),
            (all, but_all) if all == but_all => names(&but).map(Self::AllBut),
            _ => Err("either these only (\"a,b\") or all but these (\"!a,!b\")".into()),
        }
    }
}

impl fmt::Display for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mark, names) = match self {
            Self::All => return Ok(()),
            Self::Only(names) => ("", names),
            Self::AllBut(names) => ("!", names),
        };
        let names: Vec<_> = names.iter().map(|name| format!("{mark}{name}")).collect();
        f.write_str(&names.join(","))
    }
}

/// A label selector as kubectl takes it (`labels.Parse` of apimachinery): `a=b,c!=d,e in (f,g),h notin (i),j,!k`. An empty one
/// selects all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels(Selector);

impl Labels {
    /// Whether a pod with these labels is selected.
    pub fn select(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.matches(labels)
    }

    /// Whether that is all of them.
    pub fn is_all(&self) -> bool {
        self.0.selects_all()
    }
}

impl FromStr for Labels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut selector = Selector::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            // A comma in parentheses parts values.
            let open = rest.find(['(', ',']).filter(|at| rest[*at..].starts_with('('));
            let from = open.map_or(Ok(0), |at| {
                rest[at..]
                    .find(')')
                    .map(|close| at + close)
                    .ok_or_else(|| format!("\"{}\" has no \")\"", shown(rest)))
            })?;
            let end = rest[from..].find(',').map_or(rest.len(), |at| from + at);
            selector.extend(expression(rest[..end].trim())?);
            rest = rest.get(end + 1..).unwrap_or_default().trim_start();
        }
        Ok(Self(selector))
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn expression(text: &str) -> Result<Expression, String> {
    if let Some(key) = text.strip_prefix('!') {
        return key_of(key).map(Expression::DoesNotExist);
    }
    if let Some((left, values)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let values: Result<BTreeSet<_>, _> = values.split(',').map(value_of).collect();
        let (key, word) = left.trim().rsplit_once(char::is_whitespace).unwrap_or_default();
        return match word {
            "in" => Ok(Expression::In(key_of(key)?, values?)),
            "notin" => Ok(Expression::NotIn(key_of(key)?, values?)),
            _ => Err(format!("\"{}\" is neither KEY in (VALUE,...) nor KEY notin (VALUE,...)", shown(text))),
        };
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Ok(Expression::NotEqual(key_of(key)?, value_of(value)?));
    }
    if let Some((key, value)) = text.split_once('=') {
        return Ok(Expression::Equal(key_of(key)?, value_of(value.strip_prefix('=').unwrap_or(value))?));
    }
    key_of(text).map(Expression::Exists)
}

fn key_of(text: &str) -> Result<String, String> {
    let key = text.trim();
    let is = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let is_key = !key.is_empty() && key.len() <= KEY_BYTES_MAX && key.chars().all(is);
    if is_key && key.matches('/').count() <= 1 {
        Ok(key.into())
    } else {
        Err(format!("\"{}\" is no key of a label", shown(key)))
    }
}

fn value_of(text: &str) -> Result<String, String> {
    let value = text.trim();
    let is = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_value = value.len() <= NAME_BYTES_MAX && value.chars().all(is);
    if is_value { Ok(value.into()) } else { Err(format!("\"{}\" is no value of a label", shown(value))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_all_some_or_all_but_some() {
        for (text, has, has_not, shown) in [
            ("", &["a", "kube-system"][..], &[][..], ""),
            (" a , b,", &["a", "b"], &["c", ""], "a,b"),
            ("!kube-system,!x", &["a", ""], &["kube-system", "x"], "!kube-system,!x"),
        ] {
            let namespaces: Namespaces = text.parse().expect(text);
            assert!(has.iter().all(|name| namespaces.has(name)), "{text:?}");
            assert!(!has_not.iter().any(|name| namespaces.has(name)), "{text:?}");
            assert_eq!(namespaces.to_string(), shown);
            assert_eq!(shown.parse(), Ok(namespaces));
        }
        for text in ["a,!b", "A", "!", "a b", "a\u{1b}", &"x".repeat(64)] {
            assert!(text.parse::<Namespaces>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn selectors_are_those_of_kubectl() {
        let labels: BTreeMap<String, String> = [("app", "web"), ("example.com/tier", "batch"), ("empty", "")]
            .map(|(k, v)| (k.into(), v.into()))
            .into();
        for (text, expected, shown) in [
            ("", true, ""),
            ("app=web", true, "app=web"),
            ("app==web , example.com/tier != live", true, "app=web,example.com/tier!=live"),
            ("app!=web", false, "app!=web"),
            ("other!=web", true, "other!=web"),
            ("app in (web, api)", true, "app in (api,web)"),
            ("app in (api),example.com/tier", false, "app in (api),example.com/tier"),
            ("example.com/tier notin (live,x),!critical", true, "example.com/tier notin (live,x),!critical"),
            ("!app", false, "!app"),
            ("empty=", true, "empty="),
        ] {
            let parsed: Labels = text.parse().expect(text);
            assert_eq!((parsed.select(&labels), parsed.to_string().as_str()), (expected, shown), "{text:?}");
            assert_eq!(shown.parse(), Ok(parsed));
        }
        for text in
            ["=", "a b", "a in web", "a in (b", "a within (b)", "in (a)", "a=b c", "a/b/c", "a=\u{7}", "a>1"]
        {
            assert!(text.parse::<Labels>().is_err(), "{text:?}");
        }
        // However long and hostile it is, what is said of it is not.
        for text in [format!("a in ({}", "\u{1b}".repeat(10_000)), "x".repeat(10_000), "(".repeat(10_000)] {
            let said = text.parse::<Labels>().expect_err("is none");
            assert!(said.len() < 5_000 && !said.contains('\u{1b}'), "{}", said.len());
        }
    }
}
