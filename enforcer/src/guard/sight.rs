//! Whether the armed guard sees what it judges by: a write that changes nothing, and what the program says of it.

use super::{Cover, Guard, GuardError, GuardMode};
use crate::cgroup::{Cgroup, parse};
use crate::quantity::exact;
use enforcer_abi::{LimitKind, Reason};
use enforcer_gate::{Bytes, Limit};
use nix::fcntl::OFlag;

/// Looks at a busy cgroup, whose figures change between two readings.
const LOOKS_MAX: usize = 3;
/// Usage may be off by one part in so many, and by so much, while processes run.
const SHARE: u64 = 4;
const SLACK: Bytes = Bytes::from_mib(4);

impl Guard {
    /// Writes nothing (an empty string, which no kernel takes for a value) to the cgroup's `memory.max` and compares
    /// what the kernel program saw with the files. The cgroup is left uncovered.
    ///
    /// Fails with [`GuardError::Blind`] where the program was not asked, or read other figures.
    pub fn look_at(&mut self, cgroup: &Cgroup) -> Result<(), GuardError> {
        let file = LimitKind::MemoryMax;
        let cover =
            Cover { mode: GuardMode::Audit, files: vec![file], margin: Bytes::ZERO, own: true, below: false };
        self.cover(cgroup.id(), &cover)?;
        let mut result = Ok(());
        for _ in 0..LOOKS_MAX {
            result = self.look(cgroup, file);
            if !matches!(result, Err(GuardError::Blind { .. })) {
                break;
            }
        }
        self.uncover(cgroup.id());
        result
    }

    fn look(&mut self, cgroup: &Cgroup, file: LimitKind) -> Result<(), GuardError> {
        let blind = |what: String| GuardError::Blind { what };
        let before = figures(cgroup)?;
        let fd = cgroup.open_file(file.name(), OFlag::O_WRONLY)?;
        // What it returns does not matter: it is judged before.
        let _ = nix::unistd::write(&fd, b"");
        let after = figures(cgroup)?;
        while let Some(judged) = self.try_next() {
            let judged = judged?;
            if judged.cgroup != Some(cgroup.id()) || judged.reason != Reason::NoValue {
                continue;
            }
            let (least, most) = (before.1.min(after.1), before.1.max(after.1));
            let slack = SLACK.saturating_add(Bytes::new(most.get() / SHARE));
            let fits = judged.usage >= least.saturating_sub(slack)
                && judged.usage <= most.saturating_add(slack)
                && (judged.usage > Bytes::ZERO || least == Bytes::ZERO);
            if !fits {
                let (read, said) = (exact(judged.usage), exact(most));
                return Err(blind(format!("it reads a usage of {read}, the file says {said}")));
            }
            if judged.limit != before.0 && judged.limit != after.0 {
                return Err(blind(format!(
                    "it reads a limit of {}, the file says {}",
                    judged.limit, after.0
                )));
            }
            return Ok(());
        }
        Err(blind("the kernel did not ask it about a write (is bpf among the security modules?)".into()))
    }
}

fn figures(cgroup: &Cgroup) -> Result<(Limit, Bytes), GuardError> {
    Ok((cgroup.limit("memory.max")?, Bytes::new(cgroup.read("memory.current", parse::number)?)))
}
