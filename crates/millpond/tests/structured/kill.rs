//! A process that changes structures and is killed at random moments: what the next one finds is
//! whole, and has all that was done before.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base::rng::{RngExt, seeded};
use millpond::structured::{Map, OrderedMap};
use millpond::{Cache, ErrorKind, PoolId};

use super::{Folder, defaults};
use crate::stress::{round_of, value};

/// Even ones are maps, odd ones ordered maps.
const STRUCTURES: u32 = 8;
const KEYS: u32 = 400;
/// Kills, unless `MILLPOND_KILLS` says how many.
const KILLS: u64 = 8;

/// For each structure and key, the last round whose insertion had returned.
struct Book(File);

impl Book {
    fn open(folder: &Path) -> Self {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(folder.with_extension("book"));
        Self(file.expect("a file of our own"))
    }

    fn note(&self, structure: u32, key: u32, round: u32) {
        let at = u64::from(structure * KEYS + key) * 4;
        self.0.write_all_at(&round.to_le_bytes(), at).expect("writes");
    }

    fn rounds(&self) -> Vec<u32> {
        let mut bytes = Vec::new();
        (&self.0).read_to_end(&mut bytes).expect("reads");
        bytes.resize((STRUCTURES * KEYS * 4) as usize, 0);
        bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
    }
}

fn name(structure: u32) -> Vec<u8> {
    format!("structure-{structure}").into_bytes()
}

/// The victim, if this process is meant to be one: it inserts for ever.
#[test]
#[ignore = "the victim of another test"]
fn structures_victim() {
    let Some(folder) = std::env::var_os("MILLPOND_STRUCTURES_VICTIM").map(PathBuf::from) else { return };
    let first: u32 = std::env::var("MILLPOND_ROUND").ok().and_then(|round| round.parse().ok()).unwrap_or(1);
    let (cache, pool) = Folder::open_at(&folder);
    let threads: Vec<_> = (0..2)
        .map(|thread| {
            let (cache, folder) = (cache.clone(), folder.clone());
            base::thread::spawn(format!("writer-{thread}"), move || {
                write(&cache, pool, &Book::open(&folder), thread, first);
            })
            .expect("a thread")
        })
        .collect();
    println!("ready");
    for thread in threads {
        let _ = thread.join();
    }
    // Who waits for the kill finds that this one has ended by itself.
    std::process::exit(1);
}

/// Both threads write to all structures, each to keys of its own.
fn write(cache: &Cache, pool: PoolId, book: &Book, thread: u32, first: u32) {
    let mut rng = seeded(u64::from(first) * 2 + u64::from(thread));
    let maps: Vec<_> = (0..STRUCTURES)
        .step_by(2)
        .map(|i| Map::<u32, [u8]>::open_or_create(cache, pool, &name(i), &defaults()).expect("room").0)
        .collect();
    let ordered: Vec<_> = (1..STRUCTURES)
        .step_by(2)
        .map(|i| OrderedMap::<u32, [u8]>::open_or_create(cache, pool, &name(i), &defaults()).expect("room").0)
        .collect();
    for round in first.. {
        let (structure, key) = (rng.random_range(0..STRUCTURES), rng.random_range(0..KEYS / 2) * 2 + thread);
        let (at, value) = ((structure / 2) as usize, value(key, round));
        if structure.is_multiple_of(2) {
            maps[at].insert(&key, &value).expect("room");
        } else {
            ordered[at].insert(&key, &value).expect("room");
        }
        book.note(structure, key, round);
    }
}

fn spawn_victim(folder: &Path, round: u32) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["kill::structures_victim", "--exact", "--ignored", "--nocapture"])
        .env("MILLPOND_STRUCTURES_VICTIM", folder)
        .env("MILLPOND_ROUND", round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("spawns");
    let output = child.stdout.take().expect("piped");
    let ready = BufReader::new(output).lines().map_while(Result::ok).any(|line| line.contains("ready"));
    assert!(ready, "the victim began");
    child
}

/// The entries of a structure; `None`: it is gone, which the crash may have done.
fn entries(cache: &Cache, pool: PoolId, structure: u32) -> Option<Vec<(u32, Vec<u8>)>> {
    let name = name(structure);
    let entries = if structure.is_multiple_of(2) {
        Map::<u32, [u8]>::open(cache, pool, &name).expect("its type")?.entries()
    } else {
        OrderedMap::<u32, [u8]>::open(cache, pool, &name).expect("its type")?.entries()
    };
    match entries {
        Ok(entries) => Some(entries),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
            None
        }
    }
}

#[test]
fn what_a_killed_process_leaves_is_whole_and_has_all_that_was_done() {
    let folder = Folder::new("killed");
    std::fs::create_dir_all(&folder.0).expect("a folder of our own");
    let kills = std::env::var("MILLPOND_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let (mut round, mut whole, mut gone) = (1, 0, 0);
    for kill in 0..kills {
        let mut victim = spawn_victim(&folder.0, round);
        base::thread::sleep(Duration::from_millis(base::hash::mix64(kill) % 200));
        assert!(victim.try_wait().expect("waits").is_none(), "the victim goes on until it is killed");
        victim.kill().expect("kills");
        victim.wait().expect("is dead");
        let (cache, pool) = folder.open();
        let book = Book::open(&folder.0);
        let done = book.rounds();
        for structure in 0..STRUCTURES {
            let done = &done[(structure * KEYS) as usize..][..KEYS as usize];
            let Some(entries) = entries(&cache, pool, structure) else {
                gone += u64::from(done.iter().any(|round| *round > 0));
                (0..KEYS).for_each(|key| book.note(structure, key, 0));
                continue;
            };
            whole += 1;
            let mut found = vec![0; KEYS as usize];
            for (key, bytes) in &entries {
                let slot = &mut found[*key as usize];
                assert_eq!(*slot, 0, "one entry for each key");
                *slot = round_of(*key, bytes);
                round = round.max(*slot + 1);
            }
            assert!(structure.is_multiple_of(2) || entries.is_sorted_by(|a, b| a.0 < b.0));
            for (key, (found, done)) in found.iter().zip(done).enumerate() {
                assert!(found >= done, "kill {kill}, structure {structure}, key {key}: {found} after {done}");
            }
        }
        cache.validate();
    }
    let _ = std::fs::remove_file(folder.0.with_extension("book"));
    println!("{whole} structures were whole after {kills} kills, {gone} were gone");
    assert!(whole > gone, "{whole} whole, {gone} gone");
}
