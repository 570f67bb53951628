//! From what was found to a configuration, or to every error of it. No I/O.

use super::{
    contradictions::contradictions,
    document::{Document, Entry, Fault, Found},
    error::{ConfigError, ConfigErrors, ERRORS_MAX, SET},
    keys::{self, Key, SECTIONS, Section},
    model::Config,
    unknown::unknown,
    value::Value,
};
use crate::cgroup::shown;
use std::collections::{BTreeMap, BTreeSet};

/// Where something stands; the later counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// It is about the file as a whole.
    File,
    /// Bytes from the start of the file.
    Text(usize),
    /// The number of the `--set`, from 0.
    Set(usize),
}

/// How a section was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opened {
    /// `[policy]`
    Header,
    /// `policy = { ... }`
    Inline,
    /// `policy.default = ...`
    Dotted,
}

/// What is wrong, before its place is a line.
struct Wrong {
    place: Place,
    key: String,
    why: String,
    todo: String,
}

/// Takes a file's text and the command line's overrides, in this order.
pub(super) struct Judge<'a> {
    /// The file's name, fit to print.
    file: &'a str,
    text: &'a str,
    config: Config,
    wrong: Vec<Wrong>,
    /// What did not fit into `wrong`.
    more: usize,
    set: BTreeMap<&'static str, Place>,
    bad: BTreeSet<&'static str>,
    opened: BTreeMap<&'static str, (Opened, Place)>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(file: &'a str) -> Self {
        Self {
            file,
            text: "",
            config: Config::default(),
            wrong: Vec::new(),
            more: 0,
            set: BTreeMap::new(),
            bad: BTreeSet::new(),
            opened: BTreeMap::new(),
        }
    }

    /// What is wrong with the file as a whole.
    pub(super) fn unreadable(&mut self, why: String, todo: &str) {
        self.push(Place::File, String::new(), why, todo);
    }

    pub(super) fn text(&mut self, text: &'a str) {
        self.text = text;
        let Document { tables, faults } = Document::parse(text);
        for Fault { at, path, why, mut todo } in faults {
            let path = path.join(".");
            if let Some(key) = keys::find(&path) {
                self.bad.insert(key.path);
                todo = format!("give {}", key.slot.allowed());
            }
            self.push(Place::Text(at), shown(path), why, todo);
        }
        for table in tables {
            let at = Place::Text(table.at);
            // Without a path the header is among the faults.
            match table.path.as_deref() {
                Some([]) => {
                    for entry in table.entries {
                        self.top(entry);
                    }
                }
                Some([name]) if table.is_listed => {
                    let name = shown(name);
                    let todo = format!("write [{name}], once");
                    self.push(at, name, "[[ ]] makes a list".into(), todo);
                }
                Some([name]) => {
                    if let Some(section) = self.section(at, name) {
                        self.open(section, Opened::Header, at);
                        for entry in table.entries {
                            self.entry(section, entry);
                        }
                    }
                }
                Some(path) => self.unknown(at, path),
                None => {}
            }
        }
    }

    /// The `--set KEY=VALUE` of the command line; the last of one key counts.
    pub(super) fn overrides(&mut self, overrides: &[String]) {
        for (n, text) in overrides.iter().enumerate() {
            let place = Place::Set(n);
            let (path, value) = match text.split_once('=') {
                Some((path, value)) if !path.is_empty() => (path, value),
                Some(_) | None => {
                    let todo = "write KEY=VALUE, as in policy.default=guard";
                    self.push(place, shown(text), "it is not KEY=VALUE".into(), todo);
                    continue;
                }
            };
            match keys::find(path) {
                Some(key) => self.given(key, place, value),
                None => self.unknown(place, &path.split('.').map(String::from).collect::<Vec<_>>()),
            }
        }
    }

    /// What stands behind `KEY=`.
    fn given(&mut self, key: &'static Key, place: Place, text: &str) {
        if let Some(value) = given(text) {
            self.take(key, place, place, &value);
            return;
        }
        let path = key.path;
        self.bad.insert(path);
        let why = "it begins with a quotation mark and is no text in quotes".into();
        let todo = format!("write {path}=VALUE, or {path}=\"VALUE\" with both marks");
        self.push(place, path.into(), why, todo);
    }

    /// The configuration, or all that is wrong with it.
    pub(super) fn end(mut self) -> Result<Config, ConfigErrors> {
        for found in contradictions(&self.config) {
            if found.keys.iter().any(|key| self.bad.contains(key)) {
                continue;
            }
            // The defaults are none, so that one of them is set.
            let at = |key: &&str| self.set.get(*key).copied().unwrap_or(Place::File);
            let [first, second] = found.keys;
            let key = if at(&second) > at(&first) { second } else { first };
            self.push(at(&key), key.into(), found.why, found.todo);
        }
        if self.wrong.is_empty() {
            return Ok(self.config);
        }
        self.wrong.sort_by_key(|wrong| wrong.place);
        let errors = self.wrong.iter().map(|wrong| self.error(wrong)).collect();
        Err(ConfigErrors { errors, more: self.more })
    }

    fn error(&self, wrong: &Wrong) -> ConfigError {
        let Wrong { place, key, why, todo } = wrong;
        let (key, why, todo) = (key.clone(), why.clone(), todo.clone());
        let (source, line, column) = match place {
            Place::File => (self.file, None, None),
            Place::Text(at) => {
                let (line, column) = line_and_column(self.text, *at);
                (self.file, Some(line), Some(column))
            }
            Place::Set(_) => (SET, None, None),
        };
        ConfigError { source: source.into(), line, column, key, why, todo }
    }

    fn push(&mut self, place: Place, key: String, why: String, todo: impl Into<String>) {
        if !self.is_one_too_many() {
            self.wrong.push(Wrong { place, key, why, todo: todo.into() });
        }
    }

    /// Counts an error that is not told. Asked before what takes time to say: a file may have an error in each of its lines.
    fn is_one_too_many(&mut self) -> bool {
        let is_full = self.wrong.len() >= ERRORS_MAX;
        self.more = self.more.saturating_add(usize::from(is_full));
        is_full
    }

    /// What stands above the first header.
    fn top(&mut self, entry: Entry) {
        let at = Place::Text(entry.at);
        match (entry.path.as_slice(), entry.found) {
            ([name], Found::Table(entries)) => {
                if let Some(section) = self.section(at, name) {
                    self.open(section, Opened::Inline, at);
                    for entry in entries {
                        self.entry(section, entry);
                    }
                }
            }
            ([_], Found::Value(_)) => self.unknown(at, &entry.path),
            ([name, rest @ ..], found) => {
                if let Some(section) = self.section(at, name) {
                    self.open(section, Opened::Dotted, at);
                    let found_at = entry.found_at;
                    self.entry(section, Entry { path: rest.to_vec(), at: entry.at, found, found_at });
                }
            }
            ([], _) => {}
        }
    }

    /// A key of a section.
    fn entry(&mut self, section: &'static Section, entry: Entry) {
        let at = Place::Text(entry.at);
        let path: Vec<_> = [section.name.to_owned()].into_iter().chain(entry.path).collect();
        let key = Some(&path).filter(|path| path.len() == 2).and_then(|path| keys::find(&path.join(".")));
        let Some(key) = key else {
            self.unknown(at, &path);
            return;
        };
        if let Some(first @ Place::Text(_)) = self.set.get(key.path).copied() {
            if self.is_one_too_many() {
                return;
            }
            let line = self.line_of(first);
            let why = format!("it is set twice; the first is in line {line}");
            self.push(at, key.path.into(), why, "leave one of them");
            return;
        }
        let value = match entry.found {
            Found::Value(value) => value,
            Found::Table(_) => Value::Other("a table"),
        };
        self.take(key, at, Place::Text(entry.found_at), &value);
    }

    fn take(&mut self, key: &'static Key, at: Place, value_at: Place, value: &Value) {
        self.set.insert(key.path, at);
        match key.slot.take(&mut self.config, value) {
            Ok(()) => {}
            Err(why) => {
                self.bad.insert(key.path);
                self.push(value_at, key.path.into(), why, format!("give {}", key.slot.allowed()));
            }
        }
    }

    /// The section of this name; says what there is where there is none.
    fn section(&mut self, at: Place, name: &str) -> Option<&'static Section> {
        let found = SECTIONS.iter().find(|section| section.name == name);
        if found.is_none() {
            self.unknown(at, &[name.to_owned()]);
        }
        found
    }

    /// A section stands in a file once, and is written in one way.
    fn open(&mut self, section: &'static Section, how: Opened, at: Place) {
        match self.opened.get(section.name) {
            Some((Opened::Dotted, _)) if how == Opened::Dotted => {}
            Some((_, first)) => {
                let first = *first;
                if self.is_one_too_many() {
                    return;
                }
                let why = format!("the section is begun twice; the first is in line {}", self.line_of(first));
                self.push(at, section.name.into(), why, "write all its keys in one place");
            }
            None => {
                self.opened.insert(section.name, (how, at));
            }
        }
    }

    /// A section or key that there is not.
    fn unknown(&mut self, at: Place, path: &[String]) {
        if self.is_one_too_many() {
            return;
        }
        let (why, todo) = unknown(path);
        self.push(at, shown(path.join(".")), why, todo);
    }

    fn line_of(&self, place: Place) -> usize {
        match place {
            Place::Text(at) => line_and_column(self.text, at).0,
            Place::File | Place::Set(_) => 0,
        }
    }
}

/// A value of the command line: in quotes as in a file, or without them. `None` where the quotes are wrong. Nothing that a
/// key takes begins with a quotation mark.
fn given(text: &str) -> Option<Value> {
    if !text.starts_with(['"', '\'']) {
        return Some(Value::Bare(text.into()));
    }
    let line = format!("value = {text}");
    let Document { mut tables, faults } = Document::parse(&line);
    let entries = tables.first_mut().map(|table| std::mem::take(&mut table.entries)).unwrap_or_default();
    match <[Entry; 1]>::try_from(entries) {
        Ok([Entry { found: Found::Value(value @ Value::Text(_)), .. }])
            if faults.is_empty() && tables.len() == 1 =>
        {
            Some(value)
        }
        Ok(_) | Err(_) => None,
    }
}

/// Both from 1, the column in characters.
pub(super) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at.min(text.len())];
    // A mark of the byte order is no column.
    let before = before.strip_prefix("\u{feff}".as_bytes()).unwrap_or(before);
    let lines = before.split(|byte| *byte == b'\n');
    // A byte that goes on with a character is none by itself.
    let chars = |line: &[u8]| line.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
    lines.enumerate().last().map_or((1, 1), |(n, last)| (n + 1, chars(last) + 1))
}
