//! After a refused write of systemd's: has systemd hold what is in force.

use crate::cgroup::{Cgroup, Mount, shown as path};
use crate::cli::{failure::chain, json};
use crate::drift::{MendError, keep, raw, shown};
use crate::guard::Verdict;
use crate::probe::{Judged, LimitKind, LimitValue};
use enforcer_gate::CgroupId;
use serde::Serialize;
use std::collections::BTreeMap;
use tokio::task::JoinSet;

/// The host's first process, which systemd is where it is at all.
const INIT: u32 = 1;

type Place = (CgroupId, LimitKind);

/// What systemd is being told. Beside the guard's beat: systemd may not answer for seconds.
#[derive(Default)]
pub(super) struct Keeper {
    asked: JoinSet<Kept>,
    /// Where systemd is being told, and whether it was refused once more meanwhile.
    again: BTreeMap<Place, bool>,
}

struct Kept {
    place: Place,
    cgroup: String,
    done: Result<Option<LimitValue>, MendError>,
}

#[derive(Serialize)]
struct Fields<'a> {
    event: &'a str,
    cgroup: &'a str,
    cgroup_id: u64,
    file: &'a str,
    /// What systemd holds now.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl Keeper {
    /// Looks whether systemd was refused.
    pub(super) fn after(&mut self, judged: &Judged, mount: &Mount) {
        let Some(cgroup) = judged.cgroup else { return };
        if judged.verdict == Verdict::Denied && judged.writer.tgid == INIT {
            self.tell(mount, (cgroup, judged.file));
        }
    }

    fn tell(&mut self, mount: &Mount, place: Place) {
        if let Some(again) = self.again.get_mut(&place) {
            *again = true;
            return;
        }
        // Gone meanwhile, with its unit.
        let Ok(Some(found)) = mount.path_of(place.0) else { return };
        self.again.insert(place, false);
        let cgroup = path(&found);
        self.asked.spawn_blocking(move || {
            let done = Cgroup::open(&found).map_err(MendError::from).and_then(|found| keep(&found, place.1));
            Kept { place, cgroup, done }
        });
    }

    /// Waits for an answer: what to say of it. `None` where nothing is asked any more.
    pub(super) async fn next(&mut self, mount: &Mount, as_json: bool) -> Option<String> {
        loop {
            // A task that panicked has no answer.
            let Ok(kept) = self.asked.join_next().await? else { continue };
            if self.again.remove(&kept.place) == Some(true) {
                self.tell(mount, kept.place);
            } else if let Some(line) = line(&kept, as_json) {
                return Some(line);
            }
        }
    }
}

/// `None` where systemd has no such unit.
fn line(Kept { place: (id, file), cgroup, done }: &Kept, as_json: bool) -> Option<String> {
    let (value, why) = match done {
        Ok(None) => return None,
        Ok(Some(value)) => (Some(*value), None),
        Err(error) => (None, Some(chain(error))),
    };
    let file = file.name();
    if as_json {
        let event = if value.is_some() { "kept" } else { "not kept" };
        let value = value.map(|value| raw(value).to_string());
        return Some(json::line(&Fields { event, cgroup, cgroup_id: id.get(), file, value, why }));
    }
    Some(match (value, why) {
        (Some(value), _) => format!("kept: systemd holds {} for {cgroup} {file} again\n", shown(value)),
        (None, why) => format!(
            "not kept: systemd holds what was denied for {cgroup} {file} ({}), and sets it when the guard has gone\n",
            why.unwrap_or_default()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::parse;

    #[test]
    fn what_systemd_holds_is_told() {
        let place = (CgroupId::new(7), LimitKind::MemoryMax);
        let kept = |done| Kept { place, cgroup: "/c/a.scope".into(), done };
        let value = parse(LimitKind::MemoryMax, "128Mi");
        assert_eq!(line(&kept(Ok(None)), false), None);
        assert_eq!(
            line(&kept(Ok(value)), false).as_deref(),
            Some("kept: systemd holds 128Mi for /c/a.scope memory.max again\n")
        );
        assert_eq!(
            line(&kept(Ok(value)), true).as_deref(),
            Some(
                "{\"event\":\"kept\",\"cgroup\":\"/c/a.scope\",\"cgroup_id\":7,\"file\":\"memory.max\",\
                 \"value\":\"134217728\"}\n"
            )
        );
        let failed = line(&kept(Err(MendError::Lowers)), true).expect("a line");
        assert!(failed.contains("\"not kept\"") && failed.contains("\"why\":\"it would"), "{failed}");
    }
}
