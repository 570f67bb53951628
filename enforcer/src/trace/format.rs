//! The lines of a trace. No I/O.

use enforcer_gate::{CgroupId, Command, Instant, Outcome, Policy, Sample, Signal};
use serde::{Deserialize, Serialize};

/// The format that this program writes, and the only one that it reads.
pub const TRACE_VERSION: u32 = 1;

/// Most bytes of one line, its end not counted. The longest that is written is a reading with the limits of a
/// deep tree of ancestors.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// The first line: what was recorded and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`TRACE_VERSION`].
    pub trace_version: u32,
    /// What the entries are.
    pub kind: Kind,
    /// Version of enforcer that wrote it.
    pub enforcer: String,
    /// Release of the kernel (untrusted text).
    pub kernel: String,
    /// The cgroup's path below the mount (untrusted text).
    pub cgroup: String,
    /// The cgroup's id.
    pub cgroup_id: CgroupId,
    /// The thresholds in force.
    pub policy: Policy,
}

/// What a trace holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A shrink: everything that went into its gate and came out of it.
    Shrink,
    /// Readings only, of a cgroup that was left alone.
    Samples,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// When, in microseconds on the recorder's monotonic clock.
    pub at_us: Instant,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The gate was told something.
    Signal(Signal),
    /// The gate was told what came of a command.
    Outcome(Outcome),
    /// The gate was told that time passed.
    Timeout {},
    /// The gate was told something for its certificate (untrusted text).
    Note(String),
    /// The gate asked for something.
    Command(Command),
    /// A reading, with no gate involved.
    Sample(Box<Sample>),
    /// The recording ended as it should.
    End {
        /// Entries that the recorder could not keep.
        dropped: u64,
    },
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Longer than [`LINE_BYTES_MAX`].
    #[error("longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// Not what belongs there.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// The first line is no header, of any version.
    #[error("it is not a trace")]
    NotATrace,
    /// A format of another version.
    #[error("trace version {0}; this enforcer reads version {TRACE_VERSION}")]
    Version(u32),
}

impl Header {
    /// Reads the first line of a trace.
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        /// Of a header of any version, this much stays.
        #[derive(Deserialize)]
        struct Version {
            trace_version: u32,
        }
        let Version { trace_version } = parse(line).map_err(|_| LineError::NotATrace)?;
        if trace_version != TRACE_VERSION {
            return Err(LineError::Version(trace_version));
        }
        parse(line)
    }
}

impl Entry {
    /// Reads any other line.
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        parse(line)
    }
}

fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, LineError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(LineError::TooLong);
    }
    Ok(serde_json::from_slice(line)?)
}

/// A header or an entry as a line, its end included.
pub fn line<T: Serialize>(value: &T) -> Result<Vec<u8>, LineError> {
    let mut text = serde_json::to_vec(value)?;
    if text.len() > LINE_BYTES_MAX {
        return Err(LineError::TooLong);
    }
    text.push(b'\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use enforcer_gate::{Action, Bytes, CommandId, OutcomeKind, Request};
    use proptest::prelude::*;

    fn check(text: &str, event: Event) {
        let entry = Entry { at_us: Instant::new(7), event };
        assert_eq!(Entry::parse(text.as_bytes()).expect(text), entry);
        assert_eq!(line(&entry).expect("fits"), [text.as_bytes(), b"\n"].concat());
    }

    #[test]
    fn entries_look_like_this() {
        let request =
            Request { target: Bytes::from_mib(1), dry_run: false, pressure_killer: None, by_other: false };
        check(
            r#"{"at_us":7,"signal":{"request":{"target":1048576,"dry_run":false,"pressure_killer":null}}}"#,
            Event::Signal(Signal::Request(request)),
        );
        check(r#"{"at_us":7,"signal":"pressure"}"#, Event::Signal(Signal::Pressure));
        check(
            r#"{"at_us":7,"outcome":{"id":3,"kind":"done"}}"#,
            Event::Outcome(Outcome { id: CommandId(3), kind: OutcomeKind::Done }),
        );
        check(
            r#"{"at_us":7,"command":{"id":3,"action":"observe"}}"#,
            Event::Command(Command { id: CommandId(3), action: Action::Observe }),
        );
        check(r#"{"at_us":7,"timeout":{}}"#, Event::Timeout {});
        check(r#"{"at_us":7,"note":"a"}"#, Event::Note("a".into()));
        check(r#"{"at_us":7,"end":{"dropped":2}}"#, Event::End { dropped: 2 });
    }

    #[test]
    fn what_is_no_entry() {
        for text in
            ["", "{}", "null", "{\"at_us\":1}", "{\"at_us\":-1,\"timeout\":{}}", "{\"at_us\":1,\"what\":{}}"]
        {
            assert!(matches!(Entry::parse(text.as_bytes()), Err(LineError::Json(_))), "{text}");
        }
        let long = vec![b' '; LINE_BYTES_MAX + 1];
        assert!(matches!(Entry::parse(&long), Err(LineError::TooLong)));
        let deep = "[".repeat(LINE_BYTES_MAX);
        assert!(Entry::parse(deep.as_bytes()).is_err());
    }

    #[test]
    fn another_version_is_named_before_its_fields() {
        let error = Header::parse(br#"{"trace_version":2,"news":1}"#).expect_err("another version");
        assert_eq!(error.to_string(), "trace version 2; this enforcer reads version 1");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Header::parse(&bytes);
            let _ = Entry::parse(&bytes);
        }

        #[test]
        fn a_damaged_line_does_not_panic(at in 0_usize..60, byte in any::<u8>()) {
            let mut text = br#"{"at_us":7,"outcome":{"id":3,"kind":{"failed":{"what":"w","errno":5}}}}"#.to_vec();
            text[at] = byte;
            if let Ok(entry) = Entry::parse(&text) {
                prop_assert_eq!(Entry::parse(line(&entry).expect("fits").trim_ascii_end()).expect("again"), entry);
            }
        }
    }
}
