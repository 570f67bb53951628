//! Colours and characters that the terminal can show.

use ratatui::style::{Color, Modifier, Style};

/// What may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Theme {
    pub(super) colour: bool,
    pub(super) unicode: bool,
}

/// How grave something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    Calm,
    Notable,
    Grave,
}

impl Theme {
    /// By the environment: `NO_COLOR` (no-color.org), TERM, and the character set of the locale.
    pub(super) fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_none_or(|term| term == "dumb");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        Self {
            colour: set("NO_COLOR").is_none() && !dumb,
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    fn coloured(self, style: Style, colour: Color) -> Style {
        if self.colour { style.fg(colour) } else { style }
    }

    pub(super) fn of_weight(self, weight: Weight) -> Style {
        match weight {
            Weight::Calm => Style::new(),
            Weight::Notable => self.coloured(Style::new(), Color::Yellow),
            Weight::Grave => self.coloured(Style::new().add_modifier(Modifier::BOLD), Color::Red),
        }
    }

    /// Of what stays, what can go, and what is free.
    pub(super) fn bar(self) -> [Style; 3] {
        [Color::Blue, Color::Cyan, Color::DarkGray].map(|colour| self.coloured(Style::new(), colour))
    }

    pub(super) fn title(self) -> Style {
        self.coloured(Style::new().add_modifier(Modifier::BOLD), Color::Cyan)
    }

    pub(super) fn banner(self) -> Style {
        self.coloured(Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD), Color::Yellow)
    }

    #[expect(clippy::unused_self, reason = "asked like the others")]
    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// What stands for what was cut out.
    pub(super) fn cut(self) -> &'static str {
        if self.unicode { "\u{2026}" } else { "~" }
    }

    pub(super) fn rule(self) -> &'static str {
        if self.unicode { "\u{2500}" } else { "-" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_decides() {
        let theme = |variables: &[(&str, &str)]| {
            Theme::of(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
            })
        };
        let (xterm, utf8) = (("TERM", "xterm"), ("LANG", "C.UTF-8"));
        for (variables, colour, unicode) in [
            (&[xterm, utf8] as &[_], true, true),
            (&[xterm, utf8, ("NO_COLOR", "1")], false, true),
            (&[xterm, utf8, ("NO_COLOR", "")], true, true),
            (&[("TERM", "dumb"), utf8], false, true),
            (&[utf8], false, true),
            (&[xterm, utf8, ("LC_ALL", "C")], true, false),
            (&[xterm, ("LC_ALL", ""), ("LC_CTYPE", "de_DE.utf8")], true, true),
            (&[xterm], true, false),
        ] {
            assert_eq!(theme(variables), Theme { colour, unicode }, "{variables:?}");
        }
        let plain = Theme { colour: false, unicode: true };
        for weight in [Weight::Calm, Weight::Notable, Weight::Grave] {
            assert_eq!(plain.of_weight(weight).fg, None);
        }
        assert!(plain.bar().iter().chain(&[plain.banner(), plain.title()]).all(|style| style.fg.is_none()));
    }
}
