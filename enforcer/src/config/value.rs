//! A value as it was found, and what it is asked to be. No I/O.

use std::borrow::Cow;

/// As a file or `--set` gives it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Text in quotes.
    Text(String),
    /// `true` or `false`.
    Switch(bool),
    /// A whole number.
    Whole(i64),
    /// Another number.
    Float(f64),
    /// What no key takes, by its kind.
    Other(&'static str),
    /// Text without quotes: whatever the key wants it to be.
    Bare(String),
}

impl Value {
    pub(super) fn text(&self) -> Result<&str, String> {
        match self {
            Self::Text(text) | Self::Bare(text) => Ok(text),
            Self::Switch(_) | Self::Whole(_) | Self::Float(_) | Self::Other(_) => {
                Err(format!("it is {}, not text in quotes", self.kind()))
            }
        }
    }

    pub(super) fn switch(&self) -> Result<bool, String> {
        match self {
            Self::Switch(on) => Ok(*on),
            Self::Bare(text) => text.parse().map_err(|_| self.is_not("true or false")),
            Self::Text(_) | Self::Whole(_) | Self::Float(_) | Self::Other(_) => {
                Err(self.is_not("true or false"))
            }
        }
    }

    pub(super) fn whole(&self) -> Result<i64, String> {
        match self {
            Self::Whole(number) => Ok(*number),
            Self::Bare(text) => text.parse().map_err(|_| self.is_not("a whole number")),
            Self::Text(_) | Self::Switch(_) | Self::Float(_) | Self::Other(_) => {
                Err(self.is_not("a whole number"))
            }
        }
    }

    /// The number that it is, where it is a whole one in a file.
    pub(super) fn is_whole(&self) -> Option<i64> {
        match self {
            Self::Whole(number) => Some(*number),
            Self::Text(_) | Self::Bare(_) | Self::Switch(_) | Self::Float(_) | Self::Other(_) => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "what is that large is out of any range")]
    pub(super) fn number(&self) -> Result<f64, String> {
        match self {
            Self::Float(number) => Ok(*number),
            Self::Whole(number) => Ok(*number as f64),
            Self::Bare(text) => text.parse().map_err(|_| self.is_not("a number")),
            Self::Text(_) | Self::Switch(_) | Self::Other(_) => Err(self.is_not("a number")),
        }
    }

    fn is_not(&self, wanted: &str) -> String {
        format!("it is {}, not {wanted}", self.kind())
    }

    fn kind(&self) -> Cow<'static, str> {
        match self {
            Self::Text(_) => "text in quotes".into(),
            Self::Switch(on) => on.to_string().into(),
            Self::Whole(_) => "a whole number".into(),
            Self::Float(_) => "a number with a point".into(),
            Self::Other(kind) => (*kind).into(),
            Self::Bare(text) => format!("\"{}\"", crate::cgroup::shown(text)).into(),
        }
    }
}
