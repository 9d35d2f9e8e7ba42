//! Requests beyond every limit.

use anyhow::Result;

use super::Scene;
use super::peer::{Moved, connect, read, write};
use super::slow::asks_for_large;

/// Bytes that are sent of a request that never ends.
const MOST_BYTES: usize = 32 << 20;

/// A request: how it begins, and what then comes again and again.
struct Giant {
    head: &'static [u8],
    filler: &'static [u8],
}

const GIANTS: &[Giant] = &[
    // Values.
    Giant { head: b"set key 0 0 4294967295\r\n", filler: b"v" },
    Giant { head: b"set key 0 0 99999999999999999999\r\n", filler: b"v" },
    Giant { head: b"set key 0 0 2000000\r\n", filler: b"v" },
    Giant { head: b"ms key 4000000000\r\n", filler: b"v" },
    Giant { head: b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$2147483647\r\n", filler: b"v" },
    Giant { head: b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$-2147483648\r\n", filler: b"v" },
    Giant {
        head: b"*4\r\n$8\r\nSETRANGE\r\n$3\r\nkey\r\n$10\r\n4294967295\r\n$1\r\nx\r\n",
        filler: b"*1\r\n$4\r\nPING\r\n",
    },
    Giant {
        head: b"*4\r\n$6\r\nSETBIT\r\n$3\r\nkey\r\n$10\r\n4294967295\r\n$1\r\n1\r\n",
        filler: b"*1\r\n$4\r\nPING\r\n",
    },
    // Keys.
    Giant { head: b"get ", filler: b"kkkkkkkk" },
    Giant { head: b"mg ", filler: b"kkkkkkkk" },
    Giant { head: b"*2\r\n$3\r\nGET\r\n$1000000\r\n", filler: b"k" },
    // Lines without an end, and words without one.
    Giant { head: b"", filler: b"x" },
    Giant { head: b"get", filler: b" k" },
    Giant { head: b"mg key", filler: b" v" },
    Giant { head: b"stats ", filler: b"s" },
    // Counts.
    Giant { head: b"*2147483647\r\n$4\r\nMGET\r\n", filler: b"$1\r\nk\r\n" },
    Giant { head: b"*-2147483648\r\n", filler: b"*0\r\n" },
    Giant { head: b"*1048576\r\n$3\r\nDEL\r\n", filler: b"$1\r\nk\r\n" },
    // Arrays within arrays.
    Giant { head: b"", filler: b"*1\r\n" },
    // What is kept until it is carried out, and what grows by itself.
    Giant { head: b"*1\r\n$5\r\nMULTI\r\n", filler: b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\nvvvvvvvvvv\r\n" },
    Giant {
        head: b"",
        filler: b"*3\r\n$6\r\nAPPEND\r\n$4\r\ngrow\r\n$32\r\nvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv\r\n",
    },
    Giant {
        head: b"",
        filler: b"*3\r\n$5\r\nRPUSH\r\n$8\r\ngrowlist\r\n$32\r\nvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv\r\n",
    },
    // The binary protocol: a body and a key as long as can be said.
    Giant { head: b"\x80\x01\xff\xff\x08\x00\x00\x00\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0", filler: b"v" },
    Giant { head: b"\x80\x00\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01\0\0\0\0\0\0\0\0\0\0\0\0", filler: b"v" },
];

/// Each in turn, read from only so that the server's answers do not stop it.
pub(super) fn requests(scene: &Scene) -> Result<u64> {
    let mut done = 0;
    for giant in GIANTS.iter().cycle() {
        if scene.is_over(done) {
            break;
        }
        let block = giant.filler.repeat((64 << 10) / giant.filler.len());
        pour(scene, giant.head, &block)?;
        done += 1;
    }
    Ok(done)
}

/// Pipelines of requests whose replies nobody reads.
pub(super) fn pipelines(scene: &Scene) -> Result<u64> {
    let block = asks_for_large(100).repeat(20);
    let mut done = 0;
    while !scene.is_over(done) {
        let mut stream = connect(scene.neighbour)?;
        let mut left = MOST_BYTES;
        // The server takes no more where nothing is read, and the call comes back without having
        // sent.
        while left > 0 && !scene.is_over(1) {
            match write(&mut stream, &block) {
                Moved::Bytes(bytes) => left = left.saturating_sub(bytes),
                Moved::Nothing | Moved::Ended => break,
            }
        }
        done += 1;
    }
    Ok(done)
}

fn pour(scene: &Scene, head: &[u8], block: &[u8]) -> Result<()> {
    let mut stream = connect(scene.neighbour)?;
    let mut buffer = vec![0; 64 << 10];
    let mut left = MOST_BYTES;
    if write(&mut stream, head) == Moved::Ended {
        return Ok(());
    }
    stream.set_nonblocking(true)?;
    let mut silent = 0;
    while left > 0 && silent < 200 && !scene.is_over(1) {
        let wrote = write(&mut stream, block);
        let heard = read(&mut stream, &mut buffer);
        if wrote == Moved::Ended || heard == Moved::Ended {
            break;
        }
        match wrote {
            Moved::Bytes(bytes) => {
                left = left.saturating_sub(bytes);
                silent = 0;
            }
            _ => {
                silent += 1;
                base::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
    Ok(())
}
