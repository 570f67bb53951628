//! A configuration as a file with comments. No I/O.

use super::{
    keys::{Key, SECTIONS, Takes},
    model::Config,
};
use std::fmt::Write as _;

impl Config {
    /// As a file that [`Config::load`] reads as the same.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for section in &SECTIONS {
            let _ = write!(text, "\n# {}\n[{}]\n", capital(section.about), section.name);
            for key in section.keys {
                let comment =
                    format!("{}. It is {}. {}.", capital(key.about), key.slot.allowed(), capital(taken(key)));
                for line in wrapped(&comment) {
                    let _ = writeln!(text, "# {line}");
                }
                let _ = writeln!(text, "{} = {}", key.name(), key.slot.written(self));
            }
        }
        text
    }
}

/// What `enforcer config default` prints.
pub fn default_file() -> String {
    format!("{HEAD}{}", Config::default().to_toml())
}

const HEAD: &str = "\
# The configuration of enforcer run, with every key at its default: /etc/enforcer/enforcer.toml.
# What is left out is at its default. enforcer config check says what is wrong with a file.
";

fn taken(key: &Key) -> &'static str {
    match key.takes {
        Takes::Reload => "a reload takes a new value",
        Takes::Restart => "a new value takes a restart",
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// At blanks, to lines that fit a terminal behind `# `.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= 98 => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.into()),
        }
    }
    lines
}
