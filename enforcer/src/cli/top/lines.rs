//! The lines around the list: how the agent does, what happened, which keys there are. No I/O.

use super::{
    state::{App, Pane, Snapshot, Switch},
    theme::{Theme, Weight},
};
use crate::{
    admin::model::{Flight, Happening, HappeningKind, Part, PartState, Status},
    cgroup::printable,
    utc::utc,
};
use enforcer_gate::Micros;
use ratatui::text::{Line, Span};

/// What is above the list: who answers, how its parts are, and whatever is not as usual.
pub(super) fn head(app: &App, now_us: u64, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = match &app.snapshot {
        Some(snapshot) => vec![agent(&snapshot.status, theme), parts(&snapshot.status, theme)],
        None => vec![Line::styled("enforcer top", theme.title()), Line::raw("no answer yet")],
    };
    lines.extend(silence(app, now_us).map(|text| Line::styled(text, theme.banner())));
    if let Some(Snapshot { status, .. }) = &app.snapshot {
        if status.paused {
            let text = " PAUSED: no limit is changed. P lets the agent go on. ";
            lines.push(Line::styled(text, theme.banner()));
        }
        lines.extend(flight(&status.in_flight, theme));
    }
    lines
}

fn agent(status: &Status, theme: Theme) -> Line<'static> {
    let Status { version, uptime, kernel, pods, containers, .. } = status;
    Line::from(vec![
        Span::styled(format!("enforcer {}", printable(version)), theme.title()),
        Span::raw(format!(
            "  up {uptime}  pods {pods}  containers {containers}  Linux {}",
            printable(kernel)
        )),
    ])
}

/// Those that are not ready by name, the others by number.
fn parts(status: &Status, theme: Theme) -> Line<'static> {
    let ready = status.parts.iter().filter(|part| part.state == PartState::Ready).count();
    let mut spans = vec![Span::raw(format!("parts: {ready} ready"))];
    for part in &status.parts {
        let weight = match part.state {
            PartState::Ready => continue,
            PartState::Off => Weight::Calm,
            PartState::Starting | PartState::Degraded => Weight::Notable,
            PartState::Failed => Weight::Grave,
        };
        let Part { name, state, why } = part;
        let why = if why.is_empty() { String::new() } else { format!(" ({})", printable(why)) };
        spans.push(Span::raw(", "));
        spans.push(Span::styled(
            format!("{} {}{why}", printable(name), state.name()),
            theme.of_weight(weight),
        ));
    }
    let lost = status.lost.values().fold(0_u64, |sum, lost| sum.saturating_add(*lost));
    if lost > 0 {
        spans.push(Span::styled(format!(", {lost} lost"), theme.of_weight(Weight::Notable)));
    }
    Line::from(spans)
}

/// That the agent does not answer, and since when.
fn silence(app: &App, now_us: u64) -> Option<String> {
    let last = app.snapshot.as_ref().map(|snapshot| snapshot.at_us);
    match (&app.silence, last) {
        (Some(why), Some(last)) => Some(format!(" no answer since {}: {} ", clock(last), printable(why))),
        (Some(why), None) => Some(format!(" no answer: {} ", printable(why))),
        (None, last) => {
            let waited = now_us.saturating_sub(last.unwrap_or(app.begun_us));
            let waited = Micros::new(waited - waited % 1_000_000);
            (waited.get() > app.late_us).then(|| format!(" no answer for {waited} "))
        }
    }
}

fn flight(flights: &[Flight], theme: Theme) -> Option<Line<'static>> {
    let Flight { target, to, from, state, since, by } = flights.first()?;
    let more = match flights.len() {
        1 => String::new(),
        all => format!(" (and {} more)", all - 1),
    };
    let text = format!(
        "in flight: {} {from} -> {to}, {}, {since}, by {}",
        printable(target),
        printable(state),
        printable(by)
    );
    Some(Line::styled(format!("{text}{more}"), theme.of_weight(Weight::Notable)))
}

/// What happened, the latest first, below a title.
pub(super) fn recent(app: &App, lines_max: usize, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let Some(rows) = lines_max.checked_sub(1) else { return Vec::new() };
    let title =
        if app.everything { "what happened (o: OOM kills only)" } else { "OOM kills (o: all that happened)" };
    let rule = theme.rule().repeat(width.saturating_sub(title.len() + 4));
    let mut lines = vec![Line::styled(format!("{0}{0} {title} {rule}", theme.rule()), theme.title())];
    let all = app.snapshot.iter().flat_map(|snapshot| snapshot.status.recent.iter().rev());
    let shown = all.filter(|happening| app.everything || happening.kind == HappeningKind::Oom);
    lines.extend(shown.take(rows).map(|happening| happened(happening, theme)));
    if lines.len() == 1 && rows > 0 {
        lines.push(Line::raw("  none lately"));
    }
    lines
}

fn happened(happening: &Happening, theme: Theme) -> Line<'static> {
    let Happening { at_us, target, kind, text } = happening;
    let weight = match kind {
        HappeningKind::Oom => Weight::Grave,
        HappeningKind::Drift | HappeningKind::Guard => Weight::Notable,
        HappeningKind::Verdict | HappeningKind::Mended | HappeningKind::Agent => Weight::Calm,
    };
    let target = if target.is_empty() { String::new() } else { format!("{}: ", printable(target)) };
    Line::from(vec![
        Span::raw(format!("  {} ", clock(*at_us))),
        Span::styled(format!("{:<7} ", kind.name()), theme.of_weight(weight)),
        Span::raw(format!("{target}{}", printable(text))),
    ])
}

/// What is below all: a question, what came of the last wish, or the keys.
pub(super) fn foot(app: &App, theme: Theme) -> Line<'static> {
    match &app.pane {
        Pane::Confirm(switch) => {
            let text = match switch {
                Switch::Pause => " pause all actuation of the agent? y: yes, any other key: no ",
                Switch::Resume => " let the agent change limits again? y: yes, any other key: no ",
            };
            Line::styled(text, theme.banner())
        }
        Pane::List if !app.note.is_empty() => Line::styled(printable(&app.note), theme.title()),
        Pane::List => {
            let sort = app.sort.name();
            Line::raw(format!("q end  ? help  Enter explain  p sort: {sort}  j/k move  o events  P pause"))
        }
        Pane::Help { .. } | Pane::Explain(_) => Line::raw("q back  j/k scroll  Ctrl-C end"),
    }
}

/// `20:00:01`, in UTC.
fn clock(wall_us: u64) -> String {
    let all = utc(wall_us);
    all.split(['T', 'Z']).nth(1).unwrap_or_default().into()
}
