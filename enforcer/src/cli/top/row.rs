//! A container as a line, in as many columns as fit. No I/O.

use super::{
    bar::Bar,
    order::share,
    theme::{Theme, Weight},
};
use crate::{
    admin::model::{ContainerView, Flight},
    cgroup::printable,
};
use enforcer_gate::{Bytes, Limit};
use ratatui::text::{Line, Span};

/// `1023Mi` and `999.9Mi` fit.
const AMOUNT: usize = 7;
/// `100.00`
const PSI: usize = 6;
const KILLS: usize = 4;

/// Which columns there are, and how wide those are that vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Columns {
    name: usize,
    floor: bool,
    safe: bool,
    bar: usize,
    kills: bool,
    state: usize,
    verdict: usize,
}

impl Columns {
    /// For so many cells.
    pub(super) fn of(width: usize) -> Self {
        let (floor, safe, kills) = (width >= 70, width >= 100, width >= 90);
        let bar = match width {
            0..50 => 0,
            50..70 => 8,
            70..100 => 10,
            100..150 => 16,
            _ => 24,
        };
        let amounts = 2 + usize::from(floor) + usize::from(safe);
        let fixed = (PSI + 1) + amounts * (AMOUNT + 1) + if bar > 0 { bar + 1 } else { 0 };
        let fixed = fixed + if kills { KILLS + 1 } else { 0 };
        let rest = width.saturating_sub(fixed);
        // Each with the blank before it.
        let words = if width < 80 { 0 } else { rest * 3 / 7 };
        let verdict = if width < 150 { 0 } else { words / 3 };
        let shown = |width: usize| width.saturating_sub(1);
        Self {
            name: rest - words,
            floor,
            safe,
            bar,
            kills,
            state: shown(words - verdict),
            verdict: shown(verdict),
        }
    }

    /// What the columns are.
    pub(super) fn heading(self, theme: Theme) -> Line<'static> {
        let mut cells =
            vec![padded("CONTAINER", self.name, theme), right("PSI %", PSI), right("USAGE", AMOUNT)];
        cells.extend(self.floor.then(|| right("FLOOR", AMOUNT)));
        cells.extend(self.safe.then(|| right("SAFE", AMOUNT)));
        cells.push(right("LIMIT", AMOUNT));
        cells.extend((self.bar > 0).then(|| padded("", self.bar, theme)));
        cells.extend(self.kills.then(|| right("OOM", KILLS)));
        cells.extend((self.state > 0).then(|| begun("STATE", self.state, theme)));
        cells.extend((self.verdict > 0).then(|| begun("LAST VERDICT", self.verdict, theme)));
        Line::styled(cells.join(" "), theme.title())
    }

    /// One container. `unlimited` is what a bar without a limit is measured by.
    pub(super) fn row(
        self,
        view: &ContainerView,
        flights: &[Flight],
        unlimited: Bytes,
        theme: Theme,
    ) -> Line<'static> {
        let amount = |bytes: Option<Bytes>| Span::raw(amount(bytes));
        let amount_of_limit = match view.limit {
            Some(Limit::Bytes(limit)) => self::amount(Some(limit)),
            Some(Limit::Max) => right("max", AMOUNT),
            None => self::amount(None),
        };
        let psi = format!("{}.{:02}", view.psi_some_avg10 / 100, view.psi_some_avg10 % 100);
        let mut cells = vec![
            vec![Span::raw(padded(&name(view), self.name, theme))],
            vec![Span::styled(right(&psi, PSI), theme.of_weight(of_pressure(view)))],
            vec![amount(view.usage).style(theme.of_weight(of_share(view)))],
        ];
        cells.extend(self.floor.then(|| vec![amount(view.floor)]));
        cells.extend(self.safe.then(|| vec![amount(view.safe_minimum)]));
        cells.push(vec![Span::raw(amount_of_limit)]);
        cells.extend((self.bar > 0).then(|| bar(view, unlimited).spans(self.bar, theme).to_vec()));
        let kills = right(&view.oom_kills.to_string(), KILLS);
        let killed = if view.oom_kills > 0 { Weight::Grave } else { Weight::Calm };
        cells.extend(self.kills.then(|| vec![Span::styled(kills, theme.of_weight(killed))]));
        let (state, weight) = state(view, flights);
        let state = Span::styled(begun(&state, self.state, theme), theme.of_weight(weight));
        cells.extend((self.state > 0).then(|| vec![state]));
        let verdict = begun(&printable(&view.last_verdict), self.verdict, theme);
        cells.extend((self.verdict > 0).then(|| vec![Span::raw(verdict)]));
        Line::from(cells.join(&Span::raw(" ")))
    }
}

/// In [`AMOUNT`] cells: the decimal goes where there is no room for it.
fn amount(bytes: Option<Bytes>) -> String {
    let mut text = bytes.map_or_else(|| "-".into(), |bytes| bytes.to_string());
    if let Some(at) = text.find('.').filter(|_| text.len() > AMOUNT) {
        text.replace_range(at..at + 2, "");
    }
    right(&text, AMOUNT)
}

fn name(view: &ContainerView) -> String {
    printable(&format!("{}/{}:{}", view.namespace, view.pod, view.container))
}

fn bar(view: &ContainerView, unlimited: Bytes) -> Bar {
    let scale = match view.limit {
        Some(Limit::Bytes(limit)) => limit,
        Some(Limit::Max) | None => unlimited,
    };
    let known = |bytes: Option<Bytes>| bytes.unwrap_or(Bytes::ZERO);
    Bar { floor: known(view.floor), usage: known(view.usage), scale }
}

/// What is worth knowing most: what is being done, what is wrong, what the policy waits for, how it went last.
fn state(view: &ContainerView, flights: &[Flight]) -> (String, Weight) {
    let target = view.target();
    if let Some(Flight { to, state, since, .. }) = flights.iter().find(|flight| flight.target == target) {
        return (format!("{} {to}, {since}", printable(state)), Weight::Notable);
    }
    if let Some(drift) = view.drift.first() {
        return (format!("drift: {}", printable(drift)), Weight::Grave);
    }
    if view.limit.is_none() && !view.missing.is_empty() {
        return (printable(&view.missing), Weight::Notable);
    }
    let why = if view.policy_state.is_empty() { &view.last_verdict } else { &view.policy_state };
    let blank = if why.is_empty() { "" } else { ": " };
    (printable(&format!("{}{blank}{why}", view.policy)), Weight::Calm)
}

fn of_pressure(view: &ContainerView) -> Weight {
    match view.psi_some_avg10 {
        0..100 => Weight::Calm,
        100..1000 => Weight::Notable,
        _ => Weight::Grave,
    }
}

fn of_share(view: &ContainerView) -> Weight {
    match share(view) {
        0..750 => Weight::Calm,
        750..900 => Weight::Notable,
        _ => Weight::Grave,
    }
}

/// In exactly so many cells; of what is too long the middle is cut out: names differ at their ends.
fn padded(text: &str, width: usize, theme: Theme) -> String {
    cut(text, width, theme, |room| room / 2)
}

/// In exactly so many cells; of what is too long the end is cut off.
fn begun(text: &str, width: usize, theme: Theme) -> String {
    cut(text, width, theme, |_| 0)
}

/// `back` says how much of the room the end has.
fn cut(text: &str, width: usize, theme: Theme, back: impl Fn(usize) -> usize) -> String {
    let mut fit = text.to_owned();
    if cells(text) > width {
        fit = match width.checked_sub(cells(theme.cut())) {
            Some(room) => {
                let front = taken(text.chars(), room - back(room));
                let back: String = taken(text.chars().rev(), back(room)).chars().rev().collect();
                format!("{front}{}{back}", theme.cut())
            }
            None => String::new(),
        };
    }
    let fill = width.saturating_sub(cells(&fit));
    fit + &" ".repeat(fill)
}

fn taken(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut text = String::new();
    for c in chars {
        text.push(c);
        if cells(&text) > width {
            text.pop();
            break;
        }
    }
    text
}

/// Cells of the terminal that it takes.
pub(super) fn cells(text: &str) -> usize {
    Span::raw(text).width()
}

fn right(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::fixture;
    use proptest::prelude::*;

    const PLAIN: Theme = Theme { colour: false, unicode: false };

    #[test]
    fn of_what_is_too_long_the_ends_stay() {
        assert_eq!(padded("abc", 5, PLAIN), "abc  ");
        assert_eq!(padded("default/web-7d9f:main", 11, PLAIN), "defau~:main");
        assert_eq!(padded("abcdef", 1, PLAIN), "~");
        assert_eq!(padded("abcdef", 0, PLAIN), "");
        assert_eq!(padded("\u{65e5}\u{672c}\u{8a9e}", 4, PLAIN), "\u{65e5}~ ");
        assert_eq!(begun("trial 128Mi", 6, PLAIN), "trial~");
        assert_eq!(begun("trial", 6, PLAIN), "trial ");
    }

    #[test]
    fn what_is_worth_knowing_most_comes_first() {
        let drift = vec!["memory.max is 64Mi".into()];
        let view = ContainerView { drift, ..fixture::container() };
        assert_eq!(state(&view, &[fixture::flight()]), ("trial 128Mi, 3s".into(), Weight::Notable));
        let elsewhere = Flight { target: "pod/a/b:c".into(), ..fixture::flight() };
        assert_eq!(state(&view, &[elsewhere]), ("drift: memory.max is 64Mi".into(), Weight::Grave));
        let view = ContainerView { limit: None, missing: "it is gone".into(), ..fixture::container() };
        assert_eq!(state(&view, &[]).0, "it is gone");
        assert_eq!(state(&fixture::container(), &[]).0, "auto-shrink: the next look is in 8m");
        let view = ContainerView { policy_state: String::new(), ..fixture::container() };
        assert_eq!(state(&view, &[]).0, "auto-shrink: committed at 128Mi");
        let view = ContainerView { last_verdict: String::new(), ..view };
        assert_eq!(state(&view, &[]).0, "auto-shrink");
    }

    proptest! {
        #[test]
        fn any_text_fits(text in any::<String>(), width in 0usize..60) {
            let padded = padded(&printable(&text), width, PLAIN);
            prop_assert_eq!(cells(&padded), width);
        }

        #[test]
        fn a_line_is_as_wide_as_the_terminal(width in 40usize..400, name in any::<String>()) {
            let columns = Columns::of(width);
            let view = ContainerView { pod: name.clone(), policy_state: name, ..fixture::container() };
            prop_assert_eq!(columns.heading(PLAIN).width(), width);
            prop_assert_eq!(columns.row(&view, &[], Bytes::ZERO, PLAIN).width(), width);
        }
    }
}
