//! How a resize ended. No I/O.

use super::{
    Told,
    look::{Cpu, Look},
    plan::{Set, Wanted},
    tell::{NotAsked, Unanswered},
};
use crate::{cgroup::shown, drift::raw, shrink::Confirmed};
use enforcer_gate::{Certificate, Limit, Verdict};
use std::fmt::Write as _;

/// How a resize ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What the gate can prove of the container's memory, where that was to go down.
    pub certificate: Option<Certificate>,
    /// What came of telling the runtime, where it was told.
    pub told: Option<Told>,
    /// What was set besides.
    pub set: Vec<Set>,
    /// What the gate can prove of the pod's memory, where that was to go down.
    pub pod_certificate: Option<Certificate>,
    /// How it is now; `None` where that could not be read.
    pub after: Option<Look>,
    /// What is not as it should be where limits act.
    pub mismatches: Vec<String>,
    /// What to know besides.
    pub notes: Vec<String>,
}

/// The kinds of ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All is as asked.
    Done,
    /// The gate refused it or took it back; of the pod's limit alone where the container's is as asked.
    Refused,
    /// Something failed; [`Outcome::why`] says what holds.
    Failed,
}

impl Outcome {
    /// How it ended.
    pub fn ended(&self) -> Ended {
        let of = |certificate: &Certificate| match certificate.verdict {
            Verdict::Committed | Verdict::Feasible => Ended::Done,
            Verdict::Refused(_) | Verdict::RolledBack(_) => Ended::Refused,
            Verdict::Failed(_) => Ended::Failed,
        };
        let own = self.certificate.as_ref().map_or(Ended::Done, of);
        if own != Ended::Done {
            return own;
        }
        if self.told.as_ref().is_some_and(|told| !told.is_taken()) || !self.mismatches.is_empty() {
            return Ended::Failed;
        }
        self.pod_certificate.as_ref().map_or(Ended::Done, of)
    }

    /// Whether the gate's limit is in force, also where the runtime may not have it yet.
    pub fn stands(&self) -> bool {
        let of_gate = self.certificate.as_ref().is_some_and(|found| found.verdict == Verdict::Committed);
        of_gate && self.told.as_ref().is_none_or(|told| told.confirmed() == Confirmed::Keep)
    }

    /// What went wrong with the runtime or the reading back, and what holds now; `None` where nothing did.
    pub fn why(&self) -> Option<String> {
        let holds = self.after.as_ref().map(|after| format!("memory.max in force is {}", after.memory()));
        let holds = holds.unwrap_or_else(|| "what is in force could not be read".into());
        let of_gate = self.certificate.as_ref().is_some_and(|found| found.verdict == Verdict::Committed);
        let Some(told) = &self.told else {
            let isnt = self.mismatches.join("; ");
            return (!isnt.is_empty()).then(|| format!("it was set, and yet {isnt}"));
        };
        let text = match told {
            Told::Taken | Told::TakenAfterAll(_) if self.mismatches.is_empty() => return None,
            Told::Taken | Told::TakenAfterAll(_) => {
                format!("the runtime took it, and yet {}", self.mismatches.join("; "))
            }
            Told::NotAsked(why) => {
                let why = match why {
                    NotAsked::Runtime(error) => format!("the runtime could not be asked: {error}"),
                    NotAsked::Gone => "the runtime has no such container any more".into(),
                    NotAsked::Raised(now) => {
                        format!(
                            "memory.max was raised to {now} meanwhile, which the update would lower unseen"
                        )
                    }
                    NotAsked::Unread(error) => format!("the limit in force can't be read: {error}"),
                    NotAsked::Stopped => "it was stopped before the runtime was asked".into(),
                };
                let is_raised = matches!(told, Told::NotAsked(NotAsked::Raised(_)));
                let back = if of_gate && !is_raised { "; the limit went back up" } else { "" };
                format!("{why}; the runtime has not taken it{back}; {holds}")
            }
            Told::Refused(error) => {
                let back = if of_gate { "; the limit went back up" } else { "" };
                format!("{error}; the runtime has not taken it{back}; {holds}")
            }
            Told::Open(why) => {
                let why = match why {
                    Unanswered::Call(error) => error.to_string(),
                    Unanswered::Stopped => "it was stopped while the runtime was asked".into(),
                };
                let stays = if of_gate {
                    "; the gate's limit stays, for raised now it could be lowered later without the gate"
                } else {
                    ""
                };
                format!("{why}; the runtime may have taken it, or may yet{stays}; {holds}")
            }
        };
        Some(text)
    }

    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self.told.as_ref() {
            Some(Told::NotAsked(NotAsked::Gone)) => "look whether it still runs",
            Some(Told::NotAsked(NotAsked::Runtime(_) | NotAsked::Stopped)) => {
                "look whether the container runtime hangs, and run it again"
            }
            Some(Told::Open(_)) => {
                "run the same command again when the container runtime answers: it makes both agree"
            }
            Some(Told::Refused(_)) => {
                "the log of the container runtime says more: journalctl -u containerd (or crio)"
            }
            Some(
                Told::NotAsked(NotAsked::Raised(_) | NotAsked::Unread(_))
                | Told::Taken
                | Told::TakenAfterAll(_),
            ) => "look who else writes the limits: enforcer drift; and run it again",
            None => "",
        }
    }
}

/// What is not as it should be.
pub(super) fn mismatches(wanted: &Wanted, after: &Look, sent_memory: i64) -> Vec<String> {
    let mut all = Vec::new();
    let at = |path: Option<&std::path::Path>| path.map(shown).unwrap_or_default();
    if let Some(memory) = wanted.memory
        && after.memory() != memory
    {
        let path = at(after.memory_level().map(|level| level.path.as_path()));
        all.push(format!("memory.max of {path} is {} and not {memory}", after.memory()));
    }
    if let (Some(swap), Some(now)) = (wanted.swap, after.swap())
        && swap != now
    {
        all.push(format!("memory.swap.max is {now} and not {swap}"));
    }
    if let (Some(cpu), Some(now)) = (wanted.cpu, after.cpu())
        && !same_cpu(cpu, now)
    {
        all.push(format!("cpu.max is {} and not {}", raw(now.value()), raw(cpu.value())));
    }
    if let (Some(weight), Some(now)) = (wanted.weight, after.weight())
        && weight != now
    {
        all.push(format!("cpu.weight is {now} and not {weight}"));
    }
    let says = after.status.as_ref().map_or(0, |status| status.memory_limit_in_bytes);
    if sent_memory != 0 && says != 0 && says != sent_memory {
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = write!(text, "the runtime says that the memory limit is {}", bytes(says));
        all.push(text);
    }
    all
}

/// As much time a period; a runtime that says no quota may leave another period.
fn same_cpu(wanted: Cpu, now: Cpu) -> bool {
    wanted == now || (wanted.quota.is_none() && now.quota.is_none())
}

fn bytes(said: i64) -> Limit {
    u64::try_from(said).map_or(Limit::Max, |bytes| Limit::Bytes(enforcer_gate::Bytes::new(bytes)))
}
