//! A registry of one image on the loopback, for as long as the runtime fetches it (OCI distribution specification,
//! the part that pulls).

use super::image::{Image, MANIFEST};
use crate::http::{Limits, Losses, TEXT, method_not_allowed, serve, text};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::Full;
use hyper::Response;
use std::{io, net::Ipv4Addr, sync::Arc};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

/// The name of the image in it; every image of ours has it, whatever its port was.
pub(super) const NAME: &str = "enforcer-overhead";
const OCTETS: &str = "application/octet-stream";

/// It serves until it is dropped or ended.
#[derive(Debug)]
pub(super) struct Registry {
    port: u16,
    tag: String,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Registry {
    /// Begins to serve the image under this tag.
    pub(super) async fn start(image: Image, tag: &str) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::new((image, tag.to_owned()));
        let handler = move |request: hyper::Request<_>| {
            let shared = Arc::clone(&shared);
            async move { answer(&shared.0, &shared.1, request.method(), request.uri().path()) }
        };
        let stopped = async {
            let _ = stopped.await;
        };
        let task = tokio::spawn(serve(listener, Limits::PAGES, Losses::default(), handler, stopped));
        Ok(Self { port, tag: tag.into(), stop: Some(stop), task })
    }

    /// The image's name. Runtimes take a registry on the loopback without encryption.
    pub(super) fn reference(&self) -> String {
        format!("127.0.0.1:{}/{NAME}:{}", self.port, self.tag)
    }

    /// Stops to serve.
    pub(super) async fn end(mut self) {
        drop(self.stop.take());
        let _ = self.task.await;
    }
}

fn answer(image: &Image, tag: &str, method: &Method, path: &str) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        return method_not_allowed("GET, HEAD");
    }
    let no = || text(StatusCode::NOT_FOUND, TEXT, "no such thing\n");
    if path == "/v2/" || path == "/v2" {
        return text(StatusCode::OK, "application/json", "{}");
    }
    let Some(rest) = path.strip_prefix("/v2/").and_then(|rest| rest.strip_prefix(NAME)) else { return no() };
    let (blob, kind) = match rest.trim_start_matches('/').split_once('/') {
        Some(("manifests", name)) if name == tag || name == image.manifest.digest => {
            (Some(&image.manifest), MANIFEST)
        }
        Some(("blobs", name)) => (image.blobs.iter().find(|blob| blob.digest == name), OCTETS),
        Some(_) | None => (None, OCTETS),
    };
    let Some(blob) = blob else { return no() };
    // The server leaves the body out where only the head was asked for, and keeps its length.
    let mut answer = text(StatusCode::OK, kind, blob.bytes.clone());
    if let Ok(digest) = HeaderValue::from_str(&blob.digest) {
        answer.headers_mut().insert(HeaderName::from_static("docker-content-digest"), digest);
    }
    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(blob.bytes.len()));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_there_is_served() {
        let Some(image) = Image::of_this_machine() else { return };
        let layer = &image.blobs[1].digest;
        let get = |path: &str| answer(&image, "t", &Method::GET, path);
        for (path, status) in [
            ("/v2/".into(), 200),
            (format!("/v2/{NAME}/manifests/t"), 200),
            (format!("/v2/{NAME}/manifests/{}", image.manifest.digest), 200),
            (format!("/v2/{NAME}/blobs/{layer}"), 200),
            (format!("/v2/{NAME}/manifests/other"), 404),
            (format!("/v2/{NAME}/blobs/sha256:00"), 404),
            (format!("/v2/other/blobs/{layer}"), 404),
            ("/".into(), 404),
            ("/v2/../etc/passwd".into(), 404),
        ] {
            assert_eq!(get(&path).status().as_u16(), status, "{path}");
        }
        let head = get(&format!("/v2/{NAME}/manifests/t"));
        assert_eq!(head.headers()["docker-content-digest"], image.manifest.digest.as_str());
        assert_eq!(head.headers()["content-type"], MANIFEST);
        assert_eq!(answer(&image, "t", &Method::PUT, "/v2/").status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}
