//! How cgroups of pods are named, by the runtime's cgroup driver. No I/O.

use serde_json::Value;
use std::{collections::BTreeMap, path::PathBuf};

/// Who makes the cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Driver {
    /// systemd, as slices and scopes.
    Systemd,
    /// The runtime, as folders.
    Cgroupfs,
}

impl Driver {
    /// What to name as the parent of a pod's containers, and where that is below the mount. `BestEffort`, which has no
    /// limit of its own.
    pub fn pod(self, uid: &str) -> (String, PathBuf) {
        match self {
            Self::Systemd => {
                let path = format!("kubepods.slice/kubepods-besteffort.slice/{}", slice(uid));
                (format!("/{path}"), path.into())
            }
            Self::Cgroupfs => {
                let path = format!("kubepods/besteffort/pod{uid}");
                (format!("/{path}"), path.into())
            }
        }
    }

    /// Reads it from what containerd says of its configuration (the verbose part of `Status`); `None` where it says
    /// nothing of this handler.
    pub fn configured(info: &BTreeMap<String, String>, handler: &str) -> Option<Self> {
        let config: Value = serde_json::from_str(info.get("config")?).ok()?;
        let containerd = config.get("containerd")?;
        let default = containerd.get("defaultRuntimeName").and_then(Value::as_str).unwrap_or("runc");
        let handler = if handler.is_empty() { default } else { handler };
        let options = containerd.get("runtimes")?.get(handler)?.get("options")?;
        let systemd = options.get("SystemdCgroup").and_then(Value::as_bool).unwrap_or(false);
        Some(if systemd { Self::Systemd } else { Self::Cgroupfs })
    }
}

/// The slice of a pod.
pub fn slice(uid: &str) -> String {
    format!("kubepods-besteffort-pod{}.slice", uid.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_where_the_kubelet_puts_them() {
        let (parent, path) = Driver::Systemd.pod("1-2");
        let place = crate::names::Place::of(&path);
        assert_eq!((place.role, place.pod.as_deref()), (crate::names::Role::Pod, Some("1-2")));
        assert_eq!(parent, "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice");
        let place = crate::names::Place::of(&Driver::Cgroupfs.pod("1-2").1);
        assert_eq!((place.role, place.pod.as_deref()), (crate::names::Role::Pod, Some("1-2")));
    }

    #[test]
    fn the_driver_is_the_handlers() {
        let info = |config: &str| BTreeMap::from([("config".to_owned(), config.to_owned())]);
        let config = r#"{"containerd":{"defaultRuntimeName":"a","runtimes":{"a":{"options":{"SystemdCgroup":true}},
            "b":{"options":{"BinaryName":"crun"}}}}}"#;
        for (handler, driver) in [
            ("", Some(Driver::Systemd)),
            ("a", Some(Driver::Systemd)),
            ("b", Some(Driver::Cgroupfs)),
            ("c", None),
        ] {
            assert_eq!(Driver::configured(&info(config), handler), driver, "{handler}");
        }
        for odd in ["", "[]", "{\"containerd\":7}"] {
            assert_eq!(Driver::configured(&info(odd), ""), None, "{odd}");
        }
        assert_eq!(Driver::configured(&BTreeMap::new(), ""), None);
    }
}
