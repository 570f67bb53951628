//! Asks the agent again and again, on a thread of its own: however long it takes, keys are answered.

use super::state::{Answer, Snapshot, Switch};
use crate::{admin::Client, clock::wall_us, inventory::Target};
use std::{
    io,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    time::Duration,
};

/// Errands that may wait.
const QUEUE: usize = 16;

/// What it is sent for, besides looking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Errand {
    /// To have this explained as well from now on, or nothing.
    Explain(Option<Target>),
    Switch(Switch),
}

/// Starts it. It ends when the sender of errands is dropped, or when nobody takes what it `tell`s.
pub(super) fn start(
    client: Client,
    interval: Duration,
    tell: impl FnMut(Answer) -> bool + Send + 'static,
) -> io::Result<SyncSender<Errand>> {
    let (sender, errands) = sync_channel(QUEUE);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let work = move || runtime.block_on(work(&client, interval, &errands, tell));
    std::thread::Builder::new().name("asker".into()).spawn(work)?;
    Ok(sender)
}

/// Blocks between two looks, which nothing else on its runtime minds.
async fn work(
    client: &Client,
    interval: Duration,
    errands: &Receiver<Errand>,
    mut tell: impl FnMut(Answer) -> bool,
) {
    let mut explained = None;
    loop {
        if !tell(look(client).await) {
            return;
        }
        if let Some(target) = &explained
            && !tell(explain(client, target).await)
        {
            return;
        }
        match errands.recv_timeout(interval) {
            Ok(Errand::Explain(target)) => explained = target,
            Ok(Errand::Switch(switch)) => {
                let done = match switch {
                    Switch::Pause => client.pause().await,
                    Switch::Resume => client.resume().await,
                };
                if !tell(Answer::Switched(done.map_err(|error| error.to_string()))) {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

async fn look(client: &Client) -> Answer {
    let asked =
        async { Ok::<_, crate::admin::AskError>((client.status().await?, client.containers().await?)) };
    match asked.await {
        Ok((status, containers)) => Answer::Look(Box::new(Snapshot { status, containers, at_us: wall_us() })),
        Err(error) => Answer::Silence(error.to_string()),
    }
}

async fn explain(client: &Client, target: &Target) -> Answer {
    let told = client.explain(target).await.map_err(|error| error.to_string());
    Answer::Explained { target: target.clone(), told }
}
