//! A guest's output, line by line, from a pipe that may fall silent.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// The longest line that is passed on whole; the rest comes as another line.
const LINE_MAX: u64 = 1 << 20;
/// Lines that wait for their reader; then the guest waits as well.
const QUEUE: usize = 1024;

/// Lines of a pipe, read by a thread that ends with the pipe.
pub(crate) struct Lines(Receiver<String>);

/// What came, or did not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A line, without its end.
    Line(String),
    /// Nothing in that time.
    Silence,
    /// The pipe is closed.
    End,
}

impl Lines {
    pub(crate) fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = sync_channel(QUEUE);
        std::thread::spawn(move || read(pipe, &sender));
        Self(receiver)
    }

    /// The next line, for which it waits so long at most.
    pub(crate) fn next(&self, wait: Duration) -> Next {
        match self.0.recv_timeout(wait) {
            Ok(line) => Next::Line(line),
            Err(RecvTimeoutError::Timeout) => Next::Silence,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }
}

fn read(pipe: impl Read, lines: &SyncSender<String>) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line);
        if !matches!(read, Ok(length) if length > 0) {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        if lines.send(text.trim_end_matches(['\r', '\n']).to_owned()).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn lines_then_the_end() {
        let lines = Lines::of(&b"one\r\ntwo\n\nno end"[..]);
        for expected in ["one", "two", "", "no end"] {
            assert_eq!(lines.next(LONG), Next::Line(expected.into()));
        }
        assert_eq!(lines.next(LONG), Next::End);
    }

    #[test]
    fn silence_is_told_and_the_rest_still_comes() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let lines = Lines::of(reader);
        assert_eq!(lines.next(Duration::ZERO), Next::Silence);
        writer.write_all(b"half a line").unwrap();
        drop(writer);
        assert_eq!(lines.next(LONG), Next::Line("half a line".into()));
        assert_eq!(lines.next(LONG), Next::End);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let lines = Lines::of(std::io::repeat(b'x').take(LINE_MAX + 1));
        let Next::Line(first) = lines.next(LONG) else { panic!("no line") };
        assert_eq!(first.len() as u64, LINE_MAX);
        assert_eq!(lines.next(LONG), Next::Line("x".into()));
    }
}
