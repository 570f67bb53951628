use super::*;
use crate::{
    actuate::{Session, SessionOptions, record::JOURNAL_BYTES},
    cgroup::fixture::Fixture,
};
use enforcer_gate::Bytes;

const FOUND: Limit = Limit::Bytes(Bytes::new(8192));
const OURS: Limit = Limit::Bytes(Bytes::new(4096));

struct Killed {
    tree: Fixture,
    state: StateDir,
    _folder: tempfile::TempDir,
}

impl Killed {
    /// What a run leaves that was killed after these records.
    fn run(boot: [u8; 16], entries: &[Record]) -> Self {
        let tree = Fixture::new();
        tree.cgroup("a/b");
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let killed = Self { tree, state, _folder: folder };
        drop(killed.journal(boot, entries));
        killed
    }

    fn journal(&self, boot_id: [u8; 16], entries: &[Record]) -> Journal {
        let cgroup = self.tree.open("a/b").unwrap();
        let header = Header { pid: 1, boot_id, cgroup: cgroup.id(), path: cgroup.path().into() };
        let mut journal = Journal::create(&self.state, &header).unwrap();
        for entry in entries {
            journal.append(*entry, true).unwrap();
        }
        journal
    }

    fn recover(&self) -> Vec<RecoveredRun> {
        let mount = Ok(Arc::clone(self.tree.open("a").unwrap().mount()));
        recover_where(&self.state, &mount).into_iter().map(|recovered| recovered.result).collect()
    }

    fn max(&self) -> String {
        self.tree.read("a/b/memory.max")
    }

    fn journal_count(&self) -> usize {
        self.state.journals().unwrap().0.len()
    }
}

fn intent(before: Limit, ours: Limit) -> Record {
    Record::Intent { file: LimitFile::Max, found: FOUND, before, ours }
}

fn file(ours: Limit, result: RecoveredValue) -> RecoveredRun {
    RecoveredRun::Files(vec![RecoveredFile { file: LimitFile::Max, found: FOUND, ours, result }])
}

#[test]
fn our_value_goes_back_to_what_was_found() {
    let killed = Killed::run(boot_id().unwrap(), &[intent(FOUND, OURS)]);
    killed.tree.write("a/b/memory.max", "4096\n");
    assert_eq!(killed.recover(), [file(OURS, RecoveredValue::Restored)]);
    assert_eq!((killed.max().as_str(), killed.journal_count()), ("8192\n", 0));
    assert_eq!(killed.recover(), []);
}

#[test]
fn an_earlier_value_of_ours_goes_back_too_when_the_last_write_did_not_happen() {
    let earlier = Limit::Bytes(Bytes::new(5000));
    let killed = Killed::run(boot_id().unwrap(), &[intent(FOUND, earlier), intent(earlier, OURS)]);
    killed.tree.write("a/b/memory.max", "5000\n");
    assert_eq!(killed.recover(), [file(OURS, RecoveredValue::Restored)]);
    assert_eq!(killed.max(), "8192\n");
}

#[test]
fn somebody_elses_value_stays() {
    for theirs in ["max\n", "16384\n", "5000\n", "0\n"] {
        let killed = Killed::run(boot_id().unwrap(), &[intent(FOUND, OURS)]);
        killed.tree.write("a/b/memory.max", theirs);
        let by = crate::cgroup::parse::limit(theirs.as_bytes()).unwrap();
        assert_eq!(killed.recover(), [file(OURS, RecoveredValue::Superseded { by })]);
        assert_eq!((killed.max().as_str(), killed.journal_count()), (theirs, 0));
    }
}

#[test]
fn a_write_that_never_happened_needs_nothing() {
    let killed = Killed::run(boot_id().unwrap(), &[intent(FOUND, OURS)]);
    killed.tree.write("a/b/memory.max", "8192\n");
    assert_eq!(killed.recover(), [file(OURS, RecoveredValue::AsFound)]);
}

#[test]
fn another_boot_and_another_cgroup_are_not_touched() {
    let killed = Killed::run([7; 16], &[intent(FOUND, OURS)]);
    killed.tree.write("a/b/memory.max", "4096\n");
    assert_eq!(killed.recover(), [RecoveredRun::OtherBoot]);
    assert_eq!((killed.max().as_str(), killed.journal_count()), ("4096\n", 0));

    let killed = Killed::run(boot_id().unwrap(), &[intent(FOUND, OURS)]);
    std::fs::rename(killed.tree.point().join("a/b"), killed.tree.point().join("a/old")).unwrap();
    assert_eq!(killed.recover(), [RecoveredRun::Gone]);

    let killed = Killed::run(boot_id().unwrap(), &[intent(FOUND, OURS)]);
    std::fs::rename(killed.tree.point().join("a/b"), killed.tree.point().join("a/old")).unwrap();
    killed.tree.cgroup("a/b");
    killed.tree.write("a/b/memory.max", "4096\n");
    assert_eq!(killed.recover(), [RecoveredRun::Gone]);
    assert_eq!(killed.max(), "4096\n");
}

/// What a newer version left, or still works on, is its own: only that version knows what it lowered.
#[test]
fn a_journal_of_another_version_stays_and_keeps_others_out() {
    let killed = Killed::run(boot_id().unwrap(), &[]);
    let cgroup = killed.tree.open("a/b").unwrap();
    let path = killed.state.journal_path(cgroup.id());
    let newer = [&b"enfjrnl\0\x02\0\0\0"[..], &[7; 300]].concat();
    std::fs::write(&path, &newer).unwrap();
    for _ in 0..2 {
        let mount = Ok(Arc::clone(cgroup.mount()));
        let all = recover_where(&killed.state, &mount);
        let [run] = &all[..] else { panic!("{all:?}") };
        assert!(matches!(run.result, RecoveredRun::OtherVersion { .. }) && run.is_open(), "{run:?}");
        let said = run.describe();
        assert!(said.contains("format 2") && said.contains("enforcer recover of that version"), "{said}");
    }
    let begun = Session::begin(&cgroup, &killed.state, &SessionOptions::default());
    let error = begun.unwrap_err().to_string();
    assert!(error.contains("could not be settled") && error.contains("of that version"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), newer);
}

#[test]
fn a_run_that_lives_is_left_alone() {
    let killed = Killed::run(boot_id().unwrap(), &[]);
    let _held = killed.journal(boot_id().unwrap(), &[intent(FOUND, OURS)]);
    killed.tree.write("a/b/memory.max", "4096\n");
    assert_eq!(killed.recover(), [RecoveredRun::Running]);
    assert_eq!((killed.max().as_str(), killed.journal_count()), ("4096\n", 1));
}

#[test]
fn a_run_that_ended_or_did_nothing_is_cleared_away() {
    let settled = Record::Settled { file: LimitFile::Max, left: FOUND };
    for entries in [&[][..], &[intent(FOUND, OURS), settled], &[intent(FOUND, OURS), Record::Finished]] {
        let killed = Killed::run(boot_id().unwrap(), entries);
        killed.tree.write("a/b/memory.max", "4096\n");
        assert_eq!(killed.recover(), []);
        assert_eq!((killed.max().as_str(), killed.journal_count()), ("4096\n", 0));
    }
}

#[test]
fn a_damaged_journal_is_moved_aside_and_named() {
    let killed = Killed::run(boot_id().unwrap(), &[intent(FOUND, OURS)]);
    let path = killed.state.journal_path(killed.tree.open("a/b").unwrap().id());
    std::fs::write(&path, vec![0; JOURNAL_BYTES]).unwrap();
    let moved_to = path.with_extension("unreadable");
    let why = "not a journal of this program".into();
    assert_eq!(killed.recover(), [RecoveredRun::Unreadable { why, moved_to }]);
    assert_eq!(killed.journal_count(), 0);
}

#[test]
fn what_can_not_be_written_stays_for_another_try() {
    let killed = Killed::run(boot_id().unwrap(), &[intent(FOUND, OURS)]);
    killed.tree.write("a/b/memory.max", "junk\n");
    let run = killed.recover();
    assert!(
        matches!(&run[..], [RecoveredRun::Files(files)] if matches!(files[0].result, RecoveredValue::Failed { .. }))
    );
    assert_eq!(killed.journal_count(), 1);
}

#[test]
fn what_is_no_plain_file_is_moved_aside_and_keeps_nobody_waiting() {
    let killed = Killed::run(boot_id().unwrap(), &[intent(FOUND, OURS)]);
    killed.tree.write("a/b/memory.max", "4096\n");
    let place = |name: &str| killed.state.path().join(name);
    nix::unistd::mkfifo(&place("0.journal"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::fs::create_dir(place("1.journal")).unwrap();
    std::os::unix::fs::symlink(place("elsewhere"), place("2.journal")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place("3.journal")).unwrap();
    std::fs::write(place("4.journal"), "").unwrap();
    let runs = killed.recover();
    assert!(runs.contains(&file(OURS, RecoveredValue::Restored)), "{runs:?}");
    for name in ["0", "1", "2", "3", "4"] {
        let moved_to = place(name).with_extension("unreadable");
        let why = "not a journal of this program".into();
        assert!(runs.contains(&RecoveredRun::Unreadable { why, moved_to }), "{name}: {runs:?}");
    }
    assert_eq!((killed.journal_count(), place("elsewhere").exists()), (0, false));
}

#[test]
fn however_many_there_are_all_are_settled_in_the_end() {
    let killed = Killed::run(boot_id().unwrap(), &[intent(FOUND, OURS)]);
    killed.tree.write("a/b/memory.max", "4096\n");
    for n in 0..JOURNAL_COUNT_MAX + 50 {
        std::fs::write(killed.state.path().join(format!("{n:05}.journal")), "x").unwrap();
    }
    let runs = killed.recover();
    assert!(matches!(runs.last(), Some(RecoveredRun::Failed(why)) if why.contains("again")));
    assert_eq!((runs.len(), killed.journal_count()), (JOURNAL_COUNT_MAX + 1, 51));
    let rest = killed.recover();
    assert!(rest.iter().all(|run| !matches!(run, RecoveredRun::Failed(_))));
    assert_eq!((killed.max().as_str(), killed.journal_count()), ("8192\n", 0));
}

/// Whoever removes the state directory under a run takes the way back with it, so nothing more is lowered.
#[test]
fn a_journal_that_lost_its_name_takes_no_intent_and_still_ends() {
    let take_away: [fn(&Path); 2] = [
        |path| std::fs::remove_file(path).unwrap(),
        |path| {
            std::fs::rename(path, path.with_extension("away")).unwrap();
            std::fs::write(path, "another").unwrap();
        },
    ];
    for take_away in take_away {
        let killed = Killed::run(boot_id().unwrap(), &[]);
        let mut journal = killed.journal(boot_id().unwrap(), &[intent(FOUND, OURS)]);
        take_away(journal.path());
        let error = journal.append(intent(OURS, Limit::Bytes(Bytes::new(2048))), true).unwrap_err();
        assert!(error.to_string().contains("find"), "{error}");
        journal.append(Record::Settled { file: LimitFile::Max, left: FOUND }, false).unwrap();
        journal.close().unwrap();
    }
}
