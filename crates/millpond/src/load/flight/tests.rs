use super::*;

fn claim(flights: &Arc<Flights>, key: &[u8]) -> Claim {
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
    let flights = Arc::new(Flights::new(1));
    let old = claim(&flights, b"k");
    let joined = flight(&flights, b"k");
    flights.void(b"k");
    flights.void(b"no flight");
    let new = claim(&flights, b"k");
    assert!(!old.begin_storing() && new.begin_storing());
    drop(old);
    assert!(is_again(joined.wait(None)));
    assert_eq!(flights.len(), 1, "the end of a void flight leaves the next one alone");
}

#[test]
fn a_flight_that_stores_is_waited_for() {
    let flights = Arc::new(Flights::new(1));
    let storing = claim(&flights, b"k");
    assert!(storing.begin_storing());
    let is_stored = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let voiding = scope.spawn(|| {
            flights.void(b"k");
            assert!(is_stored.load(Ordering::SeqCst), "voiding ends after storing");
        });
        while flights.shard(b"k").try_lock().is_none() {
            std::hint::spin_loop();
        }
        is_stored.store(true, Ordering::SeqCst);
        storing.finish(Outcome::Value(None));
        voiding.join().expect("no panic");
    });
    assert_eq!(flights.len(), 0);
}

#[test]
fn the_thread_that_stores_does_not_wait_for_itself() {
    let flights = Arc::new(Flights::new(1));
    let storing = claim(&flights, b"k");
    assert!(storing.begin_storing());
    flights.void(b"k");
    storing.finish(Outcome::Value(None));
}

#[test]
fn a_late_flight_is_taken_over_once() {
    let flights = Arc::new(Flights::new(1));
    let late = claim(&flights, b"k");
    let joined = flight(&flights, b"k");
    let next = flights.take_over(&joined).expect("it is late");
    assert!(flights.take_over(&joined).is_none(), "it was taken over already");
    assert!(!late.begin_storing());
    assert!(next.begin_storing());
    let joined = flight(&flights, b"k");
    assert!(flights.take_over(&joined).is_none(), "it is about to end");
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
