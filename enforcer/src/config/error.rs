//! What is wrong with a configuration: every error, each with its place and the way out.

use crate::cgroup::printable;
use serde::Serialize;
use std::fmt::{self, Write as _};

/// Most errors that are kept; more are counted.
pub(super) const ERRORS_MAX: usize = 256;

/// What is given as source of what stands on the command line.
pub(super) const SET: &str = "--set";

/// One error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigError {
    /// The file, or `--set`; fit to print.
    pub source: String,
    /// The line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column in characters, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The key or section; empty where it is about the whole file. Fit to print.
    pub key: String,
    /// What is wrong.
    pub why: String,
    /// What to do about it; empty where `why` says it.
    #[serde(rename = "do", skip_serializing_if = "String::is_empty")]
    pub todo: String,
}

impl ConfigError {
    /// What is wrong and where, without what to do.
    pub fn place_and_why(&self) -> String {
        let Self { source, line, column, key, why, todo: _ } = self;
        let mut text = source.clone();
        // Writing to a String can't fail.
        for number in [line, column].into_iter().flatten() {
            let _ = write!(text, ":{number}");
        }
        text.push_str(if source == SET { " " } else { ": " });
        if !key.is_empty() {
            let _ = write!(text, "{key}: ");
        }
        text.push_str(why);
        printable(&text)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place_and_why())?;
        if self.todo.is_empty() { Ok(()) } else { write!(f, "; {}", printable(&self.todo)) }
    }
}

impl std::error::Error for ConfigError {}

/// Every error of a configuration, in the order of the file and the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    pub(super) errors: Vec<ConfigError>,
    pub(super) more: usize,
}

impl ConfigErrors {
    /// At least one, and at most 256.
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// How many there are beyond those.
    pub fn more(&self) -> usize {
        self.more
    }

    /// In one line: the first, how many there are, and what lists them.
    pub fn in_short(&self) -> String {
        let first = self.errors.first().map(ConfigError::place_and_why).unwrap_or_default();
        match self.errors.len().saturating_add(self.more) {
            0 | 1 => first,
            count => format!("{count} errors, the first is {first} (enforcer config check lists them)"),
        }
    }
}

impl fmt::Display for ConfigErrors {
    /// One a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.errors.iter().enumerate() {
            let end = if n == 0 { "" } else { "\n" };
            write!(f, "{end}{error}")?;
        }
        if self.more > 0 { write!(f, "\nand {} more", self.more) } else { Ok(()) }
    }
}

impl std::error::Error for ConfigErrors {}
