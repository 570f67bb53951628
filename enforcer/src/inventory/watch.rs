//! Keeps an inventory current, and tells what changes.
//!
//! An event of the runtime's only says where to look: containerd 1.7 keeps events for whoever comes first, however old,
//! and gives each to one listener. What is found there and then counts. A listing now and then finds what no event told,
//! and is how a runtime that hangs is noticed.

use super::{
    Change, Container, ContainerState, Cue, Hints, Inventory, Locator, PodState, Survey, asked::Asked,
    back_off::BackOff, hints::Looks,
};
use crate::{
    cri::{Client, CriError, DEADLINE},
    labels::Labels,
    names::{Place, Role, is_id},
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};

/// Updates that may wait for whoever follows. Where they are not taken the watch waits, and loses nothing: what happens
/// meanwhile shows at the next look.
const UPDATES_MAX: usize = 64;
/// Events that may wait to be looked into; the runtime keeps more.
const EVENTS_MAX: usize = 256;
/// The longest wait before a runtime without events is asked for them again.
const SUBSCRIBE_MAX: Duration = Duration::from_mins(5);

/// A stream that ends sooner broke.
const SETTLED: Duration = Duration::from_secs(10);

/// How often what is done.
#[derive(Debug, Clone)]
pub struct Tempo {
    /// What a call may take.
    pub deadline: Duration,
    /// Between listings while there are events.
    pub relist: Duration,
    /// Between listings while there are none.
    pub relist_without_events: Duration,
    /// How long what the runtime said of a container that runs is good for while nothing is heard of it. A listing asks
    /// about those of which it is older.
    pub status: Duration,
    /// From a hint to the look or the listing that it brings, and between listings at the least. Three more follow, each
    /// after twice the wait: a cgroup is there before its container runs.
    pub hint: Duration,
    /// The shortest and the longest wait before a runtime that can't be asked is asked again.
    pub back_off: (Duration, Duration),
    /// Whether to take the runtime's events. containerd 1.7 gives each to one listener only, so they are not for a node
    /// whose kubelet lives on them (its feature gate `EventedPLEG`).
    pub events: bool,
}

impl Default for Tempo {
    fn default() -> Self {
        Self {
            deadline: DEADLINE,
            relist: Duration::from_secs(30),
            relist_without_events: Duration::from_secs(5),
            status: Duration::from_mins(2),
            hint: Duration::from_millis(250),
            back_off: (Duration::from_millis(250), Duration::from_secs(30)),
            events: true,
        }
    }
}

/// What a watch tells.
#[derive(Debug)]
pub enum Update {
    /// The inventory is current (again), and these are the changes since it was.
    Current(Vec<Change>),
    /// It is current, and changed.
    Changed(Vec<Change>),
    /// The runtime can't be asked: the inventory is what it was, until it is told to be current again.
    Lost(CriError),
}

/// An inventory that is kept current until this is dropped.
#[derive(Debug)]
pub struct Watch {
    updates: mpsc::Receiver<Update>,
    inventory: Arc<Mutex<Inventory>>,
    hints: Hints,
    _task: Task,
}

/// The id of the container or sandbox whose cgroup has this name; `None` where it is none's.
pub fn id_in(name: &str) -> Option<String> {
    // Without systemd it is an id in a pod's folder.
    let is_bare = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_bare {
        return Some(name.into());
    }
    let place = Place::of(Path::new(name));
    place.container.filter(|_| place.role == Role::Container && !name.contains('/'))
}

/// Starts to watch the runtime at a socket. Must be called in a tokio runtime.
pub fn watch(socket: PathBuf, locator: Locator, tempo: Tempo) -> Watch {
    let (sender, updates) = mpsc::channel(UPDATES_MAX);
    let inventory = Arc::new(Mutex::new(Inventory::default()));
    let hints = Hints::default();
    let keeper = Keeper {
        socket,
        locator,
        tempo,
        updates: sender,
        inventory: Arc::clone(&inventory),
        hints: hints.clone(),
        told: None,
    };
    Watch { updates, inventory, hints, _task: Task(tokio::spawn(keeper.run())) }
}

impl Watch {
    /// The next update. Ends only where the task was ended from outside.
    pub async fn next(&mut self) -> Option<Update> {
        self.updates.recv().await
    }

    /// The inventory as it is now; it may be ahead of the updates that were taken. Not to be held for long.
    pub fn inventory(&self) -> MutexGuard<'_, Inventory> {
        lock(&self.inventory)
    }

    /// The same for others.
    pub fn shared(&self) -> Shared {
        Shared(Arc::clone(&self.inventory))
    }

    /// Where hints go.
    pub fn hints(&self) -> Hints {
        self.hints.clone()
    }
}

/// The inventory of a [`Watch`], for whoever only looks things up.
#[derive(Debug, Clone)]
pub struct Shared(Arc<Mutex<Inventory>>);

impl Shared {
    /// The inventory as it is now. Not to be held for long.
    pub fn inventory(&self) -> MutexGuard<'_, Inventory> {
        lock(&self.0)
    }

    /// The names of what is in a cgroup.
    pub fn labels(&self, place: &Place) -> Labels {
        self.inventory().labels(place)
    }
}

/// Ends with its handle.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Keeper {
    socket: PathBuf,
    locator: Locator,
    tempo: Tempo,
    updates: mpsc::Sender<Update>,
    inventory: Arc<Mutex<Inventory>>,
    hints: Hints,
    /// Whether it was current, as told last.
    told: Option<bool>,
}

/// Nobody follows any more.
struct Unfollowed;

impl Keeper {
    async fn run(mut self) {
        let (min, max) = self.tempo.back_off;
        let mut back_off = BackOff::new(min, max);
        loop {
            let began = Instant::now();
            let Err(error) = self.follow().await else { return };
            // One that answers now and then only is not asked all the time.
            if began.elapsed() > max {
                back_off.reset();
            }
            let is_news = self.told.replace(false) != Some(false);
            if is_news && self.updates.send(Update::Lost(error)).await.is_err() {
                return;
            }
            tokio::select! {
                () = self.updates.closed() => return,
                () = sleep(back_off.wait()) => {}
            }
        }
    }

    /// Through one connection, until the runtime can't be asked. `Ok`: nobody follows any more.
    async fn follow(&mut self) -> Result<Unfollowed, CriError> {
        let client = Client::connect(&self.socket, self.tempo.deadline).await?;
        let survey = Survey::new(client.clone(), self.locator.clone());
        let mut resubscribe = BackOff::new(self.tempo.hint, SUBSCRIBE_MAX);
        let mut events = Subscription::start(&client, self.tempo.events, Duration::ZERO);
        let mut schedule = Schedule::new(self.tempo.clone());
        let mut looks = Looks::new(self.tempo.hint);
        let mut asked = Asked::new(self.tempo.status);
        let hints = self.hints.clone();
        loop {
            if schedule.is_due() {
                let now = Instant::now();
                let kept = |said: &Container| self.kept(said).filter(|_| !asked.is_due(&said.id, now));
                let listing = survey.all_but(kept).await?;
                asked.listed(listing.containers.iter().map(|container| container.id.as_str()), now);
                schedule.listed(events.is_served());
                let changes = self.locked().replace(listing);
                if self.tell(changes).await.is_err() {
                    return Ok(Unfollowed);
                }
                continue;
            }
            if let Some((id, look)) = looks.take(Instant::now()) {
                if self.is_known(&id, look.cue) {
                    continue;
                }
                asked.asked(&id, Instant::now());
                let Ok(is_news) = self.look(&survey, &id).await? else { return Ok(Unfollowed) };
                let is_seen = match look.cue {
                    Cue::Born | Cue::Died => self.is_known(&id, look.cue),
                    // The runtime may still be at it.
                    Cue::Changed => is_news,
                };
                if !is_seen {
                    looks.again(id, look, Instant::now());
                }
                continue;
            }
            let mut ids = Vec::new();
            let next = looks.next().map_or(schedule.next, |next| next.min(schedule.next));
            tokio::select! {
                () = self.updates.closed() => return Ok(Unfollowed),
                () = sleep_until(next) => continue,
                told = hints.told() => {
                    let now = Instant::now();
                    let has_room = told.ids.into_iter().fold(true, |all, (id, cue)| looks.add(id, cue, now) && all);
                    if told.anything || !has_room {
                        schedule.hint();
                    }
                    continue;
                }
                count = events.news.recv_many(&mut ids, EVENTS_MAX) => {
                    if events.is_old() {
                        resubscribe.reset();
                    }
                    if count == 0 {
                        // What was missed is found by a listing, and so is a runtime that has gone.
                        events = Subscription::start(&client, self.tempo.events, resubscribe.wait());
                        schedule.now();
                        continue;
                    }
                }
            }
            for id in ids.into_iter().collect::<BTreeSet<_>>() {
                asked.asked(&id, Instant::now());
                if self.look(&survey, &id).await?.is_err() {
                    return Ok(Unfollowed);
                }
            }
        }
    }

    /// Looks at one and takes in how it is. Whether that is news.
    async fn look(&mut self, survey: &Survey, id: &str) -> Result<Result<bool, Unfollowed>, CriError> {
        let news = survey.one(id).await?;
        let changes: Vec<_> = {
            let mut inventory = self.locked();
            news.into_iter().flat_map(|event| inventory.apply(event)).collect()
        };
        let is_news = !changes.is_empty();
        Ok(self.tell(changes).await.map(|()| is_news))
    }

    /// What is known of a container that the listing says nothing new of.
    fn kept(&self, said: &Container) -> Option<Arc<Container>> {
        let known = self.locked().kept_container(&said.id)?;
        let same = (known.state, &known.sandbox, known.attempt) == (said.state, &said.sandbox, said.attempt);
        (same && known.home.is_ok()).then_some(known)
    }

    /// Whether the inventory has what was heard of.
    fn is_known(&self, id: &str, cue: Cue) -> bool {
        let inventory = self.locked();
        let (container, pod) = (inventory.container(id), inventory.pod(id));
        let runs = container.is_some_and(|container| container.state == ContainerState::Running);
        match cue {
            Cue::Born => {
                (runs && container.is_some_and(|container| container.home.is_ok()))
                    || pod.is_some_and(|pod| pod.cgroup.is_some())
            }
            Cue::Died => !runs && pod.is_none_or(|pod| pod.state != PodState::Ready),
            Cue::Changed => false,
        }
    }

    async fn tell(&mut self, changes: Vec<Change>) -> Result<(), Unfollowed> {
        let update = match self.told.replace(true) {
            Some(true) if changes.is_empty() => return Ok(()),
            Some(true) => Update::Changed(changes),
            Some(false) | None => Update::Current(changes),
        };
        self.updates.send(update).await.map_err(|_| Unfollowed)
    }

    fn locked(&self) -> MutexGuard<'_, Inventory> {
        lock(&self.inventory)
    }
}

/// Who panicked while holding it left it whole: it is changed in no place that can panic.
fn lock(inventory: &Mutex<Inventory>) -> MutexGuard<'_, Inventory> {
    inventory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When to list.
struct Schedule {
    tempo: Tempo,
    next: Instant,
    /// The wait after the next listing, where a hint brings that.
    pace: Option<Duration>,
}

impl Schedule {
    fn new(tempo: Tempo) -> Self {
        Self { tempo, next: Instant::now(), pace: None }
    }

    fn is_due(&self) -> bool {
        self.next <= Instant::now()
    }

    fn now(&mut self) {
        self.next = Instant::now();
    }

    fn hint(&mut self) {
        let hint = self.tempo.hint;
        self.next = self.next.min(Instant::now() + hint);
        self.pace = Some(hint * 2);
    }

    fn listed(&mut self, with_events: bool) {
        let usual = if with_events { self.tempo.relist } else { self.tempo.relist_without_events };
        let wait = self.pace.map_or(usual, |pace| pace.min(usual));
        self.pace = self.pace.filter(|pace| *pace < self.tempo.hint * 8).map(|pace| pace * 2);
        self.next = Instant::now() + wait;
    }
}

/// A stream of the runtime's events, taken by a task of its own.
struct Subscription {
    news: mpsc::Receiver<String>,
    /// Kept where there is no stream, so that nothing ever comes.
    _silence: Option<mpsc::Sender<String>>,
    task: Option<Task>,
    begins: Instant,
}

impl Subscription {
    fn start(client: &Client, wanted: bool, wait: Duration) -> Self {
        let (sender, news) = mpsc::channel(EVENTS_MAX);
        let begins = Instant::now() + wait;
        if !wanted {
            return Self { news, _silence: Some(sender), task: None, begins };
        }
        let client = client.clone();
        let task = tokio::spawn(async move {
            sleep_until(begins).await;
            // Why it ends shows in the listing that follows.
            let Ok(mut events) = client.events().await else { return };
            while let Ok(Some(event)) = events.next().await {
                // What is no id is nobody's, and may be as long as a whole answer.
                if !is_id(&event.container_id) {
                    continue;
                }
                if sender.send(event.container_id).await.is_err() {
                    return;
                }
            }
        });
        Self { news, _silence: None, task: Some(Task(task)), begins }
    }

    /// Whether the runtime serves events, as far as can be told: one that does not says so at once.
    fn is_served(&self) -> bool {
        self.begins <= Instant::now() && self.task.as_ref().is_some_and(|task| !task.0.is_finished())
    }

    /// Whether it lived long enough not to be called one that breaks at once.
    fn is_old(&self) -> bool {
        self.begins.elapsed() >= SETTLED
    }
}

#[cfg(test)]
mod tests;
