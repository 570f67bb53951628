//! The container runtime, found and followed.

use crate::{
    cri::{self, CriError},
    inventory::{Hints, Locator, Shared, Tempo, Update, Watch, watch},
    labels::{Labels, labels},
    names::Place,
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, sleep_until};

/// How long a runtime that is nowhere is waited for before it is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The runtime's side of the agent.
pub(super) struct Runtime {
    named: Option<String>,
    locator: Locator,
    tempo: Tempo,
    watch: Option<(PathBuf, Watch)>,
    names: Names,
    look_at: Instant,
    /// It was told that there is none.
    told: bool,
}

/// News of the runtime.
#[derive(Debug)]
pub(super) enum News {
    /// It was found; what it has comes with the next update.
    Found(PathBuf),
    /// There is none, which is told once.
    None(CriError),
    /// What it has changed, or it can't be asked.
    Update(Update),
}

impl Runtime {
    /// With the socket that is named, or whichever is found.
    pub(super) fn new(named: Option<String>, locator: Locator, tempo: Tempo) -> Self {
        Self {
            named,
            locator,
            tempo,
            watch: None,
            names: Names::default(),
            look_at: Instant::now(),
            told: false,
        }
    }

    /// What it has; `None` before one was found.
    pub(super) fn inventory(&self) -> Option<Shared> {
        self.watch.as_ref().map(|(_, watch)| watch.shared())
    }

    /// Where hints of new containers go.
    pub(super) fn hints(&self) -> Option<Hints> {
        self.watch.as_ref().map(|(_, watch)| watch.hints())
    }

    /// Who knows the names of what is in a cgroup, whenever the runtime is found.
    pub(super) fn names(&self) -> Names {
        self.names.clone()
    }

    /// Its socket.
    pub(super) fn socket(&self) -> Option<&PathBuf> {
        self.watch.as_ref().map(|(socket, _)| socket)
    }

    /// The next news. Cancel safe.
    pub(super) async fn next(&mut self) -> News {
        loop {
            if let Some((_, watch)) = &mut self.watch {
                match watch.next().await {
                    Some(update) => return News::Update(update),
                    // Its task was ended from outside.
                    None => self.watch = None,
                }
            }
            sleep_until(self.look_at).await;
            match cri::find(self.named.as_deref()) {
                Ok(socket) => {
                    let watch = watch(socket.clone(), self.locator.clone(), self.tempo.clone());
                    self.names.set(watch.shared());
                    self.watch = Some((socket.clone(), watch));
                    self.told = false;
                    return News::Found(socket);
                }
                Err(error) => {
                    self.look_at = Instant::now() + LOOK_AGAIN;
                    if !std::mem::replace(&mut self.told, true) {
                        return News::None(error);
                    }
                }
            }
        }
    }
}

/// The names of pods and containers, for other threads.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Arc<Mutex<Option<Shared>>>);

impl Names {
    /// By the runtime; what it does not know, by the kubelet's folders of logs.
    pub(super) fn of(&self, place: &Place) -> Labels {
        let shared = self.locked().clone();
        let known = shared.map(|shared| shared.labels(place)).unwrap_or_default();
        if known.pod.is_some() && (known.container.is_some() || place.container.is_none()) {
            return known;
        }
        let logged = labels(place);
        Labels {
            pod: known.pod.or(logged.pod),
            container: known.container.or(logged.container),
            image: known.image,
        }
    }

    fn set(&self, shared: Shared) {
        *self.locked() = Some(shared);
    }

    fn locked(&self) -> MutexGuard<'_, Option<Shared>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
