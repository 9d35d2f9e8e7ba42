//! A real memcached.

use std::time::Duration;

use control::amounts;
use control::v1::PoolGrant;
use millpond_agent::Instance;
use millpond_agent::targets::TargetSettings;
use rustix::process::Signal;

use crate::support::{Client, MIB, Server, Zipf, always, curve_of, failure, holding, mean_error, open, poll};

/// Starts one, if there is one.
fn memcached(megabytes: u32) -> Option<Server> {
    memcached_with(megabytes, &[])
}

fn memcached_with(megabytes: u32, more: &[&str]) -> Option<Server> {
    let megabytes = megabytes.to_string();
    let mut arguments = vec!["-l", "127.0.0.1", "-U", "0", "-t", "2", "-m", &megabytes];
    arguments.extend(more);
    if rustix::process::geteuid().is_root() {
        arguments.extend(["-u", "root"]);
    }
    arguments.push("-p");
    let server = Server::start("memcached", "MILLPOND_MEMCACHED", &arguments);
    if server.is_none() {
        println!("skipped: there is no memcached in PATH, and MILLPOND_MEMCACHED is not set.");
    }
    server
}

fn agent(server: &Server) -> Box<dyn Instance> {
    let settings = TargetSettings { sampling: always(), ..TargetSettings::default() };
    open("memcached", server.address, settings)
}

/// Reads `count` keys, some at a time, and stores those that missed, as a look-aside cache does.
/// Returns the misses.
fn load(client: &mut Client, zipf: &mut Zipf, count: usize, value: usize) -> usize {
    let text = "x".repeat(value);
    let mut misses = 0;
    for _ in 0..count / 50 {
        let keys: Vec<usize> = (0..50).map(|_| zipf.draw()).collect();
        client.send(&keys.iter().map(|key| format!("get key-{key}\r\n")).collect::<String>());
        let mut missed = Vec::new();
        for key in keys {
            if client.line() == "END" {
                missed.push(key);
            } else {
                client.skip(value + 2 + "END\r\n".len());
            }
        }
        let sets = missed.iter().map(|key| format!("set key-{key} 0 0 {value} noreply\r\n{text}\r\n"));
        client.send(&sets.collect::<String>());
        misses += missed.len();
    }
    assert_eq!(client.ask("mn"), "MN");
    misses
}

fn figure(client: &mut Client, name: &str) -> u64 {
    client.send("stats\r\n");
    let mut figure = 0;
    loop {
        let line = client.line();
        if line == "END" {
            return figure;
        }
        if let Some(value) = line.strip_prefix(&format!("STAT {name} ")) {
            figure = value.parse().expect("a number");
        }
    }
}

#[test]
fn a_limit_is_set_and_memory_is_freed() {
    let Some(server) = memcached(64) else { return };
    let mut instance = agent(&server);
    let look = instance.look().expect("a look");
    assert_eq!(holding(&look), (64 * MIB, 0));
    assert_eq!((look.instance.kind.as_str(), look.pools[0].name.as_str()), ("memcached", "all"));
    assert!(look.instance.outlives_agent && look.instance.is_alone && !look.instance.version.is_empty());
    assert_eq!(look.instance.name, server.address.to_string());
    assert_eq!((amounts::memory(&look.least), look.most.len()), (8 * MIB, 0));

    let mut client = Client::new(server.address);
    for (keys, value) in [(30_000, 900), (20_000, 2_000)] {
        let text = "x".repeat(value);
        for key in 0..keys {
            client.send(&format!("set {value}-{key} 0 0 {value} noreply\r\n{text}\r\n"));
        }
    }
    assert_eq!(client.ask("mn"), "MN");
    assert!(holding(&instance.look().expect("a look")).1 > 55 * MIB);

    let grants = [PoolGrant { id: 1, amounts: amounts::of_memory(30 * MIB + 5) }];
    instance.resize(&amounts::of_memory(30 * MIB + 5), &grants).expect("a limit");
    assert_eq!(figure(&mut client, "limit_maxbytes"), 30 * MIB, "whole MiB");
    let freed = poll(Duration::from_secs(30), || {
        let look = instance.look().expect("a look");
        (holding(&look).1 <= 30 * MIB).then_some(look)
    });
    let freed = freed.expect("memory is freed");
    assert_eq!(holding(&freed).0, 30 * MIB);
    assert_eq!(amounts::memory(&freed.pools[0].granted), 30 * MIB + 5);

    instance.resize(&amounts::of_memory(50 * MIB), &[]).expect("a limit");
    assert_eq!(holding(&instance.look().expect("a look")).0, 50 * MIB);
    let error = instance.resize(&amounts::of_memory(7 * MIB), &[]).expect_err("too little").to_string();
    assert!(error.contains("outside of its bounds, 8388608 to"), "{error}");
    instance.resize(&[], &[]).expect("nothing to do");
}

#[test]
fn memory_that_cannot_be_freed_is_an_error() {
    let cases = [
        (&["-o", "no_slab_reassign"][..], "-o no_slab_reassign; start it without"),
        (&["-M"][..], "-M and evicts nothing"),
    ];
    for (more, remedy) in cases {
        let Some(server) = memcached_with(64, more) else { return };
        let mut client = Client::new(server.address);
        for key in 0..15 {
            client.send(&format!("set {key} 0 0 1000000 noreply\r\n{}\r\n", "x".repeat(1_000_000)));
        }
        assert_eq!(client.ask("mn"), "MN");
        let mut instance = agent(&server);
        let looked = instance.look();
        let set = instance.resize(&amounts::of_memory(9 * MIB), &[]);
        let error = looked.map(|_| ()).and(set).expect_err(remedy).to_string();
        assert!(error.contains(remedy), "{error}");
    }
}

#[test]
fn a_server_that_is_only_looked_at_keeps_its_items() {
    let Some(server) = memcached(64) else { return };
    let mut client = Client::new(server.address);
    for key in 0..40 {
        client.send(&format!("set {key} 0 0 1000000 noreply\r\n{}\r\n", "x".repeat(1_000_000)));
    }
    assert_eq!(client.ask("mn"), "MN");
    // By its owner, who may well want it to shrink slowly.
    assert_eq!(client.ask("cache_memlimit 20"), "OK");
    let settings = TargetSettings { sampling: always(), reads_only: true, ..TargetSettings::default() };
    let mut instance = open("memcached", server.address, settings);
    // One that waits for an orchestrator looks as well.
    let mut waiting = agent(&server);
    for _ in 0..5 {
        for instance in [&mut instance, &mut waiting] {
            let (limit, used) = holding(&instance.look().expect("a look"));
            assert_eq!((limit, used > 35 * MIB), (20 * MIB, true), "{used}");
        }
    }
    let error = instance.resize(&amounts::of_memory(9 * MIB), &[]).expect_err("only looked at").to_string();
    assert!(error.contains("only looked at"), "{error}");
    waiting.set_led(true);
    assert!(holding(&waiting.look().expect("a look")).1 < 40 * MIB, "an orchestrator counts on it");
    let Some(server) = memcached_with(64, &["-M"]) else { return };
    let settings = TargetSettings { sampling: always(), reads_only: true, ..TargetSettings::default() };
    open("memcached", server.address, settings).look().expect("one that evicts nothing is looked at");
}

#[test]
fn a_restart_is_another_incarnation() {
    let Some(mut server) = memcached(64) else { return };
    let mut instance = agent(&server);
    let first = instance.look().expect("a look").instance.incarnation;
    assert_eq!(instance.look().expect("a look").instance.incarnation, first);
    server.stop();
    let (words, _) = failure(&mut *instance);
    assert!(words.contains("start it, or correct the address"), "{words}");
    assert!(server.run());
    let second = instance.look().expect("the connection is opened again").instance.incarnation;
    assert!(first != 0 && second != 0 && first != second);
    assert!(server.run());
    let third = instance.look().expect("without an error between").instance.incarnation;
    assert!(third != second);
}

#[test]
fn a_server_that_hangs_is_an_error_in_time() {
    let Some(server) = memcached(64) else { return };
    let mut instance = agent(&server);
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
fn the_curve_is_that_of_the_load() {
    const KEYS: u64 = 30_000;
    let Some(server) = memcached(8) else { return };
    let (mut client, mut zipf) = (Client::new(server.address), Zipf::new(KEYS, 0.9, 7));
    // The curve of a cache that fills is another one.
    load(&mut client, &mut zipf, 200_000, 400);
    let mut instance = agent(&server);
    poll(Duration::from_secs(10), || (figure(&mut client, "log_watchers") == 1).then_some(()))
        .expect("it watches");
    let before = instance.look().expect("a look").pools.remove(0);
    let misses = load(&mut client, &mut zipf, 200_000, 400);
    let look = instance.look().expect("a look");
    let pool = &look.pools[0];
    assert_eq!((pool.reads - before.reads, pool.misses - before.misses), (200_000, misses as u64));

    let (_, used) = holding(&look);
    let item = used as f64 / figure(&mut client, "curr_items") as f64;
    let (curve, samples) = curve_of(&look).expect("a curve");
    let error = mean_error(&curve, KEYS, 0.9, item, 2.0 * used as f64);
    let measured = misses as f64 / 200_000.0;
    let read = curve.miss_ratio(used as f64);
    println!(
        "{samples} samples, {item:.0} bytes an item; mean error {error:.4}; {read:.3} for {measured:.3}"
    );
    assert!(error <= 0.05, "{error}");
    assert!((read - measured).abs() <= 0.05, "{read} for {measured}");
}

#[test]
fn the_curve_is_learnt_again_after_a_restart() {
    let Some(mut server) = memcached(16) else { return };
    let mut instance = agent(&server);
    let learns = |instance: &mut dyn Instance, server: &Server| {
        let (mut client, mut zipf) = (Client::new(server.address), Zipf::new(1000, 0.9, 7));
        let samples = |instance: &mut dyn Instance| {
            curve_of(&instance.look().expect("a look")).map_or(0.0, |(_, samples)| samples)
        };
        let before = samples(instance);
        poll(Duration::from_secs(30), || {
            load(&mut client, &mut zipf, 1000, 100);
            (samples(instance) > before + 1000.0).then_some(())
        })
    };
    learns(&mut *instance, &server).expect("it learns");
    assert!(server.run());
    learns(&mut *instance, &server).expect("it learns again");
}
