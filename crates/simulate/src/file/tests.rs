//! Files that are wrong are refused by line, key and nearest right thing; the example is right.

use super::*;

fn refused(text: &str) -> String {
    SimulationFile::parse("f.toml", text, Path::new("")).expect_err(text).to_string()
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_what_would_be_right() {
    let tenant = "[[tenant]]\nname = \"a\"\n";
    for (text, expected) in [
        ("", "f.toml:1: `tenant`: there is none; add [[tenant]] with a name"),
        ("memroy = \"1GiB\"\n", "f.toml:1: unknown field `memroy`"),
        ("memroy = \"1GiB\"\n", "did you mean `memory`?"),
        ("seed = 1\nmemory = \"1 parsec\"\n", "f.toml:2: `memory`: `1 parsec` is not a size in bytes"),
        ("eviction = \"lur\"\n", "f.toml:1: `eviction`: `lur` is not an eviction policy: use s3-fifo"),
        (
            "policies = [\"equal\",\n  \"har\"]\n[[tenant]]\nname = \"a\"\n",
            "f.toml:2: `policies`: there is no policy `har`; did you mean `hare`?",
        ),
        ("duration_secs = -1\n", "f.toml:1: `duration_secs`: -1 is not a number above 0"),
        ("duration_secs = \"60\"\n", "write a number without quotes, as in `duration_secs = 60`"),
        ("warm_up_secs = \"90s\"\n", "as in `warm_up_secs = 90`"),
        (
            "record_secs = \"often\"\n",
            "f.toml:1: `record_secs`: invalid type: string \"often\", expected f64; write a number without quotes",
        ),
        ("[control]\napply = \"round\"\n", "f.toml:2: `apply`: unknown variant `round`"),
        ("[control]\napply = \"round\"\n", "did you mean `rounds`?"),
        ("[guard]\nstep = 1.5\n", "f.toml:2: `guard.step`: 1.5 is not a share from 0 to 1"),
        ("[guard]\naim = \"miss\"\n", "did you mean `misses`?"),
        ("[control]\n\nwindow = 0\n", "f.toml:3: `control.window`: 0 is too little"),
        (
            "[[resource]]\nname = \"r\"\ncost = \"read-unit\"\ntotal_per_sec = 1\n",
            "f.toml:3: `cost`: unknown variant `read-unit`",
        ),
        ("[[tenant]]\nworkload = { keys = 5 }\n", "f.toml:1: missing field `name`"),
        (
            &format!("{tenant}workload = {{ keys = 0 }}\n"),
            "f.toml:3: `tenant.workload.keys`: 0 is not between 1 and 2^32",
        ),
        (&format!("{tenant}{tenant}"), "f.toml:4: `tenant.name`: two tenants are called `a`"),
        (
            &format!("{tenant}[tenant.workload]\nwrites = 2.0\n"),
            "f.toml:4: `tenant.workload.writes`: 2 is not a share",
        ),
        (
            &format!("{tenant}[tenant.workload]\npopularity = \"zip:1\"\n"),
            "f.toml:4: `popularity`: `zip:1` is not a popularity",
        ),
        (
            &format!("{tenant}trace = \"t\"\ncachebench = \"c\"\n"),
            "f.toml:3: `tenant.trace`: the tenant has `cachebench` already",
        ),
        (
            &format!("{tenant}rate_per_sec = 5\nclients = 2\n"),
            "f.toml:4: `tenant.clients`: it is for a closed loop",
        ),
        (
            &format!("{tenant}[[tenant.change]]\nat_secs = 1\nrate_per_sec = 5\n"),
            "f.toml:5: `tenant.change.rate_per_sec`: the tenant is a closed loop",
        ),
    ] {
        let error = refused(text);
        assert!(error.contains(expected), "{text}\n{error}\n{expected}");
    }
}

#[test]
fn what_is_wrong_with_a_trace_or_a_floor_is_named_with_its_line() {
    let tenant = "[[tenant]]\nname = \"a\"\n";
    for (text, expected) in [
        (
            &format!("{tenant}trace = \"t\"\ntrace_times = \"h\"\n"),
            "f.toml:4: `tenant.trace_times`: `h` is not a unit of time",
        ),
        (
            &format!("{tenant}trace = \"t\"\ntrace_columns = [\"key\", \"colour\"]\n"),
            "f.toml:4: `tenant.trace_columns`: `colour` is not a column",
        ),
        (
            &format!("{tenant}trace = \"t\"\ntrace_times = \"s\"\nclients = 3\n"),
            "f.toml:5: `tenant.clients`: requests come at the trace's times",
        ),
        (
            &format!("{tenant}trace_passes = 1\n"),
            "f.toml:3: `tenant.trace_passes`: it is for a tenant with `trace`, which this one has not",
        ),
        (
            &format!("memory = \"1MiB\"\n{tenant}floor = \"2MiB\"\n"),
            "f.toml:4: `tenant.floor`: with this floor all floors are more than `memory`, 1MiB",
        ),
    ] {
        let error = refused(text);
        assert!(error.contains(expected), "{text}\n{error}\n{expected}");
    }
}

#[test]
fn what_is_left_out_has_its_default() {
    let file = SimulationFile::parse("f.toml", "[[tenant]]\nname = \"a\"\n", Path::new("")).unwrap();
    let expected = Scenario {
        tenants: vec![Tenant::new("a", Source::Pattern(Pattern::default()))],
        ..Scenario::default()
    };
    assert_eq!((file.scenario, file.seed, file.asks_engine), (expected, 1, true));
    assert_eq!(file.policies, DEFAULT_POLICIES);
}

#[test]
fn the_commented_example_is_right_and_all_its_commented_keys_are_too() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/simulation.toml"));
    let file = SimulationFile::read(path).unwrap();
    assert!(file.scenario.tenants.len() >= 3 && !file.scenario.resources.is_empty());
    for policy in &file.policies {
        assert_eq!(setup(policy, Guard::default()).unwrap().name, *policy);
    }
}

#[test]
fn every_policy_can_be_set_up_by_its_name() {
    for (name, summary) in policies() {
        assert_eq!(setup(name, Guard::default()).unwrap().name, name);
        assert!(!summary.is_empty());
    }
    assert!(DEFAULT_POLICIES.iter().all(|name| setup(name, Guard::default()).is_some()));
    assert!(setup("nobody", Guard::default()).is_none());
}

/// One tenant cannot use memory, the other cannot have enough: without rails nearly all of it goes
/// to that one.
#[test]
fn rails_hold_a_policy_back() {
    let smallest = |guard: &str| {
        let text = format!(
            "duration_secs = 30\nmemory = \"8MiB\"\npolicies = [\"exact-hit-rate\"]\n{guard}\n\
             [control]\ninterval_secs = 2\napply = \"at-once\"\nsample_one_in = 1\n\
             [[tenant]]\nname = \"hungry\"\nworkload = {{ keys = 20000, popularity = \"zipf:0.9\" }}\n\
             [[tenant]]\nname = \"scans\"\nworkload = {{ keys = 500000, popularity = \"scan\" }}\n"
        );
        let file = SimulationFile::parse("f.toml", &text, Path::new("")).unwrap();
        let prepared = crate::world::prepare(&file.scenario, file.seed).unwrap();
        let setup = setup(&file.policies[0], file.guard).unwrap();
        let run = crate::world::run(&file.scenario, &prepared, setup, file.seed, &mut |_| {});
        run.intervals.last().unwrap().tenants[1].memory / (4 << 20) as f64
    };
    let (free, kept) = (smallest(""), smallest("[guard]\nleast_share = 0.5\n"));
    assert!(free < 0.45, "{free} of a mean share");
    assert!((0.49..0.6).contains(&kept), "{kept} of a mean share");
    let slow = smallest("[guard]\nstep = 0.01\n");
    assert!(slow > 0.65, "a hundredth of all memory a round: {slow} of a mean share is left");
}
