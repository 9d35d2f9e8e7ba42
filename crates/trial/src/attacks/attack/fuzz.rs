//! Requests that are almost right: valid ones, cut, changed and put together by chance. The seed
//! decides all of it.

use std::net::SocketAddr;

use anyhow::Result;
use base::rng::{Rng, SeededRng};

use super::Scene;
use super::peer::{Moved, connect_nonblocking, read, reset, write};

const TEXT: &[&[u8]] = &[
    b"get a\r\n",
    b"gets a b c\r\n",
    b"gat 10 a\r\n",
    b"set a 1 0 5\r\nhello\r\n",
    b"set a 0 60 0 noreply\r\n\r\n",
    b"add b 0 0 3\r\nabc\r\n",
    b"append a 0 0 2\r\nxy\r\n",
    b"cas a 0 0 1 17\r\nz\r\n",
    b"incr n 18446744073709551615\r\n",
    b"decr n 1\r\n",
    b"touch a 30\r\n",
    b"delete a\r\n",
    b"stats items\r\n",
    b"stats sizes\r\n",
    b"verbosity 1\r\n",
    b"version\r\n",
    b"flush_all -1\r\n",
    b"lru_crawler metadump all\r\n",
    b"mg a v t f s c k O123 q\r\n",
    b"ms a 5 T60 F1 c I\r\nhello\r\n",
    b"ms YQ== 2 b MA\r\nhi\r\n",
    b"md a q x C5\r\n",
    b"ma n N0 J10 D3 MI t v\r\n",
    b"me a\r\n",
    b"mn\r\n",
];

const BINARY: &[&[u8]] = &[
    b"\x80\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\0\0\0\0\0\0\0\0\0\0\0\0a",
    b"\x80\x01\x00\x01\x08\x00\x00\x00\x00\x00\x00\x0e\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0ahello",
    b"\x80\x05\x00\x01\x14\x00\x00\x00\x00\x00\x00\x15\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0n",
    b"\x80\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\x80\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\x80\x08\x00\x00\x04\x00\x00\x00\x00\x00\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\x80\x1d\x00\x01\x04\x00\x00\x00\x00\x00\x00\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0aa",
];

const RESP: &[&[u8]] = &[
    b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nhello\r\n",
    b"*5\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n$2\r\nPX\r\n$5\r\n10000\r\n",
    b"*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n$1\r\nv\r\n",
    b"*4\r\n$5\r\nRPUSH\r\n$1\r\nl\r\n$1\r\n1\r\n$1\r\n2\r\n",
    b"*4\r\n$6\r\nLRANGE\r\n$1\r\nl\r\n$1\r\n0\r\n$2\r\n-1\r\n",
    b"*6\r\n$4\r\nZADD\r\n$1\r\nz\r\n$3\r\n1.5\r\n$1\r\na\r\n$4\r\n-inf\r\n$1\r\nb\r\n",
    b"*4\r\n$6\r\nSETBIT\r\n$1\r\nb\r\n$6\r\n100000\r\n$1\r\n1\r\n",
    b"*6\r\n$8\r\nBITFIELD\r\n$1\r\nb\r\n$6\r\nINCRBY\r\n$2\r\nu8\r\n$2\r\n#1\r\n$1\r\n9\r\n",
    b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n",
    b"*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n*1\r\n$4\r\nEXEC\r\n",
    b"*4\r\n$4\r\nSCAN\r\n$1\r\n0\r\n$5\r\nMATCH\r\n$6\r\n[a-z]*\r\n",
    b"*3\r\n$6\r\nCLIENT\r\n$8\r\nTRACKING\r\n$2\r\nON\r\n",
    b"*3\r\n$6\r\nOBJECT\r\n$8\r\nENCODING\r\n$1\r\na\r\n",
    b"*2\r\n$4\r\nINFO\r\n$3\r\nall\r\n",
    b"*3\r\n$11\r\nSINTERSTORE\r\n$1\r\ns\r\n$1\r\nt\r\n",
];

const HANDSHAKES: &[&[u8]] = &[
    b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x00\x00\x04\x13\x01\xc0\x2b\x01\x00",
    b"\x16\x03\x01\xff\xff",
    b"\x15\x03\x03\x00\x02\x02\x28",
    b"\x17\x03\x03\x40\x00",
    b"get a\r\n",
];

const PAGES: &[&[u8]] = &[
    b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /stats.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"GET /healthz HTTP/1.0\r\n\r\n",
    b"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999\r\n\r\n{",
    b"POST /nowhere HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
    b"GET /hotkeys.json?x=%00%ff HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n",
];

/// Connections at a time, and what each is sent before it is replaced.
const CONNECTIONS: usize = 16;
const REQUESTS: usize = 50;
/// The admin server serves 32; operators must have room beside this.
const PAGE_CONNECTIONS: usize = 8;

/// memcached's protocols and RESP, a protocol a connection.
pub(super) fn requests(scene: &Scene) -> Result<u64> {
    fuzz(scene, scene.neighbour, CONNECTIONS, &[TEXT, BINARY, RESP])
}

/// To the listener with TLS.
pub(super) fn handshakes(scene: &Scene) -> Result<u64> {
    fuzz(scene, scene.tls, CONNECTIONS, &[HANDSHAKES])
}

/// To the admin server.
pub(super) fn pages(scene: &Scene) -> Result<u64> {
    fuzz(scene, scene.admin, PAGE_CONNECTIONS, &[PAGES])
}

fn fuzz(scene: &Scene, address: SocketAddr, connections: usize, corpora: &[&[&[u8]]]) -> Result<u64> {
    let mut rng = base::rng::seeded(scene.seed);
    let mut buffer = vec![0; 64 << 10];
    let mut sent = 0;
    while !scene.is_over(sent) {
        let mut open = Vec::new();
        for i in 0..connections {
            open.push((connect_nonblocking(address)?, corpora[i % corpora.len()]));
        }
        for _ in 0..REQUESTS {
            open.retain_mut(|(stream, corpus)| {
                let wrote = write(stream, &mutated(corpus, &mut rng));
                sent += 1;
                wrote != Moved::Ended && read(stream, &mut buffer) != Moved::Ended
            });
            if scene.is_over(sent) {
                break;
            }
        }
        for (stream, _) in open {
            if rng.next_u64().is_multiple_of(2) { reset(stream) } else { drop(stream) }
        }
    }
    Ok(sent)
}

/// A request of the corpus with up to eight changes; one in four has none.
fn mutated(corpus: &[&[u8]], rng: &mut SeededRng) -> Vec<u8> {
    const NUMBERS: &[&[u8]] = &[
        b"0",
        b"-1",
        b"2147483647",
        b"4294967296",
        b"9223372036854775807",
        b"18446744073709551616",
        b"1e400",
        b"nan",
    ];
    let mut below = |most: usize| (rng.next_u64() % most.max(1) as u64) as usize;
    let mut request = corpus[below(corpus.len())].to_vec();
    if below(4) == 0 {
        return request;
    }
    for _ in 0..=below(8) {
        let at = below(request.len());
        match below(8) {
            0 => {
                if let Some(byte) = request.get_mut(at) {
                    *byte ^= 1 << below(8);
                }
            }
            1 => request.insert(at, below(256) as u8),
            2 => request.truncate(at),
            3 => {
                request.drain(at..(at + below(16)).min(request.len()));
            }
            4 => {
                let part = request[at..(at + below(32)).min(request.len())].to_vec();
                request.splice(at..at, part);
            }
            5 => {
                let other = corpus[below(corpus.len())];
                request.truncate(at);
                request.extend_from_slice(&other[below(other.len())..]);
            }
            6 => replace_number(&mut request, at, NUMBERS[below(NUMBERS.len())]),
            _ => {
                let run = vec![below(256) as u8; below(3_000)];
                request.splice(at..at, run);
            }
        }
    }
    request
}

/// Puts `number` in place of the first digits from `at` on.
fn replace_number(request: &mut Vec<u8>, at: usize, number: &[u8]) {
    let Some(begin) = request.iter().skip(at).position(u8::is_ascii_digit).map(|ahead| at + ahead) else {
        return;
    };
    let digits = request[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    request.splice(begin..begin + digits, number.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_what_is_sent() {
        let draw = |seed| {
            let mut rng = base::rng::seeded(seed);
            (0..2_000)
                .map(|i| mutated([TEXT, BINARY, RESP, HANDSHAKES, PAGES][i % 5], &mut rng))
                .collect::<Vec<_>>()
        };
        let (first, again, other) = (draw(1), draw(1), draw(2));
        assert_eq!(first, again);
        assert_ne!(first, other);
        let whole = first.iter().filter(|request| RESP.contains(&request.as_slice())).count();
        assert!(whole > 50, "some get past the parser: {whole}");
    }

    #[test]
    fn numbers_are_replaced_whole() {
        let mut request = b"set a 12 345\r\n".to_vec();
        replace_number(&mut request, 7, b"-1");
        assert_eq!(request, b"set a 1-1 345\r\n");
        replace_number(&mut request, 9, b"nan");
        assert_eq!(request, b"set a 1-1 nan\r\n");
        replace_number(&mut request, 10, b"7");
        assert_eq!(request, b"set a 1-1 nan\r\n");
    }
}
