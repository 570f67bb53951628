//! `enforcer man`: manual pages.

use super::{Exit, Failure};
use crate::cgroup::shown;
use std::{fs, path::PathBuf};

/// Prints the manual page, or writes one for each command
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Write enforcer.1, enforcer-shrink.1 and so on into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    // `enforcer help shrink` says what `man enforcer-shrink` says: no page of its own.
    let mut grammar = super::grammar().disable_help_subcommand(true);
    grammar.build();
    let what = "can't write manual pages to";
    let Some(dir) = &options.out else {
        let mut page = Vec::new();
        let fail = |error| Failure::new(Exit::Failed, what, "standard output", &error, "");
        clap_mangen::Man::new(grammar).render(&mut page).map_err(fail)?;
        super::print(&String::from_utf8_lossy(&page))?;
        return Ok(Exit::Done);
    };
    let fail = |error| Failure::new(Exit::Failed, what, dir, &error, "name a folder that can be written");
    fs::create_dir_all(dir).map_err(fail)?;
    clap_mangen::generate_to(grammar, dir).map_err(fail)?;
    super::print(&format!("manual pages are in {}\n", shown(dir)))?;
    Ok(Exit::Done)
}
