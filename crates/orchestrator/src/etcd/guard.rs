//! The transactions by which a leader saves records.
//!
//! A transaction may be carried out although its answer is lost, and also long after the leader has
//! given up on it. Each compares the revision of the leader's key with the one that the leader saw
//! last, and writes that key: so one of a former leader fails, and so does one that a later
//! transaction of the same leader has overtaken.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::Ask;
use super::keys::{Contender, Keys, delete, get, put, read_by, revision};
use super::messages::compare::{CompareTarget, TargetUnion};
use super::messages::{Compare, RequestOp, TxnRequest, TxnResponse};
use crate::exchange::{Key, Record};
#[cfg(test)]
use crate::fleet::Planted;

/// Records of one transaction: etcd carries out at most 128 operations in one.
pub(crate) const MOST_RECORDS: usize = if cfg!(test) { 2 } else { 100 };

/// The present leadership, as etcd knows it.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    keys: Keys,
    own: Contender,
    lease: i64,
    /// Of the last change of the leader's key, as far as it is known here.
    revision: i64,
    /// The same, for the one who looks at the key.
    known: Arc<AtomicI64>,
    #[cfg(test)]
    pub(crate) planted: Planted,
    #[cfg(test)]
    created: i64,
}

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saved {
    Done,
    /// Nothing was saved by it: an earlier one, which was not answered, has come before. It can be
    /// tried again.
    Overtaken,
    /// Nothing was saved by it, and what this leader has saved since some time is not there any
    /// more: etcd was restored. All is to be saved again.
    Restored,
    /// Another orchestrator leads, or nobody.
    Lost,
}

impl Guard {
    pub(crate) fn new(keys: Keys, own: Contender, lease: i64, revision: i64) -> Self {
        Self {
            keys,
            own,
            lease,
            revision,
            known: Arc::new(AtomicI64::new(revision)),
            #[cfg(test)]
            planted: Planted::None,
            #[cfg(test)]
            created: revision,
        }
    }

    /// The revision of the last change of the leader's key, as far as it is known, from now on.
    /// Whoever reads the key after that finds no earlier one, unless etcd was restored.
    pub(crate) fn known(&self) -> Arc<AtomicI64> {
        Arc::clone(&self.known)
    }

    /// The transaction that carries out `operations` if this is the leader still.
    fn transaction(&self, mut operations: Vec<RequestOp>) -> TxnRequest {
        let leader = self.keys.leader();
        operations.push(put(leader.clone(), self.own.to_bytes(), self.lease));
        let compare = Compare {
            target: CompareTarget::Mod.into(),
            key: leader.clone(),
            target_union: Some(TargetUnion::ModRevision(self.revision)),
            ..Compare::default()
        };
        TxnRequest { compare: vec![compare], success: operations, failure: vec![get(leader)] }
    }

    /// Saves a term, in which this orchestrator leads from then on.
    pub(crate) fn begin(&mut self, term: u64) -> Ask {
        self.own.term = term;
        Ask::Txn(self.transaction(vec![put(self.keys.term(), term.to_string().into_bytes(), 0)]))
    }

    /// Saves records, or deletes them: at most [`MOST_RECORDS`], and one of each key.
    pub(crate) fn save(&self, records: &[(Key, Option<Record>)]) -> Ask {
        // With the term: in an etcd that was restored it may be an earlier one.
        let term = put(self.keys.term(), self.own.term.to_string().into_bytes(), 0);
        let operations = records.iter().map(|(key, record)| {
            let key = self.keys.instance(key);
            match record {
                Some(record) => put(key, record.to_bytes(), 0),
                None => delete(key),
            }
        });
        let transaction = self.transaction(operations.chain([term]).collect());
        #[cfg(test)]
        let transaction = self.plant(transaction);
        Ask::Txn(transaction)
    }

    #[cfg(test)]
    fn plant(&self, mut transaction: TxnRequest) -> TxnRequest {
        match self.planted {
            Planted::SaveUnguarded => {
                transaction.compare.clear();
                transaction.success.pop();
            }
            Planted::SaveUnordered => {
                transaction.compare[0].target = CompareTarget::Create.into();
                transaction.compare[0].target_union = Some(TargetUnion::CreateRevision(self.created));
            }
            _ => {}
        }
        transaction
    }

    /// Takes the answer to a transaction.
    pub(crate) fn note(&mut self, response: &TxnResponse) -> Saved {
        if response.succeeded {
            self.revision = revision(response);
            self.known.store(self.revision, Ordering::Relaxed);
            return Saved::Done;
        }
        match read_by(response, 0).filter(|pair| pair.lease == self.lease) {
            Some(pair) => {
                let known = std::mem::replace(&mut self.revision, pair.mod_revision);
                self.known.store(pair.mod_revision, Ordering::Relaxed);
                if pair.mod_revision < known { Saved::Restored } else { Saved::Overtaken }
            }
            None => Saved::Lost,
        }
    }

    #[cfg(test)]
    pub(crate) fn note_created(&mut self, created: i64) {
        self.created = created;
    }
}
