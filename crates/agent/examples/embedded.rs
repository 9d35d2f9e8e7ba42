//! A program with an embedded cache whose memory an orchestrator decides: two pools, of which one
//! is asked for far more keys than the other.
//!
//!     millpond orchestrate --memory 96MiB &
//!     cargo run --release -p millpond-agent --example embedded -- shop &
//!     cargo run --release -p millpond-agent --example embedded -- blog

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millpond::{ByteSize, Cache, CacheConfig, Clock, ItemOptions, PoolConfig, PoolId};
use millpond_agent::access::Access;
use millpond_agent::embedded::{Embedded, EmbeddedConfig};
use millpond_agent::service::{Service, ServiceConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "shop".to_owned());
    let orchestrator = arguments.next().unwrap_or_else(|| "127.0.0.1:11220".to_owned());
    let secs = arguments.next().map_or(Ok(60), |secs| secs.parse())?;

    let cache = Cache::maintained(CacheConfig {
        memory: ByteSize::mib(16),
        max_memory: Some(ByteSize::mib(256)),
        ..CacheConfig::default()
    })?;
    let users = cache.add_pool(PoolConfig::named("users"))?;
    let pages = cache.add_pool(PoolConfig::named("pages"))?;

    let instance = Embedded::new(cache.clone(), EmbeddedConfig::named(name))?;
    let service =
        ServiceConfig { listen: "127.0.0.1:0".parse()?, advertise: None, orchestrators: vec![orchestrator] };
    let agent = Service::start(service, Access::default(), instance, Clock::default())?;

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| ask(&cache, users, 20_000, &stop));
        scope.spawn(|| ask(&cache, pages, 200_000, &stop));
        for _ in 0..secs {
            base::thread::sleep(Duration::from_secs(1));
            print(&cache, agent.is_led());
        }
        stop.store(true, Ordering::Relaxed);
    });
    // Its memory is free for others at once, as the cache goes with it.
    agent.stop();
    Ok(())
}

/// Asks for keys, of which half are the same tenth, and stores those that are missed.
fn ask(cache: &Cache, pool: PoolId, keys: u64, stop: &AtomicBool) {
    let (keyed, options) = (cache.keys(pool), ItemOptions::default());
    let mut state = 1_u64;
    while !stop.load(Ordering::Relaxed) {
        state = base::hash::mix64(state);
        let of = if state & 1 == 0 { keys / 10 } else { keys };
        let key = ((state >> 1) % of).to_be_bytes();
        if keyed.find_with(&key, |value| value.len()).is_none() {
            // The item may not fit: the next one that asks for it tries again.
            let _ = cache.put_value(pool, &key, &[0; 500], &options);
        }
    }
}

fn print(cache: &Cache, is_led: bool) {
    let pools = cache.stats().pools;
    let pools: Vec<String> =
        pools.iter().map(|pool| format!("{} {:>4} MiB", pool.name, pool.slab_bytes >> 20)).collect();
    let led = if is_led { "led" } else { "not led" };
    println!("limit {:>4} MiB, {}, {led}", cache.ledger().limit() >> 20, pools.join(", "));
}
