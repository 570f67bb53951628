//! The terminal, taken over and given back.

use crossterm::{
    cursor::{Hide, Show},
    execute,
    terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
};
use ratatui::{Terminal, backend::CrosstermBackend, buffer::Buffer, layout::Rect};
use std::{
    io::{self, Stdout},
    panic,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

/// The terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal while it is ours. It is given back when this is dropped, and before a panic is told.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes it over: raw, on a screen of its own, without a cursor.
    pub(super) fn take() -> io::Result<Self> {
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        TAKEN.store(true, SeqCst);
        let taken = || {
            enable_raw_mode()?;
            execute!(io::stdout(), EnterAlternateScreen, Hide)?;
            Terminal::new(CrosstermBackend::new(io::stdout()))
        };
        match taken() {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Draws.
    pub(super) fn draw(&mut self, draw: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame.area(), frame.buffer_mut())).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Puts everything back, once.
fn give_back() {
    if TAKEN.swap(false, SeqCst) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// Puts back what can be without waiting for whoever reads: its modes, not what is on it.
pub(super) fn give_back_at_once() {
    if TAKEN.swap(false, SeqCst) {
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::tests::pty::Pty;
    use std::process::Command;

    /// Says to this very test that it is the one in the terminal.
    const INSIDE: &str = "ENFORCER_TEST_PANICS";

    #[test]
    fn a_panic_is_told_on_the_terminal_as_it_was() {
        if std::env::var_os(INSIDE).is_some() {
            let _screen = Screen::take().expect("a terminal");
            panic!("told");
        }
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "cli::top::terminal::tests::a_panic_is_told_on_the_terminal_as_it_was"]);
        command.args(["--nocapture", "--test-threads=1"]).env(INSIDE, "1");
        let (pty, before) = Pty::start(command, 80, 24, true);
        let (after, pty) = pty.after_end();
        let (status, bytes) = pty.end();
        assert_eq!((status.code(), after), (Some(101), before));
        let text = String::from_utf8(bytes).expect("text");
        let at = |what| text.find(what).unwrap_or_else(|| panic!("{what:?} is not in {text:?}"));
        assert!(
            at("\u{1b}[?1049h") < at("\u{1b}[?1049l") && at("\u{1b}[?1049l") < at("panicked at"),
            "{text:?}"
        );
        assert!(at("\u{1b}[?25h") < at("panicked at"), "{text:?}");
    }
}
