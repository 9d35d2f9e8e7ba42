//! The engine in a web server: bodies that are sent from the cache's own memory.
//!
//!     cargo run --release -p millpond --example embed_axum
//!     curl http://127.0.0.1:8080/some/page

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use millpond::{ByteSize, Cache, CacheConfig, LoadOptions, Loaded, Loader, PoolConfig};

/// Something slow.
async fn render(path: &str) -> Result<Loaded, Infallible> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(Loaded::value(format!("<h1>{path}</h1>\n")))
}

async fn page(State(pages): State<Loader>, Path(path): Path<String>) -> Response {
    // Fresh for a minute; for another, stale pages are sent at once while one request renders the
    // page anew.
    let options = LoadOptions { fresh_secs: Some(60), stale_secs: 60, wait: None, ..LoadOptions::default() };
    let timer = |_| pending::<()>();
    match pages.get_or_load_async(path.as_bytes(), &options, timer, render(&path)).await {
        Ok(fetched) => match fetched.into_owned() {
            // The page stays where it is until the last byte was sent.
            Some(page) => Body::from(Bytes::from_owner(page)).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        },
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

/// The routes, over a cache.
fn app(cache: &Cache) -> Result<Router, millpond::Error> {
    let pages = Loader::new(cache, cache.add_pool(PoolConfig::named("pages"))?);
    Ok(Router::new().route("/{*path}", get(page)).with_state(pages))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = CacheConfig { memory: ByteSize::mib(64), ..CacheConfig::default() };
    let cache = Cache::maintained(config)?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    println!("http://{}/some/page", listener.local_addr()?);
    axum::serve(listener, app(&cache)?).await?;
    Ok(())
}
