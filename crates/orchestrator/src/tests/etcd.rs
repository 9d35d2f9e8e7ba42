//! etcd of the simulation: one register of keys with revisions, transactions and leases, as the
//! cluster is while a majority of its members can speak to one another.

use std::collections::BTreeMap;

use crate::Nanos;
use crate::etcd::messages::compare::{CompareTarget, TargetUnion};
use crate::etcd::messages::request_op::Request as Operation;
use crate::etcd::messages::{
    Compare, KeyValue, LeaseGrantResponse, LeaseKeepAliveResponse, RangeRequest, RangeResponse,
    ResponseHeader, ResponseOp, TxnRequest, TxnResponse, response_op,
};
use crate::etcd::{Ask, AskError, Reply};

const SECOND: f64 = 1e9;

/// The store of the cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Etcd {
    pairs: BTreeMap<Vec<u8>, KeyValue>,
    /// The seconds and the end of each lease, by the cluster's clock.
    leases: BTreeMap<i64, (i64, f64)>,
    revision: i64,
    last_lease: i64,
    /// The rate of the cluster's clock.
    clock_rate: f64,
}

impl Etcd {
    pub(super) fn new(clock_rate: f64) -> Self {
        Self { clock_rate, ..Self::default() }
    }

    fn clock(&self, now: Nanos) -> f64 {
        now as f64 * self.clock_rate
    }

    /// Deletes the keys of leases that are over.
    fn expire(&mut self, now: Nanos) {
        let clock = self.clock(now);
        self.leases.retain(|_, (_, until)| *until > clock);
        let leases = &self.leases;
        let before = self.pairs.len();
        self.pairs.retain(|_, pair| pair.lease == 0 || leases.contains_key(&pair.lease));
        self.revision += i64::from(self.pairs.len() < before);
    }

    /// The value of a key.
    pub(super) fn value(&self, key: &[u8]) -> Option<&[u8]> {
        self.pairs.get(key).map(|pair| pair.value.as_slice())
    }

    /// The pairs of a range.
    pub(super) fn range(&self, from: &[u8], to: &[u8]) -> impl Iterator<Item = &KeyValue> {
        self.pairs.range(from.to_vec()..to.to_vec()).map(|(_, pair)| pair)
    }

    /// After another member has become etcd's leader, each lease runs anew.
    pub(super) fn change_leader(&mut self, now: Nanos) {
        let clock = self.clock(now);
        self.leases.values_mut().for_each(|(secs, until)| *until = clock + *secs as f64 * SECOND);
    }

    /// Carries out a request.
    pub(super) fn answer(&mut self, ask: &Ask, now: Nanos) -> Result<Reply, AskError> {
        self.expire(now);
        let clock = self.clock(now);
        match ask {
            Ask::Grant(request) => {
                self.last_lease += 1;
                self.leases.insert(self.last_lease, (request.ttl, clock + request.ttl as f64 * SECOND));
                let granted =
                    LeaseGrantResponse { header: self.header(), id: self.last_lease, ttl: request.ttl };
                Ok(Reply::Granted(granted))
            }
            Ask::KeepAlive(request) => {
                let ttl = self.leases.get_mut(&request.id).map_or(0, |(secs, until)| {
                    *until = clock + *secs as f64 * SECOND;
                    *secs
                });
                Ok(Reply::KeptAlive(LeaseKeepAliveResponse { header: self.header(), id: request.id, ttl }))
            }
            Ask::Revoke(request) => {
                self.leases.remove(&request.id);
                self.expire(now);
                Ok(Reply::Revoked)
            }
            Ask::Range(request) => Ok(Reply::Range(self.read(request))),
            Ask::Txn(request) => self.transact(request),
        }
    }

    fn header(&self) -> Option<ResponseHeader> {
        Some(ResponseHeader { revision: self.revision })
    }

    fn read(&self, request: &RangeRequest) -> RangeResponse {
        let mut kvs: Vec<KeyValue> = if request.range_end.is_empty() {
            self.pairs.get(&request.key).cloned().into_iter().collect()
        } else {
            self.range(&request.key, &request.range_end).cloned().collect()
        };
        let most = if request.limit > 0 { request.limit as usize } else { usize::MAX };
        let more = kvs.len() > most;
        kvs.truncate(most);
        RangeResponse { header: self.header(), kvs, more }
    }

    fn holds(&self, compare: &Compare) -> bool {
        let pair = self.pairs.get(&compare.key);
        match (compare.target(), &compare.target_union) {
            (CompareTarget::Create, Some(TargetUnion::CreateRevision(revision))) => {
                pair.map_or(0, |pair| pair.create_revision) == *revision
            }
            (CompareTarget::Mod, Some(TargetUnion::ModRevision(revision))) => {
                pair.map_or(0, |pair| pair.mod_revision) == *revision
            }
            other => panic!("the simulation does not compare {other:?}"),
        }
    }

    fn transact(&mut self, request: &TxnRequest) -> Result<Reply, AskError> {
        assert!(request.success.len() <= 128, "etcd carries out 128 operations in one transaction");
        let succeeded = request.compare.iter().all(|compare| self.holds(compare));
        let operations = if succeeded { &request.success } else { &request.failure };
        let writes = operations.iter().any(|operation| {
            matches!(operation.request, Some(Operation::RequestPut(_) | Operation::RequestDeleteRange(_)))
        });
        for operation in operations {
            if let Some(Operation::RequestPut(put)) = &operation.request
                && put.lease != 0
                && !self.leases.contains_key(&put.lease)
            {
                return Err(AskError::NoLease);
            }
        }
        self.revision += i64::from(writes);
        let mut responses = Vec::new();
        for operation in operations {
            let response = match &operation.request {
                Some(Operation::RequestPut(put)) => {
                    let revision = self.revision;
                    let pair = self.pairs.entry(put.key.clone()).or_insert_with(|| KeyValue {
                        key: put.key.clone(),
                        create_revision: revision,
                        ..KeyValue::default()
                    });
                    (pair.mod_revision, pair.lease) = (revision, put.lease);
                    pair.value.clone_from(&put.value);
                    None
                }
                Some(Operation::RequestDeleteRange(delete)) => {
                    self.pairs.remove(&delete.key);
                    None
                }
                Some(Operation::RequestRange(range)) => {
                    Some(response_op::Response::ResponseRange(self.read(range)))
                }
                None => None,
            };
            responses.push(ResponseOp { response });
        }
        Ok(Reply::Txn(TxnResponse { header: self.header(), succeeded, responses }))
    }
}
