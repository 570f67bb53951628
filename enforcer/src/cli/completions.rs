//! `enforcer completions`: for shells.

use super::{Exit, Failure};
use clap_complete::Shell;

/// Prints the completions of a shell
///
/// For example `enforcer completions bash`, into a file below `/etc/bash_completion.d`
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Which shell
    shell: Shell,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut super::grammar(), "enforcer", &mut text);
    super::print(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Done)
}
