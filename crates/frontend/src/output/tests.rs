use std::io::Read;
use std::os::unix::net::UnixStream;

use base::rng::{Rng, seeded};

use super::*;

/// A small socket buffer transmits the bytes that were appended, in order, however they are cut.
#[test]
fn the_stream_is_what_was_appended() {
    for seed in 0..20 {
        let mut rng = seeded(seed);
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("non-blocking");
        theirs.set_nonblocking(true).expect("non-blocking");
        let mut output: Output<Vec<u8>> = Output::default();
        let mut expected = Vec::new();
        let mut received = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        for round in 0..200 {
            for _ in 0..rng.next_u64() % 4 {
                let size = (rng.next_u64() % 12_000) as usize;
                let piece: Vec<u8> = (0..size).map(|i| (i as u64 ^ rng.next_u64()) as u8).collect();
                expected.extend_from_slice(&piece);
                match rng.next_u64() % 3 {
                    0 => output.write(&piece),
                    1 => output.compose(|bytes| bytes.extend_from_slice(&piece)),
                    _ => output.value(piece),
                }
            }
            let before = output.len();
            let sent = output.send(&ours, usize::MAX).expect("an open socket");
            assert_eq!(sent == Sent::All, output.is_empty(), "seed {seed} round {round}");
            assert!(output.len() <= before);
            let limit = (rng.next_u64() as usize % buffer.len()) + 1;
            if let Ok(n) = theirs.read(&mut buffer[..limit]) {
                received.extend_from_slice(&buffer[..n]);
            }
        }
        while received.len() < expected.len() {
            let _ = output.send(&ours, usize::MAX).expect("an open socket");
            let n = theirs.read(&mut buffer).expect("there is more");
            received.extend_from_slice(&buffer[..n]);
        }
        assert!(received == expected, "seed {seed}");
        assert!(output.is_empty());
    }
}

#[test]
fn small_values_are_copied_and_large_ones_held() {
    let mut output: Output<Vec<u8>> = Output::default();
    output.value(vec![1; MIN_IN_PLACE_BYTES - 1]);
    assert_eq!(output.held_bytes(), output.buffer_bytes());
    output.value(vec![2; MIN_IN_PLACE_BYTES]);
    assert_eq!(output.held_bytes(), output.buffer_bytes() + MIN_IN_PLACE_BYTES);
    assert_eq!(output.len(), 2 * MIN_IN_PLACE_BYTES - 1);
}

#[test]
fn a_burst_does_not_leave_its_buffer_behind() {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    ours.set_nonblocking(true).expect("non-blocking");
    let mut output: Output<Vec<u8>> = Output::default();
    output.write(&vec![0; 4 * KEEP_BYTES]);
    let reader = base::thread::spawn("reader", move || {
        let mut all = Vec::new();
        (&theirs).read_to_end(&mut all).map(|_| all.len())
    })
    .expect("a thread");
    while output.send(&ours, usize::MAX).expect("open") == Sent::Blocked {
        base::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(output.buffer_bytes(), 0);
    drop(ours);
    assert_eq!(reader.join().expect("no panic").expect("read"), 4 * KEEP_BYTES);
}

#[test]
fn a_broken_connection_is_an_error() {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    drop(theirs);
    let mut output: Output<Vec<u8>> = Output::default();
    output.write(b"anybody there?");
    assert_eq!(output.send(&ours, usize::MAX), Err(Errno::PIPE));
    output.value(vec![0; MIN_IN_PLACE_BYTES]);
    assert_eq!(output.send(&ours, usize::MAX), Err(Errno::PIPE));
}
