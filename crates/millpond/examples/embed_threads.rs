//! The engine in a program with threads: bytes, looked at where they lie.
//!
//!     cargo run --release -p millpond --example embed_threads

use std::time::Duration;

use millpond::{ByteSize, Cache, CacheConfig, Expiry, ItemOptions, PoolConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = CacheConfig { memory: ByteSize::mib(64), ..CacheConfig::default() };
    let cache = Cache::maintained(config)?;
    let pages = cache.add_pool(PoolConfig::named("pages"))?;
    let options = ItemOptions { expiry: Expiry::after(Duration::from_secs(60)), ..ItemOptions::default() };
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let (cache, options) = (&cache, &options);
            scope.spawn(move || {
                for page in 0..10_000_u32 {
                    let key = (thread * 10_000 + page).to_be_bytes();
                    // An item that does not fit is not a failure: the page is made anew when it is
                    // asked for.
                    let _ = cache.put_value(pages, &key, &[page as u8; 500], options);
                    // No lock and no copy: the closure sees the item's own memory.
                    let first = cache.keys(pages).find_with(&key, |found| found[0]);
                    assert!(first.is_none_or(|byte| byte == page as u8));
                }
            });
        }
    });
    let stats = cache.stats();
    let (items, bytes) = (stats.pools[0].sum(|class| class.items), cache.ledger().total());
    println!("{items} pages in {} of {}", ByteSize::new(bytes), ByteSize::new(cache.ledger().limit()));
    Ok(())
}
