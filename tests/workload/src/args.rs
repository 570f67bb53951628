//! Options of the form `--name value`. By hand, so that the program starts fast under emulation.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Options that take no value.
const FLAGS: [&str; 4] = ["full", "keep", "report", "thp"];

/// What is wrong with the command line.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The options not yet asked for.
pub(crate) struct Args(BTreeMap<String, String>);

impl Args {
    /// Splits the workload's name from its options.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<(String, Self), Usage> {
        let name =
            words.next().ok_or_else(|| Usage(format!("which workload?\n{}", crate::workloads::help())))?;
        let mut options = BTreeMap::new();
        while let Some(word) = words.next() {
            let option = word.strip_prefix("--").ok_or_else(|| Usage(format!("not an option: {word:?}")))?;
            let value = if FLAGS.contains(&option) {
                String::new()
            } else {
                words.next().ok_or_else(|| Usage(format!("--{option} needs a value")))?
            };
            if options.insert(option.to_owned(), value).is_some() {
                return Err(Usage(format!("--{option} is given twice")));
            }
        }
        Ok((name, Self(options)))
    }

    /// Whether a flag is given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// An option's text.
    #[expect(clippy::unnecessary_wraps, reason = "the same shape as the other getters")]
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Usage> {
        Ok(self.0.remove(name))
    }

    /// An option that has to be there.
    pub(crate) fn needed(&mut self, name: &str) -> Result<String, Usage> {
        self.0.remove(name).ok_or_else(|| Usage(format!("--{name} is needed")))
    }

    /// Bytes: `4096`, `64Ki`, `10Mi`, `1Gi`.
    pub(crate) fn size(&mut self, name: &str) -> Result<Option<usize>, Usage> {
        self.parsed(name, size, "a size such as 64Ki or 10Mi")
    }

    /// Bytes that have to be there.
    pub(crate) fn needed_size(&mut self, name: &str) -> Result<usize, Usage> {
        self.size(name)?.ok_or_else(|| Usage(format!("--{name} is needed")))
    }

    /// Time: `500ms`, `10s`, `2m`.
    pub(crate) fn span(&mut self, name: &str) -> Result<Option<Duration>, Usage> {
        self.parsed(name, span, "a time such as 500ms or 10s")
    }

    /// A count.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u32>, Usage> {
        self.parsed(name, |text| text.parse().ok(), "a number")
    }

    /// Fails on options that nobody asked for.
    pub(crate) fn finish(self) -> Result<(), Usage> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(Usage(format!("unknown option --{name}"))),
        }
    }

    fn parsed<T>(
        &mut self,
        name: &str,
        parse: fn(&str) -> Option<T>,
        want: &str,
    ) -> Result<Option<T>, Usage> {
        let Some(text) = self.0.remove(name) else { return Ok(None) };
        parse(&text).map(Some).ok_or_else(|| Usage(format!("--{name} {text:?}: want {want}")))
    }
}

/// Bytes with a binary suffix.
pub(crate) fn size(text: &str) -> Option<usize> {
    scaled(text, &[("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("", 1)])
}

fn span(text: &str) -> Option<Duration> {
    let micros = scaled(text, &[("us", 1), ("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000)])?;
    Some(Duration::from_micros(u64::try_from(micros).ok()?))
}

fn scaled(text: &str, units: &[(&str, usize)]) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let unit = units.iter().find(|(name, _)| *name == suffix)?.1;
    number.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'a>(list: &'a [&'a str]) -> impl Iterator<Item = String> + 'a {
        list.iter().map(|&word| word.to_owned())
    }

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("10Mi"), Some(10 << 20));
        assert_eq!(size("4096"), Some(4096));
        assert_eq!(size("10M"), None);
        assert_eq!(size(""), None);
        assert_eq!(size("99999999999999Gi"), None);
        assert_eq!(span("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(span("2m"), Some(Duration::from_mins(2)));
        assert_eq!(span("2"), None);
    }

    #[test]
    fn every_option_is_asked_for_or_refused() {
        let (name, mut args) =
            Args::parse(words(&["anon", "--size", "1Mi", "--report", "--sizes", "2"])).expect("parses");
        assert_eq!(name, "anon");
        assert!(args.flag("report"));
        assert_eq!(args.needed_size("size").expect("is there"), 1 << 20);
        assert_eq!(args.finish().expect_err("left over").to_string(), "unknown option --sizes");
    }

    #[test]
    fn wrong_words_are_named() {
        let fails = |list: &[&str]| Args::parse(words(list)).err().expect("fails").to_string();
        assert_eq!(fails(&["anon", "10Mi"]), "not an option: \"10Mi\"");
        assert_eq!(fails(&["anon", "--size"]), "--size needs a value");
        assert_eq!(fails(&["anon", "--size", "1", "--size", "2"]), "--size is given twice");
    }
}
