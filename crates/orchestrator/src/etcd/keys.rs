//! Keys and values in etcd (`docs/formats/control.md`).

use serde::{Deserialize, Serialize};

use super::messages::request_op::Request as Operation;
use super::messages::{
    DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RangeResponse, RequestOp, ResponseOp,
    TxnResponse, response_op,
};
use crate::exchange::{Key, Record};

/// Records that one request reads.
const PAGE: i64 = if cfg!(test) { 2 } else { 500 };

/// An orchestrator as its followers know it: the value of the leader's key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contender {
    /// Another number for each process.
    pub(crate) id: u64,
    /// The address at which agents register with it.
    pub(crate) address: String,
    /// The term in which it leads; 0 until it has begun one.
    #[serde(default)]
    pub(crate) term: u64,
}

/// The keys below a prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn below(prefix: &str) -> Self {
        let prefix = prefix.trim_end_matches('/');
        Self { prefix: format!("{prefix}/") }
    }

    /// The key that exists for as long as somebody leads.
    pub(crate) fn leader(&self) -> Vec<u8> {
        format!("{}leader", self.prefix).into_bytes()
    }

    /// The latest term.
    pub(crate) fn term(&self) -> Vec<u8> {
        format!("{}term", self.prefix).into_bytes()
    }

    /// The record of an instance. The name may have any character; the incarnation after the last
    /// slash has 16.
    pub(crate) fn instance(&self, key: &Key) -> Vec<u8> {
        format!("{}instances/{}/{:016x}", self.prefix, key.name, key.incarnation).into_bytes()
    }

    /// The first key that can be an instance's, and the first one after them.
    pub(crate) fn instances(&self) -> (Vec<u8>, Vec<u8>) {
        // `0` comes after `/`.
        (format!("{}instances/", self.prefix).into_bytes(), format!("{}instances0", self.prefix).into_bytes())
    }

    /// Reads a page of records from this key on.
    pub(crate) fn page(&self, from: Vec<u8>) -> RangeRequest {
        RangeRequest { key: from, range_end: self.instances().1, limit: PAGE }
    }
}

impl Contender {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Numbers and a string: that does not fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The leader that a key's value names. One that cannot be read leads all the same.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }
}

/// The term in a value; 0 if it has none.
pub(crate) fn term(value: &[u8]) -> u64 {
    std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// The records of a page.
///
/// # Errors
/// In words, if a value is something else.
pub(crate) fn records(page: &RangeResponse) -> Result<Vec<Record>, String> {
    let read = |pair: &KeyValue| {
        let name = || String::from_utf8_lossy(&pair.key).into_owned();
        Record::from_bytes(&pair.value).map_err(|error| format!("{}: {error}", name()))
    };
    page.kvs.iter().map(read).collect()
}

pub(crate) fn put(key: Vec<u8>, value: Vec<u8>, lease: i64) -> RequestOp {
    RequestOp { request: Some(Operation::RequestPut(PutRequest { key, value, lease })) }
}

pub(crate) fn delete(key: Vec<u8>) -> RequestOp {
    RequestOp { request: Some(Operation::RequestDeleteRange(DeleteRangeRequest { key })) }
}

pub(crate) fn get(key: Vec<u8>) -> RequestOp {
    RequestOp { request: Some(Operation::RequestRange(RangeRequest { key, ..RangeRequest::default() })) }
}

/// The pair that the `index`-th operation of a transaction read.
pub(crate) fn read_by(response: &TxnResponse, index: usize) -> Option<&KeyValue> {
    match response.responses.get(index) {
        Some(ResponseOp { response: Some(response_op::Response::ResponseRange(range)) }) => range.kvs.first(),
        _ => None,
    }
}

/// The revision at which a transaction was carried out.
pub(crate) fn revision(response: &TxnResponse) -> i64 {
    response.header.map_or(0, |header| header.revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_below_the_prefix_and_apart() {
        for prefix in ["/millpond", "/millpond/"] {
            let keys = Keys::below(prefix);
            assert_eq!(keys.leader(), b"/millpond/leader");
            let key = |name: &str| Key { name: name.into(), incarnation: 0xab };
            assert_eq!(keys.instance(&key("a/b:1")), b"/millpond/instances/a/b:1/00000000000000ab");
            let (from, to) = keys.instances();
            for name in ["", "\0", "\u{10ffff}", "~/../x"] {
                assert!(from <= keys.instance(&key(name)) && keys.instance(&key(name)) < to, "{name:?}");
            }
        }
    }

    #[test]
    fn values_of_others_are_read_as_far_as_they_can_be() {
        let leader = Contender { id: u64::MAX, address: "a:1".to_owned(), term: 7 };
        let text = String::from_utf8(leader.to_bytes()).expect("text");
        assert_eq!(text, r#"{"id":18446744073709551615,"address":"a:1","term":7}"#);
        assert_eq!(Contender::from_bytes(text.as_bytes()), leader);
        let later = r#"{"id":1,"address":"b:2","term":3,"more":[]}"#;
        assert_eq!(Contender::from_bytes(later.as_bytes()).address, "b:2");
        assert_eq!(Contender::from_bytes(b"\xff"), Contender::default());
        assert_eq!((term(b"12\n"), term(b"x"), term(b"")), (12, 0, 0));
        let pair = KeyValue { key: b"k".to_vec(), value: vec![0xff], ..KeyValue::default() };
        let page = RangeResponse { kvs: vec![pair], ..RangeResponse::default() };
        assert!(records(&page).unwrap_err().starts_with("k: a record"));
    }
}
