//! `enforcer config check`

use super::{Set, report};
use crate::{
    cgroup::shown,
    cli::{Exit, Failure, json, options::Json, print},
    config::{Config, FILE_DEFAULT},
};
use serde::Serialize;
use std::path::PathBuf;

const WHAT: &str = "the configuration is wrong";

/// Reads a configuration as the agent would, and tells every error of it
///
/// Each with its file, line and column, the key, what is wrong and what is allowed. Exit code 64 where there is one.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The file [default: /etc/enforcer/enforcer.toml, where there is one]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    set: Set,
    #[command(flatten)]
    json: Json,
}

/// A configuration without an error.
#[derive(Serialize)]
struct Fine {
    ok: bool,
    /// `null` where there is no file.
    file: Option<String>,
    warnings: Vec<String>,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let Options { file, set, json } = options;
    let (_, loaded) = match Config::load(file.as_deref(), &set.set) {
        Ok(found) => found,
        Err(errors) => return Ok(report::wrong(WHAT, &errors, json.json)),
    };
    let fine = Fine { ok: true, file: loaded.file.map(shown), warnings: loaded.warnings };
    print(&if json.json { json::line(&fine) } else { fine.render() })?;
    Ok(Exit::Done)
}

impl Fine {
    fn render(&self) -> String {
        let mut text = match &self.file {
            Some(file) => format!("ok: {file}\n"),
            None => format!("ok: there is no {FILE_DEFAULT}, and what is not set is at its default\n"),
        };
        for warning in &self.warnings {
            text.extend(["warning: ", warning, "\n"]);
        }
        text
    }
}
