//! The screen as it looks, and what keys do to it.

mod keys;
#[expect(dead_code, reason = "what is looked at in other tests, this crate's do not look at")]
#[path = "../../../../tests/support/pty.rs"]
pub(super) mod pty;
mod screens;

use super::{
    order::Sort,
    state::{Answer, App, Snapshot},
    theme::Theme,
    view,
};
use crate::admin::{
    fixture::{self, NOW_US},
    model::ContainerView,
};
use enforcer_gate::{Bytes, Limit};
use ratatui::{Terminal, backend::TestBackend};

const PLAIN: Theme = Theme { colour: false, unicode: false };

/// An app that has seen so many containers.
fn app(containers: usize) -> App {
    let mut app = App::new(Sort::Pressure, NOW_US, 5_000_000);
    app.answered(look((0..containers).map(container).collect()));
    app
}

fn look(containers: Vec<ContainerView>) -> Answer {
    let mut status = fixture::status();
    status.containers = containers.len() as u64;
    Answer::Look(Box::new(Snapshot { status, containers, at_us: NOW_US }))
}

/// The first is [`fixture::container`]; the others have less and less pressure.
fn container(number: usize) -> ContainerView {
    if number == 0 {
        return fixture::container();
    }
    let mib = |mib: usize| Bytes::from_mib(mib as u64);
    ContainerView {
        namespace: "shop".into(),
        pod: format!("worker-{number:03}-7d9f8c6b5-x{number:04}"),
        id: format!("c{number:03}"),
        usage: Some(mib(10 + number)),
        floor: Some(mib(number)),
        limit: Some(if number.is_multiple_of(3) { Limit::Max } else { Limit::Bytes(mib(400)) }),
        psi_some_avg10: 1000_u64.saturating_sub(number as u64),
        oom_kills: 0,
        policy: "observe".into(),
        policy_state: String::new(),
        last_verdict: String::new(),
        ..fixture::container()
    }
}

/// What a terminal of this size shows, without the blanks at the ends of lines.
fn screen(app: &mut App, width: u16, height: u16, theme: Theme) -> String {
    app.size = (width, height);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    let drawn = terminal.draw(|frame| view::render(app, NOW_US, theme, frame.area(), frame.buffer_mut()));
    drawn.expect("is drawn");
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..height {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
