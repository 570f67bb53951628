//! What to say of a section or key that there is not. No I/O.

use super::{
    keys::{self, Key, SECTIONS, Section},
    nearest::nearest,
};
use crate::cgroup::shown;

/// Why `path` is none, and what was meant.
pub(super) fn unknown(path: &[String]) -> (String, String) {
    let name = path.join(".");
    let (section, rest) = path.split_first().map_or(("", path), |(first, rest)| (first.as_str(), rest));
    let known = SECTIONS.iter().find(|known| known.name == section);
    let key = (2..=path.len()).find_map(|parts| keys::find(&path[..parts].join(".")));
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
            let here =
                nearest(last, known.keys.iter().map(Key::name)).map(|near| format!("{section}.{near}"));
            let elsewhere = || {
                let near = nearest(last, keys::all().map(Key::name))?;
                keys::all().find(|key| key.name() == near).map(|key| key.path.to_owned())
            };
            let meant = here.or_else(elsewhere).map(|meant| format!("did you mean {meant}?"));
            let todo = meant.unwrap_or_else(|| format!("[{section}] has {}", own(known)));
            ("there is no such key".into(), todo)
        }
        (None, None, _) => {
            let meant = nearest(&name, keys::all().map(|key| key.path));
            let todo = meant.map_or_else(sections, |meant| format!("did you mean {meant}?"));
            ("there is no such key".into(), todo)
        }
    }
}

/// A name by itself.
fn no_section(name: &str) -> (String, String) {
    let homes: Vec<_> = keys::all().filter(|key| key.name() == name).map(|key| key.path).collect();
    if !homes.is_empty() {
        return ("it stands in no section".into(), format!("there is {}", homes.join(" and ")));
    }
    let meant = nearest(name, SECTIONS.iter().map(|section| section.name));
    let todo = meant.map_or_else(sections, |meant| format!("did you mean [{meant}]?"));
    ("there is no such section".into(), todo)
}

fn sections() -> String {
    let names: Vec<_> = SECTIONS.iter().map(|section| section.name).collect();
    format!("the sections are {}", names.join(", "))
}

fn own(section: &Section) -> String {
    let names: Vec<_> = section.keys.iter().map(Key::name).collect();
    names.join(", ")
}
