//! docs/semantics.md has every word that a certificate can use.

use enforcer_gate::{Headroom, State, Terms};

const SEMANTICS: &str = include_str!("../../../docs/semantics.md");

/// Whether a table row begins with `name`.
fn has_row(name: &str) -> bool {
    SEMANTICS.lines().any(|line| line.starts_with(&format!("| {name} |")))
}

#[test]
fn every_term_is_documented() {
    let floor = Terms::default().list().map(|term| term.name);
    let headroom = Headroom::default().list().map(|term| term.name);
    for name in floor.iter().chain(&headroom) {
        assert!(has_row(&format!("`{name}`")), "{name} is not in docs/semantics.md");
    }
}

#[test]
fn every_state_is_documented() {
    let states = [
        State::Observing,
        State::Reclaiming,
        State::Trial,
        State::Committing,
        State::Watching,
        State::Restoring,
    ];
    for state in states {
        assert!(has_row(&format!("{state:?}")), "{state} is not in docs/semantics.md");
    }
}

#[test]
fn no_term_is_documented_that_there_is_not() {
    let floor = Terms::default().list().map(|term| term.name);
    let headroom = Headroom::default().list().map(|term| term.name);
    for line in SEMANTICS.lines() {
        if let Some(name) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next()) {
            assert!(floor.contains(&name) || headroom.contains(&name), "{name} is no term");
        }
    }
}
