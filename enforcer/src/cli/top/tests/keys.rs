//! What keys do.

use super::{Answer, App, PLAIN, Sort, app, container, look, screen};
use crate::{
    admin::{fixture, model::Done},
    cli::top::{
        keys::{Key, pressed},
        state::{Pane, Snapshot, Switch, Wish},
    },
    inventory::Target,
};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

fn selected(app: &App) -> String {
    app.containers().get(app.position()).map_or_else(String::new, |view| view.id.clone())
}

#[test]
fn up_and_down_and_never_out() {
    let mut app = app(300);
    screen(&mut app, 80, 24, PLAIN);
    let steps = [
        (Key::Up, "c1"),
        (Key::Down, "c001"),
        (Key::Char('j'), "c002"),
        (Key::Char('k'), "c001"),
        (Key::End, "c299"),
        (Key::Down, "c299"),
        (Key::PageDown, "c299"),
        (Key::Char('g'), "c1"),
        (Key::PageUp, "c1"),
        (Key::Char('G'), "c299"),
        (Key::Home, "c1"),
    ];
    for (key, expected) in steps {
        assert_eq!((app.pressed(key), selected(&app).as_str()), (Wish::Nothing, expected), "{key:?}");
    }
    app.pressed(Key::PageDown);
    let page = app.position();
    assert!((5..20).contains(&page), "{page}");
    // The first line of the next page, which is what shows.
    let text = screen(&mut app, 80, 24, PLAIN);
    assert!(
        text.contains(&format!("x{page:04}:main")) && !text.contains(&format!("x{:04}:main", page - 1)),
        "{text}"
    );
}

#[test]
fn the_selection_stays_with_its_container() {
    let mut app = app(10);
    app.pressed(Key::Char('j'));
    app.pressed(Key::Char('j'));
    assert_eq!(selected(&app), "c002");
    app.pressed(Key::Char('p'));
    assert_eq!((app.sort, selected(&app).as_str()), (Sort::Usage, "c002"));
    let mut containers: Vec<_> = (0..10).map(container).collect();
    containers[2].usage = Some(enforcer_gate::Bytes::from_mib(9999));
    app.answered(look(containers.clone()));
    assert_eq!((selected(&app).as_str(), app.position()), ("c002", 0));
    // It is gone: whatever is in its place.
    containers.remove(2);
    app.answered(look(containers));
    assert_eq!(app.position(), 0);
    app.answered(look(Vec::new()));
    assert_eq!(app.position(), 0);
    assert_eq!(app.pressed(Key::Enter), Wish::Nothing);
    app.pressed(Key::Down);
    app.answered(look((0..3).map(container).collect()));
    assert_eq!(app.position(), 0);
}

#[test]
fn pausing_asks_first() {
    let mut app = app(1);
    for (key, wish) in
        [(Key::Char('n'), Wish::Nothing), (Key::Enter, Wish::Nothing), (Key::Escape, Wish::Nothing)]
    {
        assert_eq!(app.pressed(Key::Char('P')), Wish::Nothing);
        assert_eq!(app.pane, Pane::Confirm(Switch::Pause));
        assert_eq!((app.pressed(key), &app.pane), (wish, &Pane::List));
        assert_eq!(app.note, "nothing was changed");
    }
    app.pressed(Key::Char('P'));
    assert_eq!(app.pressed(Key::Char('y')), Wish::Switch(Switch::Pause));
    let done = Done { paused: true, text: "paused: 1 taken back".into(), under_way: vec![] };
    app.answered(Answer::Switched(Ok(done)));
    assert!(screen(&mut app, 80, 24, PLAIN).contains("paused: 1 taken back"));
    let mut status = fixture::status();
    status.paused = true;
    app.answered(Answer::Look(Box::new(Snapshot { status, containers: Vec::new(), at_us: 0 })));
    app.pressed(Key::Char('P'));
    assert_eq!(app.pressed(Key::Char('y')), Wish::Switch(Switch::Resume));
    app.answered(Answer::Switched(Err("no agent runs".into())));
    assert_eq!(app.note, "not done: no agent runs");
    let mut unanswered = App::new(Sort::Name, 0, 0);
    assert_eq!((unanswered.pressed(Key::Char('P')), &unanswered.pane), (Wish::Nothing, &Pane::List));
}

#[test]
fn panes_open_scroll_and_close() {
    let mut app = app(2);
    assert_eq!(app.pressed(Key::Enter), Wish::Explain);
    assert_eq!(app.explained(), Target::parse("pod/shop/web-1:main").ok());
    screen(&mut app, 40, 10, PLAIN);
    app.pressed(Key::Char('j'));
    let text = screen(&mut app, 40, 10, PLAIN);
    assert!(text.starts_with("explain: lines 2 to 9 of ") && text.contains("\n  image"), "{text}");
    app.pressed(Key::End);
    let end = screen(&mut app, 40, 10, PLAIN);
    assert!(end.contains("committed at 128Mi"), "{end}");
    app.pressed(Key::Down);
    app.pressed(Key::PageDown);
    assert_eq!(screen(&mut app, 40, 10, PLAIN), end);
    app.pressed(Key::Up);
    assert_ne!(screen(&mut app, 40, 10, PLAIN), end);
    // A larger terminal needs less scrolling.
    app.size = (200, 100);
    app.pressed(Key::Other);
    app.answered(Answer::Explained {
        target: Target::parse("pod/shop/web-1:main").expect("a target"),
        told: Ok(fixture::explanation()),
    });
    let all = screen(&mut app, 200, 100, PLAIN);
    assert!(all.contains("image") && all.contains("committed at 128Mi"), "{all}");
    // What is about another container comes too late.
    let late =
        Answer::Explained { target: Target::parse("pod/a/b").expect("a target"), told: Err("x".into()) };
    app.answered(late);
    assert_eq!(screen(&mut app, 200, 100, PLAIN), all);
    assert_eq!((app.pressed(Key::Char('q')), app.explained()), (Wish::Explain, None));
    app.pressed(Key::Char('?'));
    app.size = (40, 10);
    app.pressed(Key::Char('G'));
    assert!(matches!(app.pane, Pane::Help { scroll: 1.. }));
    app.pressed(Key::Char('?'));
    assert_eq!(app.pane, Pane::List);
    for pane in ["list", "explain", "help", "confirm"] {
        match pane {
            "explain" => drop(app.pressed(Key::Enter)),
            "help" => drop(app.pressed(Key::Char('?'))),
            "confirm" => drop(app.pressed(Key::Char('P'))),
            _ => {}
        }
        assert_eq!(app.pressed(Key::Interrupt), Wish::Quit, "{pane}");
        app.pane = Pane::List;
    }
    assert_eq!(app.pressed(Key::Char('q')), Wish::Quit);
}

#[test]
fn other_events_than_oom_kills_show_when_asked_for() {
    let mut app = app(1);
    assert!(!screen(&mut app, 80, 24, PLAIN).contains("the container runtime is back"));
    app.pressed(Key::Char('o'));
    assert!(screen(&mut app, 80, 24, PLAIN).contains("the container runtime is back"));
    app.pressed(Key::Char('o'));
    assert!(!screen(&mut app, 80, 24, PLAIN).contains("the container runtime is back"));
}

#[test]
fn keys_of_the_terminal() {
    let key = |code, modifiers| pressed(&Event::Key(KeyEvent::new(code, modifiers)));
    let none = KeyModifiers::NONE;
    assert_eq!(key(KeyCode::Char('q'), none), Some(Key::Char('q')));
    assert_eq!(key(KeyCode::Char('P'), KeyModifiers::SHIFT), Some(Key::Char('P')));
    assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
    assert_eq!(key(KeyCode::Char('z'), KeyModifiers::CONTROL), Some(Key::Other));
    assert_eq!(key(KeyCode::F(1), none), Some(Key::Other));
    let released = KeyEvent { kind: KeyEventKind::Release, ..KeyEvent::new(KeyCode::Enter, none) };
    assert_eq!(pressed(&Event::Key(released)), None);
    assert_eq!(pressed(&Event::Resize(1, 1)), None);
}
