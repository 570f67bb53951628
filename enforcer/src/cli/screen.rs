//! Shows what happens without ever making it wait: a terminal on hold (Ctrl-S), a connection that hangs or a pipe
//! that nobody reads must not keep a restore from happening, nor a guard from giving its beat.

use std::{
    io::{self, Write},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel},
    time::Duration,
};

/// Where the terminal does not tell its width.
const COLUMNS: usize = 80;

/// Columns of the terminal that standard error is, less the last, from which some go on to the next line.
pub(super) fn width() -> usize {
    let size = terminal_size::terminal_size_of(io::stderr());
    size.map_or(COLUMNS, |(width, _)| usize::from(width.0)).saturating_sub(1)
}

/// Pieces of text that may wait to be taken.
const QUEUE: usize = 4096;

/// Text on its way to whoever looks, by a thread of its own.
pub(super) struct Screen {
    queue: SyncSender<String>,
    last: Sender<String>,
    ended: Receiver<io::Result<()>>,
    left_out: u64,
    note: fn(u64) -> String,
}

impl Screen {
    /// On `out`; `note` says how many pieces of text were left out.
    pub(super) fn start(out: impl Write + Send + 'static, note: fn(u64) -> String) -> io::Result<Self> {
        let (queue, texts) = sync_channel(QUEUE);
        let (last, at_last) = channel();
        let (end, ended) = channel();
        let started = std::thread::Builder::new().name("screen".into()).spawn(move || {
            // Where nobody waits for the end, nobody wants to know.
            let _ = end.send(write_all(out, texts.iter().chain(&at_last)));
        });
        started.map_err(|error| {
            let why =
                format!("can't start a thread ({error}): raise ulimit -u, and pids.max of its own cgroup");
            io::Error::new(error.kind(), why)
        })?;
        Ok(Self { queue, last, ended, left_out: 0, note })
    }

    /// Never waits: what can't be taken in time is left out and counted.
    pub(super) fn show(&mut self, text: String) {
        if self.queue.try_send(text).is_err() {
            self.left_out += 1;
        }
    }

    /// Says how much was left out, if any was and there is room again.
    pub(super) fn tell_left_out(&mut self) {
        if self.left_out > 0 && self.queue.try_send((self.note)(self.left_out)).is_ok() {
            self.left_out = 0;
        }
    }

    /// Waits until all is taken, or for so long. Fails with the first error there was, and with `TimedOut`.
    pub(super) fn end(self, last: &str, patience: Option<Duration>) -> io::Result<()> {
        let Self { queue, last: at_last, ended, left_out, note } = self;
        let left_out = if left_out > 0 { note(left_out) } else { String::new() };
        // Fails only where the thread panicked, which has said so.
        let _ = at_last.send(format!("{last}{left_out}"));
        drop((queue, at_last));
        let end = match patience {
            Some(patience) => ended.recv_timeout(patience),
            None => ended.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        end.unwrap_or_else(|error| {
            Err(match error {
                RecvTimeoutError::Timeout => io::Error::new(io::ErrorKind::TimedOut, "nobody reads it"),
                RecvTimeoutError::Disconnected => io::Error::other("its thread ended"),
            })
        })
    }
}

fn write_all(mut out: impl Write, texts: impl Iterator<Item = String>) -> io::Result<()> {
    let mut result = Ok(());
    for text in texts {
        // A terminal that has gone is no reason to stop, and there may be room again.
        result = result.and(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }
    result
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

    fn on_hold() -> (mpsc::Sender<()>, Arc<Mutex<Vec<u8>>>, Screen) {
        let (hold, go_on) = mpsc::channel();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let out = OnHold { go_on, taken: Arc::clone(&taken) };
        (hold, taken, Screen::start(out, |lines| format!("{lines} left out\n")).expect("a thread"))
    }

    fn text(taken: &Mutex<Vec<u8>>) -> String {
        String::from_utf8(taken.lock().expect("nobody panicked").clone()).expect("text")
    }

    #[test]
    fn a_terminal_on_hold_holds_nobody_up() {
        let (hold, taken, mut screen) = on_hold();
        let lines = 2 * QUEUE;
        for n in 0..lines {
            screen.show(format!("{n}\n"));
        }
        screen.tell_left_out();
        drop(hold);
        screen.end("end\n", None).expect("all is taken");
        let taken = text(&taken);
        let (shown, rest) = taken.split_once("end\n").expect("the end comes");
        let shown = shown.lines().count();
        // One more may be in the writer's hands.
        assert!((QUEUE..=QUEUE + 1).contains(&shown), "{shown}");
        assert_eq!(rest, format!("{} left out\n", lines - shown));
    }

    #[test]
    fn nothing_is_left_out_of_what_is_taken_in_time() {
        let (hold, taken, mut screen) = on_hold();
        drop(hold);
        for text in ["a", "b"] {
            screen.show(text.into());
            screen.tell_left_out();
        }
        screen.end("", Some(Duration::from_mins(1))).expect("all is taken");
        assert_eq!(text(&taken), "ab");
    }

    #[test]
    fn what_is_left_out_is_told_as_soon_as_there_is_room() {
        let (hold, taken, mut screen) = on_hold();
        while screen.left_out < 3 {
            screen.show(String::from("a"));
        }
        drop(hold);
        while screen.left_out > 0 {
            screen.tell_left_out();
            std::thread::yield_now();
        }
        screen.end("", None).expect("all is taken");
        assert!(text(&taken).ends_with("a3 left out\n"));
    }

    #[test]
    fn who_is_to_stop_does_not_wait_for_a_reader_for_ever() {
        let (_hold, taken, mut screen) = on_hold();
        screen.show(String::from("a"));
        let error = screen.end("end", Some(Duration::from_millis(10))).expect_err("nobody reads");
        assert_eq!((error.kind(), text(&taken).as_str()), (io::ErrorKind::TimedOut, ""));
    }

    #[test]
    fn lost_text_is_an_error_at_the_end() {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("opens");
        let mut screen = Screen::start(full, |_| String::new()).expect("a thread");
        screen.show(String::from("a"));
        let error = screen.end("", None).expect_err("there is no room");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    }
}
