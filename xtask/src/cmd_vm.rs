//! `cargo xtask vm`: a command, or a shell on this terminal, in a guest.

use crate::guest::{Boot, Kit};
use crate::{build, debian, kernels, run};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

/// What to boot and what to run there.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
pub(crate) struct Options {
    /// Which kernel the guest has.
    #[arg(long, default_value = kernels::DEFAULT, value_parser = kernels::names())]
    kernel: String,
    /// A file of the host to have in the guest; lands in /bin unless `:PATH` says otherwise.
    #[arg(long = "file", value_name = "HOST[:GUEST]")]
    files: Vec<String>,
    /// The guest's memory in MiB.
    #[arg(long, default_value_t = 2048)]
    memory: u32,
    /// Give up after so many seconds.
    #[arg(long, default_value_t = 1200)]
    seconds: u64,
    /// Let the guest's clock count instructions, one nanosecond each.
    #[arg(long)]
    icount: bool,
    /// Boot a Debian with systemd, D-Bus, runc, crun and containerd instead of a bare kernel with one job. Its
    /// containerd.service is masked: systemctl unmask containerd.
    #[arg(long)]
    debian: bool,
    /// In a Debian: start containerd with two pods first, one of runc's and one of crun's, and end them after the command.
    #[arg(long, requires = "debian", conflicts_with = "bare")]
    pods: bool,
    /// Build and bring none of our programs, only a shell and what --file names. Else the demo's are there, and all of
    /// them where the command is one of them.
    #[arg(long)]
    bare: bool,
    /// Program and arguments; `sh -c '...'` gives a shell script. None: a shell on this terminal.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

pub(crate) fn run(options: Options) -> Result<i32> {
    let interactive = options.command.is_empty();
    ensure!(
        !interactive || std::io::stdin().is_terminal(),
        "standard input is no terminal: name a command, cargo xtask vm sh -c '...'"
    );
    let mut boot = Boot::new(&[]);
    for file in &options.files {
        let (host, guest) = place(file)?;
        ensure!(host.is_file(), "--file {file}: {} is no file", host.display());
        boot.files.push((host, guest));
    }
    let kit = match options.command.first() {
        _ if options.bare => Kit::bare()?,
        _ if options.pods => Kit::ready(&build::PROGRAMS)?,
        Some(program) if build::PROGRAMS.contains(&program.as_str()) => Kit::ready(&build::PROGRAMS)?,
        Some(_) | None => Kit::ready(&build::DEMO_PROGRAMS)?,
    };
    let kernel = kernels::find(&options.kernel)?.unpacked()?;
    boot.job = if interactive { shell() } else { job(options.command, &options.files, options.debian) };
    if options.pods {
        boot.job.splice(0..0, [format!("/bin/{}", build::VM_TESTS), "pods".to_owned()]);
    }
    boot.memory_mib = options.memory;
    boot.time_out = Duration::from_secs(options.seconds);
    boot.icount = options.icount;
    boot.debian = if options.debian { Some(debian::image()?) } else { None };
    let ended = if interactive {
        eprintln!("[booting {}; leave the shell with exit or ctrl-d]", kernel.release);
        kit.boot_on_terminal(&kernel, boot)?
    } else {
        kit.boot(&kernel, boot, |line| println!("{line}"))?
    };
    eprintln!("[{} ended with {} after {:.1} s]", kernel.release, ended.status, ended.took.as_secs_f64());
    Ok(ended.status)
}

/// Where the guest mounts something over what the file would be in.
const HIDDEN: [&str; 6] = ["/proc/", "/sys/", "/dev/", "/data/", "/run/", "/tmp/"];

/// `HOST` or `HOST:GUEST`.
fn place(file: &str) -> Result<(PathBuf, String)> {
    if let Some((host, guest)) = file.split_once(':') {
        ensure!(guest.starts_with('/'), "--file {file}: the path in the guest must begin with /");
        if let Some(hidden) = HIDDEN.iter().find(|folder| guest.starts_with(*folder)) {
            bail!("--file {file}: the guest mounts something on {hidden}; name another folder");
        }
        return Ok((PathBuf::from(host), guest.to_owned()));
    }
    let host = PathBuf::from(file);
    let name = host.file_name().with_context(|| format!("--file {file} names no file"))?;
    let guest = format!("/bin/{}", name.to_string_lossy());
    Ok((host, guest))
}

/// A program of ours or of --file by its path; anything else by busybox's own means, or a Debian's.
fn job(mut command: Vec<String>, files: &[String], debian: bool) -> Vec<String> {
    let Some(program) = command.first_mut() else { return command };
    let ours = build::PROGRAMS.contains(&program.as_str());
    let brought =
        files.iter().filter_map(|file| place(file).ok()).any(|(_, guest)| guest == format!("/bin/{program}"));
    if ours || brought {
        *program = format!("/bin/{program}");
    } else if debian {
        command.splice(0..0, ["/bin/busybox", "env"].map(str::to_owned));
    } else if !program.contains('/') {
        command.insert(0, "/bin/busybox".into());
    }
    command
}

/// A shell with job control; it learns the terminal's size once, for a serial line has none.
fn shell() -> Vec<String> {
    let size = run::terminal_size()
        .map_or_else(String::new, |(rows, columns)| format!("stty rows {rows} cols {columns}; "));
    let terminal = std::env::var("TERM").unwrap_or_else(|_| "linux".into());
    let script = format!("{size}exec env 'TERM={}' PS1='guest# ' sh", terminal.replace('\'', ""));
    ["/bin/busybox", "setsid", "-c", "/bin/sh", "-c", &script].map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn programs_are_found() {
        let files = ["target/tool".to_owned(), "x:/opt/y".to_owned()];
        for (line, expected) in [
            ("enforcer check", "/bin/enforcer check"),
            ("tool --help", "/bin/tool --help"),
            ("uname -a", "/bin/busybox uname -a"),
            ("sh -c ls", "/bin/busybox sh -c ls"),
            ("/opt/y", "/opt/y"),
        ] {
            assert_eq!(job(words(line), &files, false), words(expected), "{line}");
        }
        assert_eq!(job(words("bash -c ls"), &files, true), words("/bin/busybox env bash -c ls"));
        assert_eq!(job(words("enforcer check"), &files, true), words("/bin/enforcer check"));
    }

    #[test]
    fn files_have_a_place() {
        assert_eq!(place("a/b").unwrap(), ("a/b".into(), "/bin/b".into()));
        assert_eq!(place("a/b:/c/d").unwrap(), ("a/b".into(), "/c/d".into()));
        assert!(place("a:b").is_err());
        for hidden in ["a:/data/x", "a:/run/x/y", "a:/tmp/x"] {
            assert!(place(hidden).is_err(), "{hidden}");
        }
        assert!(place("a:/runs").is_ok());
        assert!(place("/").is_err());
    }
}
