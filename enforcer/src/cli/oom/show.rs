//! Records as rows and as log lines. No I/O. Names in records are escaped already.

use crate::{
    cli::{json, records::named},
    names::Place,
    oom::{Began, CgroupName, Lost, OomRecord, Owner, Stored},
    utc::utc,
};
use enforcer_gate::CgroupId;
use std::fmt::Write as _;

/// Columns of a row.
pub(super) const COLUMNS: usize = 6;

/// One row; `None` for what is only of interest to scripts.
pub(super) fn row(stored: &Stored) -> Option<[String; COLUMNS]> {
    match stored {
        Stored::Oom(record) => Some(oom(record)),
        Stored::Lost(lost) => Some(note(lost.wall_us, &describe_lost(lost))),
        Stored::Began(began) if began.lost.is_empty() => None,
        Stored::Began(began) => Some(note(began.wall_us, &describe_began(began))),
    }
}

/// One line of `name=value`, for a log.
pub(super) fn log_line(stored: &Stored) -> String {
    let mut line = Line(String::new());
    match stored {
        Stored::Oom(record) => {
            line.text("time", &utc(record.wall_us));
            line.text("event", "oom");
            line.number("seq", record.seq);
            let owner = record.owner_id().and_then(|id| record.cgroup(id));
            line.text("limit_of", &owner_text(record));
            if let Owner::Cgroup { id, usage, limit, .. } = &record.owner {
                line.number("cgroup_id", id.get());
                line.text("limit", &limit.raw().to_string());
                line.number("usage", usage.get());
            }
            line.text("cgroup", owner.and_then(|owner| owner.path.as_deref()).unwrap_or_default());
            let place = victim_place(record);
            line.text("pod_uid", place.and_then(|place| place.pod.as_deref()).unwrap_or_default());
            line.text("container_id", place.and_then(|place| place.container.as_deref()).unwrap_or_default());
            if let Some(first) = record.victims.first() {
                line.text("victim", &first.task.comm);
                line.number("pid", first.task.pid.into());
                line.number("rss", first.rss().get());
            }
            line.number("victims", record.victims.len() as u64 + u64::from(record.victims_lost));
            line.text("says", &record.says);
        }
        Stored::Lost(lost) => {
            line.text("time", &utc(lost.wall_us));
            line.text("event", "lost");
            line.text("says", &describe_lost(lost));
        }
        Stored::Began(began) => {
            line.text("time", &utc(began.wall_us));
            line.text("event", "began");
            line.text("kernel", &began.kernel);
            line.text("says", &describe_began(began));
        }
    }
    line.0 + "\n"
}

struct Line(String);

impl Line {
    fn text(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.add(name, json::line(&value).trim_end());
        }
    }

    fn number(&mut self, name: &str, value: u64) {
        self.add(name, &value.to_string());
    }

    fn add(&mut self, name: &str, value: &str) {
        let blank = if self.0.is_empty() { "" } else { " " };
        // Writing to a String can't fail.
        let _ = write!(self.0, "{blank}{name}={value}");
    }
}

fn oom(record: &OomRecord) -> [String; COLUMNS] {
    let first = record.victims.first();
    let more = record.victims.len().saturating_sub(1) + record.victims_lost as usize;
    let victim = match first {
        Some(first) if more > 0 => format!("{}[{}] +{more}", first.task.comm, first.task.pid),
        Some(first) => format!("{}[{}]", first.task.comm, first.task.pid),
        None => format!("{more} unknown"),
    };
    let limit = match record.owner {
        Owner::Cgroup { limit, .. } => limit.to_string(),
        Owner::Node | Owner::Unknown => String::new(),
    };
    let rss = first.map(|first| first.rss().to_string()).unwrap_or_default();
    [utc(record.wall_us), victim, rss, owner_text(record), limit, record.says.clone()]
}

fn note(wall_us: u64, text: &str) -> [String; COLUMNS] {
    let empty = String::new;
    [utc(wall_us), "-".into(), empty(), empty(), empty(), text.into()]
}

fn describe_lost(lost: &Lost) -> String {
    let kinds: Vec<_> = lost.dropped.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let mut text = String::new();
    if !kinds.is_empty() {
        let _ = write!(text, "the kernel had no room for {} records", kinds.join(", "));
    }
    if lost.unstored > 0 {
        let between = if text.is_empty() { "" } else { "; " };
        let _ = write!(text, "{between}{} OOMs could not be stored", lost.unstored);
    }
    text
}

fn describe_began(began: &Began) -> String {
    if began.lost.is_empty() {
        return "recording".into();
    }
    format!("recording without: {}", began.lost.join("; "))
}

/// The cgroup whose limit was hit, named as well as it can be.
fn owner_text(record: &OomRecord) -> String {
    match &record.owner {
        Owner::Cgroup { id, .. } => cgroup_text(*id, record.cgroup(*id)),
        Owner::Node => "node".into(),
        Owner::Unknown => "unknown".into(),
    }
}

fn cgroup_text(id: CgroupId, cgroup: Option<&CgroupName>) -> String {
    let Some(cgroup) = cgroup else { return format!("cgroup {id}", id = id.get()) };
    named(cgroup.place.as_ref(), cgroup.container.as_deref(), cgroup.pod.as_deref())
        .or_else(|| cgroup.path.clone())
        .unwrap_or_else(|| format!("cgroup {}", id.get()))
}

fn victim_place(record: &OomRecord) -> Option<&Place> {
    let id = record.victims.first()?.task.cgroup?;
    record.cgroup(id)?.place.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_said() {
        let mut lost = Lost { wall_us: 0, dropped: [("oom_kill".into(), 7)].into(), unstored: 0 };
        assert_eq!(describe_lost(&lost), "the kernel had no room for 7 oom_kill records");
        lost.unstored = 2;
        lost.dropped.clear();
        assert_eq!(describe_lost(&lost), "2 OOMs could not be stored");
        assert_eq!(
            log_line(&Stored::Lost(lost)),
            "time=\"1970-01-01T00:00:00Z\" event=\"lost\" says=\"2 OOMs could not be stored\"\n"
        );
    }

    #[test]
    fn a_recorder_that_sees_all_is_no_row() {
        let began = |lost: &[&str]| {
            let lost = lost.iter().map(|text| (*text).to_owned()).collect();
            Stored::Began(Began { wall_us: 0, boot_id: String::new(), kernel: "6.12".into(), lost })
        };
        assert_eq!(row(&began(&[])), None);
        let row = row(&began(&["OOM kills: whose limit"])).expect("a row");
        assert_eq!(row[5], "recording without: OOM kills: whose limit");
    }
}
