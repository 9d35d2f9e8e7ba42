use memory::{ByteSize, Cache, CacheConfig, PoolConfig, PoolId};

use super::*;

/// A cache in front of which keys are loaded.
fn cache() -> (Cache, PoolId) {
    let config = CacheConfig { memory: ByteSize::mib(16), huge_pages: false, ..CacheConfig::default() };
    let cache = Cache::new(config).expect("a cache");
    let pool = cache.add_pool(PoolConfig::named("p")).expect("a pool");
    (cache, pool)
}

fn claim(flights: &Arc<Flights>, key: &[u8]) -> LeaderDuty {
    match flights.join(key) {
        Joined::Leads(claim) => claim,
        Joined::Waits(_) => panic!("a flight of {key:?} is under way"),
    }
}

fn flight(flights: &Arc<Flights>, key: &[u8]) -> Arc<Flight> {
    match flights.join(key) {
        Joined::Leads(_) => panic!("no flight of {key:?} is under way"),
        Joined::Waits(flight) => flight,
    }
}

fn is_again(outcome: Option<Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Again))
}

#[test]
fn a_key_has_one_flight_until_it_ends() {
    let flights = Arc::new(Flights::new(1));
    let (one, other) = (claim(&flights, b"one"), claim(&flights, b"other"));
    let joined = flight(&flights, b"one");
    assert!(joined.wait(Some(Duration::ZERO)).is_none());
    assert_eq!(flights.len(), 2);
    one.finish(Outcome::Again);
    assert!(is_again(joined.wait(None)), "the end is there for who asks late");
    drop(claim(&flights, b"one"));
    drop(other);
    assert_eq!(flights.len(), 0);
}

#[test]
fn a_void_flight_may_not_store_and_is_not_joined() {
    let ((cache, pool), flights) = (cache(), Arc::new(Flights::new(1)));
    let make = || cache.keys(pool).fence(b"k");
    let mut old = claim(&flights, b"k");
    let joined = flight(&flights, b"k");
    assert!(old.fence().is_none() && old.begin(make) && old.fence().is_some());
    assert_eq!(flights.len(), 1);
    cache.keys(pool).remove(b"k");
    assert_eq!(flights.len(), 0);
    let mut new = claim(&flights, b"k");
    assert!(new.begin(make) && !old.begin(make), "another one is in its place");
    assert!(old.fence().is_none() && new.fence().is_some());
    drop(old);
    assert!(is_again(joined.wait(None)));
    assert_eq!(flights.len(), 1, "the end of a void flight leaves the next one alone");
}

#[test]
fn a_flight_that_was_void_before_it_loads_begins_anew() {
    let ((cache, pool), flights) = (cache(), Arc::new(Flights::new(1)));
    let make = || cache.keys(pool).fence(b"k");
    let mut queued = claim(&flights, b"k");
    assert!(queued.begin(make));
    cache.keys(pool).remove(b"k");
    assert!(queued.fence().is_none() && queued.begin(make) && queued.fence().is_some());
    assert!(queued.begin(|| panic!("it has one that holds")));
    let _joined = flight(&flights, b"k");
}

#[test]
fn a_late_flight_is_taken_over_once() {
    let ((cache, pool), flights) = (cache(), Arc::new(Flights::new(1)));
    let make = || cache.keys(pool).fence(b"k");
    let mut late = claim(&flights, b"k");
    assert!(late.begin(make));
    let joined = flight(&flights, b"k");
    let mut next = flights.take_over(&joined).expect("it is late");
    assert!(flights.take_over(&joined).is_none(), "it was taken over already");
    assert!(late.fence().is_none(), "it was about to store");
    assert!(next.begin(make) && !late.begin(make) && next.fence().is_some());
    let joined = flight(&flights, b"k");
    next.finish(Outcome::Again);
    assert!(flights.take_over(&joined).is_none(), "it has ended");
}

#[test]
fn a_claim_that_is_dropped_in_a_panic_says_so() {
    let flights = Arc::new(Flights::new(1));
    let lost = claim(&flights, b"k");
    let joined = flight(&flights, b"k");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _lost = lost;
        panic!("planned");
    }));
    assert!(result.is_err());
    assert!(matches!(joined.wait(None), Some(Outcome::Failed(LoadError::Panicked))));
    drop(claim(&flights, b"k"));
}

#[test]
fn a_future_that_is_dropped_leaves_no_waker() {
    let flights = Arc::new(Flights::new(1));
    let leads = claim(&flights, b"k");
    let joined = flight(&flights, b"k");
    let mut ended = Box::pin(flights.ended(Arc::clone(&joined)));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        assert!(ended.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!((joined.state.lock().wakers.len(), flights.waiting()), (1, 1));
    drop(ended);
    assert_eq!((joined.state.lock().wakers.len(), flights.waiting()), (0, 0));
    leads.finish(Outcome::Again);
}
