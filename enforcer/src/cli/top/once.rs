//! `enforcer top --once`: what the screen would show, as text.

use super::{
    WHAT, lines,
    order::Sort,
    row::Columns,
    state::{Answer, App, Snapshot},
    theme::Theme,
    view,
};
use crate::{
    admin::model::{ContainerView, Status},
    cli::{Exit, Failure, ask::Admin, json, print},
    clock::wall_us,
};
use ratatui::text::Line;
use serde::Serialize;

/// Where the terminal does not tell its width.
const WIDTH: usize = 80;
/// Happenings that are shown.
const RECENT_MAX: usize = 20;

pub(super) fn run(admin: &Admin, sort: Sort, theme: Theme) -> Result<Exit, Failure> {
    let asked = admin.ask(WHAT, async |client| Ok((client.status().await?, client.containers().await?)));
    let (status, containers) = asked?;
    let now_us = wall_us();
    let mut app = App::new(sort, now_us, u64::MAX);
    app.answered(Answer::Look(Box::new(Snapshot { status, containers, at_us: now_us })));
    let width = terminal_size::terminal_size_of(std::io::stdout()).map_or(WIDTH, |(width, _)| width.0.into());
    print(&text(&app, now_us, width, theme))?;
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Document<'a> {
    status: &'a Status,
    containers: &'a [ContainerView],
}

/// All of it as one document, in the order asked for.
pub(super) fn json(admin: &Admin, sort: Sort) -> Result<Exit, Failure> {
    let asked = admin.ask(WHAT, async |client| Ok((client.status().await?, client.containers().await?)));
    let (status, mut containers) = asked?;
    sort.apply(&mut containers);
    print(&json::line(&Document { status: &status, containers: &containers }))?;
    Ok(Exit::Done)
}

pub(super) fn text(app: &App, now_us: u64, width: usize, theme: Theme) -> String {
    let width = width.max(view::SIZE_MIN.0.into());
    let columns = Columns::of(width);
    let mut all = lines::head(app, now_us, theme);
    all.push(columns.heading(theme));
    let recent = lines::recent(app, RECENT_MAX, width, theme);
    let mut text = String::new();
    for line in all.into_iter().chain(view::containers(app, columns, theme)).chain(recent) {
        text.push_str(plain(&line).trim_end());
        text.push('\n');
    }
    text
}

fn plain(line: &Line<'_>) -> String {
    line.iter().map(|span| span.content.as_ref()).collect()
}
