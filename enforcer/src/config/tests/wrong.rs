//! What is said of what is wrong.

use super::super::{Config, ConfigError, error::ERRORS_MAX};

/// The errors of a text, one a line.
pub(super) fn errors(text: &str, overrides: &[&str]) -> String {
    let overrides: Vec<_> = overrides.iter().map(ToString::to_string).collect();
    Config::parse("f", text, &overrides).map_or_else(|errors| errors.to_string(), |_| String::new())
}

/// What is said about a text, without what to do.
fn check(text: &str, expected: &[&str]) {
    let errors = Config::parse("f", text, &[]).expect_err(text);
    let found: Vec<_> = errors.errors().iter().map(ConfigError::place_and_why).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn every_value_that_is_wrong_has_its_place() {
    for (text, expected) in [
        ("[polciy]\ndefault = \"guard\"", &["f:1:1: polciy: there is no such section"] as &[_]),
        ("[policy]\n  defualt = \"guard\"", &["f:2:3: policy.defualt: there is no such key"]),
        ("[policy]\ndefault = true", &["f:2:11: policy.default: it is true, not text in quotes"]),
        ("[policy]\ndefault = \"Guard\"", &["f:2:11: policy.default: \"Guard\" is none of them"]),
        (
            "[policy]\nfloor = \"10x\"",
            &[
                "f:2:9: policy.floor: \"x\" is no suffix; those of Kubernetes are Ki Mi Gi Ti Pi Ei, k M G T P E, m u n, or an exponent such as e6",
            ],
        ),
        ("[policy]\nfloor = 1", &["f:2:9: policy.floor: 1 is too little"]),
        ("[policy]\nfloor = -1", &["f:2:9: policy.floor: it is negative"]),
        ("[policy]\nfloor = 1.5", &["f:2:9: policy.floor: it is a number with a point, not text in quotes"]),
        (
            "[policy]\nceiling = \"min\"",
            &["f:2:11: policy.ceiling: \"min\" does not begin with a number; give a quantity such as 256Mi"],
        ),
        ("[policy]\nceiling = \"1m\"", &["f:2:11: policy.ceiling: 1 is too little"]),
        ("[policy]\ninterval = 10", &["f:2:12: policy.interval: 10 has no unit (us, ms, s, m or h)"]),
        (
            "[policy]\ninterval = \"10\"",
            &["f:2:12: policy.interval: the unit is missing (us, ms, s, m or h), as in 10s or 500ms"],
        ),
        (
            "[policy]\ninterval = \"169h\"\ninterval_max = \"1ms\"",
            &["f:2:12: policy.interval: 169h is too much", "f:3:16: policy.interval_max: 1ms is too little"],
        ),
        ("[policy]\nchanges_per_hour = 1001", &["f:2:20: policy.changes_per_hour: 1001 is out of range"]),
        ("[policy]\nchanges_per_hour = -1", &["f:2:20: policy.changes_per_hour: -1 is out of range"]),
        (
            "[policy]\nchanges_per_hour = \"6\"",
            &["f:2:20: policy.changes_per_hour: it is text in quotes, not a whole number"],
        ),
        ("[policy]\npressure_avg10 = 100.01", &["f:2:18: policy.pressure_avg10: 100.01 is out of range"]),
        (
            "[policy]\npressure_avg10 = 1.001",
            &["f:2:18: policy.pressure_avg10: 1.001 has more than two digits behind the point"],
        ),
        ("[policy]\npressure_avg10 = nan", &["f:2:18: policy.pressure_avg10: NaN is out of range"]),
        (
            "[policy]\npressure_avg10 = 1979-05-27",
            &["f:2:18: policy.pressure_avg10: it is a date or a time of day, not a number"],
        ),
        (
            "[policy]\nlabel = \"a b\"",
            &[
                "f:2:9: policy.label: \"a b\" is no name of a label: that is up to 63 letters, digits, \"-\", \"_\" and \".\", the first and the last a letter or digit",
            ],
        ),
        ("[policy]\nlabel = \"A.b/c\"", &["f:2:9: policy.label: \"A.b\" is no domain in lower case"]),
        ("[agent]\nstate_dir = \"x\"", &["f:2:13: agent.state_dir: \"x\" is not absolute"]),
        ("[agent]\nstate_dir = \"/a\\u0000\"", &["f:2:13: agent.state_dir: it has a zero byte in it"]),
        (
            "[agent]\nstate_dir = [\"/a\", [1, {b = 2}]]\npaused = 1",
            &[
                "f:2:13: agent.state_dir: it is a list, not text in quotes",
                "f:3:10: agent.paused: it is a whole number, not true or false",
            ],
        ),
        ("[agent]\nstate_dir = {a = 1}", &["f:2:13: agent.state_dir: it is a table, not text in quotes"]),
        ("[http]\nlisten = \"9464\"", &["f:2:10: http.listen: \"9464\" is no address with a port"]),
        ("[http]\nlisten = \"0.0.0.0:0\"", &["f:2:10: http.listen: port 0 is another one at each start"]),
        (
            "[http]\nlisten = \"localhost:9464\"",
            &["f:2:10: http.listen: \"localhost:9464\" is no address with a port"],
        ),
        (
            "[cri]\nsocket = \"tcp://a\"",
            &["f:2:10: cri.socket: tcp://a: neither unix:///path nor an absolute path"],
        ),
        ("[cri]\ndeadline = \"601s\"", &["f:2:12: cri.deadline: 601s is too much"]),
    ] {
        check(text, expected);
    }
}

#[test]
fn every_name_out_of_place_has_its_own() {
    for (text, expected) in [
        ("mode = \"audit\"", &["f:1:1: mode: it stands in no section"] as &[_]),
        ("policy = 3", &["f:1:1: policy: it is a section and has no value of its own"]),
        (
            "frob = 3\n[http]\nfrob = 3",
            &["f:1:1: frob: there is no such section", "f:3:1: http.frob: there is no such key"],
        ),
        ("[[policy]]\ndefault = 1", &["f:1:1: policy: [[ ]] makes a list"]),
        ("[policy.default]\na = 1", &["f:1:1: policy.default: policy.default is a key, not a section"]),
        (
            "[policy]\ndefault.x = 1",
            &["f:2:1: policy.default.x: policy.default is a key, and nothing is below it"],
        ),
        ("[policy]\n[policy.foo]\na = 1", &["f:2:1: policy.foo: there is no such key"]),
        (
            "[drift]\nmend = false\nmend = true",
            &["f:3:1: drift.mend: it is set twice; the first is in line 2"],
        ),
        (
            "[drift]\n[http]\n[drift]\nmend = 1",
            &[
                "f:3:1: drift: the section is begun twice; the first is in line 1",
                "f:4:8: drift.mend: it is a whole number, not true or false",
            ],
        ),
        (
            "drift.mend = false\ndrift.watch = true\n[drift]",
            &["f:3:1: drift: the section is begun twice; the first is in line 1"],
        ),
    ] {
        check(text, expected);
    }
}

#[test]
fn columns_count_characters() {
    check("[policy]\n\"ü\\u001b\" = 1", &["f:2:1: policy.ü\\u{1b}: there is no such key"]);
    check(
        "policy = { default = \"guard\", \"ü\" = 2, floor = 3 }",
        &["f:1:31: policy.ü: there is no such key", "f:1:48: policy.floor: 3 is too little"],
    );
}

#[test]
fn the_text_itself_can_be_wrong_in_several_places() {
    let text = "\
[agent
paused = maybe
[drift]
mend = yes
watch =
= 3
[policy]
default = \"guard
floor = 3
interval = \"\"\"
";
    let errors = Config::parse("f", text, &[]).expect_err("has errors");
    let places: Vec<_> =
        errors.errors().iter().filter_map(|error| Some((error.line?, error.column?))).collect();
    let lines: Vec<_> = places.iter().map(|(line, _)| *line).collect();
    for line in [1, 2, 4, 5, 6, 8, 9, 11] {
        assert!(lines.contains(&line), "line {line}: {errors}");
    }
    assert!(!errors.to_string().contains("no such"), "{errors}");
}

#[test]
fn what_was_meant_is_said() {
    for (text, says) in [
        ("[policy]\ndefualt = 1", "did you mean policy.default?"),
        ("[policy]\nstore-max = 1", "did you mean oom.store_max or guard.store_max? [policy] has"),
        ("[policy]\nstore_max = 1", "did you mean oom.store_max or guard.store_max? [policy] has"),
        ("[http]\nfrob = 1", "[http] has listen"),
        ("[gaurd]", "did you mean [guard]?"),
        ("[frob]", "the sections are agent, cri, http, oom, drift, guard, overhead, gate, policy"),
        ("store = 1", "there is oom.store, guard.store, oom.store_max and guard.store_max"),
        ("margin = 1", "there is guard.margin, policy.margin_percent and policy.margin_min"),
        ("socket = 1", "there is cri.socket and agent.admin_socket"),
        ("mrgin = 1", "did you mean guard.margin?"),
        ("margin_prcent = 1", "did you mean policy.margin_percent?"),
        (
            "Interval = 1",
            "there is agent.reading_interval, overhead.interval, policy.interval and policy.interval_max",
        ),
        ("[guard]\nmrgin = 1", "did you mean guard.margin?"),
        (
            "[policy]\nmargin = 1",
            "did you mean policy.margin_percent, policy.margin_min or guard.margin? [policy] has default,",
        ),
        ("[policy]\nmode = 1", "did you mean guard.mode? [policy] has default, label"),
        ("[agent]\nsocket = 1", "did you mean agent.admin_socket or cri.socket? [agent] has"),
        (
            "[agent]\ninterval = 1",
            "did you mean agent.reading_interval, overhead.interval or policy.interval?",
        ),
        ("[http]\nsokcet = 1", "did you mean cri.socket? [http] has listen"),
        ("policy = 1", "its keys are default, label, namespaces, selector, margin_percent"),
        ("gaurd.mode = 1", "did you mean [guard]?"),
        ("[guard]\nmode = enforce", "enforce is no value; give one of \"off\", \"audit\", \"enforce\""),
        ("[guard]\nmood = enforce", "text stands in quotes: \"enforce\""),
        ("[drift]\nmend = yes", "drift.mend: yes is no value; give true or false"),
        ("[drift]\nmend =", "drift.mend: there is no value; give true or false"),
        ("[guard]\nmode = \"on\"", "give one of \"off\", \"audit\", \"enforce\""),
        ("[agent\n", "there should be \"]\""),
    ] {
        assert!(errors(text, &[]).contains(says), "{text}: {}", errors(text, &[]));
    }
}

#[test]
fn what_was_meant_on_the_command_line_is_said() {
    for (set, says) in [
        ("guard.mrgin=1", "did you mean guard.margin?"),
        ("gaurd.margin=1", "did you mean guard.margin?"),
        ("gaurd.mrgin=1", "did you mean guard.margin?"),
        ("polciy.margin=1", "did you mean policy.margin_percent, policy.margin_min or guard.margin?"),
        ("frob.margin=1", "did you mean guard.margin?"),
        ("policy.mrgin.x=1", "[policy] has default"),
        ("margin=1", "there is guard.margin, policy.margin_percent and policy.margin_min"),
        ("settle_timeout=1", "there is agent.settle_timeout"),
        ("settle-timeot=1", "did you mean agent.settle_timeout?"),
    ] {
        assert!(errors("", &[set]).contains(says), "{set}: {}", errors("", &[set]));
    }
}

#[test]
fn quotes_on_the_command_line() {
    for (set, says) in [
        ("agent.state_dir=/x", ""),
        ("agent.state_dir=\"/x\"", ""),
        ("agent.state_dir='/x'", ""),
        ("agent.state_dir=\"/x", QUOTES),
        ("agent.state_dir=\"/x'", QUOTES),
        ("agent.state_dir=\"/x\" y", QUOTES),
        ("agent.state_dir=\"/x\"\nstate_dir = \"/y\"", QUOTES),
        (
            "agent.paused=\"true\"",
            "--set agent.paused: it is text in quotes, not true or false; give true or false",
        ),
        (
            "policy.interval=5",
            "--set policy.interval: the unit is missing (us, ms, s, m or h), as in 10s or 500ms; give a time such as \"10s\" or \"1m30s\", \
             from 1s to 168h",
        ),
    ] {
        assert_eq!(errors("", &[set]), says, "{set}");
    }
    let file = errors("[policy]\ninterval = 5", &[]);
    assert!(file.contains("5 has no unit (us, ms, s, m or h); give a time such as \"10s\""), "{file}");
}

const QUOTES: &str = "--set agent.state_dir: it begins with a quotation mark and is no text in quotes; write \
                      agent.state_dir=VALUE, or agent.state_dir=\"VALUE\" with both marks";

#[test]
fn what_is_wrong_on_the_command_line_is_told_with_the_rest() {
    let sets = [
        "policy.default",
        "=1",
        "policy.defualt=guard",
        "policy.default.x=1",
        "policy=1",
        "mode=audit",
        "frob.x=1",
        "policy.floor=0",
        "policy.pressure_avg10=x\u{1b}",
        "agent.paused=yes",
        "policy.changes_per_hour=1.5",
        "policy.default=\"gaurd\"",
    ];
    let expected = "\
f:1:1: frob: there is no such section; the sections are agent, cri, http, oom, drift, guard, overhead, gate, policy, kubernetes
--set policy.default: it is not KEY=VALUE; write KEY=VALUE, as in policy.default=guard
--set =1: it is not KEY=VALUE; write KEY=VALUE, as in policy.default=guard
--set policy.defualt: there is no such key; did you mean policy.default?
--set policy.default.x: policy.default is a key, and nothing is below it; give one of \"observe\", \"guard\", \"auto-shrink\"
--set policy: it is a section and has no value of its own; its keys are default, label, namespaces, selector, margin_percent, margin_min, \
floor, ceiling, gain_min, interval, interval_max, window, changes_per_hour, pressure_avg10
--set mode: it stands in no section; there is guard.mode
--set frob.x: there is no such key; the sections are agent, cri, http, oom, drift, guard, overhead, gate, policy, kubernetes
--set policy.floor: 0 is too little; give a quantity such as \"256Mi\", or a number of bytes, from 4Ki to 1Ti
--set policy.pressure_avg10: it is \"x\\u{1b}\", not a number; give a number from 0 to 100 with at most two digits \
behind the point
--set agent.paused: it is \"yes\", not true or false; give true or false
--set policy.changes_per_hour: it is \"1.5\", not a whole number; give a whole number from 0 to 1000
--set policy.default: \"gaurd\" is none of them; give one of \"observe\", \"guard\", \"auto-shrink\"";
    assert_eq!(errors("[frob]", &sets), expected);
}

#[test]
fn contradictions_stand_where_the_later_of_the_two_does() {
    for (text, sets, expected) in [
        (
            "[policy]\nfloor = \"64Mi\"\nceiling = \"32Mi\"",
            &[] as &[_],
            "f:3:1: policy.ceiling: policy.floor is 64Mi and policy.ceiling 32Mi: no limit is right; lower the floor \
             or raise the ceiling",
        ),
        (
            "[policy]\nceiling = \"16Mi\"",
            &[],
            "f:2:1: policy.ceiling: policy.floor is 32Mi and policy.ceiling 16Mi: no limit is right; lower the floor or raise the ceiling",
        ),
        (
            "[policy]\nceiling = \"64Mi\"",
            &["policy.floor=65Mi"],
            "--set policy.floor: policy.floor is 65Mi and policy.ceiling 64Mi: no limit is right; lower the floor or raise the ceiling",
        ),
        (
            "[policy]\ninterval_max = \"9m\"",
            &[],
            "f:2:1: policy.interval_max: policy.interval is 10m and policy.interval_max 9m: under pressure it gets longer, up to that; make policy.interval_max the longer one",
        ),
        (
            "[policy]\ninterval = \"5s\"",
            &[],
            "f:2:1: policy.interval: policy.interval is 5s and agent.reading_interval 15s: there would be nothing new to go by; read at least once in each policy.interval",
        ),
        (
            "[drift]\nwatch = false\nmend = true",
            &[],
            "f:3:1: drift.mend: drift.mend is true and drift.watch false: what is not seen can't be put back; set both to true, or drift.mend to false",
        ),
        (
            "[oom]\nstore = \"/var/lib/enforcer/guard\"",
            &[],
            "f:2:1: oom.store: oom.store and guard.store are the same folder: each needs one of its own; name another folder",
        ),
        (
            "[agent]\nadmin_socket = \"/run/a.sock\"\n[cri]\nsocket = \"unix:///run/a.sock\"",
            &[],
            "f:4:1: cri.socket: agent.admin_socket and cri.socket are the same: the one is the agent's, the other the runtime's; name another path",
        ),
        (
            "[policy]\nceiling = \"16Mi\"\nfloor = 8Mi",
            &[],
            "f:3:9: policy.floor: 8Mi is no value; give a quantity such as \"256Mi\", or a number of bytes, from 4Ki to 1Ti",
        ),
        // Where one of the two is wrong by itself, nothing is said of both.
        (
            "[policy]\nceiling = \"16Mi\"\nfloor = 5",
            &[],
            "f:3:9: policy.floor: 5 is too little; give a quantity such as \"256Mi\", or a number of bytes, from 4Ki to 1Ti",
        ),
    ] {
        assert_eq!(errors(text, sets), expected, "{text}");
    }
    // A store that is not used is nobody's.
    assert_eq!(errors("guard.mode = \"off\"\noom.store = \"/var/lib/enforcer/guard\"", &[]), "");
}

#[test]
fn only_so_many_errors_are_kept_and_the_others_counted() {
    let text = "a = 1\n".repeat(ERRORS_MAX + 5);
    let errors = Config::parse("f", &text, &[]).expect_err("has errors");
    assert_eq!((errors.errors().len(), errors.more()), (ERRORS_MAX, 5));
    assert!(errors.to_string().ends_with("\nand 5 more"));
    assert_eq!(
        errors.in_short(),
        format!(
            "{} errors, the first is f:1:1: a: there is no such section (enforcer config check lists them)",
            ERRORS_MAX + 5
        )
    );
    // As many as fit into a file, of each kind, and parts of a name without end: none of it takes minutes.
    for line in ["k = 1\n", "[gate]\n", "agent.paused = 1\n", "policy.floor = \"1Gi\"\n"] {
        let text = line.repeat((1 << 20) / line.len());
        let errors = Config::parse("f", &text, &[]).expect_err("has errors");
        assert_eq!(errors.errors().len(), ERRORS_MAX, "{line}");
    }
    let deep = format!("[{}a]\n", "a.".repeat(400_000));
    assert_eq!(Config::parse("f", &deep, &[]).expect_err("no section").errors().len(), 1);
}
