//! Names of pods and containers, from those of the folders and files that the kubelet keeps their logs in
//! (pkg/kubelet/kuberuntime, `BuildPodLogsDirectory` and `LogSymlink`). No I/O.

use super::is_id;

/// A folder in `/var/log/pods`: `<namespace>_<pod>_<uid>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodLogs<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// Its name.
    pub pod: &'a str,
    /// Its UID.
    pub uid: &'a str,
}

impl<'a> PodLogs<'a> {
    /// `None` for any other name.
    pub fn parse(name: &'a str) -> Option<Self> {
        let mut parts = name.split('_');
        let (namespace, pod, uid) = (parts.next()?, parts.next()?, parts.next()?);
        (parts.next().is_none() && [namespace, pod, uid].into_iter().all(is_long_id)).then_some(Self {
            namespace,
            pod,
            uid,
        })
    }
}

/// A link in `/var/log/containers`: `<pod>_<namespace>_<container>-<id>.log`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerLog<'a> {
    /// The pod's name.
    pub pod: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// The container's name.
    pub container: &'a str,
    /// Its id.
    pub id: &'a str,
}

impl<'a> ContainerLog<'a> {
    /// `None` for any other name.
    pub fn parse(name: &'a str) -> Option<Self> {
        let mut parts = name.strip_suffix(".log")?.split('_');
        let (pod, namespace, last) = (parts.next()?, parts.next()?, parts.next()?);
        let (container, id) = last.rsplit_once('-')?;
        (parts.next().is_none() && [pod, namespace, container, id].into_iter().all(is_long_id))
            .then_some(Self { pod, namespace, container, id })
    }
}

/// A pod's name may have 253 characters.
fn is_long_id(text: &str) -> bool {
    text.len() <= 253
        && text.as_bytes().chunks(super::ID_BYTES_MAX).all(|part| std::str::from_utf8(part).is_ok_and(is_id))
        && !text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn folders_of_pods() {
        let found = PodLogs::parse("kube-system_coredns-5d78_1d2c-aa").expect("is one");
        assert_eq!(found, PodLogs { namespace: "kube-system", pod: "coredns-5d78", uid: "1d2c-aa" });
        for other in ["", "a_b", "a_b_c_d", "a__c", "a_b_\u{1b}", "_b_c"] {
            assert_eq!(PodLogs::parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn links_of_containers() {
        let found = ContainerLog::parse("web-0_prod_my-app-0123abcd.log").expect("is one");
        let expected = ContainerLog { pod: "web-0", namespace: "prod", container: "my-app", id: "0123abcd" };
        assert_eq!(found, expected);
        for other in ["", "web-0_prod_app.log", "web-0_prod_my-app-0123abcd", "a_b_-.log", "a_b_c-d_e.log"] {
            assert_eq!(ContainerLog::parse(other), None, "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn any_name_is_safe(name in "\\PC{0,300}", ids in "[a-z_.-]{0,300}") {
            for text in [&name, &ids] {
                let _ = (PodLogs::parse(text), ContainerLog::parse(text));
            }
        }
    }
}
