//! Whole screens, compared with files beside this one.

use super::{Answer, App, NOW_US, PLAIN, Sort, app, container, look, screen};
use crate::{
    admin::{
        fixture,
        model::{ContainerView, Explanation, Flight, Happening, HappeningKind, Part, PartState, Status},
    },
    cli::top::{keys::Key, once, state::Snapshot, theme::Theme},
};
use std::path::Path;

const COLOURED: Theme = Theme { colour: true, unicode: true };

/// `ENFORCER_BLESS=1` writes the file instead, for somebody to look at before it is committed.
fn looks_like(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/top/tests/screens").join(name);
    if std::env::var_os("ENFORCER_BLESS").is_some() {
        std::fs::write(&path, text).expect("writes");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{name}:\n{text}");
}

#[test]
fn lists_of_all_sizes() {
    for (width, height) in [(80, 24), (120, 40), (160, 30), (40, 10)] {
        for containers in [0, 1, 300] {
            let text = screen(&mut app(containers), width, height, PLAIN);
            assert_eq!(text.lines().count(), usize::from(height));
            looks_like(&format!("list-{width}x{height}-{containers}.txt"), &text);
        }
    }
    looks_like("list-80x24-unicode.txt", &screen(&mut app(3), 80, 24, COLOURED));
}

#[test]
fn help_and_an_explanation() {
    let mut app = app(3);
    app.pressed(Key::Char('?'));
    looks_like("help-80x24.txt", &screen(&mut app, 80, 24, PLAIN));
    app.pressed(Key::Escape);
    app.pressed(Key::Enter);
    looks_like("explain-80x24.txt", &screen(&mut app, 80, 24, PLAIN));
    looks_like("explain-40x10.txt", &screen(&mut app, 40, 10, PLAIN));
}

#[test]
fn whatever_is_not_as_usual_has_a_line() {
    let mut app = app(2);
    let mut status = fixture::status();
    status.paused = true;
    status.parts.push(Part {
        name: "metrics".into(),
        state: PartState::Failed,
        why: "127.0.0.1:9464 is in use".into(),
    });
    status.lost.insert("events".into(), 3);
    status.in_flight.push(fixture::flight());
    let containers = vec![container(0), container(1)];
    app.answered(Answer::Look(Box::new(Snapshot { status, containers, at_us: NOW_US })));
    app.answered(Answer::Silence("no agent runs".into()));
    looks_like("unusual-80x24.txt", &screen(&mut app, 80, 24, PLAIN));
    app.pressed(Key::Char('P'));
    let text = screen(&mut app, 80, 24, PLAIN);
    assert!(text.contains(" let the agent change limits again? y: yes"), "{text}");
}

#[test]
fn before_the_first_answer_and_without_any() {
    let mut app = App::new(Sort::Name, NOW_US, 5_000_000);
    let text = screen(&mut app, 80, 24, PLAIN);
    assert!(text.contains("no answer yet") && !text.contains("no answer for"), "{text}");
    app.begun_us = NOW_US - 5_900_000;
    let text = screen(&mut app, 80, 24, PLAIN);
    assert!(!text.contains("no answer for"), "{text}");
    app.begun_us = NOW_US - 6_100_000;
    let text = screen(&mut app, 80, 24, PLAIN);
    assert!(text.contains(" no answer for 6s\n"), "{text}");
    app.answered(Answer::Silence("/run/x: no agent runs".into()));
    let text = screen(&mut app, 80, 24, PLAIN);
    assert!(text.contains(" no answer: /run/x: no agent runs\n"), "{text}");
    app.answered(look(vec![container(0)]));
    let text = screen(&mut app, 80, 24, PLAIN);
    assert!(!text.contains("no answer") && text.contains("shop/web-1:main"), "{text}");
    app.answered(Answer::Silence("x".into()));
    let text = screen(&mut app, 80, 24, PLAIN);
    assert!(text.contains(" no answer since 00:53:20: x\n") && text.contains("shop/web-1:main"), "{text}");
}

#[test]
fn what_is_too_small_says_so_and_nothing_is_drawn_outside() {
    let mut app = app(300);
    for (width, height) in [(39, 10), (40, 9), (39, 50), (200, 9), (10, 3), (1, 1)] {
        let text = screen(&mut app, width, height, PLAIN);
        let says = "too small: 40x10 is the least";
        let says = says.get(..usize::from(width)).unwrap_or(says).trim_end();
        assert_eq!(text.trim_end(), says, "{width}x{height}");
    }
}

#[test]
fn other_peoples_text_does_nothing() {
    let hostile = "\u{1b}[2J\u{1b}]0;x\u{7}\r\n\u{202e}\u{200b}\u{9b}31m";
    let mut app = app(0);
    let view = ContainerView {
        namespace: hostile.into(),
        pod: hostile.into(),
        container: hostile.into(),
        image: hostile.into(),
        policy_state: hostile.into(),
        last_verdict: hostile.into(),
        ..fixture::container()
    };
    let wide =
        ContainerView { pod: "\u{65e5}\u{672c}\u{8a9e}".repeat(30), id: "w".into(), ..fixture::container() };
    let long = ContainerView { pod: "a".repeat(100_000), id: "l".into(), ..fixture::container() };
    let flight =
        Flight { target: hostile.into(), state: hostile.into(), by: hostile.into(), ..fixture::flight() };
    let part = Part { name: hostile.into(), state: PartState::Failed, why: hostile.into() };
    let status = Status {
        version: hostile.into(),
        kernel: hostile.into(),
        parts: vec![part],
        in_flight: vec![flight],
        recent: vec![Happening {
            at_us: u64::MAX,
            target: hostile.into(),
            kind: HappeningKind::Oom,
            text: hostile.into(),
        }],
        ..fixture::status()
    };
    let containers = vec![view, wide, long];
    app.answered(Answer::Look(Box::new(Snapshot { status, containers, at_us: NOW_US })));
    app.note = hostile.into();
    let clean = |text: &str| {
        let bad = |c: char| c != '\n' && (c.is_control() || ['\u{202e}', '\u{200b}'].contains(&c));
        assert!(!text.contains(bad), "{text:?}");
    };
    for (width, height) in [(40, 10), (80, 24), (200, 50)] {
        clean(&screen(&mut app, width, height, COLOURED));
        clean(&once::text(&app, NOW_US, width.into(), COLOURED));
    }
    app.answered(Answer::Silence(hostile.into()));
    clean(&screen(&mut app, 80, 24, COLOURED));
    for _ in 0..3 {
        app.pressed(Key::Enter);
        clean(&screen(&mut app, 80, 24, COLOURED));
        app.pressed(Key::Escape);
        app.pressed(Key::Down);
    }
}

#[test]
fn once_is_the_same_as_text() {
    let mut all = app(300);
    let text = once::text(&all, NOW_US, 80, PLAIN);
    assert_eq!(text.lines().filter(|line| line.contains("shop/w")).count(), 300 + 2);
    let shown = screen(&mut all, 80, 24, PLAIN);
    for line in shown.lines().take(10) {
        assert!(text.contains(line), "{line}");
    }
    looks_like("once-80-1.txt", &once::text(&app(1), NOW_US, 80, PLAIN));
    let narrow = once::text(&app(1), NOW_US, 5, PLAIN);
    assert!(narrow.lines().nth(3).is_some_and(|line| line.starts_with("CONTAINER")), "{narrow}");
}

#[test]
fn without_colour_nothing_is_coloured() {
    use ratatui::{buffer::Buffer, layout::Rect, style::Color};
    let mut app = app(20);
    app.answered(Answer::Silence("x".into()));
    let area = Rect::new(0, 0, 80, 24);
    for (theme, coloured) in [(PLAIN, false), (COLOURED, true)] {
        let mut buffer = Buffer::empty(area);
        super::view::render(&app, NOW_US, theme, area, &mut buffer);
        let any = buffer.content.iter().any(|cell| (cell.fg, cell.bg) != (Color::Reset, Color::Reset));
        assert_eq!(any, coloured);
        let reversed =
            |cell: &ratatui::buffer::Cell| cell.modifier.contains(ratatui::style::Modifier::REVERSED);
        assert!(buffer.content.iter().any(reversed), "the selected line shows");
    }
}

#[test]
fn an_explanation_that_was_refused_says_why() {
    let mut app = app(1);
    app.pressed(Key::Enter);
    let target = app.explained().expect("a target");
    app.answered(Answer::Explained {
        target: target.clone(),
        told: Err("there is no such pod\u{1b}".into()),
    });
    let text = screen(&mut app, 80, 24, PLAIN);
    assert!(text.contains("  there is no such pod\\u{1b}\n"), "{text}");
    let told = Explanation { paused: true, ..fixture::explanation() };
    app.answered(Answer::Explained { target, told: Ok(told) });
    app.pressed(Key::End);
    let text = screen(&mut app, 80, 24, PLAIN);
    assert!(text.contains("All actuation is paused"), "{text}");
}
