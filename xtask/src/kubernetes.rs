//! A real Kubernetes for the larger guest: its programs, built from the published Go modules, with etcd and a set of
//! keys, on a disk image that is made once and kept in the cache. It starts none of them.

use crate::apt::{Apt, Suites};
use crate::go::go;
use crate::{cache, long, run};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One line of the list.
pub(crate) struct Version {
    /// What `--version` takes.
    pub(crate) name: &'static str,
    /// The release that is built.
    release: &'static str,
}

/// The newest patch of each minor that the module proxy gives. The first is taken where none is named.
pub(crate) const VERSIONS: [Version; 2] =
    [Version { name: "1.35", release: "1.35.8" }, Version { name: "1.37", release: "1.37.2" }];

/// Commands of `k8s.io/kubernetes/cmd`, and about what they take on two CPUs where nothing is built yet.
const COMMANDS: [(&str, &str); 4] = [
    ("kubelet", "some 8 minutes"),
    ("kube-apiserver", "some 10 minutes"),
    ("kubectl", "a minute"),
    ("kubeadm", "a minute"),
];

/// What the guest is given; kubeadm only makes the keys.
const IN_GUEST: [&str; 4] = ["kubelet", "kube-apiserver", "kubectl", "etcd"];

/// The guest's release, whose etcd it can run.
const ETCD: &str = "etcd-server/trixie";

/// The node's name and address there (tests/e2e/src/cluster.rs has both as well).
const NODE: &str = "guest";
const ADDRESS: &str = "192.0.2.1";

/// What the image has room for besides its files.
const SLACK_BYTES: u64 = 32 << 20;

impl Version {
    /// The line called `name`, the first where none is named.
    pub(crate) fn find(name: Option<&str>) -> Result<&'static Self> {
        let Some(name) = name else { return Ok(&VERSIONS[0]) };
        let found = VERSIONS.iter().find(|version| version.name == name || version.release == name);
        found.with_context(|| {
            let names: Vec<_> = VERSIONS.iter().map(|version| version.name).collect();
            format!("no Kubernetes {name:?} in the list (xtask/src/kubernetes.rs): {}", names.join(", "))
        })
    }

    /// For people: `Kubernetes 1.35.8`.
    pub(crate) fn title(&self) -> String {
        format!("Kubernetes {}", self.release)
    }

    fn folder(&self) -> Result<PathBuf> {
        cache::folder(&format!("kubernetes/{}", self.release))
    }

    /// Whether all of it is there already.
    pub(crate) fn is_cached(&self) -> Result<bool> {
        Ok(self.folder()?.join(IMAGE).exists())
    }

    /// A read-only disk with `bin`, `pki` and kubeconfig files: from the cache, or made once.
    pub(crate) fn disk(&self) -> Result<PathBuf> {
        let folder = self.folder()?;
        let image = folder.join(IMAGE);
        if image.exists() {
            return Ok(image);
        }
        let programs = folder.join("bin");
        fs::create_dir_all(&programs)?;
        self.build(&folder.join("module"), &programs)?;
        etcd(&programs)?;
        let scratch = tempfile::tempdir_in(&folder)?;
        let root = scratch.path().join("root");
        self.keys(&programs.join("kubeadm"), scratch.path(), &root)?;
        fs::create_dir_all(root.join("bin"))?;
        for name in IN_GUEST {
            fs::copy(programs.join(name), root.join("bin").join(name))?;
        }
        let partial = scratch.path().join("image");
        fs::File::create(&partial)?.set_len((size(&root)? + SLACK_BYTES).next_multiple_of(1 << 20))?;
        let mut fill = Command::new("/sbin/mke2fs");
        fill.args(["-q", "-t", "ext4", "-F", "-O", "^has_journal", "-m", "0", "-d"]).arg(&root).arg(&partial);
        run::checked(&mut fill).context("fill the disk with Kubernetes")?;
        fs::rename(&partial, &image)?;
        Ok(image)
    }

    /// Those commands that `programs` does not have yet.
    fn build(&self, module: &Path, programs: &Path) -> Result<()> {
        let missing: Vec<_> = COMMANDS.iter().filter(|(name, _)| !programs.join(name).exists()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let go = go()?;
        fs::create_dir_all(module)?;
        let file = module.join("go.mod");
        if !file.exists() {
            let published = self.published(&go, module)?;
            fs::write(&file, go_mod(&published, self.release)?)?;
        }
        let mut numbers = self.release.split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        let package = "k8s.io/component-base/version";
        let flags = format!(
            "-s -w -X {package}.gitVersion=v{} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}",
            self.release
        );
        for (name, takes) in missing {
            let partial = programs.join(format!("{name}.partial"));
            let what =
                format!("building {name} {} from its Go module, once ({takes} on two CPUs)", self.release);
            let mut build = Command::new(&go);
            build.current_dir(module).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod");
            build.args(["build", "-v", "-trimpath", "-ldflags", &flags, "-o"]).arg(&partial);
            build.arg(format!("k8s.io/kubernetes/cmd/{name}"));
            long::watched(&what, &mut build).with_context(|| format!("build {name}"))?;
            fs::rename(&partial, programs.join(name))?;
        }
        Ok(())
    }

    /// The `go.mod` of the published module.
    fn published(&self, go: &Path, module: &Path) -> Result<String> {
        let mut download = Command::new(go);
        download.current_dir(module).env("GOFLAGS", "-mod=mod");
        download.args(["list", "-m", "-f", "{{.GoMod}}", &format!("k8s.io/kubernetes@v{}", self.release)]);
        let path = run::output(&mut download).with_context(|| {
            format!("find the Go module of {}; is a module proxy in reach?", self.title())
        })?;
        fs::read_to_string(path.trim()).with_context(|| format!("read {}", path.trim()))
    }

    /// Certificates and kubeconfig files as kubeadm makes them for a control plane.
    fn keys(&self, kubeadm: &Path, scratch: &Path, root: &Path) -> Result<()> {
        let file = scratch.join("kubeadm.yaml");
        let pki = root.join("pki");
        fs::create_dir_all(&pki)?;
        fs::write(&file, kubeadm_config(self.release, &pki))?;
        let phase = |words: &[&str]| {
            let mut command = Command::new(kubeadm);
            command.args(["init", "phase"]).args(words).arg("--config").arg(&file);
            command
        };
        run::output(&mut phase(&["certs", "all"])).context("make the cluster's keys")?;
        for who in ["super-admin", "kubelet"] {
            let mut command = phase(&["kubeconfig", who]);
            run::output(command.arg("--kubeconfig-dir").arg(root)).context("make the cluster's logins")?;
        }
        Ok(())
    }
}

/// The disk's name in the cache. Whoever changes what is on it changes the number.
const IMAGE: &str = "disk-1.ext4";

/// A module that requires the release, with the staging modules at the same minor and patch: as published, their
/// place is a folder that the module does not have.
fn go_mod(published: &str, release: &str) -> Result<String> {
    let kept = |line: &&str| line.starts_with("go ") || line.starts_with("godebug default");
    let settings: String = published.lines().filter(kept).map(|line| [line, "\n\n"].concat()).collect();
    let (_, patch) = release.split_once('.').with_context(|| format!("{release} is no release"))?;
    let staging = published.lines().filter_map(|line| line.split_once(" => ./staging/"));
    let replaced: Vec<_> = staging
        .map(|(module, _)| module.trim().trim_start_matches("replace "))
        .map(|module| format!("\t{module} => {module} v0.{patch}\n"))
        .collect();
    ensure!(!replaced.is_empty(), "the published go.mod of {release} names no staging modules");
    Ok(format!(
        "module enforcer.invalid/kubernetes\n\n{settings}require k8s.io/kubernetes v{release}\n\nreplace (\n{})\n",
        replaced.concat()
    ))
}

fn kubeadm_config(release: &str, pki: &Path) -> String {
    format!(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration:\n  name: {NODE}\n  \
         criSocket: unix:///run/containerd/containerd.sock\nlocalAPIEndpoint:\n  advertiseAddress: {ADDRESS}\n  \
         bindPort: 6443\n---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n\
         kubernetesVersion: v{release}\ncontrolPlaneEndpoint: {ADDRESS}:6443\ncertificatesDir: {}\n\
         encryptionAlgorithm: ECDSA-P256\ncertificateValidityPeriod: 87600h0m0s\n\
         caCertificateValidityPeriod: 87600h0m0s\napiServer:\n  certSANs: [127.0.0.1, localhost]\n",
        pki.display()
    )
}

/// Debian's etcd, beside the others.
fn etcd(programs: &Path) -> Result<()> {
    let to = programs.join("etcd");
    if to.exists() {
        return Ok(());
    }
    let scratch = tempfile::tempdir_in(programs)?;
    Apt::open(Suites::Kernels)?.unpack(
        "fetching etcd, the store behind the API server",
        &[ETCD.to_owned()],
        scratch.path(),
    )?;
    fs::rename(scratch.path().join("usr/bin/etcd"), to).context("the package etcd-server holds no etcd")
}

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        bytes += if kind.is_dir() { size(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_modules_are_replaced_by_those_of_the_release() {
        let published = "module k8s.io/kubernetes\n\ngo 1.25.0\n\ngodebug default=go1.25\n\nrequire (\n\tk8s.io/api \
                         v0.0.0\n)\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n";
        assert_eq!(
            go_mod(published, "1.35.8").unwrap(),
            "module enforcer.invalid/kubernetes\n\ngo 1.25.0\n\ngodebug default=go1.25\n\nrequire \
             k8s.io/kubernetes v1.35.8\n\nreplace (\n\tk8s.io/api => k8s.io/api v0.35.8\n)\n"
        );
        assert!(go_mod("module k8s.io/kubernetes\n", "1.35.8").is_err());
    }

    #[test]
    fn versions_are_found_by_minor_and_by_release() {
        assert_eq!(Version::find(None).unwrap().release, VERSIONS[0].release);
        assert_eq!(Version::find(Some("1.37")).unwrap().release, "1.37.2");
        assert_eq!(Version::find(Some("1.35.8")).unwrap().name, "1.35");
        assert!(Version::find(Some("1.2")).is_err());
    }
}
