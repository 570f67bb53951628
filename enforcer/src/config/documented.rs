//! docs/configuration.md, made from the table of keys.

use super::{
    keys::{SECTIONS, Takes},
    model::Config,
};
use std::{fmt::Write as _, path::Path};

#[test]
fn the_page_is_what_the_table_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    let page = page();
    if std::env::var_os("ENFORCER_WRITE_DOCS").is_some() {
        std::fs::write(&file, &page).expect("the page is written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == page, "docs/configuration.md is not what the table says: set ENFORCER_WRITE_DOCS=1");
}

fn page() -> String {
    let mut text = String::from(PAGE_HEAD);
    for section in &SECTIONS {
        let _ = write!(text, "\n## [{}]: {}\n\n", section.name, section.about);
        text.push_str("| key | default | what it is | may be | a new value |\n|---|---|---|---|---|\n");
        for key in section.keys {
            let _ = writeln!(
                text,
                "| `{}` | `{}` | {} | {} | {} |",
                key.path,
                key.slot.written(&Config::default()),
                key.about,
                key.slot.allowed(),
                match key.takes {
                    Takes::Reload => "reload",
                    Takes::Restart => "restart",
                }
            );
        }
    }
    text
}

const PAGE_HEAD: &str = "\
# Configuration of `enforcer run`

Generated from the table in `enforcer/src/config/keys.rs`; `ENFORCER_WRITE_DOCS=1 cargo test -p enforcer --lib
config::documented` writes it anew.

`enforcer run` reads `/etc/enforcer/enforcer.toml`, or the file that `--config FILE` names. Without a file every key
is at its default. `--set KEY=VALUE` goes over the file, as in `--set policy.default=guard`; the value may stand
in quotes as in a file, or without them (`--set 'agent.state_dir=\"/x\"'`, `--set agent.state_dir=/x`), and the last of
several for one key counts; each of them must be right. A file is TOML of at most 1 MiB.

`enforcer config check [FILE]` tells every error of a file at once, with line, column, key, what is wrong and what is
allowed. `enforcer config default` prints a file with every key at its default. On SIGHUP a running agent reads its
file anew: what says \"reload\" below is taken at once, what says \"restart\" is told and waits for one. A file with an
error changes nothing.

Quantities follow the grammar of Kubernetes (`256Mi`, `0.5Gi`, `1e9`); times have a unit, us, ms, s, m or h: `500ms`, `10s`, `2m`, `1m30s`, `1h`.
";
