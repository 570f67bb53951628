//! The whole screen, from what is known: a function of its inputs.

use super::{
    lines, pane,
    row::Columns,
    state::{App, Pane},
    theme::Theme,
};
use enforcer_gate::{Bytes, Limit};
use ratatui::{buffer::Buffer, layout::Rect, text::Line};

/// The least that anything fits in.
pub(super) const SIZE_MIN: (u16, u16) = (40, 10);

/// Draws it into `area`, of which the buffer has all.
pub(super) fn render(app: &App, now_us: u64, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let mut canvas = Canvas { area, buffer };
    if area.width < SIZE_MIN.0 || area.height < SIZE_MIN.1 {
        canvas.put(0, &Line::raw(format!("too small: {}x{} is the least", SIZE_MIN.0, SIZE_MIN.1)));
        return;
    }
    match &app.pane {
        Pane::List | Pane::Confirm(_) => list(app, now_us, theme, &mut canvas),
        Pane::Help { scroll } => scrolled(app, "help", *scroll, theme, &mut canvas),
        Pane::Explain(explain) => scrolled(app, "explain", explain.scroll, theme, &mut canvas),
    }
    canvas.put(area.height - 1, &lines::foot(app, theme));
}

struct Canvas<'a> {
    area: Rect,
    buffer: &'a mut Buffer,
}

impl Canvas<'_> {
    fn put(&mut self, row: u16, line: &Line<'_>) {
        if row < self.area.height {
            self.buffer.set_line(self.area.x, self.area.y + row, line, self.area.width);
        }
    }

    fn put_all(&mut self, row: u16, lines: &[Line<'_>]) {
        for (row, line) in (row..).zip(lines) {
            self.put(row, line);
        }
    }
}

/// Lines above the list, of the list with its heading, and of what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    head: u16,
    list: u16,
    recent: u16,
}

fn parts(app: &App, now_us: u64, theme: Theme, height: u16) -> Parts {
    let height = height.saturating_sub(1);
    let wanted = lines::head(app, now_us, theme).len();
    let head = u16::try_from(wanted).unwrap_or(u16::MAX).min(height / 2);
    let recent = match height {
        0..14 => 0,
        14..20 => 3,
        20..30 => 5,
        _ => 8,
    };
    Parts { head, list: height.saturating_sub(head + recent), recent }
}

/// Containers that are shown at once. Whether a banner shows may change it by a line; a page is no promise.
pub(super) fn rows(app: &App) -> usize {
    let theme = Theme { colour: false, unicode: false };
    usize::from(parts(app, app.begun_us, theme, app.size.1).list.saturating_sub(1))
}

fn list(app: &App, now_us: u64, theme: Theme, canvas: &mut Canvas<'_>) {
    let Rect { width, height, .. } = canvas.area;
    let Parts { head, list, recent } = parts(app, now_us, theme, height);
    canvas.put_all(0, &lines::head(app, now_us, theme)[..usize::from(head)]);
    let columns = Columns::of(usize::from(width));
    canvas.put(head, &columns.heading(theme));
    let rows = usize::from(list.saturating_sub(1));
    // By whole pages: nothing moves while the selection does.
    if let Some(page) = app.position().checked_div(rows) {
        let first = page * rows;
        for (at, line) in containers(app, columns, theme).enumerate().skip(first).take(rows) {
            let row = head + 1 + u16::try_from(at - first).unwrap_or(u16::MAX);
            canvas.put(row, &line);
            if at == app.position() {
                let line = Rect { y: canvas.area.y + row, height: 1, ..canvas.area };
                canvas.buffer.set_style(line, theme.selected());
            }
        }
        if app.containers().is_empty() && app.snapshot.is_some() {
            canvas.put(head + 1, &Line::raw("no container runs"));
        }
    }
    let happened = lines::recent(app, usize::from(recent), usize::from(width), theme);
    canvas.put_all(head + list, &happened);
}

/// Every container as a line; none is made before it is asked for.
pub(super) fn containers(app: &App, columns: Columns, theme: Theme) -> impl Iterator<Item = Line<'static>> {
    let flights = app.snapshot.as_ref().map_or(&[][..], |snapshot| &snapshot.status.in_flight);
    let without_limit = app.containers().iter().filter(|view| !matches!(view.limit, Some(Limit::Bytes(_))));
    let unlimited = without_limit.filter_map(|view| view.usage).max().unwrap_or(Bytes::ZERO);
    app.containers().iter().map(move |view| columns.row(view, flights, unlimited, theme))
}

fn scrolled(app: &App, what: &str, scroll: usize, theme: Theme, canvas: &mut Canvas<'_>) {
    let all = pane::text(app);
    let page = pane::page((canvas.area.width, canvas.area.height));
    let last = (scroll + page).min(all.len());
    let title = format!("{what}: lines {} to {last} of {}", scroll + 1, all.len());
    canvas.put(0, &Line::styled(title, theme.title()));
    let lines: Vec<_> = all.into_iter().skip(scroll).take(page).map(Line::raw).collect();
    canvas.put_all(1, &lines);
}
