//! Looks at a container: what its runtime has and what its cgroups hold.

use super::{Engine, Level, Look, Oci, ResizeError};
use crate::{
    cgroup::{Cgroup, CgroupError, Mount},
    cri::{
        Client,
        message::{ContainerStatusResponse, LinuxContainerResources, VersionResponse},
    },
    drift::parse,
    inventory::{Container, Home, Located, Locator, NoHome, Pod, Wanted, cgroups_path, verbose::verbose},
    probe::{LimitKind, LimitValue},
    systemd,
};
use std::{ffi::OsStr, path::Path, sync::Arc};

/// Cgroups between a container's scope and its first process that are looked at; runtimes make two.
const LEVELS_MAX: usize = 8;
/// crun's cgroup for the processes.
const CRUN_BELOW: &str = "container";

/// Looks at a container that runs. Two calls of the runtime's.
pub(super) async fn look(
    client: &Client,
    locator: &Locator,
    pod: &Pod,
    container: &Container,
) -> Result<Look, ResizeError> {
    let version: VersionResponse = client.version().await?;
    let said = client.container_status(&container.id).await?.ok_or(ResizeError::NoHome(NoHome::Gone))?;
    let found = verbose(&said.info);
    let pid = found.pid.ok_or(ResizeError::NoHome(NoHome::NoProcess))?;
    let word = found.cgroups_path.as_deref().and_then(cgroups_path::scope);
    let wanted = Wanted { id: &container.id, sandbox: &container.sandbox, pid, word: word.as_deref() };
    let home = locator.home(wanted).map_err(ResizeError::NoHome)?;
    let levels = levels(locator.mount(), &home)?;
    let engine = Engine {
        name: version.runtime_name,
        version: version.runtime_version,
        oci: oci(found.program.as_deref(), &home),
        systemd: systemd::unit_here(&home.scope.path).is_some(),
    };
    let pod = pod.cgroup.as_ref().map(|cgroup| level(locator.mount(), cgroup)).transpose()?;
    let unit = unit(&home.scope.path).await;
    Ok(Look {
        engine,
        spec: found.resources.ok_or(ResizeError::NoSpec)?,
        status: said.status.and_then(|status| status.resources).and_then(|resources| resources.linux),
        levels,
        unit,
        pod,
    })
}

/// What systemd has of the unit: what is not told is not foretold, and no reason to do nothing.
async fn unit(scope: &Path) -> Vec<(LimitKind, LimitValue)> {
    let Some(unit) = systemd::unit_here(scope).map(str::to_owned) else { return Vec::new() };
    let asked = tokio::task::spawn_blocking(move || systemd::get(&unit, LimitKind::ALL));
    asked.await.ok().and_then(Result::ok).unwrap_or_default()
}

/// Looks at a cgroup that is no container's, or is not asked for as one.
pub fn look_at(cgroup: &Cgroup) -> Result<Look, ResizeError> {
    Ok(Look {
        engine: Engine {
            name: String::new(),
            version: String::new(),
            oci: Oci::Other,
            systemd: systemd::unit_here(cgroup.path()).is_some(),
        },
        spec: LinuxContainerResources::default(),
        status: None,
        levels: vec![values(cgroup)?],
        unit: Vec::new(),
        pod: None,
    })
}

/// By the name of its program; without one by the cgroups that it made.
fn oci(program: Option<&str>, home: &Home) -> Oci {
    let name =
        program.map(|program| Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or_default());
    match name {
        Some("runc" | "") => Oci::Runc,
        Some("crun") => Oci::Crun,
        None if home.processes.path == home.scope.path => Oci::Runc,
        None if home.processes.path == home.scope.path.join(CRUN_BELOW) => Oci::Crun,
        Some(_) | None => Oci::Other,
    }
}

/// From the scope down to the cgroup of the processes.
fn levels(mount: &Arc<Mount>, home: &Home) -> Result<Vec<Level>, CgroupError> {
    let mut levels = vec![level(mount, &home.scope)?];
    let inner = home.processes.path.ancestors().take_while(|path| *path != home.scope.path);
    let mut inner: Vec<_> = inner.collect();
    inner.reverse();
    for path in inner.into_iter().take(LEVELS_MAX) {
        let cgroup = Cgroup::open_in(mount, path)?;
        // Where the container does not hand the controllers on there is nothing.
        let level = values(&cgroup)?;
        if level.value(LimitKind::MemoryMax).is_none() {
            break;
        }
        levels.push(level);
    }
    Ok(levels)
}

fn level(mount: &Arc<Mount>, located: &Located) -> Result<Level, CgroupError> {
    let cgroup = Cgroup::open_in(mount, &located.path)?;
    if cgroup.id() != located.id {
        return Err(CgroupError::Gone { path: located.path.clone() });
    }
    values(&cgroup)
}

fn values(cgroup: &Cgroup) -> Result<Level, CgroupError> {
    let mut values = Vec::new();
    for file in LimitKind::ALL {
        let Some(open) = cgroup.file_optional(file.name())? else { continue };
        let text = open.parse(&mut [0; 4096], |text| Ok(String::from_utf8_lossy(text).into_owned()))?;
        values.extend(parse(*file, &text).map(|value| (*file, value)));
    }
    Ok(Level { path: cgroup.path().into(), id: cgroup.id(), values })
}

/// The memory limit that the runtime says a container has.
pub(super) fn status_memory(status: &ContainerStatusResponse) -> Option<i64> {
    let linux = status.status.as_ref()?.resources.as_ref()?.linux.as_ref()?;
    Some(linux.memory_limit_in_bytes)
}
