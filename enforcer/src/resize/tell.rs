//! Telling the runtime, and finding out what came of it.

use super::read::status_memory;
use crate::{
    cgroup::CgroupError,
    cri::{Client, CriError, message::LinuxContainerResources},
    shrink::Confirmed,
};
use enforcer_gate::Limit;
use std::pin::Pin;

/// What came of an update of the runtime's.
#[derive(Debug)]
pub enum Told {
    /// It was done.
    Taken,
    /// An error came back, and yet the runtime has the value.
    TakenAfterAll(CriError),
    /// The runtime could not be asked beforehand, so nothing was sent to it.
    NotAsked(NotAsked),
    /// The runtime refused it, or could not do it, and does not have the value.
    Refused(CriError),
    /// It was sent and no answer came: it may be done yet, or be done already.
    Open(Unanswered),
}

/// Why nothing was sent.
#[derive(Debug)]
pub enum NotAsked {
    /// It does not answer.
    Runtime(CriError),
    /// It has no such container any more.
    Gone,
    /// The limit in force is higher by now, so the update would lower it, without the gate: somebody else has raised it, or
    /// the restorer has where this process was stopped for longer than its deadline.
    Raised(Limit),
    /// The limit in force can't be read.
    Unread(CgroupError),
    /// The shrink was to stop.
    Stopped,
}

/// Why no answer is known.
#[derive(Debug)]
pub enum Unanswered {
    /// It did not come.
    Call(CriError),
    /// The shrink was to stop, and did not wait for it.
    Stopped,
}

impl Told {
    /// What is to become of a limit that the gate has committed. One that the runtime may still write stays as it is:
    /// raised now it would be lowered by the runtime later, without the gate.
    pub const fn confirmed(&self) -> Confirmed {
        match self {
            Self::Taken | Self::TakenAfterAll(_) | Self::Open(_) => Confirmed::Keep,
            Self::NotAsked(_) | Self::Refused(_) => Confirmed::TakeBack,
        }
    }

    /// Whether the runtime has the value.
    pub const fn is_taken(&self) -> bool {
        match self {
            Self::Taken | Self::TakenAfterAll(_) => true,
            Self::NotAsked(_) | Self::Refused(_) | Self::Open(_) => false,
        }
    }
}

/// Sends an update, unless the runtime does not answer a question before: then nothing is under way. `in_force` reads the
/// memory limit right before it is sent, and nothing is where that is above `wanted`. `stop` ends the wait.
pub(super) async fn tell(
    client: &Client,
    id: &str,
    sent: &LinuxContainerResources,
    wanted: Option<Limit>,
    in_force: impl FnOnce() -> Result<Limit, CgroupError>,
    mut stop: Pin<&mut dyn Future<Output = ()>>,
) -> Told {
    let answers = tokio::select! {
        answer = client.container_status(id) => answer,
        () = &mut stop => return Told::NotAsked(NotAsked::Stopped),
    };
    match answers {
        Ok(Some(_)) => {}
        Ok(None) => return Told::NotAsked(NotAsked::Gone),
        Err(error) => return Told::NotAsked(NotAsked::Runtime(error)),
    }
    if let Some(wanted) = wanted {
        match in_force() {
            Ok(now) if now > wanted => return Told::NotAsked(NotAsked::Raised(now)),
            Ok(_) => {}
            Err(CgroupError::NoSuch { .. } | CgroupError::Gone { .. }) => {
                return Told::NotAsked(NotAsked::Gone);
            }
            Err(error) => return Told::NotAsked(NotAsked::Unread(error)),
        }
    }
    let answer = tokio::select! {
        answer = client.update_container_resources(id, sent.clone()) => answer,
        () = &mut stop => return Told::Open(Unanswered::Stopped),
    };
    let Err(error) = answer else { return Told::Taken };
    let has = tokio::select! {
        has = has(client, id, sent) => has,
        () = stop => false,
    };
    match (has, error.is_open()) {
        (true, _) => Told::TakenAfterAll(error),
        (false, true) => Told::Open(Unanswered::Call(error)),
        (false, false) => Told::Refused(error),
    }
}

/// Whether the runtime's books have a memory limit that it was sent.
async fn has(client: &Client, id: &str, sent: &LinuxContainerResources) -> bool {
    let memory = sent.memory_limit_in_bytes;
    let status = client.container_status(id).await.ok().flatten();
    memory != 0 && status.is_some_and(|status| status_memory(&status) == Some(memory))
}

#[cfg(test)]
mod tests;
