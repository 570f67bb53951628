//! The kinds of values: what each may be, how it is read, and how it is written. No I/O.

use super::{model::Config, value::Value};
use crate::{
    cgroup::shown,
    cri::address,
    duration::{self, parse_duration},
    guard::GuardMode,
    policy::{Labels, Mode, Namespaces},
    quantity::{self, parse_bytes},
};
use enforcer_gate::{Bytes, Limit, Micros};
use std::{
    fmt::{self, Write as _},
    net::SocketAddr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// `PATH_MAX` of limits.h, less its end.
pub(super) const PATH_BYTES_MAX: usize = 4095;

/// Where in a configuration a value is.
type At<T> = fn(&mut Config) -> &mut T;

/// A kind of value, with its bounds and its place.
pub(super) enum Slot {
    Switch(At<bool>),
    /// An absolute path, no longer than that.
    Path(At<PathBuf>, usize),
    Span(At<Micros>, Micros, Micros),
    Size(At<Bytes>, Bytes, Bytes),
    /// A size or none, at least that.
    Ceiling(At<Limit>, Bytes),
    Count(At<u32>, u32, u32),
    Score(At<i32>, i32, i32),
    /// Hundredths of a per cent, written as per cent from 0 to 100.
    Percent(At<u64>),
    GuardMode(At<GuardMode>, &'static [GuardMode]),
    Mode(At<Mode>, &'static [Mode]),
    /// The runtime's socket, or to be searched.
    Socket(At<Option<String>>),
    Listen(At<Option<SocketAddr>>),
    /// Empty for none.
    Label(At<String>),
    Namespaces(At<Namespaces>),
    Labels(At<Labels>),
    /// An absolute path, no longer than that, or none.
    File(At<Option<PathBuf>>, usize),
    /// The name of a node, or none.
    Name(At<Option<String>>),
}

impl Slot {
    /// Takes over the value of another configuration.
    pub(super) fn copy(&self, from: &mut Config, to: &mut Config) {
        match self {
            Self::Switch(at) => *at(to) = *at(from),
            Self::Path(at, _) => at(from).clone_into(at(to)),
            Self::Span(at, ..) => *at(to) = *at(from),
            Self::Size(at, ..) => *at(to) = *at(from),
            Self::Ceiling(at, _) => *at(to) = *at(from),
            Self::Count(at, ..) => *at(to) = *at(from),
            Self::Score(at, ..) => *at(to) = *at(from),
            Self::Percent(at) => *at(to) = *at(from),
            Self::GuardMode(at, _) => *at(to) = *at(from),
            Self::Mode(at, _) => *at(to) = *at(from),
            Self::Socket(at) | Self::Name(at) => at(from).clone_into(at(to)),
            Self::Label(at) => at(from).clone_into(at(to)),
            Self::Namespaces(at) => at(from).clone_into(at(to)),
            Self::Labels(at) => at(from).clone_into(at(to)),
            Self::Listen(at) => *at(to) = *at(from),
            Self::File(at, _) => at(from).clone_into(at(to)),
        }
    }

    /// Puts a value in its place; or why it can't be that.
    pub(super) fn take(&self, config: &mut Config, value: &Value) -> Result<(), String> {
        match self {
            Self::Switch(at) => *at(config) = value.switch()?,
            Self::Path(at, bytes_max) => *at(config) = path(value.text()?, *bytes_max)?,
            Self::Span(at, min, max) => {
                if let Some(number) = value.is_whole() {
                    return Err(format!("{number} has no unit ({})", duration::UNITS_SHOWN));
                }
                let found = parse_duration(value.text()?).map_err(|error| error.to_string())?;
                *at(config) = within(found, *min, *max, duration::exact)?;
            }
            Self::Size(at, min, max) => {
                *at(config) = within(size(value)?, *min, *max, quantity::exact)?;
            }
            Self::Ceiling(at, min) => {
                *at(config) = if value.text() == Ok("max") {
                    Limit::Max
                } else {
                    let max = Bytes::new(quantity::TARGET_BYTES_MAX);
                    Limit::Bytes(within(size(value)?, *min, max, quantity::exact)?)
                };
            }
            Self::Count(at, min, max) => *at(config) = whole(value, min, max)?,
            Self::Score(at, min, max) => *at(config) = whole(value, min, max)?,
            Self::Percent(at) => *at(config) = percent(value.number()?)?,
            Self::GuardMode(at, all) => *at(config) = choice(value, all, GuardMode::name)?,
            Self::Mode(at, all) => *at(config) = choice(value, all, Mode::name)?,
            Self::Socket(at) => *at(config) = optional(value, |text| address(text).map(|_| text.to_owned()))?,
            Self::Listen(at) => *at(config) = optional(value, listen)?,
            Self::Label(at) => *at(config) = optional(value, label)?.unwrap_or_default(),
            Self::Namespaces(at) => *at(config) = value.text()?.parse()?,
            Self::Labels(at) => *at(config) = value.text()?.parse()?,
            Self::File(at, bytes_max) => *at(config) = optional(value, |text| path(text, *bytes_max))?,
            Self::Name(at) => *at(config) = optional(value, node_name)?,
        }
        Ok(())
    }

    /// What it may be, for people.
    pub(super) fn allowed(&self) -> String {
        match self {
            Self::Switch(_) => "true or false".into(),
            Self::Path(_, bytes_max) => format!("an absolute path in quotes, of at most {bytes_max} bytes"),
            Self::Span(_, min, max) => {
                let (min, max) = (duration::exact(*min), duration::exact(*max));
                format!("a time such as \"10s\" or \"1m30s\", from {min} to {max}")
            }
            Self::Size(_, min, max) => {
                let (min, max) = (quantity::exact(*min), quantity::exact(*max));
                format!("a quantity such as \"256Mi\", or a number of bytes, from {min} to {max}")
            }
            Self::Ceiling(_, min) => {
                let min = quantity::exact(*min);
                format!("\"max\", or a quantity such as \"256Mi\", or a number of bytes, {min} or more")
            }
            Self::Count(_, min, max) => format!("a whole number from {min} to {max}"),
            Self::Score(_, min, max) => format!("a whole number from {min} to {max}"),
            Self::Percent(_) => "a number from 0 to 100 with at most two digits behind the point".into(),
            Self::GuardMode(_, all) => choices(all.iter().map(|mode| mode.name())),
            Self::Mode(_, all) => choices(all.iter().map(|mode| mode.name())),
            Self::Socket(_) => "\"\", an absolute path, or unix:// and one".into(),
            Self::Listen(_) => "\"\", or an address and a port such as \"127.0.0.1:9464\"".into(),
            Self::Label(_) => "\"\", or the key of a label such as \"example.com/name\"".into(),
            Self::Namespaces(_) => {
                "\"\" for all, names such as \"a,b\", or all but some such as \"!a,!b\"".into()
            }
            Self::Labels(_) => "\"\" for all, or a selector such as \"tier in (batch,dev),!critical\"".into(),
            Self::File(_, bytes_max) => format!("\"\", or an absolute path of at most {bytes_max} bytes"),
            Self::Name(_) => "\"\", or the name of a node such as \"node-1.example.com\"".into(),
        }
    }

    /// The value that a configuration has here, as it stands in a file; nothing of it is rounded.
    pub(super) fn written(&self, config: &Config) -> String {
        let config = &mut config.clone();
        let some = |text: Option<String>| quoted(&text.unwrap_or_default());
        match self {
            Self::Switch(at) => at(config).to_string(),
            Self::Path(at, _) => quoted(&at(config).to_string_lossy()),
            Self::Span(at, ..) => quoted(&duration::exact(*at(config))),
            Self::Size(at, ..) => quoted(&quantity::exact(*at(config))),
            Self::Ceiling(at, _) => match *at(config) {
                Limit::Bytes(bytes) => quoted(&quantity::exact(bytes)),
                Limit::Max => quoted("max"),
            },
            Self::Count(at, ..) => at(config).to_string(),
            Self::Score(at, ..) => at(config).to_string(),
            Self::Percent(at) => {
                let (whole, hundredths) = (*at(config) / 100, *at(config) % 100);
                match (hundredths / 10, hundredths % 10) {
                    (tenths, 0) => format!("{whole}.{tenths}"),
                    _ => format!("{whole}.{hundredths:02}"),
                }
            }
            Self::GuardMode(at, _) => quoted(at(config).name()),
            Self::Mode(at, _) => quoted(at(config).name()),
            Self::Socket(at) | Self::Name(at) => some(at(config).clone()),
            Self::Label(at) => quoted(at(config)),
            Self::Namespaces(at) => quoted(&at(config).to_string()),
            Self::Labels(at) => quoted(&at(config).to_string()),
            Self::Listen(at) => some(at(config).map(|listen| listen.to_string())),
            Self::File(at, _) => some(at(config).as_ref().map(|path| path.to_string_lossy().into_owned())),
        }
    }
}

/// As a TOML basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a String can't fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn within<T: PartialOrd + Copy>(found: T, min: T, max: T, exact: fn(T) -> String) -> Result<T, String> {
    if found < min {
        Err(format!("{} is too little", exact(found)))
    } else if found > max {
        Err(format!("{} is too much", exact(found)))
    } else {
        Ok(found)
    }
}

fn size(value: &Value) -> Result<Bytes, String> {
    if let Some(number) = value.is_whole() {
        return u64::try_from(number).map(Bytes::new).map_err(|_| "it is negative".into());
    }
    parse_bytes(value.text()?).map_err(|error| error.to_string())
}

fn whole<T: TryFrom<i64> + PartialOrd>(value: &Value, min: &T, max: &T) -> Result<T, String> {
    let number = value.whole()?;
    match T::try_from(number) {
        Ok(found) if found >= *min && found <= *max => Ok(found),
        Ok(_) | Err(_) => Err(format!("{number} is out of range")),
    }
}

/// In hundredths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number from 0 to 10000 by then"
)]
fn percent(found: f64) -> Result<u64, String> {
    if !(0.0..=100.0).contains(&found) {
        return Err(format!("{found} is out of range"));
    }
    let hundredths = (found * 100.0).round();
    // What floats make of two digits is nearer than that.
    if (found * 100.0 - hundredths).abs() > 1e-6 {
        return Err(format!("{found} has more than two digits behind the point"));
    }
    Ok(hundredths as u64)
}

fn choice<T: Copy>(value: &Value, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    let text = value.text()?;
    let found = all.iter().find(|one| name(**one) == text);
    found.copied().ok_or_else(|| format!("\"{}\" is none of them", shown(text)))
}

fn choices(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.map(|name| format!("\"{name}\"")).collect();
    format!("one of {}", names.join(", "))
}

/// Nothing where the text is empty.
fn optional<T, E: fmt::Display>(
    value: &Value,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, String> {
    match value.text()? {
        "" => Ok(None),
        text => parse(text).map(Some).map_err(|error| error.to_string()),
    }
}

/// A DNS subdomain (RFC 1123), which names of nodes are.
fn node_name(text: &str) -> Result<String, String> {
    let is_part = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    if text.len() <= 253 && text.split('.').all(is_part) {
        Ok(text.into())
    } else {
        Err(format!("\"{}\" is no name of a node", shown(text)))
    }
}

fn path(text: &str, bytes_max: usize) -> Result<PathBuf, String> {
    let path = Path::new(text);
    if text.contains('\0') {
        return Err("it has a zero byte in it".into());
    }
    if !path.is_absolute() {
        return Err(format!("\"{}\" is not absolute", shown(path)));
    }
    let bytes = path.as_os_str().as_bytes().len();
    if bytes > bytes_max {
        return Err(format!("it is {bytes} bytes long"));
    }
    Ok(path.into())
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let listen: SocketAddr =
        text.parse().map_err(|_| format!("\"{}\" is no address with a port", shown(text)))?;
    if listen.port() == 0 { Err("port 0 is another one at each start".into()) } else { Ok(listen) }
}

/// The key of a label: `[prefix/]name` (Kubernetes' `IsQualifiedName`, `apimachinery/pkg/util/validation`).
fn label(text: &str) -> Result<String, String> {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let ends = |text: &str, is: fn(&u8) -> bool| {
        let bytes = text.as_bytes();
        bytes.first().is_some_and(is) && bytes.last().is_some_and(is)
    };
    let is_name = name.len() <= 63
        && ends(name, u8::is_ascii_alphanumeric)
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let is_part = |part: &str| {
        let is = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        ends(part, is) && part.bytes().all(|byte| is(&byte) || byte == b'-')
    };
    if !is_name {
        return Err(format!(
            "\"{}\" is no name of a label: that is up to 63 letters, digits, \"-\", \"_\" and \".\", the first and \
             the last a letter or digit",
            shown(name)
        ));
    }
    if prefix.is_some_and(|prefix| prefix.len() > 253 || !prefix.split('.').all(is_part)) {
        return Err(format!("\"{}\" is no domain in lower case", shown(prefix.unwrap_or_default())));
    }
    Ok(text.into())
}
