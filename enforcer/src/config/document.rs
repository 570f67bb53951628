//! The text of a TOML file as sections, keys and values with where they stand. Reads on after an error, so that all
//! of them are found. No I/O.

use super::value::Value;
use crate::cgroup::shown;
use std::borrow::Cow;
use toml_parser::{
    Expected, ParseError, Source,
    decoder::ScalarKind,
    parser::{Event, EventKind, RecursionGuard, ValidateWhitespace, parse_document},
};

/// No key takes a list or a table, so deeper ones need not be read.
const DEPTH_MAX: u32 = 16;

/// What a text holds, in its order. Positions are bytes from its start.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// What stands above the first header, and what stands below each.
    pub(super) tables: Vec<Table>,
    /// Every fault of the text itself.
    pub(super) faults: Vec<Fault>,
}

/// A header and what is below it.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Empty above the first header; `None` where it can't be told.
    pub(super) path: Option<Vec<String>>,
    pub(super) at: usize,
    /// Whether it is one of a list (`[[name]]`).
    pub(super) is_listed: bool,
    pub(super) entries: Vec<Entry>,
}

/// A key and what it is set to.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: Vec<String>,
    pub(super) at: usize,
    pub(super) found: Found,
    pub(super) found_at: usize,
}

/// What a key is set to.
#[derive(Debug)]
pub(super) enum Found {
    Value(Value),
    /// A table on one line.
    Table(Vec<Entry>),
}

/// What is wrong with the text.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) at: usize,
    /// The key, where it is known.
    pub(super) path: Vec<String>,
    pub(super) why: String,
    pub(super) todo: String,
}

impl Document {
    pub(super) fn parse(text: &str) -> Self {
        let source = Source::new(text);
        let tokens = source.lex().into_vec();
        let (mut events, mut errors) = (Vec::new(), Vec::new());
        let mut receiver = ValidateWhitespace::new(&mut events, source);
        let mut receiver = RecursionGuard::new(&mut receiver, DEPTH_MAX);
        parse_document(&tokens, &mut receiver, &mut errors);
        let mut reader = Reader { source, events: &events, errors, faults: Vec::new(), above: Vec::new() };
        let tables = reader.tables();
        let Reader { errors, mut faults, .. } = reader;
        faults.extend(errors.iter().map(|error| fault(error, text.len())));
        Self { tables, faults }
    }
}

fn fault(error: &ParseError, end: usize) -> Fault {
    let expected = error.expected().unwrap_or_default().iter().map(|expected| match expected {
        Expected::Literal("\n") => "the end of the line".into(),
        Expected::Literal(literal) => format!("{literal:?}"),
        Expected::Description(description) => (*description).into(),
        // The enum is another crate's, and may grow.
        _ => "something else".into(),
    });
    let expected = expected.collect::<Vec<_>>().join(" or ");
    let todo = if expected.is_empty() { String::new() } else { format!("there should be {expected}") };
    let span = error.unexpected().or(error.context());
    let at = span.map_or(end, |span| span.start());
    Fault { at, path: Vec::new(), why: error.description().into(), todo }
}

/// Goes through the events of the parser.
struct Reader<'a> {
    source: Source<'a>,
    events: &'a [Event],
    errors: Vec<ParseError>,
    /// What the parser's own errors do not say as well.
    faults: Vec<Fault>,
    /// The last header.
    above: Vec<String>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<EventKind> {
        self.events.first().map(Event::kind)
    }

    fn next(&mut self) -> Option<Event> {
        let (first, rest) = self.events.split_first()?;
        self.events = rest;
        Some(*first)
    }

    fn tables(&mut self) -> Vec<Table> {
        let mut tables = vec![Table { path: Some(Vec::new()), ..Table::default() }];
        while let Some(event) = self.next() {
            match event.kind() {
                EventKind::StdTableOpen | EventKind::ArrayTableOpen => {
                    self.skip_blank();
                    let first = self.next();
                    let path = first.and_then(|first| self.path(first));
                    self.above = path.clone().unwrap_or_default();
                    let is_listed = event.kind() == EventKind::ArrayTableOpen;
                    tables.push(Table { path, at: event.span().start(), is_listed, entries: Vec::new() });
                }
                EventKind::SimpleKey => {
                    let entry = self.entry(event);
                    // There is one from the start.
                    if let (Some(entry), Some(table)) = (entry, tables.last_mut()) {
                        table.entries.push(entry);
                    }
                }
                EventKind::StdTableClose
                | EventKind::ArrayTableClose
                | EventKind::InlineTableOpen
                | EventKind::InlineTableClose
                | EventKind::ArrayOpen
                | EventKind::ArrayClose
                | EventKind::KeySep
                | EventKind::KeyValSep
                | EventKind::Scalar
                | EventKind::ValueSep
                | EventKind::Whitespace
                | EventKind::Comment
                | EventKind::Newline
                | EventKind::Error => {}
            }
        }
        tables
    }

    fn skip_blank(&mut self) {
        while self.peek() == Some(EventKind::Whitespace) {
            self.next();
        }
    }

    /// A key with all its parts; `None` where one is not whole.
    fn path(&mut self, first: Event) -> Option<Vec<String>> {
        let before = self.errors.len();
        let mut path = vec![self.key(first)];
        while let Some(EventKind::Whitespace | EventKind::KeySep | EventKind::SimpleKey) = self.peek() {
            match self.next() {
                Some(event) if event.kind() == EventKind::SimpleKey => path.push(self.key(event)),
                Some(_) | None => {}
            }
        }
        (self.errors.len() == before).then_some(path)
    }

    fn key(&mut self, event: Event) -> String {
        let mut key = Cow::Borrowed("");
        if event.kind() == EventKind::SimpleKey
            && let Some(raw) = self.source.get(event)
        {
            raw.decode_key(&mut key, &mut self.errors);
        }
        key.into_owned()
    }

    fn entry(&mut self, first: Event) -> Option<Entry> {
        let path = self.path(first);
        if self.peek() == Some(EventKind::KeyValSep) {
            self.next();
        }
        self.skip_blank();
        let found_at = self.events.first().map_or(0, |event| event.span().start());
        let found = self.value(path.as_deref().unwrap_or_default());
        Some(Entry { path: path?, at: first.span().start(), found: found?, found_at })
    }

    /// `None` where there is none, or none that is whole: then the error is known.
    fn value(&mut self, path: &[String]) -> Option<Found> {
        match self.peek()? {
            EventKind::Scalar => {
                let event = self.next()?;
                self.scalar(event, path).map(Found::Value)
            }
            EventKind::InlineTableOpen => {
                self.next();
                Some(Found::Table(self.inline()))
            }
            EventKind::ArrayOpen => {
                self.skip_nested();
                Some(Found::Value(Value::Other("a list")))
            }
            EventKind::StdTableOpen
            | EventKind::StdTableClose
            | EventKind::ArrayTableOpen
            | EventKind::ArrayTableClose
            | EventKind::InlineTableClose
            | EventKind::ArrayClose
            | EventKind::SimpleKey
            | EventKind::KeySep
            | EventKind::KeyValSep
            | EventKind::ValueSep
            | EventKind::Whitespace
            | EventKind::Comment
            | EventKind::Newline
            | EventKind::Error => None,
        }
    }

    fn scalar(&mut self, event: Event, path: &[String]) -> Option<Value> {
        let before = self.errors.len();
        let mut text = Cow::Borrowed("");
        let raw = self.source.get(event)?;
        let kind = raw.decode_scalar(&mut text, &mut self.errors);
        let is_whole = self.errors.len() == before;
        if !is_whole && event.encoding().is_some() {
            return None;
        }
        let value = match kind {
            _ if !is_whole => None,
            ScalarKind::String => Some(Value::Text(text.into_owned())),
            ScalarKind::Boolean(on) => Some(Value::Switch(on)),
            ScalarKind::DateTime => Some(Value::Other("a date or a time of day")),
            ScalarKind::Float => text.parse().ok().map(Value::Float),
            ScalarKind::Integer(radix) => i64::from_str_radix(&text, radix.value()).ok().map(Value::Whole),
        };
        if value.is_none() {
            self.errors.truncate(before);
            let raw = shown(raw.as_str());
            let (why, todo) = match raw.as_str() {
                "" => ("there is no value".into(), String::new()),
                raw => (format!("{raw} is no value"), format!("text stands in quotes: \"{raw}\"")),
            };
            let path = [self.above.as_slice(), path].concat();
            self.faults.push(Fault { at: event.span().start(), path, why, todo });
        }
        value
    }

    /// The keys of a table on one line, up to its end.
    fn inline(&mut self) -> Vec<Entry> {
        let mut entries = Vec::new();
        while let Some(kind) = self.peek() {
            match kind {
                EventKind::StdTableOpen | EventKind::ArrayTableOpen => break,
                EventKind::InlineTableClose => {
                    self.next();
                    break;
                }
                EventKind::SimpleKey => {
                    let entry = self.next().and_then(|first| self.entry(first));
                    entries.extend(entry);
                }
                EventKind::ArrayOpen | EventKind::InlineTableOpen => self.skip_nested(),
                EventKind::StdTableClose
                | EventKind::ArrayTableClose
                | EventKind::ArrayClose
                | EventKind::KeySep
                | EventKind::KeyValSep
                | EventKind::Scalar
                | EventKind::ValueSep
                | EventKind::Whitespace
                | EventKind::Comment
                | EventKind::Newline
                | EventKind::Error => {
                    self.next();
                }
            }
        }
        entries
    }

    /// Over a list or a table on one line, with all that is in it.
    fn skip_nested(&mut self) {
        let mut depth = 0_usize;
        while let Some(kind) = self.peek() {
            match kind {
                EventKind::StdTableOpen | EventKind::ArrayTableOpen => return,
                EventKind::ArrayOpen | EventKind::InlineTableOpen => depth += 1,
                EventKind::ArrayClose | EventKind::InlineTableClose => depth = depth.saturating_sub(1),
                EventKind::StdTableClose
                | EventKind::ArrayTableClose
                | EventKind::SimpleKey
                | EventKind::KeySep
                | EventKind::KeyValSep
                | EventKind::Scalar
                | EventKind::ValueSep
                | EventKind::Whitespace
                | EventKind::Comment
                | EventKind::Newline
                | EventKind::Error => {}
            }
            self.next();
            if depth == 0 {
                return;
            }
        }
    }
}
