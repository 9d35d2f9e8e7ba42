#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may panic")]

use std::collections::HashSet;
use std::io::{Cursor, Write};
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::reference::key_id;
use crate::testing::{trace_file, traces};

fn reader(bytes: impl Into<Vec<u8>>) -> Result<TraceReader, TraceError> {
    TraceReader::from_source("t.csv", Box::new(Cursor::new(bytes.into())), &TraceOptions::default())
}

/// A request that owns its key, as text.
#[derive(Debug, PartialEq, Eq)]
struct Owned(String, Option<u64>, Op, Option<u64>, Option<u32>);

fn read_all(reader: &mut TraceReader) -> Result<Vec<Owned>, TraceError> {
    let mut all = Vec::new();
    while let Some(request) = reader.next_request()? {
        let key = match request.key {
            TraceKey::Number(number) => number.to_string(),
            TraceKey::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
            TraceKey::Piece(object, piece) => format!("'{}'#{piece}", String::from_utf8_lossy(object)),
        };
        all.push(Owned(key, request.size, request.op, request.ts, request.ttl_secs));
    }
    Ok(all)
}

fn read_text(text: &str) -> Vec<Owned> {
    read_all(&mut reader(text).expect(text)).expect(text)
}

fn problem(text: &str) -> String {
    match reader(text) {
        Err(error) => error.to_string(),
        Ok(mut reader) => read_all(&mut reader).expect_err(text).to_string(),
    }
}

fn get(key: &str) -> Owned {
    Owned(key.into(), None, Op::Get, None, None)
}

#[test]
fn columns_may_stand_in_any_order_and_any_subset() {
    assert_eq!(read_text("key\n1\n\n2\r\n3"), [get("1"), get("2"), get("3")]);
    assert_eq!(
        read_text("ts,key,size,op\n5,17,100,r\n6,x y,,w\n"),
        [
            Owned("17".into(), Some(100), Op::Get, Some(5), None),
            Owned("'x y'".into(), None, Op::Set, Some(6), None)
        ]
    );
    assert_eq!(
        read_text("op,colour,key,ttl\ndelete,red,1,60\ntouch,blue,1,0\n"),
        [
            Owned("1".into(), None, Op::Delete, None, Some(60)),
            Owned("1".into(), None, Op::Touch, None, Some(0))
        ]
    );
}

#[test]
fn a_number_is_a_number_only_in_its_one_spelling() {
    assert_eq!(
        read_text("key\n7\n007\n0\n18446744073709551615\n18446744073709551616\n-7\n"),
        ["7", "'007'", "0", "18446744073709551615", "'18446744073709551616'", "'-7'"].map(get)
    );
}

#[test]
fn files_without_a_header_are_read() {
    assert_eq!(read_text("12\n13\n"), [get("12"), get("13")]);
    let options = TraceOptions {
        columns: Some(vec![Column::Ts, Column::Key, Column::Ignored, Column::Size]),
        ..TraceOptions::default()
    };
    let source = Cursor::new(b"9,a,zz,3\n".to_vec());
    let mut reader = TraceReader::from_source("t", Box::new(source), &options).unwrap();
    assert_eq!(read_all(&mut reader).unwrap(), [Owned("'a'".into(), Some(3), Op::Get, Some(9), None)]);
}

#[test]
fn arc_ranges_are_expanded_to_sectors() {
    let sector = |key: &str, ts| Owned(key.into(), Some(512), Op::Get, ts, None);
    assert_eq!(
        read_text("10 2 0 0\n7 0 0 1\n3 1 0 2\n"),
        [sector("10", Some(0)), sector("11", Some(0)), sector("3", Some(2))]
    );
    assert!(problem("18446744073709551615 1 0 0\n").contains("2^64"));
    assert!(problem("1 2 0 0\n1 x 0 0\n").contains("line 2, column `count`"));
}

#[test]
fn prompt_blocks_are_asked_for_in_order() {
    let text =
        "{\"timestamp\": 3.9, \"hash_ids\": [4, 2], \"x\": {}}\n{\"hash_ids\": []}\n{\"hash_ids\": [1]}\n";
    assert_eq!(
        read_text(text),
        [
            Owned("4".into(), None, Op::Get, Some(3), None),
            Owned("2".into(), None, Op::Get, Some(3), None),
            get("1")
        ]
    );
    assert!(problem("{\"hash_ids\": [1]}\n{\"hash_ids\": [-1]}\n").contains("t.csv, line 2"));
}

#[test]
fn cachelib_lines_stand_for_as_many_requests_as_they_count() {
    let text = "op_time,key,key_size,op,op_count,size,cache_hits,ttl\n\
                5,ab,4,GET_LEASE,2,0,0,0\n6,ab,4,SET_LEASE,1,9,0,7200\n7,ab,4,GET,0,9,0,0\n";
    let read = Owned("'ab'".into(), None, Op::Get, Some(5), Some(0));
    let again = Owned("'ab'".into(), None, Op::Get, Some(5), Some(0));
    assert_eq!(read_text(text), [read, again, Owned("'ab'".into(), Some(9), Op::Set, Some(6), Some(7200))]);
}

#[test]
fn cachelib_blocks_are_cut_into_pieces() {
    let text = "op_time,block_id,block_id_size,io_size,io_offset,user_name,op_name,op_count,rs_shard_id\n\
                1,ff-e,40,131073,131071,9,getChunkData.Permanent,1,4\n2,ff-e,40,0,5,9,putChunk.NotInitialized,1,4\n";
    let piece =
        |i: u32| Owned(format!("'ff-e_004'#{i}"), Some(u64::from(csv::PIECE_BYTES)), Op::Get, Some(1), None);
    assert_eq!(read_text(text), [piece(0), piece(1)]);
    let past = "block_id,io_size,io_offset,op_name\na,2,18446744073709551615,getChunkData.Permanent\n";
    assert!(problem(past).contains("go past 2^64"));
}

#[test]
fn errors_name_the_file_the_line_the_column_and_what_to_do() {
    let cases = [
        ("colour,size\n", "t.csv, line 1: the first line `colour,size` names no column `key`"),
        ("block_id,op_name\n", "names no column `io_offset`"),
        ("key,size\n1,2\n3,x\n", "t.csv, line 3, column `size`: `x` is not a whole number"),
        ("key,ttl\n1,4294967296\n", "line 2, column `ttl`: `4294967296` is not a whole number below 2^32"),
        ("key,op\n1,fly\n", "`fly` is not an operation"),
        ("key,ts\n1,-4\n", "`-4` is not a time"),
        ("key,ts\n1,4.x\n", "`4.x` is not a time"),
        ("key,op_count\n1,4294967297\n", "line 2: the line stands for 4294967297 requests"),
        ("1 4294967297 0 0\n", "line 1: the line stands for 4294967297 requests"),
        ("block_id,io_size,io_offset\n1,1844674407370955161,0\n", "line 2: the line stands for"),
        ("ts,key\n1\n", "line 2: the line ends before column `key`"),
    ];
    for (text, wanted) in cases {
        let message = problem(text);
        assert!(message.contains(wanted), "{message}");
        assert!(message.contains("; "), "no advice in: {message}");
    }
    let missing = TraceReader::open(Path::new("/no/such/trace")).err().unwrap().to_string();
    assert!(missing.contains("/no/such/trace") && missing.contains("check the path"), "{missing}");
}

#[test]
fn a_bad_line_does_not_stop_the_reader_for_good() {
    let mut reader = reader("key,size\n1,x\n2,2\n").unwrap();
    assert!(reader.next_request().is_err());
    assert_eq!(read_all(&mut reader).unwrap(), [Owned("2".into(), Some(2), Op::Get, None, None)]);
}

#[test]
fn compression_is_known_by_its_first_bytes() {
    let plain: Vec<u8> =
        "key\n".bytes().chain((0..5_000).flat_map(|i| format!("{i}\n").into_bytes())).collect();
    let zstd = zstd::encode_all(&plain[..], 3).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let gzip = gzip.finish().unwrap();
    for bytes in [plain, zstd.clone(), gzip.clone()] {
        assert_eq!(read_all(&mut reader(bytes).unwrap()).unwrap().len(), 5_000);
    }
    // Two members, one after the other, are one trace.
    let twice = [gzip.clone(), gzip.clone()].concat();
    let all = read_all(&mut reader(twice).unwrap()).unwrap();
    assert_eq!((all.len(), &all[5_000]), (10_001, &get("'key'")));
    for whole in [zstd, gzip] {
        let cut = whole[..whole.len() / 2].to_vec();
        let error = reader(cut).and_then(|mut reader| read_all(&mut reader)).unwrap_err().to_string();
        assert!(error.contains("damaged or cut off"), "{error}");
    }
    let xz = reader(b"\xfd7zXZ\0rest".to_vec()).err().unwrap().to_string();
    assert!(xz.contains("packed by xz"), "{xz}");
}

#[test]
fn lines_longer_than_a_buffer_are_read_and_endless_ones_refused() {
    let long = "9".repeat(600 << 10);
    assert_eq!(read_text(&format!("key\n{long}\n1\n")), [get(&format!("'{long}'")), get("1")]);
    let endless = "9".repeat(MAX_LINE_BYTES + 1);
    assert!(problem(&format!("key\n1\n{endless}\n")).contains("line 3: the line is longer than 16 MiB"));
}

#[test]
fn empty_files_are_empty_traces() {
    for text in ["", "\n\n", "key\n", "key,size"] {
        assert_eq!(read_text(text), []);
    }
}

#[test]
fn keys_fit_a_cache_and_stay_apart() {
    let long_a = vec![b'a'; 400];
    let long_b = [vec![b'a'; 399], vec![b'b']].concat();
    let keys = [
        TraceKey::Number(0),
        TraceKey::Number(1),
        TraceKey::Text(b"1"),
        TraceKey::Text(b""),
        TraceKey::Text(&long_a),
        TraceKey::Text(&long_b),
        TraceKey::Piece(b"x", 1),
        TraceKey::Piece(b"x", 11),
    ];
    for key_size in [None, Some(40), Some(10_000)] {
        let mut seen = HashSet::new();
        for key in keys {
            let mut out = vec![9; 9];
            Request { key, key_size, size: None, op: Op::Get, ts: None, ttl_secs: None }.write_key(&mut out);
            assert!((1..=MAX_KEY_BYTES).contains(&out.len()));
            assert!(key_size.is_none_or(|size| out.len() >= 40.min(size as usize)));
            assert!(seen.insert(out), "{key:?}");
        }
    }
}

proptest! {
    /// Nothing that a file may hold makes the reader panic or spin.
    #[test]
    fn no_bytes_make_the_reader_panic(
        header in prop::sample::select(vec![
            "", "key\n", "ts,key,size,op\n", "1 2 3 4\n", "{\"hash_ids\":[1]}\n", "\u{1f}\u{8b}",
            "op_time,key,key_size,op,op_count,size,cache_hits,ttl\n",
            "block_id,io_size,io_offset,op_name,rs_shard_id\n",
        ]),
        body in prop::collection::vec(
            prop_oneof![
                prop::sample::select(b"0123456789,,,\n\n\r.- rwxGET{}[]\":".to_vec()),
                any::<u8>(),
            ],
            0..400,
        ),
    ) {
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend(body);
        if let Ok(mut reader) = reader(bytes) {
            let mut key = Vec::new();
            for _ in 0..10_000 {
                match reader.next_request() {
                    Ok(None) => break,
                    Ok(Some(request)) => request.write_key(&mut key),
                    Err(error) => prop_assert!(error.to_string().starts_with("t.csv")),
                }
            }
        }
    }
}

/// Every published trace has as many requests and keys as its statistics say.
#[test]
fn published_traces_are_read_to_the_last_request() {
    let Some(folder) = traces() else { return };
    let stats = std::fs::read_to_string(folder.join("STATS.csv")).unwrap();
    let mut checked = 0;
    for line in stats.lines().skip(1) {
        let name = line.split(',').next().unwrap();
        // A kind may hold commas between quotes; the numbers follow it.
        let rest = match line.strip_prefix(name).unwrap().strip_prefix(",\"") {
            Some(quoted) => quoted.split_once("\",").unwrap().1,
            None => line.splitn(3, ',').nth(2).unwrap(),
        };
        let mut numbers = rest.split(',').map(|number| number.parse::<f64>().unwrap_or(0.0) as usize);
        let (requests, unique) = (numbers.next().unwrap(), numbers.next().unwrap());
        let path = trace_file(&folder, name);
        if !path.is_file() {
            println!("{name}: not here");
            continue;
        }
        let mut reader = TraceReader::open(&path).expect(name);
        let (mut count, mut keys) = (0, HashSet::new());
        while let Some(request) = reader.next_request().expect(name) {
            count += 1;
            if requests <= 3_000_000 {
                keys.insert(key_id(request.key));
            }
        }
        assert_eq!(count, requests, "{name}");
        if requests <= 3_000_000 {
            assert_eq!(keys.len(), unique, "{name}");
        }
        println!("{name}: {requests} requests, {}", reader.format());
        checked += 1;
    }
    assert!(checked > 40, "only {checked} traces were here");
}

/// The two CacheLib samples and the prompts: every line is understood, and the totals are those of
/// the files.
#[test]
fn published_samples_of_other_formats_are_read() {
    let Some(folder) = traces() else { return };
    let sample = folder.join("cachelib-distributions/trace_replay");
    for (file, format) in [
        ("kvcache/kv_traces_1.csv", "CacheLib kvcache CSV"),
        ("kvcache/kv_traces_2.csv", "CacheLib kvcache CSV"),
        ("block_chunk/block_traces_1.csv", "CacheLib block CSV"),
        ("block_chunk/block_traces_2.csv", "CacheLib block CSV"),
    ] {
        let mut reader = TraceReader::open(&sample.join(file)).unwrap();
        assert_eq!(reader.format(), format);
        let all = read_all(&mut reader).expect(file);
        assert!(all.len() >= 99, "{file} has {} requests", all.len());
        println!("{file}: {} requests", all.len());
    }
    for name in ["mooncake_conversation/conversation_trace", "agent_miniswe/agent_miniswe"] {
        let trace = name.split('/').next().unwrap();
        let mut blocks = TraceReader::open(&folder.join(format!("{name}.jsonl.zst"))).unwrap();
        let mut flat = TraceReader::open(&trace_file(&folder, trace)).unwrap();
        let mut requests = 0;
        while let Some(flat) = flat.next_request().unwrap() {
            let block = blocks.next_request().unwrap().expect("as many blocks as flat requests");
            assert_eq!(block.ts, flat.ts);
            requests += 1;
        }
        assert!(blocks.next_request().unwrap().is_none());
        println!("{trace}: {requests} blocks in both forms");
    }
}

fn reader_of(log: &str, tenant: Option<&str>) -> TraceReader {
    let options = TraceOptions { tenant: tenant.map(str::to_owned), ..TraceOptions::default() };
    TraceReader::from_source("log", Box::new(std::io::Cursor::new(log.to_owned())), &options).unwrap()
}

/// Keys are the same number, or text, for every tenant: `curve` and `bench replay` took them for
/// one key.
#[test]
fn the_same_key_of_two_tenants_is_two_keys_of_its_length() {
    let log = "tenant,key,key_size\nshop,7,9\nblog,7,9\nshop,7,9\nshop,user:1,\nblog,user:1,\nblog,long key of a blog,\n";
    let mut reader = reader_of(log, None);
    let (mut ids, mut lengths, mut key) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(request) = reader.next_request().unwrap() {
        request.write_key(&mut key);
        assert_eq!(key.len(), request.key_len());
        ids.push((key_id(request.key), key.clone()));
        lengths.push(key.len());
    }
    assert_eq!(lengths, [9, 9, 9, 8, 8, 18]);
    assert_eq!(ids[0], ids[2]);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5);
}

/// The server's own request log, of several tenants, was read as one stream.
#[test]
fn one_tenants_requests_of_a_servers_log_are_read_alone() {
    let log = "ts,tenant,protocol,command,op,key,key_size,size,ttl,outcome,latency_us\n\
               1,shop,memcached,get,get,7,7,100,,hit,12\n2,blog,redis,SET,set,7,9,50,60,stored,9\n3,shop,memcached,get,get,8,7,,,miss,8\n";
    let read = |tenant: Option<&str>| read_all(&mut reader_of(log, tenant)).unwrap();
    assert_eq!(read(None).len(), 3);
    let unknown = read_all(&mut reader_of(log, Some("nobody"))).unwrap_err().to_string();
    assert!(unknown.contains("`nobody`") && unknown.contains("blog, shop"), "{unknown}");
    let keys: Vec<String> = read(Some("shop")).into_iter().map(|request| request.0).collect();
    assert_eq!(keys, ["7", "8"]);
    assert_eq!(read(Some("blog")), [Owned("7".into(), Some(50), Op::Set, Some(2), Some(60))]);
    let options = TraceOptions { tenant: Some("shop".into()), ..TraceOptions::default() };
    let error =
        TraceReader::from_source("t", Box::new(&b"key\n1\n"[..]), &options).err().unwrap().to_string();
    assert!(error.contains("no column names tenants"), "{error}");
}

#[test]
fn the_length_of_a_key_is_that_of_what_is_written() {
    let text = "key,key_size\n17,\n17,20\nabc,\nabc,2\n,\n5,255\n";
    let mut reader = reader(text).unwrap();
    let mut key = Vec::new();
    while let Some(request) = reader.next_request().unwrap() {
        request.write_key(&mut key);
        assert_eq!(request.key_len(), key.len(), "{request:?}");
    }
    for piece in [0, 9, 10, 12_345] {
        let key_of = TraceKey::Piece(b"block", piece);
        let request =
            Request { key: key_of, key_size: None, size: None, op: Op::Get, ts: None, ttl_secs: None };
        request.write_key(&mut key);
        assert_eq!(request.key_len(), key.len(), "{piece}");
    }
}

#[test]
fn files_that_were_joined_may_each_have_the_header_line() {
    let one = "ts,key,op\n1,7,get\n";
    assert_eq!(read_text(&[one, one].concat()).len(), 2);
    assert_eq!(read_text(&[one, &one.replace('\n', "\r\n"), one].concat()).len(), 3);
    assert!(problem(&[one, "key,ts,op\n"].concat()).contains("line 3, column `ts`"));
    // Without a header line there is none to come again.
    assert!(problem("1,2\n").contains("names no column `key`"));
    assert_eq!(read_text("7\n8\n7\n").len(), 3);
    // In a list of keys that word may be one.
    assert_eq!(read_text("key\n7\nkey\n").len(), 2);
}
