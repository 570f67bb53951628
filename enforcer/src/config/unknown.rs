//! What to say of a section or key that there is not. No I/O.

use super::{
    keys::{self, Key, SECTIONS, Section},
    nearest::{has_words, nearest},
};
use crate::cgroup::shown;

/// Why `path` is none, and what was meant.
pub(super) fn unknown(path: &[String]) -> (String, String) {
    let name = path.join(".");
    let (section, rest) = path.split_first().map_or(("", path), |(first, rest)| (first.as_str(), rest));
    let known = SECTIONS.iter().find(|known| known.name == section);
    // A section and a name: no key has more parts.
    let key = path.get(..2).and_then(|parts| keys::find(&parts.join(".")));
    match (known, key, rest) {
        (Some(known), _, []) => {
            ("it is a section and has no value of its own".into(), format!("its keys are {}", own(known)))
        }
        (None, _, []) => no_section(section),
        (_, Some(key), _) if key.path == name => {
            (format!("{name} is a key, not a section"), format!("write it below [{}]", shown(section)))
        }
        (_, Some(key), _) => {
            let why = format!("{} is a key, and nothing is below it", key.path);
            (why, format!("give {}", key.slot.allowed()))
        }
        (Some(known), None, rest) => {
            let last = rest.last().map_or("", String::as_str);
            ("there is no such key".into(), no_key(known, last))
        }
        (None, None, rest) => {
            let last = rest.last().map_or("", String::as_str);
            ("there is no such key".into(), neither(section, last))
        }
    }
}

/// A key that its section does not have.
fn no_key(section: &Section, name: &str) -> String {
    if let Some(near) = nearest(name, section.keys.iter().map(Key::name)) {
        return format!("did you mean {}.{near}?", section.name);
    }
    let longer = section.keys.iter().filter(|key| has_words(key.name(), name)).map(|key| key.path);
    let meant: Vec<_> = longer.chain(homes(name)).collect();
    let all = format!("[{}] has {}", section.name, own(section));
    if !meant.is_empty() {
        return format!("did you mean {}? {all}", either(&meant));
    }
    match somewhere_near(name) {
        meant if meant.is_empty() => all,
        meant => format!("did you mean {}? {all}", either(&meant)),
    }
}

/// A key of a section that there is not.
fn neither(section: &str, name: &str) -> String {
    let near = nearest(section, SECTIONS.iter().map(|known| known.name));
    if let Some(known) = SECTIONS.iter().find(|known| Some(known.name) == near) {
        return match known.keys.iter().find(|key| key.name() == name) {
            Some(key) => format!("did you mean {}?", key.path),
            None => no_key(known, name),
        };
    }
    match homes(name).collect::<Vec<_>>() {
        meant if meant.is_empty() => sections(),
        meant => format!("did you mean {}?", either(&meant)),
    }
}

/// A name by itself.
fn no_section(name: &str) -> (String, String) {
    let longer = keys::all().filter(|key| key.name() != name && has_words(key.name(), name));
    let homes: Vec<_> = homes(name).chain(longer.map(|key| key.path)).collect();
    if !homes.is_empty() {
        return ("it stands in no section".into(), format!("there is {}", both(&homes)));
    }
    if let Some(meant) = nearest(name, SECTIONS.iter().map(|section| section.name)) {
        return ("there is no such section".into(), format!("did you mean [{meant}]?"));
    }
    match somewhere_near(name) {
        meant if meant.is_empty() => ("there is no such section".into(), sections()),
        meant => ("there is no such key".into(), format!("did you mean {}?", either(&meant))),
    }
}

/// The keys of this name.
fn homes(name: &str) -> impl Iterator<Item = &'static str> {
    keys::all().filter(move |key| key.name() == name).map(|key| key.path)
}

/// The keys of the nearest name.
fn somewhere_near(name: &str) -> Vec<&'static str> {
    nearest(name, keys::all().map(Key::name)).into_iter().flat_map(homes).collect()
}

fn either(paths: &[&str]) -> String {
    listed(paths, "or")
}

fn both(paths: &[&str]) -> String {
    listed(paths, "and")
}

fn listed(paths: &[&str], word: &str) -> String {
    match paths {
        [first @ .., last] if !first.is_empty() => format!("{} {word} {last}", first.join(", ")),
        all => all.concat(),
    }
}

fn sections() -> String {
    let names: Vec<_> = SECTIONS.iter().map(|section| section.name).collect();
    format!("the sections are {}", names.join(", "))
}

fn own(section: &Section) -> String {
    let names: Vec<_> = section.keys.iter().map(Key::name).collect();
    names.join(", ")
}
