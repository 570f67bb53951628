//! The loop: keys, answers and time in, the screen out.

use super::{
    WHAT,
    asker::{self, Errand},
    keys::{Key, pressed},
    order::Sort,
    state::{Answer, App, Wish},
    terminal::{Screen, give_back_at_once},
    theme::Theme,
    view,
};
use crate::{
    cli::{Exit, Failure, ask::Admin, stop::StopSignals},
    clock::wall_us,
};
use enforcer_gate::Micros;
use std::{
    io::{self, IsTerminal as _},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel},
    time::Duration,
};

/// Events that may wait; whoever has more waits.
const QUEUE: usize = 64;
/// How often what depends on the time alone is drawn again.
const TICK: Duration = Duration::from_secs(1);
/// What the terminal may take for its last lines when we are told to end.
const GRACE: Duration = Duration::from_secs(1);

enum Event {
    Answer(Answer),
    Key(Key),
    /// The terminal has another size.
    Resized,
    /// The terminal is gone.
    Blind(io::Error),
    /// SIGTERM or SIGINT.
    Stop,
}

pub(super) fn run(admin: &Admin, interval: Micros, sort: Sort, theme: Theme) -> Result<Exit, Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let todo = "let standard input and output be a terminal, or print it once: --once";
        return Err(Failure::new(Exit::Usage, WHAT, "", &"there is no terminal", todo));
    }
    let failed = |error: io::Error| Failure::new(Exit::Failed, WHAT, "", &error, "");
    // Also by the threads that begin below.
    let stop = StopSignals::hold().map_err(|error| failed(error.into()))?;
    let (events, inbox) = sync_channel(QUEUE);
    let answers = events.clone();
    let tell = move |answer| answers.send(Event::Answer(answer)).is_ok();
    let pause = Duration::from_micros(interval.get());
    let errands = asker::start(admin.client(), pause, tell).map_err(failed)?;
    let (ended, end) = channel();
    let stopped = events.clone();
    thread("stop", move || when_stopped(&stop, &stopped, &end)).map_err(failed)?;
    let late = interval.get().saturating_mul(2).saturating_add(1_000_000);
    let mut app = App::new(sort, wall_us(), late);
    let mut screen = Screen::take().map_err(failed)?;
    let shown = thread("keys", move || read_keys(&events))
        .and_then(|()| show(&mut app, &mut screen, theme, &inbox, &errands));
    drop(screen);
    drop(ended);
    shown.map(|()| Exit::Done).map_err(failed)
}

fn show(
    app: &mut App,
    screen: &mut Screen,
    theme: Theme,
    inbox: &Receiver<Event>,
    errands: &SyncSender<Errand>,
) -> io::Result<()> {
    loop {
        screen.draw(|area, buffer| {
            app.size = (area.width, area.height);
            view::render(app, wall_us(), theme, area, buffer);
        })?;
        let first = match inbox.recv_timeout(TICK) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        // What came together is drawn together.
        for event in std::iter::once(first).chain(inbox.try_iter().take(QUEUE)) {
            let wish = match event {
                Event::Answer(answer) => {
                    app.answered(answer);
                    Wish::Nothing
                }
                Event::Key(key) => app.pressed(key),
                Event::Resized => Wish::Nothing,
                Event::Blind(error) => return Err(error),
                Event::Stop => return Ok(()),
            };
            let errand = match wish {
                Wish::Nothing => continue,
                Wish::Quit => return Ok(()),
                Wish::Explain => Errand::Explain(app.explained()),
                Wish::Switch(switch) => Errand::Switch(switch),
            };
            if errands.try_send(errand).is_err() {
                app.note = "the agent does not answer: not done".into();
            }
        }
    }
}

fn read_keys(events: &SyncSender<Event>) {
    loop {
        let event = match crossterm::event::read() {
            Ok(event) => match pressed(&event) {
                Some(key) => Event::Key(key),
                None => Event::Resized,
            },
            Err(error) => Event::Blind(error),
        };
        let blind = matches!(event, Event::Blind(_));
        if events.send(event).is_err() || blind {
            return;
        }
    }
}

/// Ends also where the terminal takes nothing any more and the loop waits for it.
fn when_stopped(stop: &StopSignals, events: &SyncSender<Event>, end: &Receiver<()>) {
    while !stop.came_within(Duration::from_hours(1)) {}
    let _ = events.try_send(Event::Stop);
    if end.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
        give_back_at_once();
        std::process::exit(Exit::Failed.code().into());
    }
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(run).map(drop)
}
