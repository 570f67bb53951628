//! Debian packages: a private view of the archive with more suites, apart from the machine's own.

use crate::{cache, long, run};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;

/// A private apt configuration: its own list of suites, its own lists and cache.
pub(crate) struct Apt {
    folder: PathBuf,
}

/// Suites that a private configuration reads; the mirror is the machine's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suites {
    /// For programs of the machine's release, newer versions included.
    Backports,
    /// For guest kernels: everything in reach.
    Kernels,
}

impl Suites {
    fn name(self) -> &'static str {
        match self {
            Self::Backports => "backports",
            Self::Kernels => "kernels",
        }
    }

    fn list(self, release: &str) -> Vec<(Mirror, String)> {
        let suite = |mirror, name: &str| (mirror, name.to_owned());
        match self {
            Self::Backports => vec![
                suite(Mirror::Main, release),
                suite(Mirror::Main, &format!("{release}-updates")),
                suite(Mirror::Main, &format!("{release}-backports")),
                suite(Mirror::Security, &format!("{release}-security")),
            ],
            Self::Kernels => vec![
                suite(Mirror::Main, "bookworm"),
                suite(Mirror::Main, "bookworm-backports"),
                suite(Mirror::Security, "bookworm-security"),
                suite(Mirror::Main, "trixie"),
                suite(Mirror::Main, "trixie-backports"),
                suite(Mirror::Security, "trixie-security"),
                suite(Mirror::Main, "sid"),
            ],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mirror {
    Main,
    Security,
}

impl Apt {
    /// Opens it, reading the archive's lists where that has not been done today.
    pub(crate) fn open(suites: Suites) -> Result<Self> {
        let apt = Self { folder: cache::folder(&format!("apt/{}", suites.name()))? };
        for folder in ["lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(apt.folder.join(folder))?;
        }
        let mirrors = Mirrors::of_this_machine()?;
        let list: String = suites
            .list(&release()?)
            .into_iter()
            .filter_map(|(mirror, suite)| {
                let host = mirrors.of_kind(mirror)?;
                Some(format!(
                    "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {host} {suite} main\n"
                ))
            })
            .collect();
        let sources = apt.folder.join("sources.list");
        let same = std::fs::read_to_string(&sources).is_ok_and(|old| old == list);
        if !same || !apt.fresh() {
            std::fs::write(&sources, list)?;
            let what = format!("reading the package lists ({})", suites.name());
            long::watched(&what, apt.command("apt-get").arg("update"))?;
            std::fs::write(apt.stamp(), "")?;
        }
        Ok(apt)
    }

    fn stamp(&self) -> PathBuf {
        self.folder.join("updated")
    }

    /// Lists of the last day; a mirror forgets old package versions.
    fn fresh(&self) -> bool {
        let age = std::fs::metadata(self.stamp()).and_then(|stamp| stamp.modified()).map(|at| at.elapsed());
        matches!(age, Ok(Ok(age)) if age.as_secs() < 24 * 3600)
    }

    /// `apt-get` or `apt-cache` with this configuration.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = command(program);
        for (key, value) in [
            ("Dir::Etc::sourcelist", self.folder.join("sources.list")),
            ("Dir::Etc::sourceparts", PathBuf::from("-")),
            ("Dir::State::lists", self.folder.join("lists")),
            ("Dir::Cache", self.folder.join("cache")),
        ] {
            command.arg("-o").arg(format!("{key}={}", value.display()));
        }
        command.args(["-o", "APT::Sandbox::User=root"]);
        command
    }

    /// The line of its list for `suite`.
    pub(crate) fn line(&self, suite: &str) -> Result<String> {
        let list = std::fs::read_to_string(self.folder.join("sources.list"))?;
        let found = list.lines().find(|line| line.ends_with(&format!(" {suite} main")));
        found.map(str::to_owned).with_context(|| format!("no mirror in reach has {suite}"))
    }

    /// Names of all packages that match a regular expression.
    pub(crate) fn names(&self, pattern: &str) -> Result<Vec<String>> {
        let text = run::output(self.command("apt-cache").args(["search", "--names-only", pattern]))?;
        Ok(text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
    }

    /// Downloads packages (not installed) and unpacks them all into `into`; `what` says so to people.
    pub(crate) fn unpack(&self, what: &str, packages: &[String], into: &std::path::Path) -> Result<()> {
        let scratch = tempfile::tempdir_in(&self.folder)?;
        let mut download = self.command("apt-get");
        long::watched(what, download.arg("download").args(packages).current_dir(scratch.path()))?;
        for entry in std::fs::read_dir(scratch.path())? {
            run::checked(Command::new("dpkg").arg("-x").arg(entry?.path()).arg(into))?;
        }
        Ok(())
    }
}

/// `apt-get` or `apt-cache` as the machine has it: asks nothing, waits for another one's lock, tries a mirror
/// more than once.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["-o", "DPkg::Lock::Timeout=600", "-o", "Acquire::Retries=3"]);
    command
}

/// The machine's release name, `bookworm` say.
pub(crate) fn release() -> Result<String> {
    let text = std::fs::read_to_string("/etc/os-release").context("read /etc/os-release")?;
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(|v| v.trim_matches('"'));
    let id = value("ID=").unwrap_or_default();
    ensure!(
        id == "debian",
        "set-up knows Debian only (this is {id:?}); install the packages named in docs/building.md by hand"
    );
    Ok(value("VERSION_CODENAME=").context("/etc/os-release has no VERSION_CODENAME")?.to_owned())
}

/// Where the machine gets its packages.
struct Mirrors {
    main: String,
    security: Option<String>,
}

impl Mirrors {
    fn of_this_machine() -> Result<Self> {
        let mut texts = Vec::new();
        texts.extend(std::fs::read_to_string("/etc/apt/sources.list"));
        if let Ok(entries) = std::fs::read_dir("/etc/apt/sources.list.d") {
            for entry in entries.flatten() {
                let ending = entry.path().extension().map(|ending| ending.to_string_lossy().into_owned());
                if matches!(ending.as_deref(), Some("sources" | "list")) {
                    texts.extend(std::fs::read_to_string(entry.path()));
                }
            }
        }
        Self::of(&texts.concat()).context("found no Debian mirror in /etc/apt")
    }

    /// From one-line and deb822 sources alike: a mirror is an address that ends in `/debian` or
    /// `/debian-security`.
    fn of(text: &str) -> Option<Self> {
        let words = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
        let addresses: Vec<&str> = words.filter(|word| word.contains("://")).collect();
        let ending = |end: &str| {
            let found = addresses.iter().find(|address| address.trim_end_matches('/').ends_with(end));
            found.map(|address| (*address).to_owned())
        };
        Some(Self { main: ending("/debian")?, security: ending("/debian-security") })
    }

    fn of_kind(&self, mirror: Mirror) -> Option<&str> {
        match mirror {
            Mirror::Main => Some(&self.main),
            Mirror::Security => self.security.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_of_both_formats() {
        let both = [
            "Types: deb\nURIs: http://m.example/debian\nSuites: bookworm\n\nURIs: http://m.example/debian-security/\n",
            "# deb http://old.example/debian x main\ndeb [arch=amd64] http://m.example/debian bookworm main\n\
             deb http://m.example/debian-security/ bookworm-security main\n",
        ];
        for text in both {
            let mirrors = Mirrors::of(text).expect("mirrors");
            assert_eq!(mirrors.of_kind(Mirror::Main), Some("http://m.example/debian"));
            assert_eq!(mirrors.of_kind(Mirror::Security), Some("http://m.example/debian-security/"));
        }
        assert!(Mirrors::of("URIs: http://m.example/ubuntu").is_none());
    }
}
