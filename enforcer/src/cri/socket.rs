//! Where the runtime listens.

use super::CriError;
use crate::cgroup::shown;
use std::{
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
};

/// Where runtimes listen by default, the most usual first: containerd, CRI-O, the containerd of k3s, cri-dockerd.
pub const SOCKETS: [&str; 4] = [
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/cri-dockerd.sock",
];
const SCHEME: &str = "unix://";
/// What `sun_path` of `struct sockaddr_un` holds, less its end (unix(7)).
const PATH_BYTES_MAX: usize = 107;

/// The socket: the one that was named (`unix:///path` or a path), or the first of [`SOCKETS`] that there is.
pub fn find(named: Option<&str>) -> Result<PathBuf, CriError> {
    match named {
        Some(address) => named_socket(address),
        None => first_of(SOCKETS.map(Path::new)),
    }
}

fn named_socket(address: &str) -> Result<PathBuf, CriError> {
    let bad = |why: String| CriError::BadAddress { address: shown(address), why };
    let path = Path::new(address.strip_prefix(SCHEME).unwrap_or(address));
    if !path.is_absolute() {
        return Err(bad("neither unix:///path nor an absolute path".into()));
    }
    if path.as_os_str().len() > PATH_BYTES_MAX {
        return Err(bad(format!("longer than the {PATH_BYTES_MAX} bytes that a socket's path can have")));
    }
    match is_socket(path) {
        Ok(true) => Ok(path.into()),
        Ok(false) => Err(bad("there is something else than a socket".into())),
        Err(error) => Err(bad(error.to_string())),
    }
}

fn first_of<'a>(candidates: impl IntoIterator<Item = &'a Path> + Clone) -> Result<PathBuf, CriError> {
    let found = candidates.clone().into_iter().find(|path| is_socket(path).unwrap_or(false));
    let looked_for = || candidates.into_iter().map(PathBuf::from).collect();
    found.map(PathBuf::from).ok_or_else(|| CriError::NoSocket { looked_for: looked_for() })
}

fn is_socket(path: &Path) -> std::io::Result<bool> {
    Ok(path.metadata()?.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_one_that_is_named_or_the_first_that_there_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let [none, file, first, second] =
            ["none", "file", "first", "second"].map(|name| dir.path().join(name));
        std::fs::write(&file, "").expect("writes");
        let _listeners = [&first, &second].map(|path| UnixListener::bind(path).expect("listens"));
        let text = first.to_str().expect("text");
        for address in [text.to_owned(), format!("unix://{text}")] {
            assert_eq!(find(Some(&address)).expect("found"), first);
        }
        let candidates = [&none, &file, &second, &first].map(PathBuf::as_path);
        assert_eq!(first_of(candidates).expect("found"), second);
        let error = first_of([none.as_path(), &file]).expect_err("nothing listens");
        assert!(matches!(&error, CriError::NoSocket { looked_for } if looked_for.len() == 2), "{error}");
    }

    #[test]
    fn what_is_no_address_is_told_why() {
        let dir = tempfile::tempdir().expect("a folder");
        let long = format!("/{}", "a".repeat(PATH_BYTES_MAX));
        let folder = dir.path().to_str().expect("text");
        for (address, says) in [
            ("", "neither"),
            ("run/x.sock", "neither"),
            ("tcp://127.0.0.1:1", "neither"),
            ("unix://run/x.sock", "neither"),
            (long.as_str(), "longer than"),
            (folder, "something else"),
            ("/no/such\u{1b}[2J", "No such file"),
        ] {
            let error = find(Some(address)).expect_err("no socket").to_string();
            assert!(error.contains(says) && !error.contains('\u{1b}'), "{address:?}: {error}");
        }
    }
}
