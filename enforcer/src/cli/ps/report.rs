//! What `enforcer ps` tells, as fields and as a table.

use crate::{
    cgroup::{CgroupError, Mount, shown},
    cli::table::{Align, table},
    cri::message::VersionResponse,
    inventory::{
        Container, ContainerState, InForce, Inventory, Limits, Located, Lost, Pod, PodState, in_force,
    },
};
use enforcer_gate::{Bytes, Limit};
use serde::Serialize;
use std::{fmt::Write as _, path::Path, sync::Arc};

/// Everything, with names fit to print.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    socket: String,
    runtime: String,
    runtime_version: String,
    pods: Vec<PodRow>,
    containers: Vec<Row>,
    left_out: LeftOut,
}

/// What could not be told, counted.
#[derive(Debug, Serialize)]
struct LeftOut {
    /// Pods and containers without a sound id.
    unnamed: u64,
    /// Containers of which the runtime refused to say more.
    without_status: u64,
    /// Pods and containers beyond what is kept.
    surplus: u64,
}

#[derive(Debug, Serialize)]
struct PodRow {
    namespace: String,
    name: String,
    uid: String,
    sandbox: String,
    attempt: u32,
    state: PodState,
    /// `null` for the default one.
    runtime_handler: Option<String>,
    cgroup: Option<String>,
    cgroup_id: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Row {
    namespace: Option<String>,
    pod: Option<String>,
    pod_uid: Option<String>,
    sandbox: String,
    container: String,
    container_id: String,
    attempt: u32,
    image: String,
    state: ContainerState,
    /// `null` for the default one.
    runtime_handler: Option<String>,
    pid: Option<u32>,
    /// As the runtime has them.
    limits: Limits,
    usage: Option<Bytes>,
    limit_in_force: Option<Limit>,
    /// Which cgroup has that limit.
    limit_in_force_cgroup: Option<String>,
    cgroup: Option<String>,
    cgroup_id: Option<u64>,
    process_cgroup: Option<String>,
    process_cgroup_id: Option<u64>,
    /// Why something of the above is not there, where it runs.
    missing: Option<String>,
}

impl Report {
    pub(super) fn new(
        socket: &Path,
        version: &VersionResponse,
        inventory: &Inventory,
        lost: Lost,
        mount: &Arc<Mount>,
        all: bool,
    ) -> Self {
        let mut pods: Vec<_> =
            inventory.pods().filter(|pod| all || pod.state == PodState::Ready).map(pod_row).collect();
        pods.sort_by(|a, b| (&a.namespace, &a.name, a.attempt).cmp(&(&b.namespace, &b.name, b.attempt)));
        let wanted = |container: &&Container| all || container.state == ContainerState::Running;
        let row = |container| row(container, inventory.pod(&container.sandbox), mount);
        let mut containers: Vec<_> = inventory.containers().filter(wanted).map(row).collect();
        containers.sort_by(|a, b| {
            (&a.namespace, &a.pod, &a.container, a.attempt).cmp(&(
                &b.namespace,
                &b.pod,
                &b.container,
                b.attempt,
            ))
        });
        let Lost { unnamed, without_status, marks: _ } = lost;
        Self {
            socket: shown(socket),
            runtime: shown(&version.runtime_name),
            runtime_version: shown(&version.runtime_version),
            pods,
            containers,
            left_out: LeftOut { unnamed, without_status, surplus: inventory.surplus() },
        }
    }

    /// For people.
    pub(super) fn render(&self) -> String {
        let mut rows = vec![
            ["POD", "CONTAINER", "STATE", "RUNTIME", "PID", "USAGE", "MEMORY LIMIT", "IN FORCE", "CGROUP"]
                .map(String::from),
        ];
        rows.extend(self.containers.iter().map(cells));
        let is_empty =
            |pod: &&PodRow| !self.containers.iter().any(|container| container.sandbox == pod.sandbox);
        rows.extend(self.pods.iter().filter(is_empty).map(pod_cells));
        let left = Align::Left;
        let right = Align::Right;
        let mut text = if rows.len() > 1 {
            table(0, [left, left, left, left, right, right, right, right, left], &rows)
        } else {
            format!("{} {} at {} runs no container\n", self.runtime, self.runtime_version, self.socket)
        };
        let LeftOut { unnamed, without_status, surplus } = self.left_out;
        for (count, what) in [
            (unnamed, "pods or containers are left out: their ids are none"),
            (without_status, "containers are without details: the runtime refuses to tell them"),
            (surplus, "pods or containers are left out: there are too many"),
        ] {
            if count > 0 {
                // Writing to a String can't fail.
                let _ = writeln!(text, "note: {count} {what}");
            }
        }
        text
    }
}

fn pod_row(pod: &Pod) -> PodRow {
    PodRow {
        namespace: shown(&pod.namespace),
        name: shown(&pod.name),
        uid: shown(&pod.uid),
        sandbox: pod.sandbox.clone(),
        attempt: pod.attempt,
        state: pod.state,
        runtime_handler: handler(pod),
        cgroup: pod.cgroup.as_ref().map(|cgroup| shown(&cgroup.path)),
        cgroup_id: pod.cgroup.as_ref().map(id),
    }
}

fn row(container: &Container, pod: Option<&Pod>, mount: &Arc<Mount>) -> Row {
    let runs = container.state == ContainerState::Running;
    let (home, mut missing) = match &container.home {
        Ok(home) => (Some(home), None),
        Err(why) => (None, runs.then(|| why.to_string())),
    };
    let memory = home.and_then(|home| told(in_force(mount, home), &mut missing));
    Row {
        namespace: pod.map(|pod| shown(&pod.namespace)),
        pod: pod.map(|pod| shown(&pod.name)),
        pod_uid: pod.map(|pod| shown(&pod.uid)),
        sandbox: shown(&container.sandbox),
        container: shown(&container.name),
        container_id: container.id.clone(),
        attempt: container.attempt,
        image: shown(&container.image),
        state: container.state,
        runtime_handler: pod.and_then(handler),
        pid: container.pid,
        limits: Limits {
            cpuset_cpus: shown(&container.limits.cpuset_cpus),
            cpuset_mems: shown(&container.limits.cpuset_mems),
            ..container.limits.clone()
        },
        usage: memory.as_ref().map(|memory| memory.usage),
        limit_in_force: memory.as_ref().map(|memory| memory.limit),
        limit_in_force_cgroup: memory.map(|memory| shown(memory.cgroup)),
        cgroup: home.map(|home| shown(&home.scope.path)),
        cgroup_id: home.map(|home| id(&home.scope)),
        process_cgroup: home.map(|home| shown(&home.processes.path)),
        process_cgroup_id: home.map(|home| id(&home.processes)),
        missing,
    }
}

fn told(memory: Result<InForce, CgroupError>, missing: &mut Option<String>) -> Option<InForce> {
    memory.inspect_err(|error| *missing = Some(error.to_string())).ok()
}

fn id(cgroup: &Located) -> u64 {
    cgroup.id.get()
}

fn handler(pod: &Pod) -> Option<String> {
    Some(&pod.handler).filter(|handler| !handler.is_empty()).map(shown)
}

fn cells(row: &Row) -> [String; 9] {
    let pod = match (&row.namespace, &row.pod) {
        (Some(namespace), Some(pod)) => format!("{namespace}/{pod}"),
        (Some(_), None) | (None, Some(_) | None) => NONE.into(),
    };
    let cgroup = match (&row.cgroup, &row.missing) {
        (Some(cgroup), None) => cgroup.clone(),
        (Some(cgroup), Some(why)) => format!("{cgroup} ({why})"),
        (None, Some(why)) => format!("{NONE} ({why})"),
        (None, None) => NONE.into(),
    };
    [
        pod,
        row.container.clone(),
        row.state.name().into(),
        or_none(row.runtime_handler.as_ref()),
        or_none(row.pid),
        or_none(row.usage),
        or_none(row.limits.memory),
        or_none(row.limit_in_force),
        cgroup,
    ]
}

fn pod_cells(pod: &PodRow) -> [String; 9] {
    let state = match pod.state {
        PodState::Ready => "none runs",
        PodState::NotReady => "not ready",
    };
    let none = || NONE.to_owned();
    [
        format!("{}/{}", pod.namespace, pod.name),
        none(),
        state.into(),
        or_none(pod.runtime_handler.as_ref()),
        none(),
        none(),
        none(),
        none(),
        or_none(pod.cgroup.as_ref()),
    ]
}

const NONE: &str = "-";

fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| NONE.into(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::fixture::Fixture;
    use crate::inventory::{Home, Listing, NoHome};
    use std::collections::BTreeMap;

    const SCOPE: &str = "kubepods.slice/a.scope";

    fn listing(tree: &Fixture) -> Listing {
        let located = |path: &str| Located { path: path.into(), id: tree.open(path).expect("opens").id() };
        let pod = |sandbox: &str, name: &str, state| Pod {
            sandbox: sandbox.into(),
            namespace: "default".into(),
            name: name.into(),
            uid: "1-2".into(),
            attempt: 0,
            state,
            handler: if name == "web" { "crun".into() } else { String::new() },
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            cgroup: Some(located("kubepods.slice")),
        };
        let container = |id: &str, name: &str, state, home| Container {
            id: id.into(),
            sandbox: "s1".into(),
            name: name.into(),
            attempt: 0,
            image: "image".into(),
            state,
            pid: (state == ContainerState::Running).then_some(42),
            home,
            limits: Limits { memory: Some(Limit::Bytes(Bytes::from_mib(64))), ..Limits::default() },
        };
        let home = Home { scope: located(SCOPE), processes: located(&format!("{SCOPE}/container")) };
        let running = ContainerState::Running;
        Listing {
            pods: vec![
                pod("s1", "web", PodState::Ready),
                pod("s2", "em\u{1b}pty", PodState::Ready),
                pod("s3", "old", PodState::NotReady),
            ],
            containers: vec![
                container("c1", "main", running, Ok(home)),
                container("c2", "odd\u{202e}", running, Err(NoHome::Sandbox)),
                container("c3", "done", ContainerState::Exited, Err(NoHome::NotRunning)),
            ],
            ..Listing::default()
        }
    }

    fn report(all: bool) -> Report {
        let tree = Fixture::new();
        tree.cgroup(&format!("{SCOPE}/container"));
        std::fs::write(tree.point().join(SCOPE).join("memory.current"), "1048576\n").expect("writes");
        let inner = tree.point().join(SCOPE).join("container/memory.max");
        std::fs::write(inner, "33554432\n").expect("writes");
        let mount = tree.open("kubepods.slice").expect("opens").mount().clone();
        let mut inventory = Inventory::default();
        inventory.replace(listing(&tree));
        let version = VersionResponse {
            runtime_name: "containerd".into(),
            runtime_version: "1.7".into(),
            ..VersionResponse::default()
        };
        Report::new(Path::new("/run/x.sock"), &version, &inventory, Lost::default(), &mount, all)
    }

    #[test]
    fn a_table_for_people() {
        assert_eq!(
            report(true).render(),
            "POD                  CONTAINER    STATE      RUNTIME  PID  USAGE  MEMORY LIMIT  IN FORCE  CGROUP\n\
             default/web          done         exited     crun       -      -          64Mi         -  -\n\
             default/web          main         running    crun      42    1Mi          64Mi      32Mi  \
             kubepods.slice/a.scope\n\
             default/web          odd\\u{202e}  running    crun      42      -          64Mi         -  - (it \
             shares its sandbox's cgroup)\n\
             default/em\\u{1b}pty  -            none runs  -          -      -             -         -  \
             kubepods.slice\n\
             default/old          -            not ready  -          -      -             -         -  \
             kubepods.slice\n"
        );
    }

    #[test]
    fn fields_for_scripts() {
        let json: serde_json::Value = serde_json::to_value(report(false)).expect("is JSON");
        assert_eq!((&json["socket"], &json["runtime"]), (&"/run/x.sock".into(), &"containerd".into()));
        assert_eq!(json["pods"].as_array().map(Vec::len), Some(2));
        let containers = json["containers"].as_array().expect("a list");
        assert_eq!(containers.len(), 2, "those that run");
        let main = &containers[0];
        for (field, value) in [
            ("namespace", "default".into()),
            ("pod", "web".into()),
            ("container", "main".into()),
            ("container_id", "c1".into()),
            ("state", "running".into()),
            ("runtime_handler", "crun".into()),
            ("pid", 42.into()),
            ("usage", 1_048_576.into()),
            ("limit_in_force", serde_json::json!({"bytes": 33_554_432})),
            ("limit_in_force_cgroup", format!("{SCOPE}/container").into()),
            ("cgroup", SCOPE.into()),
            ("process_cgroup", format!("{SCOPE}/container").into()),
            ("missing", serde_json::Value::Null),
        ] {
            assert_eq!(main[field], value, "{field}");
        }
        assert_eq!(main["limits"]["memory"], serde_json::json!({"bytes": 64 << 20}));
        assert_eq!(containers[1]["missing"], "it shares its sandbox's cgroup");
        assert!(containers[1]["cgroup_id"].is_null());
    }
}
