//! The fleet with agents in a simulated network.

mod ask;
mod cases;
mod etcd;
mod seat;
mod site;
mod whole;
mod world;

use std::sync::PoisonError;

use self::seat::MEMBERS;
use self::site::START;
use self::world::{ELECTED, Faults, LEASE, MEMORY, SECOND, World};
use crate::MILLI;
use crate::fleet::Planted;

/// A minute with faults, and then another without.
fn history(seed: u64, seats: usize, faults: Faults) -> Result<World, String> {
    let nodes = 1 + (seed % 2) as usize;
    let mut world = World::new(seed, seats, nodes, 2 + (seed % 5) as usize, faults);
    world.run(60 * SECOND)?;
    world.heal();
    world.run(60 * SECOND + 12 * LEASE)?;
    Ok(world)
}

/// Without faults, each living instance is led, has about what was decided, and nobody else has
/// anything.
fn settled(world: &World) -> Result<(), String> {
    let leader = world.leader().ok_or("nobody leads")?;
    let fleet = world.seats[leader].fleet.as_ref().ok_or("nobody leads")?;
    let members = fleet.members(world.now);
    for site in world.sites.iter().filter(|site| site.process.is_some()) {
        let member = members.iter().find(|member| member.instance.name == site.name && member.is_leased);
        let member = member.ok_or_else(|| format!("{} is not led", site.name))?;
        let cache = site.cache.as_ref().ok_or("a process without a cache")?;
        let limit = cache.0.lock().unwrap_or_else(PoisonError::into_inner).limit;
        // But for a request that is under way.
        if limit > member.held_bytes || member.held_bytes > limit.max(member.used_bytes) + MEMORY / 16 {
            return Err(format!("{} has {limit} bytes, and is known as {member:?}", site.name));
        }
    }
    for member in members.iter().filter(|member| !member.is_leased) {
        let site = world.sites.iter().find(|site| site.name == member.instance.name);
        if !site.is_some_and(|site| site.outlives_agent && site.process.is_none()) {
            return Err(format!("what {member:?} had is not free"));
        }
    }
    for node in 0..2 {
        let node = format!("node-{node}");
        let living: Vec<_> =
            members.iter().filter(|member| member.instance.node == node && member.is_leased).collect();
        let wanted: u64 = living.iter().filter_map(|member| member.target_bytes).sum();
        let has: u64 = living.iter().map(|member| member.limit_bytes).sum();
        if !living.is_empty() && has + MEMORY / 16 < wanted {
            return Err(format!("instances of {node} have {has} of {wanted} bytes"));
        }
    }
    Ok(())
}

#[test]
fn no_node_has_more_than_there_is_whatever_fails() {
    let seeds = std::env::var("MILLPOND_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(300);
    let first = std::env::var("MILLPOND_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + seeds {
        let seats = 1 + (seed / 2 % 3) as usize;
        let outcome = history(seed, seats, Faults::ALL).and_then(|world| settled(&world));
        assert_eq!(outcome, Ok(()), "MILLPOND_SEED={seed}");
    }
}

#[test]
fn without_faults_memory_goes_to_where_it_was_decided() {
    for seed in 1..20 {
        let mut world = World::new(seed, 1, 1, 4, Faults::NONE);
        world.run(60 * SECOND).and_then(|()| settled(&world)).unwrap();
        let leader = world.leader().expect("one leads");
        let fleet = world.seats[leader].fleet.as_ref().expect("it leads");
        let members = fleet.members(world.now);
        let has: u64 = members.iter().map(|member| member.limit_bytes).sum();
        let there_is = MEMORY - START * 4;
        assert!(has > there_is / 10 * 9 && has <= there_is, "{has} of {there_is}: {members:?}");
        assert!(members.iter().any(|member| member.limit_bytes > there_is / 3), "not all alike: {members:?}");
    }
}

#[test]
fn one_seed_is_one_history() {
    for seed in [3, 8] {
        let digest = || history(seed, 2, Faults::ALL).map(|world| (world.digest, world.steps));
        assert_eq!(digest(), digest());
    }
}

#[test]
fn planted_faults_are_found() {
    let planted = [
        Faults { planted: Planted::GrowFirst, ..Faults::ALL },
        Faults { planted: Planted::ForgetSilent, ..Faults::ALL },
        Faults { planted: Planted::ForgetSent, ..Faults::ALL },
        Faults { planted: Planted::SaveLate, ..Faults::ALL },
        Faults { planted: Planted::SaveUnguarded, ..Faults::ALL },
        Faults { planted: Planted::SaveUnordered, ..Faults::ALL },
        Faults { planted: Planted::LeaseLate, ..Faults::ALL },
        Faults { planted: Planted::RepeatTerm, ..Faults::ALL },
        Faults { lax_agents: true, ..Faults::ALL },
    ];
    for faults in planted {
        let error = |seed| {
            let error = history(seed, 1 + (seed % 3) as usize, faults).err();
            error.filter(|error| error.starts_with("at ")).map(|error| (seed, error))
        };
        let found = (1..2_000).find_map(error);
        println!("{faults:?}: found by seed {found:?}");
        assert!(found.is_some(), "{faults:?}");
    }
}

/// The longest time without a decision that something causes, in a fleet with two orchestrators.
fn longest_silence(act: impl Fn(&mut World)) -> u64 {
    let mut longest = 0;
    for seed in 1..100 {
        let mut world = World::new(seed, 2, 1, 4, Faults::NONE);
        world.run(30 * SECOND).unwrap();
        let from = world.now;
        act(&mut world);
        world.run(from + 10 * LEASE).unwrap();
        settled(&world).unwrap();
        let since = world.decided_at.iter().copied().filter(|&at| at > from);
        let ends = since.clone().chain([world.now]);
        let silence = [from].into_iter().chain(since).zip(ends).map(|(before, at)| at - before).max();
        longest = longest.max(silence.unwrap_or(0));
    }
    longest
}

#[test]
fn a_lost_leader_stops_no_decision_for_longer_than_two_leases() {
    let killed = longest_silence(|world| {
        let leader = world.leader().expect("one leads");
        world.kill_seat(leader);
    });
    let stopped = longest_silence(|world| {
        let leader = world.leader().expect("one leads");
        world.seats[leader].paused_until = world.now + 8 * LEASE;
    });
    let apart = longest_silence(|world| {
        let leader = world.leader().expect("one leads");
        world.seats[leader].apart_until = world.now + 8 * LEASE;
    });
    println!(
        "without a decision: {} ms if the leader is killed, {} ms if it is stopped, {} ms without etcd",
        killed / MILLI,
        stopped / MILLI,
        apart / MILLI
    );
    assert!(killed < 2 * ELECTED && stopped < 2 * ELECTED && apart < 2 * ELECTED);
}

#[test]
fn a_lost_member_of_etcd_stops_no_decision_for_longer_than_two_leases() {
    for member in 0..MEMBERS {
        let silence = longest_silence(|world| world.stop_member(member, world.now + 8 * LEASE));
        println!("without a decision: {} ms if member {member} of etcd is lost", silence / MILLI);
        assert!(silence < 2 * ELECTED);
    }
}

#[test]
fn without_a_majority_of_etcd_nothing_is_decided_and_then_it_goes_on() {
    for seed in 1..30 {
        let mut world = World::new(seed, 2, 1, 4, Faults::NONE);
        world.run(30 * SECOND).unwrap();
        let from = world.now;
        world.stop_member(1, from + 4 * LEASE);
        world.stop_member(2, from + 4 * LEASE);
        world.run(from + 4 * LEASE).unwrap();
        let late = world.decided_at.iter().filter(|&&at| at > from + ELECTED);
        assert_eq!(late.count(), 0, "seed {seed}: an orchestrator decides without a lease");
        world.run(from + 10 * LEASE).unwrap();
        settled(&world).unwrap();
    }
}

#[test]
fn a_leader_that_outlives_a_restore_of_etcd_saves_all_again() {
    for seed in 1..50 {
        let mut world = World::new(seed, 2, 1, 4, Faults::NONE);
        // Long before, or shortly before while memory moves.
        let (at, again) = [(15_000, 40_000), (12_000, 12_400)][(seed % 2) as usize];
        world.run(at * MILLI).unwrap();
        let backup = world.etcd.clone();
        world.run(again * MILLI).unwrap();
        let leader = world.leader();
        world.restore_etcd(backup);
        let outcome = world.run(world.now + 2 * ELECTED);
        assert_eq!(outcome, Ok(()), "seed {seed}");
        assert_eq!(world.leader(), leader, "seed {seed}: its lease is in the backup");
        // What the next leader reads is what there is.
        world.kill_seat(leader.expect("one leads"));
        world.run(world.now + 10 * LEASE).and_then(|()| settled(&world)).unwrap();
    }
}

#[test]
fn no_term_is_used_again_after_etcd_has_lost_it() {
    for seed in 1..20 {
        let mut world = World::new(seed, 1, 1, 4, Faults::NONE);
        let empty = world.etcd.clone();
        world.run(20 * SECOND).unwrap();
        let term = world.last_term;
        world.restore_etcd(empty);
        world.run(world.now + 10 * LEASE).and_then(|()| settled(&world)).unwrap();
        assert!(world.last_term > term, "seed {seed}: it has led in {term} and {}", world.last_term);
    }
}

#[test]
fn a_dead_instance_frees_what_it_had_and_a_hung_one_does_not() {
    let mut world = World::new(5, 1, 1, 2, Faults::NONE);
    world.run(40 * SECOND).unwrap();
    let held = |world: &World| {
        let leader = world.leader().expect("one leads");
        world.seats[leader].fleet.as_ref().expect("it leads").members(world.now)
    };
    let now = world.now;
    world.sites[0].process.as_mut().expect("it runs").paused_until = now + 6 * LEASE;
    world.run(now + 4 * LEASE).unwrap();
    let before = held(&world);
    assert_eq!(before.len(), 2, "what a stopped process has is not free: {before:?}");
    assert!(before.iter().any(|member| !member.is_leased));
    world.run(now + 8 * LEASE).unwrap();
    settled(&world).unwrap();
    world.kill_site(0, true);
    let now = world.now;
    world.run(now + 2 * LEASE).unwrap();
    assert_eq!(held(&world).len(), 1);
}
