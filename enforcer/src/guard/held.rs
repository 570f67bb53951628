//! After a refused write of systemd's: has systemd hold what is in force.

use super::Verdict;
use crate::cgroup::{Cgroup, Mount};
use crate::drift::{MendError, keep};
use crate::probe::{Judged, LimitKind, LimitValue};
use enforcer_gate::CgroupId;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio::task::JoinSet;

/// The host's first process, which systemd is where it is at all.
const INIT: u32 = 1;

type Place = (CgroupId, LimitKind);

/// What systemd is being told. Beside the guard's beat: systemd may not answer for seconds.
#[derive(Default)]
pub struct Keeper {
    asked: JoinSet<Kept>,
    /// Where systemd is being told, and whether it was refused once more meanwhile.
    again: BTreeMap<Place, bool>,
}

/// What systemd was told.
#[derive(Debug)]
pub struct Kept {
    /// Whose limit.
    pub id: CgroupId,
    /// Which.
    pub file: LimitKind,
    /// Its path.
    pub cgroup: PathBuf,
    /// What systemd holds now; `None` where it has no such unit.
    pub done: Result<Option<LimitValue>, MendError>,
}

impl Keeper {
    /// Looks whether systemd was refused.
    pub fn after(&mut self, judged: &Judged, mount: &Mount) {
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
        let Ok(Some(cgroup)) = mount.path_of(place.0) else { return };
        self.again.insert(place, false);
        self.asked.spawn_blocking(move || {
            let (id, file) = place;
            let done = Cgroup::open(&cgroup).map_err(MendError::from).and_then(|found| keep(&found, file));
            Kept { id, file, cgroup, done }
        });
    }

    /// Waits for an answer. `None` where nothing is asked any more. Cancel safe.
    pub async fn next(&mut self, mount: &Mount) -> Option<Kept> {
        loop {
            // A task that panicked has no answer.
            let Ok(kept) = self.asked.join_next().await? else { continue };
            let place = (kept.id, kept.file);
            if self.again.remove(&place) == Some(true) {
                self.tell(mount, place);
            } else if !matches!(kept.done, Ok(None)) {
                return Some(kept);
            }
        }
    }
}
