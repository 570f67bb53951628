//! Which key was pressed.

use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};

/// Keys that may mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    /// Ctrl-C, which is a key like others while the terminal is raw.
    Interrupt,
    Other,
}

/// The key of an event; `None` where it is about none.
pub(super) fn pressed(event: &Event) -> Option<Key> {
    let key = event.as_key_event().filter(|key| key.kind != KeyEventKind::Release)?;
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    #[expect(clippy::wildcard_enum_match_arm, reason = "of the keys that there are only some mean anything")]
    let key = match key.code {
        KeyCode::Char('c' | 'd') if control => Key::Interrupt,
        KeyCode::Char(c) if !control => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        _ => Key::Other,
    };
    Some(key)
}
