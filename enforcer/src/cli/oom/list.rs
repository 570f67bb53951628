//! `enforcer oom`: what was recorded.

use super::{
    ListOptions,
    filter::Filter,
    show::{self, COLUMNS},
};
use crate::{
    cgroup::shown,
    cli::{
        self, Exit, Failure, json,
        table::{Align, table},
    },
    oom::Stored,
    store::{Fault, Follower, Reader, Record, StoreError},
};
use std::{
    fmt::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

const WHAT: &str = "can't show the OOM records in";
/// The RSS and the limit are numbers.
const ALIGN: [Align; COLUMNS] =
    [Align::Left, Align::Left, Align::Right, Align::Left, Align::Right, Align::Left];

pub(super) fn run(options: &ListOptions) -> Result<Exit, Failure> {
    let folder = &options.store.store;
    let fail = |error: &StoreError| {
        let todo = if error.is_missing() { "enforcer oom record makes it: leave that running" } else { "" };
        Failure::new(Exit::Failed, WHAT, folder, error, todo)
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let filter = Filter::new(options, u64::try_from(now.as_micros()).unwrap_or(u64::MAX));
    if options.follow {
        let mut follower = Follower::open(folder).map_err(|error| fail(&error))?;
        loop {
            let record = follower.next_record().map_err(|error| fail(&error))?;
            if let Some(stored) = wanted(&record, &filter)
                && !cli::printed(&line(&stored, options.json))?
            {
                // Whoever read this has gone.
                return Ok(Exit::Done);
            }
        }
    }
    let mut reader = Reader::open(folder).map_err(|error| fail(&error))?;
    let mut rows = vec![show::head()];
    while let Some(record) = reader.next_record().map_err(|error| fail(&error))? {
        let Some(stored) = wanted(&record, &filter) else { continue };
        if options.json {
            if !cli::printed(&json::line(&stored))? {
                return Ok(Exit::Done);
            }
        } else {
            rows.extend(show::row(&stored));
        }
    }
    if !options.json {
        let empty = rows.len() == 1;
        cli::print(&if empty { "no OOM was recorded\n".into() } else { table(0, ALIGN, &rows) })?;
    }
    tell_faults(&reader);
    Ok(Exit::Done)
}

/// A record that is ours and wanted. One that this version can't read is somebody else's.
fn wanted(record: &Record, filter: &Filter<'_>) -> Option<Stored> {
    Stored::decode(record).ok().flatten().filter(|stored| filter.wants(stored))
}

fn line(stored: &Stored, as_json: bool) -> String {
    if as_json {
        return json::line(stored);
    }
    show::row(stored).map(|row| table(0, ALIGN, &[row])).unwrap_or_default()
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
