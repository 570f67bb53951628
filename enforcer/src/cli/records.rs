//! Showing what a store holds: options, filters and the loop that every command has which does so.

use super::{
    Exit, Failure, json, options, print, printed,
    table::{Align, table},
};
use crate::{
    cgroup::shown,
    clock::wall_us,
    names::Place,
    store::{Fault, Follower, Payload, Reader, Record, StoreError},
};
use clap::Args;
use enforcer_gate::Micros;
use serde::Serialize;
use std::{fmt::Write as _, path::Path};

/// How records are shown, and how old they may be.
#[derive(Debug, Default, Args)]
pub(super) struct ShowOptions {
    /// Print JSON: one object a line, and errors as JSON on standard error
    #[arg(long)]
    pub(super) json: bool,
    /// Go on with new ones as they are recorded
    #[arg(long)]
    pub(super) follow: bool,
    /// Only those of the last TIME, such as 10m
    #[arg(long, value_name = "TIME", value_parser = options::span)]
    since: Option<Micros>,
}

impl ShowOptions {
    /// From when on records are wanted: microseconds since 1970.
    pub(super) fn since_us(&self) -> u64 {
        self.since.map_or(0, |since| wall_us().saturating_sub(since.get()))
    }
}

/// Whether a cgroup is the one that was asked for, or below it. Paths may begin with the mount or be below it.
pub(super) fn is_below(path: &str, wanted: &str) -> bool {
    let (path, wanted) = (below_mount(path), below_mount(wanted));
    let rest = path.strip_prefix(wanted);
    rest.is_some_and(|rest| wanted.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

/// A path below the cgroup mount, as it stands there.
pub(super) fn below_mount(path: &str) -> &str {
    let rest = path.strip_prefix("/sys/fs/cgroup").filter(|rest| rest.is_empty() || rest.starts_with('/'));
    rest.unwrap_or(path).trim_matches('/')
}

/// A pod's or a container's cgroup, named as well as it can be; `None` for any other.
pub(super) fn named(place: Option<&Place>, container: Option<&str>, pod: Option<&str>) -> Option<String> {
    let place = place.filter(|place| place.container.is_some() || place.pod.is_some())?;
    let names: Vec<&str> = [container, pod].into_iter().flatten().collect();
    Some(if names.is_empty() { place.to_string() } else { format!("{place} ({})", names.join(" of ")) })
}

/// A kind of records, and how they are shown in `N` columns.
pub(super) struct Shown<'a, T, const N: usize> {
    /// What can't be done where it fails, as in "can't show the records in".
    pub(super) what: &'a str,
    /// What makes the store.
    pub(super) maker: &'a str,
    /// Said where there is nothing to show.
    pub(super) nothing: &'a str,
    /// What stands above the rows.
    pub(super) head: [&'a str; N],
    /// How the columns stand.
    pub(super) align: [Align; N],
    /// One row; `None` for what is only of interest to scripts.
    pub(super) row: fn(&T) -> Option<[String; N]>,
}

impl<T: Payload + Serialize, const N: usize> Shown<'_, T, N> {
    /// Prints the records in a folder that are wanted.
    pub(super) fn run(
        &self,
        folder: &Path,
        options: &ShowOptions,
        wants: impl Fn(&T) -> bool,
    ) -> Result<Exit, Failure> {
        let fail = |error: &StoreError| {
            let todo = if error.is_missing() {
                format!("the agent (enforcer run) makes it, or {}: leave one of them running", self.maker)
            } else {
                String::new()
            };
            Failure::new(Exit::Failed, self.what, folder, error, todo)
        };
        // One that this version can't read is somebody else's.
        let read = |record: &Record| T::decode(record).ok().flatten();
        let wanted = |record: &Record| read(record).filter(&wants);
        if options.follow {
            let mut follower = Follower::open(folder).map_err(|error| fail(&error))?;
            loop {
                let record = follower.next_record().map_err(|error| fail(&error))?;
                if let Some(stored) = wanted(&record)
                    && !printed(&self.line(&stored, options.json))?
                {
                    // Whoever read this has gone.
                    return Ok(Exit::Done);
                }
            }
        }
        let mut reader = Reader::open(folder).map_err(|error| fail(&error))?;
        let mut rows = vec![self.head.map(String::from)];
        let mut passed_over = 0_u64;
        while let Some(record) = reader.next_record().map_err(|error| fail(&error))? {
            let Some(stored) = read(&record) else { continue };
            if !wants(&stored) {
                passed_over += u64::from((self.row)(&stored).is_some());
                continue;
            }
            if options.json {
                if !printed(&json::line(&stored))? {
                    return Ok(Exit::Done);
                }
            } else {
                rows.extend((self.row)(&stored));
            }
        }
        if !options.json {
            print(&match (rows.len(), passed_over) {
                (1, 0) => format!("{}\n", self.nothing),
                (1, all) => format!("none of the {all} rows is what was asked for\n"),
                _ => table(0, self.align, &rows),
            })?;
        }
        tell_faults(&reader);
        Ok(Exit::Done)
    }

    fn line(&self, stored: &T, as_json: bool) -> String {
        if as_json {
            return json::line(stored);
        }
        (self.row)(stored).map(|row| table(0, self.align, &[row])).unwrap_or_default()
    }
}

/// On standard error, so that what reads the records is not disturbed.
fn tell_faults(reader: &Reader) {
    let faults = reader.faults();
    let mut text = String::new();
    for fault in &faults.first {
        // Writing to a String can't fail.
        let _ = match fault {
            Fault::Segment { path, why } => writeln!(text, "note: {} was not read: {why}", shown(path)),
            Fault::Record { path, number } => {
                writeln!(text, "note: record {number} in {} is damaged and left out", shown(path))
            }
            Fault::Tail { path, offset } => writeln!(
                text,
                "note: {} ends at byte {offset} with no whole record, as after a crash",
                shown(path)
            ),
        };
    }
    let more = faults.count.saturating_sub(faults.first.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "note: and {more} more");
    }
    // Nobody is left to be told where standard error is closed.
    let _ = std::io::Write::write_all(&mut std::io::stderr().lock(), text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_and_what_is_below_it() {
        for path in ["kubepods/pod1-2/x", "/sys/fs/cgroup/kubepods/pod1-2/x"] {
            for (wanted, expected) in [
                ("kubepods", true),
                ("/kubepods/", true),
                ("/sys/fs/cgroup/kubepods/pod1-2/x", true),
                ("/", true),
                ("/sys/fs/cgroup", true),
                ("kubepods/pod1", false),
                ("pod1-2", false),
            ] {
                assert_eq!(is_below(path, wanted), expected, "{wanted}");
            }
        }
        assert!(!is_below("cgroup 12", "kubepods") && !is_below("/sys/fs/cgroup2/a", "a"));
    }
}
