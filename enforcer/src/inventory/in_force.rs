//! What a container uses, and which of its limits is in force.

use super::model::{Home, Located};
use crate::cgroup::{Cgroup, CgroupError, Mount, parse};
use enforcer_gate::{Bytes, Limit};
use std::{path::PathBuf, sync::Arc};

/// A container's memory at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForce {
    /// `memory.current` of its scope.
    pub usage: Bytes,
    /// The lowest `memory.max` between its scope and the cgroup of its processes, both included. That of its pod is
    /// not looked at.
    pub limit: Limit,
    /// The cgroup that has it, below the mount; of several the topmost.
    pub cgroup: PathBuf,
}

/// Reads it. Runtimes differ: runc sets the limit of the scope, an older crun only that of the cgroup in it.
pub fn in_force(mount: &Arc<Mount>, home: &Home) -> Result<InForce, CgroupError> {
    let scope = open(mount, &home.scope)?;
    let usage = scope.read("memory.current", parse::number).map(Bytes::new)?;
    let mut found = InForce { usage, limit: scope.limit("memory.max")?, cgroup: home.scope.path.clone() };
    let inner = home.processes.path.ancestors().take_while(|path| *path != home.scope.path);
    let mut inner: Vec<_> = inner.collect();
    inner.reverse();
    for path in inner {
        let is_its = path == home.processes.path;
        let cgroup = if is_its { open(mount, &home.processes)? } else { Cgroup::open_in(mount, path)? };
        // Where the container does not hand the controller on there is none.
        let Some(file) = cgroup.file_optional("memory.max")? else { break };
        let limit = file.parse(&mut [0; 64], parse::limit)?;
        if limit < found.limit {
            found.limit = limit;
            path.clone_into(&mut found.cgroup);
        }
    }
    Ok(found)
}

/// The cgroup whose limit is in force.
pub fn limited(mount: &Arc<Mount>, home: &Home) -> Result<Cgroup, CgroupError> {
    if home.scope == home.processes {
        // There is no other, which is so with runc.
        return open(mount, &home.scope);
    }
    let found = in_force(mount, home)?;
    Cgroup::open_in(mount, &found.cgroup)
}

/// A path that another cgroup has by now is none of its.
fn open(mount: &Arc<Mount>, located: &Located) -> Result<Cgroup, CgroupError> {
    let cgroup = Cgroup::open_in(mount, &located.path)?;
    if cgroup.id() == located.id { Ok(cgroup) } else { Err(CgroupError::Gone { path: located.path.clone() }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::fixture::Fixture;
    use std::path::Path;

    #[test]
    fn the_lowest_between_scope_and_processes() {
        let tree = Fixture::new();
        tree.cgroup("pod/scope/container/deep");
        let set = |path: &str, file: &str, value: &str| {
            std::fs::write(tree.point().join(path).join(file), format!("{value}\n")).expect("writes");
        };
        set("pod", "memory.max", "4096");
        set("pod/scope", "memory.current", "8192");
        let mount = tree.open("pod").expect("opens").mount().clone();
        let located = |path: &str| {
            let cgroup = tree.open(path).expect("opens");
            Located { path: path.into(), id: cgroup.id() }
        };
        let check = |processes: &str, limit, cgroup: &str| {
            let home = Home { scope: located("pod/scope"), processes: located(processes) };
            let expected = InForce { usage: Bytes::new(8192), limit, cgroup: cgroup.into() };
            assert_eq!(in_force(&mount, &home).expect("is there"), expected, "{processes}");
            assert_eq!(limited(&mount, &home).expect("is there").path(), Path::new(cgroup), "{processes}");
        };
        let bytes = |bytes| Limit::Bytes(Bytes::new(bytes));
        check("pod/scope/container/deep", Limit::Max, "pod/scope");
        set("pod/scope/container", "memory.max", "65536");
        check("pod/scope/container/deep", bytes(65536), "pod/scope/container");
        check("pod/scope", Limit::Max, "pod/scope");
        set("pod/scope", "memory.max", "65536");
        check("pod/scope/container", bytes(65536), "pod/scope");
        set("pod/scope/container/deep", "memory.max", "32768");
        check("pod/scope/container/deep", bytes(32768), "pod/scope/container/deep");
        std::fs::remove_file(tree.point().join("pod/scope/container/memory.max")).expect("is there");
        check("pod/scope/container/deep", bytes(65536), "pod/scope");
        let other = Home { scope: located("pod"), processes: located("pod") };
        let taken = Home { scope: Located { path: "pod/scope".into(), ..other.scope.clone() }, ..other };
        for error in [in_force(&mount, &taken).map(drop), limited(&mount, &taken).map(drop)] {
            let error = error.expect_err("it is another one");
            assert!(
                matches!(&error, CgroupError::Gone { path } if path == Path::new("pod/scope")),
                "{error}"
            );
        }
    }
}
