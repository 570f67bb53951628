//! How a command ends that could not be carried out: what failed, on what, why, what to do.

use super::json;
use crate::{
    actuate::ActuateError,
    admin::AskError,
    cgroup::{CgroupError, printable, shown},
    cri::CriError,
    node::{Facts, Need, State, WRITABLE, judge},
    probe::ProbeError,
    trace::WriteError,
};
use nix::{
    errno::Errno,
    sys::resource::{RLIM_INFINITY, Resource, getrlimit},
};
use serde::Serialize;
use std::{fmt::Write as _, io::Write as _, process::ExitCode};

/// The exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// Failed.
    Failed,
    /// Refused, or taken back, by the gate.
    Refused,
    /// A measurement says too little.
    Inconclusive,
    /// A measurement is not confirmed by the node.
    Unexplained,
    /// What is declared is less than what was measured.
    TooSmall,
    /// What is declared is far more than what was measured.
    TooLarge,
    /// Wrong usage or configuration (`EX_USAGE` of sysexits.h).
    Usage,
    /// The node lacks something (`EX_UNAVAILABLE` of sysexits.h).
    Unsupported,
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Refused => 2,
            Self::Inconclusive => 3,
            Self::Unexplained => 4,
            Self::TooSmall => 5,
            Self::TooLarge => 6,
            Self::Usage => 64,
            Self::Unsupported => 69,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Open files that every command has room for at least; a shrink needs some 50, and 10 for each cgroup above.
const FILES_MIN: u64 = 256;

/// Why a command could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// How the program ends.
    pub exit: Exit,
    /// What failed, as in "can't read the floor of".
    pub what: String,
    /// On what; empty where it is plain.
    pub on: String,
    /// Every reason, each with what to do about it.
    pub reasons: Vec<Reason>,
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Why.
    pub why: String,
    /// What to do; empty where there is nothing to do.
    #[serde(rename = "do", skip_serializing_if = "String::is_empty")]
    pub todo: String,
}

/// As JSON.
#[derive(Serialize)]
struct Fields<'a> {
    error: Error<'a>,
}

#[derive(Serialize)]
struct Error<'a> {
    exit: u8,
    what: &'a str,
    on: &'a str,
    reasons: &'a [Reason],
}

impl Failure {
    /// A failure with one reason. `on` is escaped here, the reason where it is printed.
    pub fn new(
        exit: Exit,
        what: &str,
        on: impl AsRef<std::path::Path>,
        why: &dyn std::fmt::Display,
        todo: impl Into<String>,
    ) -> Self {
        let reason = Reason { why: why.to_string(), todo: todo.into() };
        Self { exit, what: what.into(), on: shown(on), reasons: vec![reason] }
    }

    /// From an error of a cgroup.
    pub fn cgroup(what: &str, on: impl AsRef<std::path::Path>, error: &CgroupError) -> Self {
        let (exit, todo) = match error {
            CgroupError::NoMemoryController { .. } => {
                (Exit::Unsupported, "enforcer check says what this node has".into())
            }
            CgroupError::NoMemoryFiles { .. } => (
                Exit::Usage,
                "name a cgroup with a memory limit: find /sys/fs/cgroup -name memory.max lists them".into(),
            ),
            CgroupError::NoSuch { .. } | CgroupError::BadPath { .. } => (
                Exit::Usage,
                "look for its path: /proc/PID/cgroup has that of a process, and find /sys/fs/cgroup -type d lists \
                 all"
                    .into(),
            ),
            CgroupError::Gone { .. } => (Exit::Failed, "look whether the container still runs".into()),
            CgroupError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                (Exit::Unsupported, "run it as root: sudo enforcer ...".into())
            }
            CgroupError::Io { source, .. } if source.kind() == std::io::ErrorKind::ReadOnlyFilesystem => {
                (Exit::Unsupported, WRITABLE.into())
            }
            CgroupError::Io { .. }
            | CgroupError::Malformed { .. }
            | CgroupError::TooLong { .. }
            | CgroupError::TooManyBelow { .. }
            | CgroupError::TooDeepBelow { .. } => (Exit::Failed, String::new()),
        };
        Self::new(exit, what, on, error, of_the_process(error).unwrap_or(todo))
    }

    /// Prints it on standard error.
    pub fn print(&self, json: bool) {
        to_stderr(&self.render(json));
    }

    fn render(&self, json: bool) -> String {
        if json {
            let Self { exit, what, on, reasons } = self;
            return json::line(&Fields { error: Error { exit: exit.code(), what, on, reasons } });
        }
        let blank = if self.on.is_empty() { "" } else { " " };
        let mut text = format!("error: {}{blank}{}\n", self.what, self.on);
        for Reason { why, todo } in &self.reasons {
            // Writing to a String can't fail.
            let _ = writeln!(text, "  {}", printable(why));
            if !todo.is_empty() {
                let _ = writeln!(text, "    -> {}", printable(todo));
            }
        }
        text
    }
}

/// Says why a command can't be carried out.
pub(super) fn to_stderr(text: &str) {
    // Nobody is left to be told where standard error is closed.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// From an error of what changes cgroups.
pub(super) fn actuate(what: &str, on: impl AsRef<std::path::Path>, error: &ActuateError) -> Failure {
    let (exit, todo) = match error {
        ActuateError::Cgroup(error) => return Failure::cgroup(what, on, error),
        ActuateError::StateDir { .. } => (Exit::Usage, "name another folder with --state-dir"),
        ActuateError::InProgress { .. } => (
            Exit::Failed,
            "wait for it, or end it: it puts everything back; one that is stopped goes on with kill -CONT",
        ),
        ActuateError::NoSafeWrite { .. } => (
            Exit::Unsupported,
            "give it CAP_SYS_PTRACE, and let its seccomp filter pass userfaultfd; or use Linux 6.16 or newer",
        ),
        ActuateError::Locked { .. } => (Exit::Failed, "end it, or look what it waits for"),
        ActuateError::Unsettled { .. }
        | ActuateError::TooManyJournals { .. }
        | ActuateError::NotRestored { .. } => (Exit::Failed, "enforcer recover settles what is left"),
        ActuateError::Undone { .. } => (Exit::Failed, "try again"),
        ActuateError::PathTooLong { .. } | ActuateError::Restorer { .. } | ActuateError::System { .. } => {
            (Exit::Failed, "")
        }
    };
    Failure::new(exit, what, on, error, of_the_process(error).unwrap_or_else(|| todo.into()))
}

/// From an error of a trace that was to be written.
pub(super) fn trace(what: &str, on: impl AsRef<std::path::Path>, error: &WriteError) -> Failure {
    let (exit, todo) = match error {
        WriteError::Header { .. } => (Exit::Failed, ""),
        WriteError::Io { call, source, .. } => match source.raw_os_error() {
            Some(libc::EEXIST) => {
                (Exit::Usage, "nothing is written over: name a file that does not exist yet")
            }
            Some(libc::ENOENT) => (Exit::Usage, "make its folder first, or name a file in another"),
            Some(libc::ENOTDIR) => (Exit::Usage, "name a file in a folder"),
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
                (Exit::Usage, "name a file in a folder that can be written to")
            }
            Some(libc::ENOSPC | libc::EDQUOT) => (Exit::Failed, "name a new file where there is room"),
            _ if *call == "create" => (Exit::Usage, "name another file"),
            _ => (Exit::Failed, ""),
        },
    };
    Failure::new(exit, what, on, error, of_the_process(error).unwrap_or_else(|| todo.into()))
}

/// From an error of the kernel programs.
pub(super) fn probe(what: &str, on: impl AsRef<std::path::Path>, error: &ProbeError) -> Failure {
    let exit = match error {
        ProbeError::NoBtf { .. } | ProbeError::Btf { .. } | ProbeError::NotPermitted { .. } => {
            Exit::Unsupported
        }
        ProbeError::Object(_)
        | ProbeError::Option { .. }
        | ProbeError::NotInObject(_)
        | ProbeError::Map { .. }
        | ProbeError::WatchedFull { .. }
        | ProbeError::Record(_)
        | ProbeError::Wait(_) => Exit::Failed,
    };
    let todo = || "enforcer check says what this node has".into();
    Failure::new(exit, what, on, &chain(error), of_the_process(error).unwrap_or_else(todo))
}

/// From an error of the container runtime.
pub(super) fn cri(what: &str, error: &CriError) -> Failure {
    let exit = match error {
        CriError::BadAddress { .. } => Exit::Usage,
        CriError::NoSocket { .. }
        | CriError::Connect { .. }
        | CriError::Deadline { .. }
        | CriError::Broken { .. }
        | CriError::Unimplemented { .. } => Exit::Unsupported,
        CriError::NotFound { .. } | CriError::TooLong { .. } | CriError::Failed { .. } => Exit::Failed,
    };
    Failure::new(exit, what, "", error, of_the_process(error).unwrap_or_else(|| error.advice().into()))
}

/// From a question to the agent.
pub(super) fn admin(what: &str, error: &AskError) -> Failure {
    let exit = match error {
        AskError::NoAgent { .. } | AskError::Connect { .. } | AskError::Deadline { .. } => Exit::Unsupported,
        AskError::Refused { status: 400 | 404 | 422, .. } => Exit::Usage,
        AskError::Refused { .. }
        | AskError::Broken { .. }
        | AskError::TooLong { .. }
        | AskError::Unknown { .. } => Exit::Failed,
    };
    let todo = of_the_process(error).unwrap_or_else(|| error.advice().into());
    let mut failure = Failure::new(exit, what, "", error, todo);
    // A configuration's errors come a line each.
    if let (AskError::Refused { error, .. }, [only]) = (error, &mut failure.reasons[..])
        && error.trim_end().contains('\n')
    {
        let todo = std::mem::take(&mut only.todo);
        let reason = |line: &str| Reason { why: line.to_owned(), todo: String::new() };
        failure.reasons = error.lines().map(reason).collect();
        if let Some(last) = failure.reasons.last_mut() {
            last.todo = todo;
        }
    }
    failure
}

/// What to do where an error comes of this process's limits, or the node's; nothing else helps then.
pub(super) fn of_the_process(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut numbers = causes.filter_map(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        io.or_else(|| cause.downcast_ref::<Errno>().map(|errno| *errno as i32))
    });
    numbers.find_map(|number| match number {
        libc::EMFILE => Some(MORE_FILES.into()),
        // Also an error of ours, where nothing limits files.
        libc::EFBIG if getrlimit(Resource::RLIMIT_FSIZE).is_ok_and(|(limit, _)| limit != RLIM_INFINITY) => {
            Some(BIGGER_FILES.into())
        }
        libc::ENFILE => Some("the whole node is out of open files: raise sysctl fs.file-max".into()),
        _ => None,
    })
}

const MORE_FILES: &str = "let it open more files: ulimit -n 1024, or LimitNOFILE=1024 in its unit";

const BIGGER_FILES: &str =
    "let it write bigger files: ulimit -f unlimited, or LimitFSIZE=infinity in its unit";

/// Fails where this process may open too few files: anything at all could go missing then.
fn require_files(what: &str, on: impl AsRef<std::path::Path>) -> Result<(), Failure> {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((limit, _)) if limit < FILES_MIN => {
            let why = format!("this process may open {limit} files, and may need {FILES_MIN}");
            Err(Failure::new(Exit::Unsupported, what, on, &why, MORE_FILES))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

pub(super) use crate::chain::chain;

/// Fails with everything of `needs` that this node lacks.
pub(super) fn require(what: &str, on: impl AsRef<std::path::Path>, needs: &[Need]) -> Result<(), Failure> {
    require_files(what, &on)?;
    let findings = judge(&Facts::gather());
    let reasons: Vec<_> = findings
        .into_iter()
        .filter(|finding| finding.state == State::Missing && needs.contains(&finding.need))
        .map(|finding| Reason {
            why: format!("{}: {}", finding.need.title(), finding.found),
            todo: finding.todo,
        })
        .collect();
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Failure { exit: Exit::Unsupported, what: what.into(), on: shown(on), reasons })
}

/// From what clap says of a command line: what is wrong, then how it is right.
pub(super) fn usage(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(shown).collect();
    let advice = ["Usage:", "tip:", "For more information"];
    let is_advice = |line: &String| advice.iter().any(|word| line.starts_with(word));
    let (wrong, right) = lines.split_at(lines.iter().position(is_advice).unwrap_or(lines.len()));
    let why = wrong.join(" ");
    let why = why.strip_prefix("error: ").unwrap_or(&why).to_owned();
    Failure {
        exit: Exit::Usage,
        what: "the command line is wrong".into(),
        on: String::new(),
        reasons: vec![Reason { why, todo: right.join("; ") }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_what_on_what_why_and_what_to_do() {
        let failure = Failure::new(Exit::Failed, "can't read", "a\u{1b}[2J", &"it is gone", "start it again");
        assert_eq!(
            failure.render(false),
            "error: can't read a\\u{1b}[2J\n  it is gone\n    -> start it again\n"
        );
        assert_eq!(
            failure.render(true),
            "{\"error\":{\"exit\":1,\"what\":\"can't read\",\"on\":\"a\\\\u{1b}[2J\",\"reasons\":\
             [{\"why\":\"it is gone\",\"do\":\"start it again\"}]}}\n"
        );
    }

    #[test]
    fn too_few_descriptors_are_named_whoever_met_them() {
        let io = || std::io::Error::from_raw_os_error(libc::EMFILE);
        let cgroup = || CgroupError::io("a", "open", io());
        let failures = [
            Failure::cgroup("w", "a", &cgroup()),
            actuate("w", "a", &ActuateError::Cgroup(cgroup())),
            actuate("w", "a", &ActuateError::state("s", "open", io())),
            actuate("w", "a", &ActuateError::system("make a socket pair", Errno::EMFILE)),
            probe("w", "a", &ProbeError::Wait(io())),
        ];
        for failure in failures {
            assert!(failure.reasons[0].todo.contains("ulimit -n"), "{failure:?}");
            assert!(!failure.reasons[0].why.contains("another"), "{failure:?}");
        }
        let read_only = CgroupError::io("a", "write", std::io::Error::from_raw_os_error(libc::EROFS));
        for failure in [Failure::cgroup("w", "a", &read_only), actuate("w", "a", &read_only.into())] {
            assert!(failure.reasons[0].todo.contains("remount"), "{failure:?}");
        }
        let full = ActuateError::state("s", "open", std::io::Error::from_raw_os_error(libc::ENOSPC));
        assert!(!actuate("w", "a", &full).reasons[0].todo.contains("ulimit"));
    }

    #[test]
    fn a_trace_that_can_not_be_made_is_told_how() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("taken");
        std::fs::write(&file, "").expect("writes");
        let header = crate::trace::fixture::header(crate::trace::Kind::Samples);
        for (path, todo) in [
            (file.clone(), "nothing is written over"),
            (dir.path().join("no/folder"), "make its folder first"),
            (file.join("below"), "name a file in a folder"),
            (dir.path().to_owned(), "nothing is written over"),
        ] {
            let Err(error) = crate::trace::Writer::create(&path, &header) else {
                panic!("{path:?} was made")
            };
            let failure = trace("can't record", &path, &error);
            assert_eq!(failure.exit, Exit::Usage, "{failure:?}");
            assert!(failure.reasons[0].todo.starts_with(todo), "{failure:?}");
        }
        let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
        let full = WriteError::Io { path: file, call: "write", source: full };
        let failure = trace("can't record", "a", &full);
        assert!(failure.exit == Exit::Failed && failure.reasons[0].todo.contains("room"), "{failure:?}");
    }

    #[test]
    fn a_message_that_quotes_what_it_was_given_is_escaped() {
        let failure =
            Failure::new(Exit::Usage, "can't replay", "t", &"unknown field `\u{1b}[2J\u{202e}`", "");
        assert_eq!(failure.render(false), "error: can't replay t\n  unknown field `\\u{1b}[2J\\u{202e}`\n");
    }

    #[test]
    fn a_wrong_command_line_is_escaped() {
        let error =
            super::super::Cli::try_parse_from(["enforcer", "\u{1b}[2J\u{202e}"]).expect_err("no command");
        let text = usage(&error).render(false);
        assert!(text.contains("\\u{202e}"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    }

    use clap::Parser as _;

    #[test]
    fn the_errors_of_a_configuration_have_lines_of_their_own() {
        let error = "f:1:1: a \u{1b}[2J\nf:2:1: b\n".to_owned();
        let failure =
            admin("can't have it read", &AskError::Refused { status: 422, error, todo: "mend it".into() });
        let reasons: Vec<_> =
            failure.reasons.iter().map(|reason| (reason.why.as_str(), reason.todo.as_str())).collect();
        assert_eq!(reasons, [("f:1:1: a \u{1b}[2J", ""), ("f:2:1: b", "mend it")]);
        assert!(!failure.render(false).contains('\u{1b}'));
    }
}
