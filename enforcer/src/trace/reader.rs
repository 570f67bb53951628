//! Reads a trace line by line.

use super::format::{Entry, Event, Header, LINE_BYTES_MAX, LineError};
use std::io::{self, BufRead, Read as _};

/// What went wrong, and on which line.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file can't be read.
    #[error("line {line}: can't read: {source}")]
    Io {
        /// Counted from one.
        line: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// A line is not what belongs there.
    #[error("line {line}: {fault}")]
    Line {
        /// Counted from one.
        line: u64,
        /// What is wrong.
        fault: LineError,
    },
    /// The file ends before its header does.
    #[error("line 1: the trace is cut short: it has no header")]
    NoHeader,
    /// Something follows the closing entry.
    #[error("line {line}: something follows the closing entry")]
    AfterEnd {
        /// Counted from one.
        line: u64,
    },
}

/// A trace being read. Iterates over the entries with their line numbers; the first error is the last item.
///
/// The trace of a recorder that was killed ends without its closing entry, perhaps within a line: what is whole is read,
/// and [`Self::cut`] tells.
pub struct Reader<R> {
    source: R,
    header: Header,
    line: u64,
    dropped: Option<u64>,
    cut: Option<u64>,
    over: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    pub fn new(mut source: R) -> Result<Self, ReadError> {
        let text = next_line(&mut source, 1)?.ok_or(ReadError::NoHeader)?;
        let header = Header::parse(&text).map_err(|fault| ReadError::Line { line: 1, fault })?;
        Ok(Self { source, header, line: 1, dropped: None, cut: None, over: false })
    }

    /// What was recorded.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How many entries the recorder lost, once the closing entry was read.
    pub fn dropped(&self) -> Option<u64> {
        self.dropped
    }

    /// The line where the trace is cut, whole lines counted before it; `None` where it is whole, or not read to its end.
    pub fn cut(&self) -> Option<u64> {
        self.cut
    }

    fn advance(&mut self) -> Result<Option<(u64, Entry)>, ReadError> {
        self.line += 1;
        let line = self.line;
        let Some(text) = next_line(&mut self.source, line)? else {
            self.cut = self.dropped.is_none().then_some(line);
            return Ok(None);
        };
        if self.dropped.is_some() {
            return Err(ReadError::AfterEnd { line });
        }
        let entry = Entry::parse(&text).map_err(|fault| ReadError::Line { line, fault })?;
        if let Event::End { dropped } = entry.event {
            self.dropped = Some(dropped);
        }
        Ok(Some((line, entry)))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<(u64, Entry), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let item = self.advance().transpose();
        self.over = !matches!(item, Some(Ok(_)));
        item
    }
}

/// One line without its end; `None` at the end of the file, and where it ends within the line.
fn next_line(source: &mut impl BufRead, line: u64) -> Result<Option<Vec<u8>>, ReadError> {
    let mut text = Vec::new();
    let mut bounded = source.take(LINE_BYTES_MAX as u64 + 1);
    bounded.read_until(b'\n', &mut text).map_err(|source| ReadError::Io { line, source })?;
    match text.pop() {
        Some(b'\n') => Ok(Some(text)),
        Some(_) if text.len() >= LINE_BYTES_MAX => Err(ReadError::Line { line, fault: LineError::TooLong }),
        None | Some(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Kind, fixture, line};
    use proptest::prelude::*;

    fn header() -> Vec<u8> {
        line(&fixture::header(Kind::Shrink)).expect("fits")
    }

    /// The number of the last line read and where the trace is cut, or the first error.
    fn read(rest: &[u8]) -> Result<(u64, Option<u64>), String> {
        let text = [&header(), rest].concat();
        let mut reader = Reader::new(text.as_slice()).map_err(|error| error.to_string())?;
        let items = reader.by_ref().map(|item| item.map_err(|error| error.to_string()));
        let last = items.into_iter().try_fold(1, |_, item| Ok::<_, String>(item?.0))?;
        Ok((last, reader.cut()))
    }

    const END: &[u8] = b"{\"at_us\":9,\"end\":{\"dropped\":0}}\n";
    const TICK: &[u8] = b"{\"at_us\":8,\"timeout\":{}}\n";

    #[test]
    fn a_whole_trace() {
        assert_eq!(read(&[TICK, TICK, END].concat()), Ok((4, None)));
    }

    #[test]
    fn of_a_trace_that_is_cut_what_is_whole_is_read_and_the_place_is_told() {
        let whole = [TICK, TICK, END].concat();
        for length in 0..whole.len() {
            let lines = whole[..length].split(|byte| *byte == b'\n').count() as u64 - 1;
            assert_eq!(read(&whole[..length]), Ok((lines + 1, Some(lines + 2))), "{length}");
        }
        let head = header();
        for length in 0..head.len() {
            let error = Reader::new(&head[..length]).err().map(|error| error.to_string());
            assert_eq!(
                error.as_deref(),
                Some("line 1: the trace is cut short: it has no header"),
                "{length}"
            );
        }
    }

    #[test]
    fn errors_name_their_line() {
        let check = |rest: &[&[u8]], says: &str| {
            let error = read(&rest.concat()).expect_err(says);
            assert!(error.starts_with(says), "{error}");
        };
        check(&[TICK, b"nonsense\n", END], "line 3: expected");
        check(&[TICK, b"\n", END], "line 3: EOF");
        check(&[END, TICK], "line 3: something follows");
        check(&[TICK, &vec![b' '; LINE_BYTES_MAX + 5], END], "line 3: longer than");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), whole in any::<bool>()) {
            let text = if whole { [header(), bytes].concat() } else { bytes };
            if let Ok(reader) = Reader::new(text.as_slice()) {
                prop_assert!(reader.count() <= 601);
            }
        }
    }
}
