//! What is built in: its licences and where it comes from, as `deny.toml` allows (which cargo-deny reads as well, with
//! advisories, whose database is on the network).

use serde_json::Value;
use spdx::{Expression, LicenseReq, ParseMode};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use toml_edit::{DocumentMut, Item};

/// User space, and the kernel programs with their lock file of their own.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "enforcer-ebpf/programs/Cargo.toml"];
/// The one platform that is built for.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it is in the repository").into()
}

/// Every package of a manifest that the platform needs, and whether it is our own.
fn packages() -> Vec<(Value, bool)> {
    let all = MANIFESTS.map(|manifest| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(root()).args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--manifest-path",
            manifest,
        ]);
        let output = cargo.args(["--filter-platform", PLATFORM]).output().expect("cargo starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let nodes = metadata["resolve"]["nodes"].as_array().expect("nodes");
        let needed: BTreeSet<_> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
        let ours = metadata["workspace_members"].as_array().expect("members").clone();
        let packages = metadata["packages"].as_array().expect("packages").iter();
        let packages =
            packages.filter(|package| package["id"].as_str().is_some_and(|id| needed.contains(id)));
        packages.map(|package| (package.clone(), ours.contains(&package["id"]))).collect::<Vec<_>>()
    });
    assert!(all.iter().all(|packages| packages.len() > 10), "there are dependencies");
    all.concat()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().expect("a name")
}

/// What `deny.toml` allows everybody, and one package beside that.
fn allowed() -> (BTreeSet<String>, BTreeMap<String, BTreeSet<String>>) {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let rules: DocumentMut = text.parse().expect("TOML");
    let list = |item: &Item| -> BTreeSet<String> {
        let words = item.as_array().expect("a list").iter();
        words.map(|word| word.as_str().expect("a licence").to_owned()).collect()
    };
    let licences = &rules["licenses"];
    let exceptions = licences["exceptions"].as_array_of_tables().expect("tables").iter();
    let exceptions = exceptions
        .map(|table| (table["crate"].as_str().expect("a package").to_owned(), list(&table["allow"])));
    (list(&licences["allow"]), exceptions.collect())
}

#[test]
fn licences_are_allowed() {
    let (allowed, exceptions) = allowed();
    let mut excepted = BTreeSet::new();
    for (package, _) in packages() {
        let (name, licence) = (name(&package), package["license"].as_str().unwrap_or_default());
        let expression = Expression::parse_mode(licence, ParseMode::LAX)
            .unwrap_or_else(|error| panic!("{name}: {licence:?}: {error}"));
        let in_all = |asked: &LicenseReq| allowed.contains(&asked.to_string());
        if expression.evaluate(in_all) {
            continue;
        }
        let own =
            exceptions.get(name).unwrap_or_else(|| panic!("{name}: {licence:?} is not allowed (deny.toml)"));
        assert!(
            expression.evaluate(|asked| in_all(asked) || own.contains(&asked.to_string())),
            "{name}: {licence:?}"
        );
        excepted.insert(name.to_owned());
    }
    assert_eq!(excepted, exceptions.into_keys().collect(), "exceptions that nobody needs");
}

#[test]
fn everything_is_ours_or_from_the_one_registry() {
    for (package, is_ours) in packages() {
        let source = package["source"].as_str();
        // A package without a source lies in a folder.
        let is_here =
            package["manifest_path"].as_str().is_some_and(|path| Path::new(path).starts_with(root()));
        assert!(source.map_or(is_here, |source| source == REGISTRY), "{}: {source:?}", name(&package));
        for needed in package["dependencies"].as_array().expect("a list").iter().filter(|_| is_ours) {
            let is_bounded = needed["req"] != "*" || needed["path"].is_string();
            assert!(is_bounded, "{} takes any version of {}", name(&package), name(needed));
        }
    }
}

#[test]
#[ignore = "their database needs the network: cargo deny check advisories"]
fn no_advisory_is_open() {
    let ended = Command::new("cargo-deny").current_dir(root()).args(["check", "advisories"]).status();
    assert!(ended.expect("cargo-deny starts").success());
}
