//! `kubectl enforcer ...`: the same program under the name by which kubectl finds plugins (`kubectl-enforcer` on the path).
//!
//! It is for whoever is at no node: what asks an agent or the kernel of this machine asks the API server instead. All of it is
//! done on the command line, so that a command itself need not know how it was called. No I/O.

use std::{ffi::OsString, path::Path};

/// What kubectl looks for (<https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/>).
const NAME: &str = "kubectl-enforcer";
/// What people type.
pub(super) const TYPED: &str = "kubectl enforcer";
/// Options that kubectl has too, whose value is the next word.
const WITH_VALUE: [&str; 2] = ["--kubeconfig", "--context"];
/// What takes a pod or a container.
const OF_A_POD: [&str; 3] = ["explain", "shrink", "resize"];

/// Whether the program was called as a plugin.
pub(super) fn is_meant(args: &[OsString]) -> bool {
    args.first().and_then(|name| Path::new(name).file_name()).is_some_and(|name| name == NAME)
}

/// The command line as if it had been typed at a node: the namespace of `-n` goes into the target, limits go by the kubelet,
/// and no agent is asked.
pub(super) fn as_command(args: Vec<OsString>) -> Vec<OsString> {
    let mut rest = args.into_iter();
    let name = rest.next();
    let mut rest: Vec<_> = rest.collect();
    let namespace = take_namespace(&mut rest);
    let command = command(&rest);
    let Some(command) = command else { return name.into_iter().chain(rest).collect() };
    let of_a_pod = rest[command].to_str().is_some_and(|word| OF_A_POD.contains(&word));
    if of_a_pod {
        let more = if rest[command] == "explain" { "--no-agent" } else { "--via=kube" };
        let option = more.split('=').next().unwrap_or(more);
        let is_said = |arg: &OsString| arg.to_str().is_some_and(|arg| arg.split('=').next() == Some(option));
        if let Some(namespace) = namespace {
            let targets = rest[command + 1..].iter_mut().filter_map(|arg| {
                let pod = arg.to_str()?.strip_prefix("pod/")?.to_owned();
                (!pod.contains('/')).then_some((arg, pod))
            });
            for (arg, pod) in targets {
                *arg = format!("pod/{namespace}/{pod}").into();
            }
        }
        if !rest.iter().any(is_said) {
            rest.insert(command + 1, more.into());
        }
    }
    let word = rest.remove(command);
    name.into_iter().chain([word]).chain(rest).collect()
}

/// Where the command is: kubectl takes options before it as well as after it.
fn command(args: &[OsString]) -> Option<usize> {
    let has_value = |at: usize| args[at].to_str().is_some_and(|arg| WITH_VALUE.contains(&arg));
    let is_word = |at: usize| !args[at].as_encoded_bytes().starts_with(b"-");
    (0..args.len()).find(|at| is_word(*at) && !(*at > 0 && has_value(*at - 1)))
}

/// `-n NAME`, `-nNAME`, `--namespace NAME` or `--namespace=NAME`; the last counts.
fn take_namespace(args: &mut Vec<OsString>) -> Option<String> {
    let mut namespace = None;
    let mut kept = Vec::new();
    let mut all = std::mem::take(args).into_iter();
    while let Some(arg) = all.next() {
        let text = arg.to_str().unwrap_or_default();
        if text == "--" {
            kept.push(arg);
            break;
        }
        let joined = text.strip_prefix("--namespace=").or_else(|| text.strip_prefix("-n"));
        match (text, joined) {
            ("-n" | "--namespace", _) => match all.next().map(OsString::into_string) {
                Some(Ok(name)) if !name.starts_with('-') => namespace = Some(name),
                // It stays, and is refused with the rest.
                Some(Ok(other)) => kept.extend([arg, other.into()]),
                Some(Err(other)) => kept.extend([arg, other]),
                None => kept.push(arg),
            },
            (_, Some(name)) if !text.starts_with("--") || text.starts_with("--namespace=") => {
                namespace = Some(name.to_owned());
            }
            _ => kept.push(arg),
        }
    }
    kept.extend(all);
    *args = kept;
    namespace
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn it_is_meant_by_its_name_alone() {
        for (name, expected) in [
            ("kubectl-enforcer", true),
            ("/usr/bin/kubectl-enforcer", true),
            ("enforcer", false),
            ("", false),
        ] {
            assert_eq!(is_meant(&words(name)), expected, "{name}");
        }
        assert!(!is_meant(&[]));
    }

    #[test]
    fn the_api_server_is_asked_and_no_node() {
        for (typed, expected) in [
            ("k explain pod/shop/web", "k explain --no-agent pod/shop/web"),
            ("k explain -n shop pod/web:main --json", "k explain --no-agent pod/shop/web:main --json"),
            ("k -n shop explain pod/web", "k explain --no-agent pod/shop/web"),
            ("k --namespace=shop shrink pod/web --to 1Gi", "k shrink --via=kube pod/shop/web --to 1Gi"),
            ("k shrink pod/web --to 1Gi --namespace shop", "k shrink --via=kube pod/shop/web --to 1Gi"),
            (
                "k --kubeconfig f --context c explain pod/a/b",
                "k explain --kubeconfig f --context c --no-agent pod/a/b",
            ),
            ("k explain -n --json pod/web", "k explain --no-agent -n --json pod/web"),
            ("k explain pod/a/b -n", "k explain --no-agent pod/a/b -n"),
            ("k resize -nshop pod/web --cpu 1", "k resize --via=kube pod/shop/web --cpu 1"),
            ("k resize --via cri pod/a/b --cpu 1", "k resize --via cri pod/a/b --cpu 1"),
            // A pod that has its namespace keeps it.
            ("k explain -n shop pod/other/web", "k explain --no-agent pod/other/web"),
            ("k status --node n1", "k status --node n1"),
            ("k --help", "k --help"),
            ("k", "k"),
        ] {
            assert_eq!(as_command(words(typed)), words(expected), "{typed}");
        }
    }
}
