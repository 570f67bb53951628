//! How a configuration is told that can't be used.

use crate::{
    cli::{
        Exit, Failure,
        failure::{Reason, to_stderr},
        json,
    },
    config::{ConfigError, ConfigErrors},
};
use serde::Serialize;

/// As JSON: like [`Failure`], and each reason with its place.
#[derive(Serialize)]
struct Fields<'a> {
    error: Error<'a>,
}

#[derive(Serialize)]
struct Error<'a> {
    exit: u8,
    what: &'a str,
    on: &'a str,
    reasons: &'a [ConfigError],
    /// Errors beyond those.
    more: usize,
}

/// Tells every error on standard error. `what` says what can't be done with it.
pub(in crate::cli) fn wrong(what: &str, errors: &ConfigErrors, as_json: bool) -> Exit {
    let exit = Exit::Usage;
    if as_json {
        let (reasons, more) = (errors.errors(), errors.more());
        to_stderr(&json::line(&Fields { error: Error { exit: exit.code(), what, on: "", reasons, more } }));
        return exit;
    }
    let reason = |error: &ConfigError| Reason { why: error.place_and_why(), todo: error.todo.clone() };
    let mut reasons: Vec<_> = errors.errors().iter().map(reason).collect();
    if errors.more() > 0 {
        reasons.push(Reason { why: format!("and {} more", errors.more()), todo: String::new() });
    }
    Failure { exit, what: what.into(), on: String::new(), reasons }.print(false);
    exit
}
