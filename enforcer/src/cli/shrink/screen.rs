//! Shows progress without ever making the shrink wait: a terminal on hold (Ctrl-S), a connection that hangs or a pipe
//! that nobody reads must not keep a restore from happening.

use std::{
    io::{self, Write},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::JoinHandle,
};

/// Where the terminal does not tell its width.
const COLUMNS: usize = 80;

/// Columns of the terminal that standard error is, less the last, from which some go on to the next line.
pub(super) fn width() -> usize {
    let size = terminal_size::terminal_size_of(io::stderr());
    size.map_or(COLUMNS, |(width, _)| usize::from(width.0)).saturating_sub(1)
}

/// Pieces of text that may wait to be taken.
const QUEUE: usize = 64;

/// Text on its way to whoever looks, by a thread of its own.
pub(super) struct Screen {
    queue: SyncSender<String>,
    thread: JoinHandle<()>,
    dropped: u64,
}

impl Screen {
    /// On standard error.
    pub(super) fn start() -> io::Result<Self> {
        Self::on(io::stderr())
    }

    fn on(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, texts) = sync_channel(QUEUE);
        let thread =
            std::thread::Builder::new().name("screen".into()).spawn(move || write_all(out, &texts))?;
        Ok(Self { queue, thread, dropped: 0 })
    }

    /// Never waits: what can't be taken in time is left out and counted.
    pub(super) fn show(&mut self, text: String) {
        if self.queue.try_send(text).is_err() {
            self.dropped += 1;
        }
    }

    /// Waits until all is taken; there is nothing to hold up any more.
    pub(super) fn end(self, last: &str) {
        let Self { queue, thread, dropped } = self;
        let left_out =
            if dropped > 0 { format!("{dropped} lines of progress left out\n") } else { String::new() };
        // Fails only where the thread panicked, which has said so.
        let _ = queue.send(format!("{last}{left_out}"));
        drop(queue);
        let _ = thread.join();
    }
}

fn write_all(mut out: impl Write, texts: &Receiver<String>) {
    for text in texts {
        // A terminal that has gone is no reason to stop.
        let _ = out.write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex, mpsc};

    /// Takes nothing before it may.
    struct OnHold {
        go_on: Receiver<()>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for OnHold {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Ends at once when the other end is dropped.
            let _ = self.go_on.recv();
            self.taken.lock().expect("nobody panicked").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_terminal_on_hold_holds_nobody_up() {
        let (hold, go_on) = mpsc::channel();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let mut screen = Screen::on(OnHold { go_on, taken: Arc::clone(&taken) }).expect("a thread");
        let lines = 10 * QUEUE;
        for n in 0..lines {
            screen.show(format!("{n}\n"));
        }
        drop(hold);
        screen.end("end\n");
        let taken = String::from_utf8(taken.lock().expect("nobody panicked").clone()).expect("text");
        let (shown, rest) = taken.split_once("end\n").expect("the end comes");
        let shown = shown.lines().count();
        // One more may be in the writer's hands.
        assert!((QUEUE..=QUEUE + 1).contains(&shown), "{shown}");
        assert_eq!(rest, format!("{} lines of progress left out\n", lines - shown));
    }

    #[test]
    fn nothing_is_left_out_of_what_is_taken_in_time() {
        let (hold, go_on) = mpsc::channel();
        drop(hold);
        let taken = Arc::new(Mutex::new(Vec::new()));
        let mut screen = Screen::on(OnHold { go_on, taken: Arc::clone(&taken) }).expect("a thread");
        for text in ["a", "b"] {
            screen.show(text.into());
        }
        screen.end("");
        assert_eq!(taken.lock().expect("nobody panicked").as_slice(), b"ab");
    }
}
