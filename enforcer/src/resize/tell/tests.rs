use super::*;
use crate::cri::message::{ContainerResources, ContainerStatus, ContainerStatusResponse};
use enforcer_test_cri::{Reply, Server};
use std::{
    collections::BTreeMap,
    future::{pending, ready},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// A hang is noticed after this; nothing else is.
const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_mins(1);
const TO: i64 = 48 << 20;
const FROM: i64 = 64 << 20;

fn block_on<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test)
}

fn sent() -> LinuxContainerResources {
    LinuxContainerResources { memory_limit_in_bytes: TO, ..LinuxContainerResources::default() }
}

fn unasked() -> Result<Limit, CgroupError> {
    panic!("nobody asks what is in force")
}

fn status(memory: i64) -> Reply {
    let linux =
        LinuxContainerResources { memory_limit_in_bytes: memory, ..LinuxContainerResources::default() };
    let resources = Some(ContainerResources { linux: Some(linux) });
    let status = Some(ContainerStatus { resources, ..ContainerStatus::default() });
    Reply::of(&ContainerStatusResponse { status, ..ContainerStatusResponse::default() })
}

/// Tells a runtime that answers an update so; `after` is what it says of the limit from then on.
async fn told(update: fn() -> Reply, after: i64, deadline: Duration) -> Told {
    let updated = AtomicBool::new(false);
    let server = Server::start(move |call, _| match call {
        "ContainerStatus" => status(if updated.load(SeqCst) { after } else { FROM }),
        "UpdateContainerResources" => {
            updated.store(true, SeqCst);
            update()
        }
        other => panic!("{other} is not asked for"),
    });
    let client = Client::connect(&server.socket(), deadline).await.expect("connects");
    tell(&client, "abc", &sent(), None, unasked, pin!(pending())).await
}

#[test]
fn what_was_taken_stays_and_what_was_not_goes_back() {
    block_on(async {
        let error = || Reply::Status(2, "runc did not terminate successfully");
        let taken = told(|| Reply::Answer(Vec::new()), TO, LONG).await;
        assert!(matches!(taken, Told::Taken) && taken.confirmed() == Confirmed::Keep);
        let refused = told(error, FROM, LONG).await;
        assert!(matches!(refused, Told::Refused(CriError::Failed { .. })), "{refused:?}");
        assert!(refused.confirmed() == Confirmed::TakeBack && !refused.is_taken());
        let after_all = told(error, TO, LONG).await;
        assert!(matches!(after_all, Told::TakenAfterAll(_)) && after_all.confirmed() == Confirmed::Keep);
    });
}

/// It may be carried out yet: a limit that was raised would then be lowered without the gate.
#[test]
fn without_an_answer_the_gates_limit_stays() {
    block_on(async {
        let hung = told(|| Reply::Hang, FROM, SHORT).await;
        assert!(matches!(hung, Told::Open(Unanswered::Call(CriError::Deadline { .. }))), "{hung:?}");
        let broken = told(|| Reply::Break, FROM, LONG).await;
        assert!(matches!(broken, Told::Open(Unanswered::Call(CriError::Broken { .. }))), "{broken:?}");
        for open in [hung, broken] {
            assert!(open.confirmed() == Confirmed::Keep && !open.is_taken());
        }
        let slow = told(|| Reply::Hang, TO, SHORT).await;
        assert!(matches!(slow, Told::TakenAfterAll(CriError::Deadline { .. })), "{slow:?}");
    });
}

/// Asks a runtime that answers the question before like this.
async fn asked(before: fn() -> Reply, deadline: Duration) -> (Told, BTreeMap<String, usize>) {
    let server = Server::start(move |_, _| before());
    let client = Client::connect(&server.socket(), deadline).await.expect("connects");
    let told = tell(&client, "abc", &sent(), None, unasked, pin!(pending())).await;
    (told, server.all_calls())
}

#[test]
fn a_runtime_that_does_not_answer_before_is_sent_nothing() {
    block_on(async {
        let hung = asked(|| Reply::Hang, SHORT).await;
        assert!(
            matches!(hung.0, Told::NotAsked(NotAsked::Runtime(CriError::Deadline { .. }))),
            "{:?}",
            hung.0
        );
        let broken = asked(|| Reply::Break, LONG).await;
        assert!(
            matches!(broken.0, Told::NotAsked(NotAsked::Runtime(CriError::Broken { .. }))),
            "{:?}",
            broken.0
        );
        let gone = asked(|| Reply::Status(5, "no such container"), LONG).await;
        assert!(matches!(gone.0, Told::NotAsked(NotAsked::Gone)), "{:?}", gone.0);
        for (told, calls) in [hung, broken, gone] {
            assert!(told.confirmed() == Confirmed::TakeBack && !told.is_taken());
            assert_eq!(calls, BTreeMap::from([("ContainerStatus".to_owned(), 1)]));
        }
    });
}

/// What was asked to stop before the runtime was asked goes back; once it was asked it stays.
#[test]
fn a_stop_is_heeded_at_once() {
    block_on(async {
        let server = Server::start(|_, _| Reply::Hang);
        let client = Client::connect(&server.socket(), LONG).await.expect("connects");
        let told = tell(&client, "abc", &sent(), None, unasked, pin!(ready(()))).await;
        assert!(matches!(told, Told::NotAsked(NotAsked::Stopped)), "{told:?}");
        let asked = Arc::new(Notify::new());
        let heard = Arc::clone(&asked);
        let server = Server::start(move |call, _| {
            if call == "ContainerStatus" {
                return status(FROM);
            }
            heard.notify_one();
            Reply::Hang
        });
        let client = Client::connect(&server.socket(), LONG).await.expect("connects");
        let told = tell(&client, "abc", &sent(), None, unasked, pin!(asked.notified())).await;
        assert!(matches!(told, Told::Open(Unanswered::Stopped)), "{told:?}");
        assert_eq!(told.confirmed(), Confirmed::Keep);
    });
}

/// What is in force, when it is asked for.
type InForce = fn() -> Result<Limit, CgroupError>;

/// The runtime's write would lower it, without the gate: a rival raised it, or the restorer did while this process was
/// stopped.
#[test]
fn what_was_raised_meanwhile_is_not_lowered_by_the_runtime() {
    block_on(async {
        let wanted = Limit::Bytes(enforcer_gate::Bytes::new(TO.cast_unsigned()));
        let cases: [(InForce, bool); 4] = [
            (|| Ok(Limit::Max), false),
            (|| Ok(Limit::Bytes(enforcer_gate::Bytes::new(FROM.cast_unsigned()))), false),
            (|| Err(CgroupError::Gone { path: "a".into() }), false),
            (|| Ok(Limit::Bytes(enforcer_gate::Bytes::new(TO.cast_unsigned()))), true),
        ];
        for (in_force, is_sent) in cases {
            let server = Server::start(|call, _| match call {
                "ContainerStatus" => status(FROM),
                _ => Reply::Answer(Vec::new()),
            });
            let client = Client::connect(&server.socket(), LONG).await.expect("connects");
            let told = tell(&client, "abc", &sent(), Some(wanted), in_force, pin!(pending())).await;
            assert_eq!(server.calls("UpdateContainerResources"), usize::from(is_sent), "{told:?}");
            assert_eq!(told.confirmed() == Confirmed::Keep, is_sent, "{told:?}");
            match (in_force(), &told) {
                (Ok(limit), Told::NotAsked(NotAsked::Raised(now))) => assert_eq!(limit, *now),
                (Err(_), Told::NotAsked(NotAsked::Gone)) | (Ok(_), Told::Taken) => {}
                (_, told) => panic!("{told:?}"),
            }
        }
    });
}
