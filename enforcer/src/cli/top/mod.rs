//! `enforcer top`: the node's containers, live.

mod asker;
mod bar;
mod keys;
mod lines;
mod live;
mod once;
mod order;
mod pane;
mod row;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod theme;
mod view;

use super::{Exit, Failure, ask::Admin, options};
use enforcer_gate::Micros;
use order::Sort;
use theme::Theme;

const WHAT: &str = "can't show the containers";

/// Shows the node's containers live: pressure, usage, floor and limit, what is in flight, recent OOM kills
///
/// Asks the agent of this node every --interval. Keys: q ends it, ? lists the others (docs/top.md). There are
/// no colours where the environment has none. --json prints one document and ends: the agent's status and each
/// container with all its figures.
#[derive(Debug, clap::Args)]
#[command(after_help = super::ask::EXITS)]
pub(super) struct Options {
    /// Print it once, as plain text, and end
    #[arg(long)]
    once: bool,
    /// Print it once as one JSON document, {"status": ..., "containers": [...]}, and end
    #[arg(long)]
    json: bool,
    /// Time between two looks
    #[arg(long, value_name = "TIME", value_parser = options::refresh, default_value = "2s")]
    #[arg(conflicts_with_all = ["once", "json"])]
    interval: Micros,
    /// What comes first
    #[arg(long, value_name = "BY", value_enum, default_value_t = Sort::Pressure)]
    sort: Sort,
    #[command(flatten)]
    admin: Admin,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let theme = Theme::of(|name| std::env::var(name).ok());
    if options.json {
        once::json(&options.admin, options.sort)
    } else if options.once {
        once::run(&options.admin, options.sort, theme)
    } else {
        live::run(&options.admin, options.interval, options.sort, theme)
    }
}
