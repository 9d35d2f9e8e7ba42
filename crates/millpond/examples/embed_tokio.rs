//! The engine in a program with tasks: values of its own types, each loaded once however many ask.
//!
//!     cargo run --release -p millpond --example embed_tokio

use std::io;
use std::time::Duration;

use millpond::typed::TypedCache;
use millpond::{ByteSize, Cache, CacheConfig, PoolConfig};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct User {
    name: String,
    visits: u32,
}

async fn read_from_database(id: u64) -> io::Result<User> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    Ok(User { name: format!("user {id}"), visits: 1 })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = CacheConfig { memory: ByteSize::mib(64), ..CacheConfig::default() };
    let cache = Cache::maintained(config)?;
    let users = cache.add_pool(PoolConfig::named("users"))?;
    let users: TypedCache<u64, User> = TypedCache::new(&cache, users).with_ttl(Duration::from_secs(60));
    let tasks: Vec<_> = (0..100)
        .map(|i| {
            let users = users.clone();
            tokio::spawn(async move {
                let id = i % 10;
                users.get_or_load_async(&id, read_from_database(id)).await
            })
        })
        .collect();
    let mut visits = 0;
    for task in tasks {
        visits += task.await??.visits;
    }
    let stats = users.load_stats();
    println!("{visits} answers by {} loads; {} waited for another's", stats.loads, stats.joined);

    // After a change in the database: a load under way stores nothing that is older.
    users.insert(&3, &User { name: "Alice".to_owned(), visits: 2 })?;
    let alice = users.get(&3).map(|user| user.name);
    println!("user 3 is {}", alice.as_deref().unwrap_or("not there"));
    Ok(())
}
