use base::rng::{RngExt, seeded};

use super::*;

#[test]
fn a_table_keeps_nothing_of_fences_that_are_gone() {
    let fences = Fences::new();
    let mut rng = seeded(3);
    let mut tickets = Vec::new();
    for _ in 0..20_000 {
        // Some share a hash, and some a count or a shard.
        let hash = (rng.random_range(0..8_u64) << 32) | (rng.random_range(0..2_u64) * COUNTS as u64);
        match rng.random_range(0..8) {
            0..=3 => tickets.push(fences.begin(hash)),
            4 => fences.void(hash),
            5 if rng.random_range(0..100) == 0 => fences.void_all(),
            _ if tickets.is_empty() => {}
            _ => drop(tickets.swap_remove(rng.random_range(0..tickets.len()))),
        }
        let open = tickets.iter().filter(|ticket| !ticket.is_void()).count();
        let marks = |shard: &Shard| shard.lock().values().map(|mark| mark.fences as usize).sum::<usize>();
        assert_eq!(fences.shards.iter().map(marks).sum::<usize>(), open);
    }
    tickets.clear();
    assert!(fences.shards.iter().all(|shard| shard.lock().is_empty()));
    assert!(fences.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0));
}
