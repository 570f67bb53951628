//! Cgroups that come and go.

use super::Told;
use enforcer::probe::{CgroupLife, Event, LifeEvent, Need};
use enforcer_gate::CgroupId;
use enforcer_vm_tests::scratch::{MOUNT, Scratch};
use std::os::unix::fs::MetadataExt;

fn life(events: &[Event], id: u64) -> Vec<CgroupLife> {
    let of_it = |event: &Event| match event {
        Event::CgroupLife(life) if life.cgroup.get() == id => Some(*life),
        Event::OomKill(_)
        | Event::ReclaimBegin(_)
        | Event::ReclaimEnd(_)
        | Event::LimitWrite(_)
        | Event::CgroupLife(_)
        | Event::Judged(_)
        | Event::OomEnd(_) => None,
    };
    events.iter().filter_map(of_it).collect()
}

pub(super) fn birth_to_release() {
    let mut told = Told::of([Need::CgroupLife]);
    let parent = Scratch::new("life");
    let child = parent.child("child");
    let (id, parent_id) = (child.id(), parent.id());
    let root = std::fs::metadata(MOUNT).expect("stat the mount").ino();
    drop(child);
    let story = told.until("the release", |events| Some(life(events, id)).filter(|story| story.len() >= 3));
    assert_eq!(
        story.iter().map(|life| life.event).collect::<Vec<_>>(),
        [LifeEvent::Mkdir, LifeEvent::Rmdir, LifeEvent::Release]
    );
    for life in &story {
        assert_eq!(life.parent, CgroupId::new(parent_id), "{life:#?}");
        assert_eq!(life.level, 2, "{life:#?}");
        assert_eq!(life.name.as_bytes(), b"child", "{life:#?}");
    }
    let birth = life(&told.events, parent_id)[0];
    assert_eq!((birth.parent.get(), birth.level), (root, 1));
}

pub(super) fn hostile_names() {
    let mut told = Told::of([Need::CgroupLife]);
    let parent = Scratch::new("names");
    for name in ["x".repeat(255), "\u{1b}]0;gotcha\u{7}".to_owned(), "n\u{e4}me \"with\" \\".to_owned()] {
        let child = parent.child(&name);
        let id = child.id();
        let birth = told.until("the birth", |events| life(events, id).first().copied());
        let kept = name.len().min(127);
        assert_eq!(birth.name.as_bytes(), &name.as_bytes()[..kept]);
        let shown = format!("{:?}", birth.name);
        assert!(shown.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{shown} is safe to print");
    }
}
