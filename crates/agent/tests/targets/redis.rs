//! A real Redis.

use std::time::Duration;

use base::Clock;
use base::rng::{RngExt, seeded};
use control::amounts;
use curve::che;
use millpond_agent::targets::{RedisLearning, Sampling, Target, TargetSettings};
use millpond_agent::{Instance, InstanceError};
use rustix::process::Signal;

use crate::support::{Client, MIB, Server, Zipf, always, curve_of, failure, holding, mean_error, open, poll};

/// Starts one, if there is one, that keeps nothing on disk.
fn redis(more: &[&str]) -> Option<Server> {
    let arguments = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"];
    let arguments = [&arguments[..], more, &["--port"]].concat();
    let server = Server::start("redis-server", "MILLPOND_REDIS", &arguments);
    if server.is_none() {
        println!("skipped: there is no redis-server in PATH, and MILLPOND_REDIS is not set.");
    }
    server
}

const LRU: [&str; 4] = ["--maxmemory-policy", "allkeys-lru", "--maxmemory", "20mb"];

fn agent(server: &Server, sampling: Sampling) -> Box<dyn Instance> {
    open("redis", server.address, TargetSettings { sampling, ..TargetSettings::default() })
}

fn quiet() -> Sampling {
    Sampling { window: Some(Duration::ZERO), ..Sampling::default() }
}

/// Reads `count` keys, some at a time, and stores those that missed. Returns the misses.
fn load(client: &mut Client, zipf: &mut Zipf, count: usize, value: usize) -> usize {
    let text = "x".repeat(value);
    let mut misses = 0;
    for _ in 0..count / 50 {
        let keys: Vec<usize> = (0..50).map(|_| zipf.draw()).collect();
        client.send(&keys.iter().map(|key| format!("GET key-{key}\r\n")).collect::<String>());
        let mut missed = Vec::new();
        for key in keys {
            if client.line() == "$-1" {
                missed.push(key);
            } else {
                client.skip(value + 2);
            }
        }
        client.send(&missed.iter().map(|key| format!("SET key-{key} {text}\r\n")).collect::<String>());
        missed.iter().for_each(|_| assert_eq!(client.line(), "+OK"));
        misses += missed.len();
    }
    misses
}

/// Makes a key a copy of `model` that was not used for some seconds.
const RESTORE: &str =
    "return redis.call('restore', KEYS[1], 0, redis.call('dump', 'model'), 'idletime', ARGV[1])";

/// A command whose words may have blanks and quotes.
fn command(words: &[&str]) -> String {
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let words: Vec<String> = words.collect();
    format!("*{}\r\n{}", words.len(), words.concat())
}

/// A bulk answer.
fn bulk(client: &mut Client, command: &str) -> String {
    let header = client.ask(command);
    let len: usize = header.strip_prefix('$').expect("a bulk answer").parse().expect("a length");
    let mut text = String::new();
    while text.len() < len + 2 {
        text += &client.line();
        text += "\r\n";
    }
    text
}

fn keys(client: &mut Client) -> u64 {
    client.ask("DBSIZE").trim_start_matches(':').parse().expect("a number")
}

#[test]
fn a_limit_is_set_and_memory_is_freed() {
    let Some(server) = redis(&LRU) else { return };
    let mut instance = agent(&server, quiet());
    let mut client = Client::new(server.address);
    let text = "x".repeat(1000);
    for key in 0..30_000 {
        client.send(&format!("SET {key} {text}\r\n"));
        assert_eq!(client.line(), "+OK");
    }
    let look = instance.look().expect("a look");
    let (limit, used) = holding(&look);
    let kind = look.instance.kind.as_str();
    assert_eq!((limit, matches!(kind, "redis" | "valkey")), (20 * MIB, true), "{kind}");
    assert!(used > 15 * MIB && used <= 21 * MIB && look.instance.version.contains('.'));
    assert!(look.instance.outlives_agent && look.instance.is_alone);
    assert_eq!(amounts::memory(&look.least), 2 * MIB);

    instance.resize(&amounts::of_memory(10 * MIB + 5), &[]).expect("a limit");
    client.send("CONFIG GET maxmemory\r\n");
    let answer: Vec<String> = (0..5).map(|_| client.line()).collect();
    assert_eq!(answer[4], (10 * MIB + 5).to_string());
    let freed = poll(Duration::from_secs(30), || {
        let (limit, used) = holding(&instance.look().expect("a look"));
        (used <= limit).then_some(limit)
    });
    assert_eq!(freed, Some(10 * MIB + 5));
    let error = instance.resize(&amounts::of_memory(MIB), &[]).expect_err("too little").to_string();
    assert!(error.contains("outside of its bounds"), "{error}");
}

/// An agent that changes nothing, and learns from `MONITOR` alone.
fn look_only(server: &Server) -> Box<dyn Instance> {
    let sampling = Sampling { redis: RedisLearning::Monitor, ..always() };
    open("redis", server.address, TargetSettings { sampling, reads_only: true, ..TargetSettings::default() })
}

#[test]
fn a_server_as_it_is_shipped_has_a_curve_and_is_not_changed() {
    let Some(server) = redis(&[]) else { return };
    let mut client = Client::new(server.address);
    let mut zipf = Zipf::new(5_000, 0.9, 7);
    let mut instance = look_only(&server);
    let look = poll(Duration::from_secs(60), || {
        load(&mut client, &mut zipf, 5_000, 1_000);
        let look = instance.look().expect("a look");
        look.pools[0].curve.is_some().then_some(look)
    });
    let look = look.expect("a curve");
    assert!(look.limits.is_empty(), "it has no limit");
    let used = amounts::memory(&look.used) as f64;
    let (curve, _) = curve_of(&look).expect("a curve");
    assert!(curve.miss_ratio(used / 4.0) > curve.miss_ratio(used), "{curve:?}");
    let error = instance.resize(&amounts::of_memory(9 * MIB), &[]).expect_err("only looked at").to_string();
    assert!(error.contains("only looked at"), "{error}");
    client.send("CONFIG GET maxmemory\r\n");
    assert_eq!((0..5).map(|_| client.line()).last().as_deref(), Some("0"), "nothing was set");
}

#[test]
fn a_server_that_evicts_nothing_is_refused() {
    let Some(server) = redis(&[]) else { return };
    let mut instance = agent(&server, quiet());
    let (words, _) = failure(&mut *instance);
    assert!(words.contains("CONFIG SET maxmemory-policy allkeys-lru"), "{words}");
    assert!(instance.resize(&amounts::of_memory(9 * MIB), &[]).is_err());
    let mut client = Client::new(server.address);
    client.send("CONFIG GET maxmemory\r\n");
    assert_eq!((0..5).map(|_| client.line()).last().as_deref(), Some("0"), "nothing was set");

    assert_eq!(client.ask("CONFIG SET maxmemory-policy allkeys-lru"), "+OK");
    let look = instance.look().expect("a look");
    assert!(look.limits.is_empty(), "it has no limit");
    instance.resize(&amounts::of_memory(9 * MIB), &[]).expect("a limit");
    assert_eq!(holding(&instance.look().expect("a look")).0, 9 * MIB);

    assert_eq!(client.ask("REPLICAOF 127.0.0.1 1"), "+OK");
    let (words, _) = failure(&mut *instance);
    assert!(words.contains("is a replica"), "{words}");
    look_only(&server).look().expect("its reads are of interest, too");
}

#[test]
fn a_restart_is_another_incarnation() {
    let Some(mut server) = redis(&LRU) else { return };
    let mut instance = agent(&server, quiet());
    let first = instance.look().expect("a look").instance.incarnation;
    assert_eq!(instance.look().expect("a look").instance.incarnation, first);
    assert!(server.run());
    let second = instance.look().expect("the connection is opened again").instance.incarnation;
    assert!(first != 0 && second != 0 && first != second);
    server.stop();
    let (words, _) = failure(&mut *instance);
    assert!(words.contains("start it, or correct the address"), "{words}");
}

#[test]
fn a_server_that_hangs_is_an_error_in_time() {
    let Some(server) = redis(&LRU) else { return };
    let mut instance = agent(&server, always());
    instance.look().expect("a look");
    server.signal(Signal::STOP);
    let (words, secs) = failure(&mut *instance);
    assert!(words.contains("see that it runs") && secs < 5.0, "{secs} s: {words}");
    let error = instance.resize(&amounts::of_memory(9 * MIB), &[]).expect_err("it hangs").to_string();
    assert!(error.contains(&server.address.to_string()), "{error}");
    server.signal(Signal::CONT);
    instance.look().expect("it goes on");
}

#[test]
fn a_user_with_the_listed_rights_is_enough() {
    let Some(server) = redis(&LRU) else { return };
    let mut client = Client::new(server.address);
    assert_eq!(client.ask("ACL SETUSER agent on >secret ~* +info"), "+OK");
    assert_eq!(client.ask("ACL SETUSER default off"), "+OK");
    let password = tempfile::NamedTempFile::new().expect("a file");
    let with = |user: &str, words: &str| -> Result<Box<dyn Instance>, InstanceError> {
        std::fs::write(password.path(), words).expect("a file");
        let settings = TargetSettings {
            password_file: Some(password.path().to_owned()),
            sampling: always(),
            ..TargetSettings::default()
        };
        Target::parse(&format!("redis://{user}{}", server.address)).expect("an address").open(settings)
    };
    let mut nobody = agent(&server, quiet());
    let (words, _) = failure(&mut *nobody);
    assert!(words.contains("NOAUTH") && words.contains("give the agent a user"), "{words}");
    let (words, _) = failure(&mut *with("agent@", "wrong").expect("a target"));
    assert!(words.contains("WRONGPASS") && !words.contains("wrong\n"), "{words}");

    let mut instance = with("agent@", "secret\n").expect("a target");
    instance.look().expect("INFO is allowed");
    let error = instance.resize(&amounts::of_memory(9 * MIB), &[]).expect_err("no right").to_string();
    let rights = error.split('`').nth(1).expect("rights").to_owned();
    assert_eq!(client.ask(&format!("ACL SETUSER agent {rights}")), "+OK");
    instance.resize(&amounts::of_memory(9 * MIB), &[]).expect("a limit");
    for key in 0..200 {
        client.send(&format!("SET {key} x\r\n"));
        assert_eq!(client.line(), "+OK");
    }
    let curve = poll(Duration::from_secs(30), || {
        client.send("GET 7\r\n");
        let _ = (client.line(), client.line());
        curve_of(&instance.look().expect("a look"))
    });
    curve.expect("both ways of learning are allowed");
}

#[test]
fn the_monitored_curve_is_that_of_the_load() {
    const KEYS: u64 = 40_000;
    let Some(server) = redis(&["--maxmemory-policy", "allkeys-lru", "--maxmemory", "8mb"]) else { return };
    let mut instance = agent(&server, Sampling { redis: RedisLearning::Monitor, ..always() });
    let (mut client, mut zipf) = (Client::new(server.address), Zipf::new(KEYS, 0.9, 7));
    // The mean size of an item becomes known by a look.
    load(&mut client, &mut zipf, 50_000, 400);
    instance.look().expect("a look");
    load(&mut client, &mut zipf, 250_000, 400);
    let look = instance.look().expect("a look");
    let (_, used) = holding(&look);
    let startup = 900_000.0;
    let item = (used as f64 - startup) / keys(&mut client) as f64;
    let (curve, samples) = curve_of(&look).expect("a curve");
    let shifted = curve.resized(|size| size.saturating_sub(startup as u64));
    let error = mean_error(&shifted, KEYS, 0.9, item, 2.0 * used as f64);
    println!("{samples} samples, {item:.0} bytes an item; mean error {error:.4}");
    assert!(error <= 0.05, "{error}");
}

/// Fills a Redis with keys as a load by Zipf's law at this rate would have left them, and goes on
/// with the load until there is a curve.
#[test]
fn the_curve_by_age_is_that_of_the_load() {
    const KEYS: u64 = 20_000;
    const RATE: f64 = 500.0;
    let Some(server) = redis(&["--maxmemory-policy", "allkeys-lru", "--maxmemory", "200mb"]) else { return };
    let mut client = Client::new(server.address);
    let text = "x".repeat(400);
    client.send(&format!("SET model {text}\r\n"));
    assert_eq!(client.line(), "+OK");
    let popularity = che::zipf(KEYS, 0.9, 1.0);
    let total: f64 = popularity.iter().map(|key| key.weight).sum();
    let mut rng = seeded(3);
    let mut ages: Vec<(f64, usize)> = popularity
        .iter()
        .enumerate()
        .map(|(rank, key)| (-rng.random::<f64>().max(1e-300).ln() / (key.weight / total * RATE), rank))
        .collect();
    ages.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    // What an LRU cache of 8000 items holds: copies of the model, each with its idle time. Many at
    // once, as they age meanwhile.
    for some in ages[..8000].chunks(500) {
        let restore = |&(age, rank): &(f64, usize)| {
            let (key, idle) = (format!("key-{rank}"), (age as u64).to_string());
            command(&["EVAL", RESTORE, "1", &key, &idle])
        };
        client.send(&some.iter().map(restore).collect::<String>());
        some.iter().for_each(|_| assert_eq!(client.line(), "+OK"));
    }
    assert_eq!(client.ask("DEL model"), ":1");

    let sampling = Sampling { redis: RedisLearning::Ages, ages_keys: 4000, ..always() };
    let mut instance = agent(&server, sampling);
    let mut zipf = Zipf::new(KEYS, 0.9, 7);
    let begun = Clock::System.monotonic_nanos();
    let mut sent = 0;
    let look = poll(Duration::from_secs(60), || {
        let secs = (Clock::System.monotonic_nanos() - begun) as f64 / 1e9;
        // Misses are not stored, as nothing is evicted: so the cache remains of its size.
        while sent < (secs * RATE) as usize {
            client.send(&format!("GET key-{}\r\n", zipf.draw()));
            if client.line() != "$-1" {
                client.skip(402);
            }
            sent += 1;
        }
        let look = instance.look().expect("a look");
        curve_of(&look).filter(|(_, samples)| *samples > 15_000.0).map(|_| look)
    });
    let look = look.expect("a curve");
    let pool = &look.pools[0];
    assert!(pool.reads.abs_diff(sent as u64) <= 8000, "{} for {sent}: its own do not count", pool.reads);
    let (_, used) = holding(&look);
    let startup = 900_000.0;
    let item = (used as f64 - startup) / keys(&mut client) as f64;
    let (curve, samples) = curve_of(&look).expect("a curve");
    let shifted = curve.resized(|size| size.saturating_sub(startup as u64));
    let error = mean_error(&shifted, KEYS, 0.9, item, used as f64 - startup);
    println!("{samples} ages, {item:.0} bytes an item; mean error {error:.4}");
    assert!(error <= 0.05, "{error}");
    assert!(bulk(&mut client, "INFO commandstats").contains("cmdstat_object|idletime"));
}

#[test]
fn under_an_lfu_policy_there_are_figures_and_no_ages() {
    let Some(server) = redis(&["--maxmemory-policy", "allkeys-lfu", "--maxmemory", "20mb"]) else { return };
    let mut instance = agent(&server, Sampling { redis: RedisLearning::Ages, ..always() });
    let mut client = Client::new(server.address);
    load(&mut client, &mut Zipf::new(100, 0.9, 1), 1000, 10);
    let look = instance.look().expect("a look");
    assert_eq!((look.pools[0].reads, look.pools[0].curve.clone()), (1000, None));
}
