//! What is shown, and what keys and answers make of it. No I/O.

use super::{keys::Key, order::Sort, pane};
use crate::{
    admin::model::{ContainerView, Done, Explanation, Status},
    inventory::Target,
};

/// What the agent said last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) status: Status,
    /// Sorted.
    pub(super) containers: Vec<ContainerView>,
    /// When it came, in microseconds since 1970.
    pub(super) at_us: u64,
}

/// What all actuation is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switch {
    Pause,
    Resume,
}

/// What is in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pane {
    List,
    Help { scroll: usize },
    Explain(Box<Explain>),
    Confirm(Switch),
}

/// The explanation of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Explain {
    pub(super) target: String,
    pub(super) scroll: usize,
    /// What the agent says; what is known anyway until it does.
    pub(super) told: Result<Explanation, String>,
}

/// What comes of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    /// The container that is explained has changed; see [`App::explained`].
    Explain,
    Switch(Switch),
}

/// What the agent said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Look(Box<Snapshot>),
    Silence(String),
    Explained { target: Target, told: Result<Explanation, String> },
    Switched(Result<Done, String>),
}

/// All of it.
#[derive(Debug, Clone)]
pub(super) struct App {
    pub(super) snapshot: Option<Snapshot>,
    /// Why there is no answer.
    pub(super) silence: Option<String>,
    /// When it was begun, in microseconds since 1970.
    pub(super) begun_us: u64,
    /// After how long an answer is late.
    pub(super) late_us: u64,
    pub(super) sort: Sort,
    pub(super) pane: Pane,
    /// All that happened is shown, and not OOM kills only.
    pub(super) everything: bool,
    /// What came of the last wish.
    pub(super) note: String,
    /// Columns and lines of the terminal.
    pub(super) size: (u16, u16),
    selected: Selected,
}

#[derive(Debug, Clone, Default)]
struct Selected {
    /// Whose line; found again wherever it went.
    key: Option<(String, String)>,
    /// Where it was.
    at: usize,
}

impl App {
    pub(super) fn new(sort: Sort, now_us: u64, late_us: u64) -> Self {
        Self {
            snapshot: None,
            silence: None,
            begun_us: now_us,
            late_us,
            sort,
            pane: Pane::List,
            everything: false,
            note: String::new(),
            size: (80, 24),
            selected: Selected::default(),
        }
    }

    pub(super) fn containers(&self) -> &[ContainerView] {
        self.snapshot.as_ref().map_or(&[], |snapshot| &snapshot.containers)
    }

    /// The line that is selected; it is one of the list where there is any.
    pub(super) fn position(&self) -> usize {
        self.selected.at
    }

    /// What the agent is to explain, where a pane shows it.
    pub(super) fn explained(&self) -> Option<Target> {
        match &self.pane {
            Pane::Explain(explain) => Target::parse(&explain.target).ok(),
            Pane::List | Pane::Help { .. } | Pane::Confirm(_) => None,
        }
    }

    pub(super) fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::Look(mut snapshot) => {
                self.sort.apply(&mut snapshot.containers);
                (self.snapshot, self.silence) = (Some(*snapshot), None);
                self.find_selected();
            }
            Answer::Silence(why) => self.silence = Some(why),
            Answer::Explained { target, told } => {
                if let Pane::Explain(explain) = &mut self.pane
                    && explain.target == target.to_string()
                {
                    explain.told = told;
                }
                self.scroll_by(0);
            }
            Answer::Switched(done) => {
                self.note = done.map_or_else(|why| format!("not done: {why}"), |done| done.text);
            }
        }
    }

    pub(super) fn pressed(&mut self, key: Key) -> Wish {
        if key == Key::Interrupt {
            return Wish::Quit;
        }
        self.note.clear();
        match &self.pane {
            Pane::List => self.pressed_in_list(key),
            Pane::Confirm(switch) => {
                let switch = *switch;
                self.pane = Pane::List;
                if matches!(key, Key::Char('y' | 'Y')) {
                    return Wish::Switch(switch);
                }
                self.note = "nothing was changed".into();
                Wish::Nothing
            }
            Pane::Help { .. } | Pane::Explain(_) => {
                let page = isize::try_from(pane::page(self.size)).unwrap_or(isize::MAX);
                match key {
                    Key::Down | Key::Char('j') => self.scroll_by(1),
                    Key::Up | Key::Char('k') => self.scroll_by(-1),
                    Key::PageDown | Key::Char(' ') => self.scroll_by(page),
                    Key::PageUp => self.scroll_by(-page),
                    Key::Home | Key::Char('g') => self.scroll_by(isize::MIN),
                    Key::End | Key::Char('G') => self.scroll_by(isize::MAX),
                    Key::Escape | Key::Enter | Key::Char('q' | '?') => {
                        self.pane = Pane::List;
                        return Wish::Explain;
                    }
                    Key::Char(_) | Key::Interrupt | Key::Other => {}
                }
                Wish::Nothing
            }
        }
    }

    fn pressed_in_list(&mut self, key: Key) -> Wish {
        let page = super::view::rows(self).max(1);
        let last = self.containers().len().saturating_sub(1);
        let at = self.selected.at;
        match key {
            Key::Char('q') | Key::Escape => return Wish::Quit,
            Key::Down | Key::Char('j') => self.select(at + 1),
            Key::Up | Key::Char('k') => self.select(at.saturating_sub(1)),
            Key::PageDown | Key::Char(' ') => self.select(at.saturating_add(page)),
            Key::PageUp => self.select(at.saturating_sub(page)),
            Key::Home | Key::Char('g') => self.select(0),
            Key::End | Key::Char('G') => self.select(last),
            Key::Char('p') => {
                self.sort = self.sort.next();
                if let Some(snapshot) = &mut self.snapshot {
                    self.sort.apply(&mut snapshot.containers);
                }
                self.find_selected();
            }
            Key::Char('o') => self.everything = !self.everything,
            Key::Char('?' | 'h') => self.pane = Pane::Help { scroll: 0 },
            Key::Char('P') => {
                let paused = self.snapshot.as_ref().map(|snapshot| snapshot.status.paused);
                match paused {
                    Some(true) => self.pane = Pane::Confirm(Switch::Resume),
                    Some(false) => self.pane = Pane::Confirm(Switch::Pause),
                    None => self.note = "there is no agent to pause".into(),
                }
            }
            Key::Enter => return self.explain(),
            Key::Char(_) | Key::Interrupt | Key::Other => {}
        }
        Wish::Nothing
    }

    fn explain(&mut self) -> Wish {
        let Some(snapshot) = &self.snapshot else { return Wish::Nothing };
        let Some(view) = snapshot.containers.get(self.selected.at) else { return Wish::Nothing };
        let (target, status) = (view.target(), &snapshot.status);
        let known = Explanation {
            containers: vec![view.clone()],
            in_flight: status.in_flight.iter().filter(|flight| flight.target == target).cloned().collect(),
            recent: status.recent.iter().filter(|happening| happening.target == target).cloned().collect(),
            paused: status.paused,
        };
        self.pane = Pane::Explain(Box::new(Explain { target, scroll: 0, told: Ok(known) }));
        Wish::Explain
    }

    fn select(&mut self, at: usize) {
        let at = at.min(self.containers().len().saturating_sub(1));
        let key = self.containers().get(at).map(key);
        self.selected = Selected { key, at };
    }

    fn find_selected(&mut self) {
        let wanted = &self.selected.key;
        let found = self.containers().iter().position(|view| Some(key(view)) == *wanted);
        match found {
            Some(at) => self.selected.at = at,
            // Gone, or none yet: whatever is there now.
            None if wanted.is_some() => self.select(self.selected.at),
            None => self.selected.at = 0,
        }
    }

    fn scroll_by(&mut self, lines: isize) {
        let last = pane::text(self).len().saturating_sub(pane::page(self.size));
        let scroll = match &mut self.pane {
            Pane::Help { scroll } => scroll,
            Pane::Explain(explain) => &mut explain.scroll,
            Pane::List | Pane::Confirm(_) => return,
        };
        *scroll = scroll.saturating_add_signed(lines).min(last);
    }
}

fn key(view: &ContainerView) -> (String, String) {
    (view.target(), view.id.clone())
}
