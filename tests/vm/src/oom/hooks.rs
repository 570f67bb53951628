//! The recorder where hooks are missing.

use super::rig::{fall, limited, store};
use enforcer::oom::{OomRecord, Owner, Recorder, RecorderOptions, StatFrom, Stored};
use enforcer::probe::Program;
use enforcer_gate::CgroupId;
use enforcer_vm_tests::scratch::Scratch;
use std::cell::RefCell;
use std::time::Duration;
use tokio::sync::Notify;

/// What is waited for happens at once; a time-out means that it never will.
const NEVER: Duration = Duration::from_mins(2);

/// Records one kill without these programs: what the recorder said at its beginning, and the record.
fn record(disabled: &[Program], cgroup: &Scratch) -> (Vec<String>, OomRecord) {
    let store = store();
    let options = RecorderOptions {
        store: store.path().to_owned(),
        disabled: disabled.iter().copied().collect(),
        ..RecorderOptions::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (mut recorder, began) = Recorder::open(&options).expect("open a recorder");
        let Stored::Began(began) = began else { panic!("it says that it began") };
        let pid = fall(cgroup);
        let (told, found) = (Notify::new(), RefCell::new(None));
        let each = |stored: &Stored| {
            if let Stored::Oom(record) = stored
                && record.victims.iter().any(|victim| victim.task.pid == pid)
            {
                *found.borrow_mut() = Some((**record).clone());
                told.notify_one();
            }
        };
        let run = recorder.run(told.notified(), each);
        tokio::time::timeout(NEVER, run).await.expect("the kill is told").expect("it is recorded");
        (began.lost, found.into_inner().expect("the record"))
    })
}

pub(super) fn without_ends() {
    let cgroup = limited("ends", "16M");
    let (lost, record) = record(&[Program::OomEndFexit], &cgroup);
    let [lost] = &lost[..] else { panic!("one thing is lost: {lost:?}") };
    assert!(lost.starts_with("ends of OOMs: "), "{lost}");
    assert_eq!(record.owner_id().map(CgroupId::get), Some(cgroup.id()));
    assert_eq!(record.stat.expect("it is there to be read").from, StatFrom::File);
    assert_eq!(record.reclaim, None);
}

/// No more than a tracepoint, as where trampolines and kprobes are refused.
pub(super) fn tracepoint_alone() {
    let cgroup = limited("bare", "16M");
    let refused =
        [Program::OomBeginFentry, Program::OomBeginKprobe, Program::OomEndFexit, Program::OomGroupFexit];
    let (lost, record) = record(&refused, &cgroup);
    assert!(lost.iter().any(|lost| lost.starts_with("OOM kills: whose limit was hit")), "{lost:?}");
    assert_eq!((record.owner, record.victims_lost, record.victims.len()), (Owner::Unknown, 0, 1));
    assert!(record.says.starts_with("whose limit was hit is not known here"), "{}", record.says);
    // The limits on the way up are what is left to go by.
    assert_eq!(record.limits.first().map(|at| at.cgroup.get()), Some(cgroup.id()));
}
