//! What holds for any text and any configuration.

use super::{
    Config,
    document::{Document, Entry, Found},
    tests::OTHERS,
    value::Value,
};
use proptest::prelude::*;

/// Pieces of TOML, in any order.
fn soup() -> impl Strategy<Value = String> {
    let pieces = [
        "[",
        "]",
        "[[",
        "]]",
        "[policy]\n",
        "\n",
        "\n",
        "\r\n",
        "a",
        "b",
        ".",
        "=",
        " = ",
        "\"",
        "'",
        "'''",
        "\"\"\"",
        "{",
        "}",
        ",",
        "1",
        "-1",
        "true",
        "1.5",
        "#",
        " ",
        "\\u0041",
        "\\",
        "0x1f",
        "1979-05-27",
        "07:32:00",
        "ü",
        "\u{1b}",
        "policy",
        "default",
        "\"guard\"",
        "floor",
        "99999999999999999999",
        "1e400",
        "inf",
        "_",
        "+",
        "\u{feff}",
        "\0",
    ];
    let lines = [
        "[policy]\n",
        "[oom]\n",
        "default = \"guard\"\n",
        "a = 1\n",
        "a.b = 'c'\n",
        "x = [1, {y = 2}]\n",
        "z = {p = 1, q.r = \"s\"}\n",
        "[a.b]\n",
        "[[c]]\n",
        "\"k k\" = 2.5\n",
        "d = \"\"\"\nl\"\"\"\n",
        "e = 1979-05-27\n",
    ];
    let any = proptest::sample::select([pieces.as_slice(), lines.as_slice(), lines.as_slice()].concat());
    proptest::collection::vec(any, 0..24).prop_map(|pieces| pieces.concat())
}

/// Every value with its whole path.
fn flat(above: &[String], entries: &[Entry], all: &mut Vec<(String, String)>) {
    for entry in entries {
        let path = [above, &entry.path].concat();
        match &entry.found {
            Found::Value(value) => all.push((format!("{path:?}"), said(value))),
            Found::Table(entries) => flat(&path, entries, all),
        }
    }
}

fn said(value: &Value) -> String {
    match value {
        Value::Text(text) | Value::Bare(text) => format!("{text:?}"),
        Value::Switch(on) => on.to_string(),
        Value::Whole(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Other(kind) => (*kind).into(),
    }
}

/// The same of another reader.
fn flat_of_the_other(above: &[String], table: &dyn toml_edit::TableLike, all: &mut Vec<(String, String)>) {
    for (key, item) in table.iter() {
        let path = [above, &[key.to_owned()]].concat();
        match item {
            toml_edit::Item::None => {}
            toml_edit::Item::ArrayOfTables(tables) => {
                tables.iter().for_each(|table| flat_of_the_other(&path, table, all));
            }
            toml_edit::Item::Table(table) => flat_of_the_other(&path, table, all),
            toml_edit::Item::Value(toml_edit::Value::InlineTable(table)) => {
                flat_of_the_other(&path, table, all);
            }
            toml_edit::Item::Value(value) => {
                let value = match value {
                    toml_edit::Value::String(text) => format!("{:?}", text.value()),
                    toml_edit::Value::Boolean(on) => on.value().to_string(),
                    toml_edit::Value::Integer(number) => number.value().to_string(),
                    toml_edit::Value::Float(number) => format!("{:?}", number.value()),
                    toml_edit::Value::Datetime(_) => "a date or a time of day".into(),
                    toml_edit::Value::Array(_) | toml_edit::Value::InlineTable(_) => "a list".into(),
                };
                all.push((format!("{path:?}"), value));
            }
        }
    }
}

fn check(text: &str) -> Result<(), TestCaseError> {
    let found = Config::parse("f", text, &[]);
    if let Err(errors) = &found {
        let places: Vec<_> = errors.errors().iter().map(|error| (error.line, error.column)).collect();
        prop_assert!(places.is_sorted(), "{errors}");
        let lines: Vec<_> = text.split('\n').map(|line| line.chars().count()).collect();
        for (line, column) in places.iter().filter_map(|(line, column)| line.zip(*column)) {
            prop_assert!(column >= 1 && column <= lines[line - 1] + 1, "{line}:{column} of {text:?}");
        }
        let message = errors.to_string();
        prop_assert!(message.lines().all(|line| !line.contains(char::is_control)), "{message:?}");
    }
    match toml_edit::Document::parse(text) {
        Err(error) => prop_assert!(found.is_err(), "{text:?} is accepted: {error}"),
        Ok(other) => {
            let Document { tables, faults } = Document::parse(text);
            prop_assert!(faults.is_empty(), "{text:?}: {faults:?}");
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for table in &tables {
                flat(table.path.as_deref().expect("a path"), &table.entries, &mut ours);
            }
            flat_of_the_other(&[], other.as_table(), &mut theirs);
            ours.sort();
            theirs.sort();
            prop_assert_eq!(ours, theirs, "{:?}", text);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_as_another_reader_does(text in soup()) {
        check(&text)?;
    }

    #[test]
    fn the_default_with_something_in_it(at in any::<proptest::sample::Index>(), piece in soup(), cut in 0_usize..40) {
        let file = super::default_file();
        let at = at.index(file.len());
        let text = format!("{}{piece}{}", &file[..at], &file[(at + cut).min(file.len())..]);
        check(&text)?;
    }

    #[test]
    fn no_override_panics(texts in proptest::collection::vec("[a-z.=_]{0,12}\\PC{0,12}|(policy|oom)\\.(floor|store)=\\PC{0,40}", 0..4)) {
        let _ = Config::parse("f", "", &texts);
    }

    #[test]
    fn what_is_written_is_read_as_the_same(picked in proptest::sample::subsequence(OTHERS.to_vec(), 0..OTHERS.len())) {
        let sets: Vec<_> = picked.iter().map(|(key, value)| format!("{key}={value}")).collect();
        // Some go against each other.
        if let Ok(config) = Config::parse("f", "", &sets) {
            prop_assert_eq!(Config::parse("f", &config.to_toml(), &[]).map_err(|errors| errors.to_string()), Ok(config));
        }
    }
}
