//! Running other programs, said aloud.

use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};

/// Runs `command` to its end; an error names it where it fails.
pub(crate) fn checked(command: &mut Command) -> Result<()> {
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("start {}", shown(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs `command` and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let out = command.stdin(Stdio::null()).output().with_context(|| format!("start {}", shown(command)))?;
    if !out.status.success() {
        bail!(
            "{} ended with {}: {}",
            shown(command),
            out.status,
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    String::from_utf8(out.stdout).with_context(|| format!("{} printed no UTF-8", shown(command)))
}

/// Rows and columns of this command's terminal, where it has one.
pub(crate) fn terminal_size() -> Option<(u16, u16)> {
    let out = Command::new("stty").arg("size").stdin(Stdio::inherit()).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    let (rows, columns) = text.trim().split_once(' ')?;
    Some((rows.parse().ok()?, columns.parse().ok()?)).filter(|size| *size != (0, 0))
}

pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
