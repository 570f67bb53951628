//! A container image of one static program, without a tool for containers: an archive of an OCI image layout
//! (`image-layout.md` of the OCI image specification 1.1), which `ctr images import`, `podman load` and `skopeo` read.
//!
//! The same program gives the same bytes.

use crate::run;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// What an image is made of.
pub(crate) struct Image<'a> {
    /// Goes to `/`, by its own name.
    pub(crate) program: &'a Path,
    /// As Go and OCI call it: `amd64`.
    pub(crate) architecture: &'a str,
    /// The whole name, registry and tag included: `docker.io/library/enforcer:0.1.0`.
    pub(crate) name: &'a str,
}

/// A blob of the layout.
struct Blob {
    /// SHA-256, in hexadecimal digits.
    digest: String,
    /// Its bytes.
    size: u64,
}

impl Image<'_> {
    /// Writes the archive to `file`. Needs GNU tar and sha256sum; whatever was there before stays where it fails.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let beside = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let scratch = tempfile::tempdir_in(beside)
            .with_context(|| format!("make a folder beside {}", file.display()))?;
        let layout = scratch.path().join("layout");
        let blobs = layout.join("blobs/sha256");
        fs::create_dir_all(&blobs).context("make the layout's folder")?;
        let layer = self.layer(scratch.path(), &blobs)?;
        let config = put(&blobs, &self.config(&layer))?;
        let manifest = put(&blobs, &manifest(&config, &layer))?;
        write(&layout.join("index.json"), &self.index(&manifest))?;
        write(&layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
        let archive = scratch.path().join("image.tar");
        tar(&layout, &["blobs", "index.json", "oci-layout"], &archive)?;
        fs::rename(&archive, file).with_context(|| format!("write {}", file.display()))
    }

    /// One layer with the program, which belongs to root and which all may run.
    fn layer(&self, scratch: &Path, blobs: &Path) -> Result<Blob> {
        let root = scratch.join("root");
        fs::create_dir(&root).context("make the layer's folder")?;
        let name =
            self.program.file_name().and_then(|name| name.to_str()).context("the program has no name")?;
        let copy = root.join(name);
        fs::copy(self.program, &copy).with_context(|| format!("copy {}", self.program.display()))?;
        run::checked(Command::new("chmod").arg("0755").arg(&copy))?;
        let archive = scratch.join("layer.tar");
        tar(&root, &[name], &archive)?;
        adopt(blobs, &archive)
    }

    fn config(&self, layer: &Blob) -> String {
        let Self { architecture, program, .. } = self;
        let entry = program.file_name().unwrap_or_default().display();
        let digest = &layer.digest;
        format!(
            r#"{{"architecture":"{architecture}","os":"linux","config":{{"Entrypoint":["/{entry}"],"Cmd":["run"]}},"rootfs":{{"type":"layers","diff_ids":["sha256:{digest}"]}}}}"#
        )
    }

    fn index(&self, manifest: &Blob) -> String {
        let (Blob { digest, size }, name) = (manifest, self.name);
        let tag = name.rsplit(':').next().unwrap_or(name);
        format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:{digest}","size":{size},"annotations":{{"io.containerd.image.name":"{name}","org.opencontainers.image.ref.name":"{tag}"}}}}]}}"#
        )
    }
}

fn manifest(config: &Blob, layer: &Blob) -> String {
    let of = |kind: &str, blob: &Blob| {
        let Blob { digest, size } = blob;
        format!(
            r#"{{"mediaType":"application/vnd.oci.image.{kind}","digest":"sha256:{digest}","size":{size}}}"#
        )
    };
    format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{},"layers":[{}]}}"#,
        of("config.v1+json", config),
        of("layer.v1.tar", layer)
    )
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("write {}", file.display()))
}

/// Keeps a text as a blob.
fn put(blobs: &Path, text: &str) -> Result<Blob> {
    let file = blobs.join("new");
    write(&file, text)?;
    adopt(blobs, &file)
}

/// Moves a file to where its digest says.
fn adopt(blobs: &Path, file: &Path) -> Result<Blob> {
    let said = run::output(Command::new("sha256sum").arg(file))?;
    let digest = said.split(' ').next().unwrap_or_default().to_owned();
    let size = fs::metadata(file).context("look at a blob")?.len();
    fs::rename(file, blobs.join(&digest)).context("keep a blob")?;
    Ok(Blob { digest, size })
}

/// An archive that says nothing of who made it, and when.
fn tar(folder: &Path, names: &[&str], archive: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--file").arg(archive).arg("--directory").arg(folder);
    tar.args(["--format=ustar", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]);
    run::checked(tar.args(["--mode=u=rwX,go=rX"]).args(names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn written(folder: &Path, name: &str) -> Vec<u8> {
        let file = folder.join(name);
        let program = folder.join("enforcer");
        let image =
            Image { program: &program, architecture: "amd64", name: "docker.io/library/enforcer:1.2" };
        image.write(&file).expect("is written");
        fs::read(file).expect("is there")
    }

    #[test]
    fn every_part_is_what_its_digest_says_and_the_same_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("enforcer"), "not really a program").expect("writes");
        let (one, two) = (written(folder.path(), "one.tar"), written(folder.path(), "two.tar"));
        assert!(one == two, "the same program gives the same archive");
        fs::create_dir(at("out")).expect("a folder");
        run::checked(Command::new("tar").arg("-xf").arg(at("one.tar")).arg("-C").arg(at("out")))
            .expect("unpacks");
        let json = |file: &Path| -> Value {
            serde_json::from_slice(&fs::read(file).expect("is there")).expect("JSON")
        };
        let blob = |of: &Value| {
            let digest = of["digest"].as_str().expect("a digest").strip_prefix("sha256:").expect("SHA-256");
            let file = at("out/blobs/sha256").join(digest);
            let said = run::output(Command::new("sha256sum").arg(&file)).expect("sums");
            assert!(said.starts_with(digest), "{said}");
            assert_eq!(fs::metadata(&file).expect("is there").len(), of["size"].as_u64().expect("a size"));
            file
        };
        assert_eq!(json(&at("out/oci-layout"))["imageLayoutVersion"], "1.0.0");
        let index = json(&at("out/index.json"));
        let named = &index["manifests"][0]["annotations"];
        assert_eq!(named["io.containerd.image.name"], "docker.io/library/enforcer:1.2");
        assert_eq!(named["org.opencontainers.image.ref.name"], "1.2");
        let manifest = json(&blob(&index["manifests"][0]));
        let config = json(&blob(&manifest["config"]));
        assert_eq!(config["config"]["Entrypoint"][0], "/enforcer");
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        let layer = blob(&manifest["layers"][0]);
        let list = run::output(Command::new("tar").arg("-tvf").arg(layer)).expect("lists");
        assert!(list.starts_with("-rwxr-xr-x 0/0") && list.trim_end().ends_with(" enforcer"), "{list}");
        assert_eq!(list.lines().count(), 1);
    }

    #[test]
    fn what_can_not_be_written_leaves_what_was_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("image.tar");
        fs::write(&file, "before").expect("writes");
        let image = Image { program: Path::new("/none/enforcer"), architecture: "amd64", name: "a:1" };
        let error = image.write(&file).expect_err("there is no such program");
        assert!(format!("{error:#}").contains("/none/enforcer"), "{error:#}");
        assert_eq!(fs::read_to_string(&file).expect("is there"), "before");
        assert_eq!(fs::read_dir(folder.path()).expect("lists").count(), 1, "nothing half-made is left");
    }
}
