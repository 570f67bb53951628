//! The configuration of the agent (`enforcer run`): one TOML file, and `--set KEY=VALUE` over it.
//!
//! `keys` is the one table of what there is. `document` reads text, `judge` makes a [`Config`] or every error of it;
//! only `file` and `changes` do I/O. docs/configuration.md is made from the table.

mod changes;
mod contradictions;
mod document;
#[cfg(test)]
mod documented;
mod error;
mod file;
mod judge;
mod keys;
mod model;
mod nearest;
mod print;
#[cfg(test)]
mod properties;
mod slot;
#[cfg(test)]
mod tests;
mod unknown;
mod value;

pub use changes::Changes;
pub use error::{ConfigError, ConfigErrors};
pub use file::Version;
pub use model::{Agent, Config, Cri, Drift, Gate, Guard, Http, Kubernetes, Oom, Overhead};
pub use print::default_file;

use crate::cgroup::shown;
use judge::{Judge, line_and_column};
use keys::Takes;
use std::{
    io,
    path::{Path, PathBuf},
};

/// The file, where none is named.
pub const FILE_DEFAULT: &str = "/etc/enforcer/enforcer.toml";

/// What a configuration was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The file; `None` where there is none, and nothing was named.
    pub file: Option<PathBuf>,
    /// Which one it was, to see when it is another.
    pub version: Option<Version>,
    /// What a person should look at all the same; fit to print.
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads the file `path`, or [`FILE_DEFAULT`] where that exists, and takes `overrides` (`KEY=VALUE`) over it.
    ///
    /// # Errors
    /// Every error of the file, of the overrides and of both together, at once.
    pub fn load(path: Option<&Path>, overrides: &[String]) -> Result<(Self, Loaded), ConfigErrors> {
        load(path.unwrap_or(Path::new(FILE_DEFAULT)), path.is_some(), overrides)
    }

    /// As [`Self::load`], from a text; `name` is what errors call it.
    pub fn parse(name: &str, text: &str, overrides: &[String]) -> Result<Self, ConfigErrors> {
        let name = shown(name);
        let mut judge = Judge::new(&name);
        judge.text(text);
        judge.overrides(overrides);
        judge.end()
    }
}

fn load(path: &Path, is_named: bool, overrides: &[String]) -> Result<(Config, Loaded), ConfigErrors> {
    let name = shown(path);
    let mut judge = Judge::new(&name);
    let mut loaded = Loaded { file: Some(path.into()), version: None, warnings: Vec::new() };
    let read = file::read(path);
    match &read {
        Ok(file::Read { bytes, open_to, version }) => {
            loaded.version = Some(*version);
            let warning = |who| format!("{who} can change {name}: make it root's own, and chmod go-w it");
            loaded.warnings.extend(open_to.map(warning));
            match text(bytes) {
                Ok(text) => judge.text(text),
                Err((why, todo)) => judge.unreadable(why, todo),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => loaded.file = None,
        Err(error) => {
            let todo = if error.kind() == io::ErrorKind::NotFound {
                "enforcer config default > FILE makes one"
            } else {
                "name a file that this user can read"
            };
            judge.unreadable(format!("it can't be read: {error}"), todo);
        }
    }
    judge.overrides(overrides);
    judge.end().map(|config| (config, loaded))
}

/// The text of a file; or why it is none, and what to do.
fn text(bytes: &[u8]) -> Result<&str, (String, &'static str)> {
    if bytes.len() as u64 > file::FILE_BYTES_MAX {
        return Err((
            format!("it is larger than {} bytes", file::FILE_BYTES_MAX),
            "name a configuration file",
        ));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let whole = error.valid_up_to();
        let before = str::from_utf8(&bytes[..whole]).unwrap_or_default();
        let (line, column) = line_and_column(before, whole);
        let why = format!("it is no UTF-8 from line {line}, column {column} on: byte 0x{:02x}", bytes[whole]);
        (why, "save it as UTF-8")
    })
}

/// What a running agent makes of a new configuration: the new values, but of the keys that need a restart.
#[must_use]
pub fn taken(running: &Config, mut new: Config) -> Config {
    let mut running = running.clone();
    for key in keys::all().filter(|key| key.takes == Takes::Restart) {
        key.slot.copy(&mut running, &mut new);
    }
    new
}

/// The keys of which a running agent takes no new value, where that differs.
pub fn changes_needing_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let fixed = keys::all().filter(|key| key.takes == Takes::Restart);
    fixed.filter(|key| key.slot.written(old) != key.slot.written(new)).map(|key| key.path).collect()
}
