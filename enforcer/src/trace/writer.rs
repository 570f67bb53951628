//! Writes a trace without ever making the recorded wait: a thread of its own, behind a bounded queue.

use super::format::{Entry, Event, Header, LineError, line};
use enforcer_gate::Instant;
use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    thread::JoinHandle,
};

/// Entries that may wait for the disk.
const QUEUE: usize = 4096;

/// What went wrong while a trace was written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file can't be created or written.
    #[error("{}: can't {call}: {source}", crate::cgroup::shown(.path))]
    Io {
        /// The trace.
        path: PathBuf,
        /// What was tried.
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The header does not fit in a line.
    #[error("{}: the header: {source}", crate::cgroup::shown(.path))]
    Header {
        /// The trace.
        path: PathBuf,
        /// Why.
        source: LineError,
    },
}

/// How a recording went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Entries written, header and closing entry not counted.
    pub entries: u64,
    /// Entries lost because the disk was too slow or the line too long.
    pub dropped: u64,
}

/// A trace being written.
pub struct Writer {
    queue: SyncSender<Entry>,
    dropped: u64,
    thread: JoinHandle<io::Result<Summary>>,
    path: PathBuf,
}

impl Writer {
    /// Creates the file, which must not be there yet, and writes the header.
    pub fn create(path: &Path, header: &Header) -> Result<Self, WriteError> {
        let error = |call| move |source| WriteError::Io { path: path.into(), call, source };
        let first = line(header).map_err(|source| WriteError::Header { path: path.into(), source })?;
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(error("create"))?;
        let mut file = BufWriter::new(file);
        file.write_all(&first).map_err(error("write"))?;
        let (queue, entries) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("trace".into())
            .spawn(move || write_all(file, &entries))
            .map_err(error("start a thread for"))?;
        Ok(Self { queue, dropped: 0, thread, path: path.into() })
    }

    /// Adds an entry. Never waits: what the disk can't take in time is dropped and counted.
    pub fn add(&mut self, at_us: Instant, event: Event) {
        if self.queue.try_send(Entry { at_us, event }).is_err() {
            self.dropped += 1;
        }
    }

    /// Writes the closing entry and waits for the disk.
    pub fn finish(self, at_us: Instant) -> Result<Summary, WriteError> {
        let Self { queue, dropped, thread, path } = self;
        // The thread adds what it dropped itself. A send fails only if the thread ended with an error.
        let _ = queue.send(Entry { at_us, event: Event::End { dropped } });
        drop(queue);
        let result = thread.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread panicked")));
        result.map_err(|source| WriteError::Io { path, call: "write", source })
    }
}

fn write_all(mut file: BufWriter<File>, queue: &Receiver<Entry>) -> io::Result<Summary> {
    let mut summary = Summary { entries: 0, dropped: 0 };
    while let Some(mut entry) = next(&mut file, queue)? {
        let closing = if let Event::End { dropped } = &mut entry.event {
            *dropped += summary.dropped;
            summary.dropped = *dropped;
            true
        } else {
            false
        };
        match line(&entry) {
            Ok(text) => {
                file.write_all(&text)?;
                summary.entries += u64::from(!closing);
            }
            Err(_) => summary.dropped += 1,
        }
    }
    file.flush()?;
    Ok(summary)
}

/// The next entry. Nothing stays in memory while there is none: what a killed recorder had written is all there.
fn next(file: &mut BufWriter<File>, queue: &Receiver<Entry>) -> io::Result<Option<Entry>> {
    match queue.try_recv() {
        Ok(entry) => Ok(Some(entry)),
        Err(TryRecvError::Disconnected) => Ok(None),
        Err(TryRecvError::Empty) => {
            file.flush()?;
            Ok(queue.recv().ok())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Kind, LINE_BYTES_MAX, Reader, fixture};
    use enforcer_gate::{CommandId, Outcome, OutcomeKind, Signal};
    use std::io::BufReader;

    fn open(path: &Path) -> Reader<BufReader<File>> {
        Reader::new(BufReader::new(File::open(path).expect("is there"))).expect("has a header")
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("trace");
        let mut writer = Writer::create(&path, &fixture::header(Kind::Shrink)).expect("creates");
        writer.add(Instant::new(1), Event::Signal(Signal::Pressure));
        writer.add(Instant::new(2), Event::Timeout {});
        let summary = writer.finish(Instant::new(3)).expect("writes");
        assert_eq!(summary, Summary { entries: 2, dropped: 0 });
        let mut reader = open(&path);
        assert_eq!(reader.header(), &fixture::header(Kind::Shrink));
        let events: Vec<_> = reader.by_ref().map(|item| item.expect("good").1.event).collect();
        let expected = [Event::Signal(Signal::Pressure), Event::Timeout {}, Event::End { dropped: 0 }];
        assert_eq!(events, expected);
        assert_eq!(reader.dropped(), Some(0));
    }

    #[test]
    fn what_was_written_is_in_the_file_before_the_recording_ends() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("trace");
        let mut writer = Writer::create(&path, &fixture::header(Kind::Shrink)).expect("creates");
        writer.add(Instant::new(1), Event::Timeout {});
        while std::fs::read_to_string(&path).expect("reads").lines().count() < 2 {
            std::thread::yield_now();
        }
        let mut reader = open(&path);
        assert_eq!((reader.by_ref().count(), reader.cut()), (1, Some(3)));
        writer.finish(Instant::new(2)).expect("writes");
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_counted() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("trace");
        let mut writer = Writer::create(&path, &fixture::header(Kind::Shrink)).expect("creates");
        let kind = OutcomeKind::Failed { what: "x".repeat(LINE_BYTES_MAX), errno: 0 };
        writer.add(Instant::new(1), Event::Outcome(Outcome { id: CommandId(1), kind }));
        let summary = writer.finish(Instant::new(3)).expect("writes");
        assert_eq!(summary, Summary { entries: 0, dropped: 1 });
        let mut reader = open(&path);
        assert_eq!(reader.by_ref().count(), 1);
        assert_eq!(reader.dropped(), Some(1));
    }

    #[test]
    fn a_trace_is_not_written_over() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("tra\u{1b}ce");
        std::fs::write(&path, "mine").expect("writes");
        let error =
            Writer::create(&path, &fixture::header(Kind::Shrink)).err().expect("is there").to_string();
        assert!(error.contains("tra\\u{1b}ce: can't create"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).expect("reads"), "mine");
    }
}
