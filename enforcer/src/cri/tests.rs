//! The client against a runtime that does as a script says.

use super::{
    ANSWER_BYTES_MAX, Client, CriError,
    message::{
        Container, ContainerEventResponse, ContainerStatusResponse, HugepageLimit, LinuxContainerResources,
        ListContainersResponse, PodSandbox, PodSandboxMetadata, UpdateContainerResourcesRequest,
        VersionResponse,
    },
};
use enforcer_test_cri::{Reply, Server};
use prost::Message;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(500);

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

async fn client(server: &Server, deadline: Duration) -> Client {
    Client::connect(&server.socket(), deadline).await.expect("connects")
}

/// The resources as `protoc` encodes them: field by field, worked out by hand.
#[test]
fn resources_are_encoded_as_the_api_numbers_them() {
    let resources = LinuxContainerResources {
        cpu_period: 100_000,
        cpu_quota: -1,
        cpu_shares: 2,
        memory_limit_in_bytes: 300,
        oom_score_adj: 5,
        cpuset_cpus: "0".into(),
        cpuset_mems: "1".into(),
        hugepage_limits: vec![HugepageLimit { page_size: "2MB".into(), limit: 7 }],
        unified: BTreeMap::from([("a".into(), "b".into())]),
        memory_swap_limit_in_bytes: 1,
    };
    let request = UpdateContainerResourcesRequest { container_id: "id".into(), linux: Some(resources) };
    let inner: Vec<u8> = [
        &[0x08, 0xa0, 0x8d, 0x06][..],
        &[0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        &[0x18, 2, 0x20, 0xac, 0x02, 0x28, 5],
        &[0x32, 1, b'0', 0x3a, 1, b'1'],
        &[0x42, 7, 0x0a, 3, b'2', b'M', b'B', 0x10, 7],
        &[0x4a, 6, 0x0a, 1, b'a', 0x12, 1, b'b'],
        &[0x50, 1],
    ]
    .concat();
    let length = u8::try_from(inner.len()).expect("short");
    let expected = [&[0x0a, 2, b'i', b'd', 0x12, length][..], &inner].concat();
    assert_eq!(request.encode_to_vec(), expected);
    assert_eq!(UpdateContainerResourcesRequest::decode(expected.as_slice()), Ok(request));
}

#[test]
fn fields_that_are_not_known_are_passed_over() {
    let pod = PodSandbox {
        id: "abc".into(),
        metadata: Some(PodSandboxMetadata { name: "web".into(), ..PodSandboxMetadata::default() }),
        ..PodSandbox::default()
    };
    // Field 900: a text; field 901: a number.
    let more = [&pod.encode_to_vec()[..], &[0xa2, 0x38, 1, b'x', 0xa8, 0x38, 9]].concat();
    assert_eq!(PodSandbox::decode(more.as_slice()), Ok(pod));
}

#[test]
fn calls_are_answered() {
    block_on(async {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let server = Server::start(move |call, request| match call {
            "Version" => {
                Reply::of(&VersionResponse { runtime_name: "odd".into(), ..VersionResponse::default() })
            }
            "ListContainers" => {
                let all = ["abc", "abcd"].map(|id| Container { id: id.into(), ..Container::default() });
                Reply::of(&ListContainersResponse { containers: all.into() })
            }
            "ContainerStatus" => Reply::Status(5, "no such container"),
            "UpdateContainerResources" => {
                seen.lock().expect("nobody panicked").extend_from_slice(request);
                Reply::Answer(Vec::new())
            }
            other => panic!("{other} is not asked for"),
        });
        let client = client(&server, LONG).await;
        assert_eq!(client.version().await.expect("answers").runtime_name, "odd");
        assert_eq!(client.list_containers(None).await.expect("answers").len(), 2);
        assert_eq!(
            client.list_containers(Some("abc")).await.expect("answers").len(),
            1,
            "no other's beginning"
        );
        assert_eq!(client.container_status("abc").await.expect("answers"), None);
        let resources =
            LinuxContainerResources { memory_limit_in_bytes: 1 << 26, ..LinuxContainerResources::default() };
        client.update_container_resources("abc", resources.clone()).await.expect("answers");
        let asked = asked.lock().expect("nobody panicked").clone();
        let asked = UpdateContainerResourcesRequest::decode(asked.as_slice()).expect("decodes");
        assert_eq!((asked.container_id.as_str(), asked.linux), ("abc", Some(resources)));
    });
}

#[test]
fn a_call_that_hangs_is_an_error_that_says_so() {
    block_on(async {
        let server = Server::start(|_, _| Reply::Hang);
        let client = client(&server, SHORT).await;
        let began = Instant::now();
        let error = client.list_containers(None).await.expect_err("it hangs");
        assert!(began.elapsed() < Duration::from_secs(10));
        assert!(matches!(error, CriError::Deadline { call: "ListContainers", .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("sock: no answer to ListContainers within 500ms"), "{text}");
        assert!(error.advice().contains("hangs or is stopped"));
    });
}

/// One that takes the connection and says nothing at all, as a process that is stopped.
#[test]
fn a_socket_that_nobody_serves_is_an_error() {
    block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("listens");
        let asked = async { Client::connect(&path, SHORT).await?.version().await };
        let error = asked.await.expect_err("nobody answers");
        assert!(matches!(error, CriError::Deadline { .. }), "{error}");
        drop(listener);
        let error = Client::connect(&path, LONG).await.expect_err("nobody listens");
        assert!(error.to_string().contains("can't connect: Connection refused"), "{error}");
        std::fs::remove_file(&path).expect("it is there");
        let error = Client::connect(&path, LONG).await.expect_err("it is not there");
        assert!(error.to_string().contains("No such file"), "{error}");
    });
}

#[test]
fn what_goes_wrong_is_told_apart() {
    block_on(async {
        let server = Server::start(|call, _| match call {
            "Version" => Reply::Status(12, "unknown service runtime.v1.RuntimeService"),
            "ListContainers" => Reply::Answer(vec![0x0a; ANSWER_BYTES_MAX + 1]),
            "ListPodSandbox" => Reply::Answer(vec![0x0a, 0xff]),
            "ContainerStatus" => Reply::Status(2, "%1B[2Jbad"),
            _ => Reply::Break,
        });
        let client = client(&server, LONG).await;
        let error = client.version().await.expect_err("not served");
        assert!(matches!(error, CriError::Unimplemented { call: "Version", .. }), "{error}");
        let error = client.list_containers(None).await.expect_err("too long");
        assert!(matches!(error, CriError::TooLong { call: "ListContainers", .. }), "{error}");
        let error = client.list_pod_sandbox(None).await.expect_err("is cut");
        assert!(matches!(error, CriError::Failed { call: "ListPodSandbox", .. }), "{error}");
        let error = client.container_status("abc").await.expect_err("fails").to_string();
        assert!(error.contains("\\u{1b}[2Jbad") && !error.contains('\u{1b}'), "{error}");
        let error = client.pod_sandbox_status("abc").await.expect_err("breaks");
        assert!(matches!(error, CriError::Broken { call: "PodSandboxStatus", .. }), "{error}");
        // The next call makes a connection of its own.
        assert!(matches!(client.version().await, Err(CriError::Unimplemented { .. })));
    });
}

#[test]
fn what_is_no_runtime_is_an_error() {
    block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sock");
        let listener = tokio::net::UnixListener::bind(&path).expect("listens");
        let web = tokio::spawn(async move {
            loop {
                use tokio::io::AsyncWriteExt as _;
                let (mut stream, _) = listener.accept().await.expect("accepts");
                drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await);
            }
        });
        let asked = async { Client::connect(&path, LONG).await?.version().await };
        let error = asked.await.expect_err("it speaks something else");
        assert!(matches!(error, CriError::Broken { .. } | CriError::Connect { .. }), "{error:?}");
        web.abort();
    });
}

#[test]
fn a_stream_ends_as_it_ends() {
    block_on(async {
        let (events, source) = mpsc::channel(4);
        let mut source = Some(source);
        let server = Server::start(move |call, _| match (call, source.take()) {
            ("GetContainerEvents", Some(source)) => Reply::Stream(source),
            ("GetContainerEvents", None) => Reply::Status(12, "unknown method GetContainerEvents"),
            _ => Reply::Break,
        });
        let client = client(&server, LONG).await;
        let event =
            ContainerEventResponse { container_id: "abc".into(), ..ContainerEventResponse::default() };
        events.send(event.encode_to_vec()).await.expect("sends");
        let mut stream = client.events().await.expect("streams");
        assert_eq!(stream.next().await.expect("comes"), Some(event));
        drop(events);
        assert_eq!(stream.next().await.expect("ends well"), None);
        let error = client.events().await.expect_err("not served");
        assert!(matches!(error, CriError::Unimplemented { .. }), "{error}");
    });
}

#[test]
fn an_answer_of_the_greatest_length_is_taken() {
    block_on(async {
        let text = "x".repeat(ANSWER_BYTES_MAX - 64);
        let answer = ContainerStatusResponse { info: BTreeMap::from([("info".into(), text)]), status: None };
        let length = answer.encoded_len();
        assert!(length > ANSWER_BYTES_MAX - 64 && length <= ANSWER_BYTES_MAX);
        let server = Server::start(move |_, _| Reply::of(&answer));
        let found = client(&server, LONG).await.container_status("abc").await.expect("answers");
        assert_eq!(found.expect("there is one").encoded_len(), length);
    });
}
