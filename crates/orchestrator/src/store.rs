//! The state that outlasts a restart, in an embedded database (redb): the orchestrator's id and
//! term, the record of each instance, and the latest decisions.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::exchange::{Key, Record};
use crate::told::Told;

const FIGURES: TableDefinition<'_, &str, u64> = TableDefinition::new("figures");
const INSTANCES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("instances");
/// By number, as JSON.
const DECISIONS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("decisions");

/// The key of the memory of a node in [`FIGURES`], before the node's name.
const MEMORY_OF: &str = "memory/";

/// Decisions of one transaction, for which records wait: a megabyte or two at most.
const MOST_AT_ONCE: usize = 16;

/// The reason why state cannot be read or saved.
#[derive(Debug, thiserror::Error)]
#[error("the state in {}{}", path.display(), remedy(source))]
pub struct StoreError {
    path: PathBuf,
    #[source]
    source: Box<redb::Error>,
}

fn remedy(error: &redb::Error) -> &'static str {
    match error {
        redb::Error::DatabaseAlreadyOpen => {
            " (another orchestrator has it open: stop that one, or name another file in --state)"
        }
        redb::Error::Io(error) => match error.kind() {
            std::io::ErrorKind::NotFound => " (its folder must exist)",
            std::io::ErrorKind::PermissionDenied => " (the orchestrator's user must own it and its folder)",
            std::io::ErrorKind::InvalidData => {
                " (it is not the state of an orchestrator: name another file in --state, or move it away)"
            }
            std::io::ErrorKind::StorageFull => " (make room on its disk)",
            _ => "",
        },
        redb::Error::Corrupted(_) => {
            " (it is damaged: move it away; agents register again, as without state)"
        }
        _ => "",
    }
}

/// The state of an orchestrator.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    /// `None` after an error: redb wants the file to be opened anew.
    database: Mutex<Option<Database>>,
    #[cfg(test)]
    pub(crate) planted: Planted,
}

/// Faults of the disk that tests plant.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Planted {
    pub(crate) is_full: std::sync::atomic::AtomicBool,
    /// Held by a test: saving takes as long.
    pub(crate) hang: Mutex<()>,
}

#[cfg(test)]
impl Planted {
    fn save_memory(&self, path: &Path) -> Result<(), StoreError> {
        drop(self.hang.lock().unwrap_or_else(PoisonError::into_inner));
        if self.is_full.load(std::sync::atomic::Ordering::Relaxed) {
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(StoreError { path: path.to_owned(), source: Box::new(redb::Error::Io(source)) });
        }
        Ok(())
    }
}

impl Store {
    /// Opens the state in a file, or creates it.
    ///
    /// # Errors
    /// If the file cannot be opened, holds something else, or another orchestrator has it open.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let open = || {
            let database = Database::create(path)?;
            let write = database.begin_write()?;
            write.open_table(FIGURES)?;
            write.open_table(INSTANCES)?;
            write.open_table(DECISIONS)?;
            write.commit()?;
            Ok(database)
        };
        // A damaged file may have the library panic.
        let opened = std::panic::catch_unwind(open)
            .unwrap_or_else(|_| Err(redb::Error::Corrupted("it cannot be read".to_owned())));
        let path = path.to_owned();
        match opened {
            Ok(database) => Ok(Self {
                path,
                database: Mutex::new(Some(database)),
                #[cfg(test)]
                planted: Planted::default(),
            }),
            Err(source) => Err(StoreError { path, source: Box::new(source) }),
        }
    }

    /// Begins another term: returns the orchestrator's id and the term, which are saved.
    ///
    /// # Errors
    /// If they cannot be saved.
    pub(crate) fn begin_term(&self, at_least: u64) -> Result<(u64, u64), StoreError> {
        self.attempt(|database| {
            let write = database.begin_write()?;
            let (id, term) = {
                let mut figures = write.open_table(FIGURES)?;
                let id = figures.get("id")?.map(|id| id.value());
                let term = figures.get("term")?.map_or(0, |term| term.value());
                let id = id.unwrap_or_else(|| base::rng::entropy_seed() | 1);
                let term = term.saturating_add(1).max(at_least);
                figures.insert("id", id)?;
                figures.insert("term", term)?;
                (id, term)
            };
            write.commit()?;
            Ok((id, term))
        })
    }

    /// The memory that the orchestrator of a fleet has set for `node`, at most `most`. Forgets
    /// that of other nodes; with `None` for `node`, as no fleet leads this orchestrator any more,
    /// of all.
    ///
    /// # Errors
    /// If it cannot be read, or not be saved that it is forgotten.
    pub(crate) fn led_memory(&self, node: Option<&str>, most: u64) -> Result<Option<u64>, StoreError> {
        let kept = node.map(memory_key);
        self.attempt(|database| {
            let write = database.begin_write()?;
            let memory = {
                let mut figures = write.open_table(FIGURES)?;
                figures.retain(|key, _| !key.starts_with(MEMORY_OF) || kept.as_deref() == Some(key))?;
                let saved = match &kept {
                    Some(key) => figures.get(key.as_str())?.map(|memory| memory.value().min(most)),
                    None => None,
                };
                // The node says that it has no more, so a restart is not to find more either.
                if let Some((key, memory)) = kept.as_deref().zip(saved) {
                    figures.insert(key, memory)?;
                }
                saved
            };
            write.commit()?;
            Ok(memory)
        })
    }

    /// Saves the memory that the orchestrator of a fleet has set for `node`. When this returns, the
    /// amount has reached the disk.
    ///
    /// # Errors
    /// If the disk fails. The amount may be saved all the same.
    pub(crate) fn save_memory(&self, node: &str, bytes: u64) -> Result<(), StoreError> {
        #[cfg(test)]
        self.planted.save_memory(&self.path)?;
        self.attempt(|database| {
            let write = database.begin_write()?;
            write.open_table(FIGURES)?.insert(memory_key(node).as_str(), bytes)?;
            write.commit()?;
            Ok(())
        })
    }

    /// Reads the records of all instances.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn records(&self) -> Result<Vec<Record>, StoreError> {
        self.attempt(|database| {
            let read = database.begin_read()?;
            let instances = read.open_table(INSTANCES)?;
            let mut records = Vec::new();
            for entry in instances.iter()? {
                let (_, value) = entry?;
                records.push(Record::from_bytes(value.value()).map_err(redb::Error::Corrupted)?);
            }
            Ok(records)
        })
    }

    /// Saves records, or deletes them. When it returns, they have reached the disk.
    ///
    /// # Errors
    /// If they cannot be saved: then none is.
    pub(crate) fn save(&self, records: &[(Key, Option<Record>)]) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        self.attempt(|database| {
            let write = database.begin_write()?;
            {
                let mut instances = write.open_table(INSTANCES)?;
                for (key, record) in records {
                    let key = key_bytes(key);
                    match record {
                        Some(record) => {
                            instances.insert(key.as_slice(), record.to_bytes().as_slice())?;
                        }
                        None => {
                            instances.remove(key.as_slice())?;
                        }
                    }
                }
            }
            write.commit()?;
            Ok(())
        })
    }

    /// Saves decisions, of which it may have an earlier state, and deletes those before `oldest`.
    ///
    /// # Errors
    /// If some cannot be saved.
    pub(crate) fn save_decisions(&self, decisions: &[Arc<Told>], oldest: u64) -> Result<(), StoreError> {
        // Numbers and strings: that does not fail. It is done before records would wait for it.
        let bytes = |told: &Arc<Told>| (told.number, serde_json::to_vec(told).unwrap_or_default());
        let decisions: Vec<(u64, Vec<u8>)> = decisions.iter().map(bytes).collect();
        for some in decisions.chunks(MOST_AT_ONCE) {
            self.attempt(|database| {
                let write = database.begin_write()?;
                {
                    let mut table = write.open_table(DECISIONS)?;
                    for (number, bytes) in some {
                        table.insert(number, bytes.as_slice())?;
                    }
                    table.retain_in(..oldest, |_, _| false)?;
                }
                write.commit()?;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Reads the latest decisions, at most `most`, the latest last, and the number of the last one.
    /// One that another version has saved in another form is left out.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn decisions(&self, most: usize) -> Result<(Vec<Told>, u64), StoreError> {
        self.attempt(|database| {
            let read = database.begin_read()?;
            let table = read.open_table(DECISIONS)?;
            let (mut decisions, mut last) = (Vec::new(), 0);
            for entry in table.iter()?.rev() {
                let (number, value) = entry?;
                last = last.max(number.value());
                decisions.extend(serde_json::from_slice::<Told>(value.value()));
                if decisions.len() >= most {
                    break;
                }
            }
            decisions.reverse();
            Ok((decisions, last))
        })
    }

    fn attempt<T>(&self, act: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, StoreError> {
        let mut database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = match database.take() {
            Some(open) => Ok(open),
            None => Database::open(&self.path).map_err(redb::Error::from),
        };
        let done = opened.and_then(|open| {
            let done = act(&open)?;
            *database = Some(open);
            Ok(done)
        });
        done.map_err(|source| StoreError { path: self.path.clone(), source: Box::new(source) })
    }
}

fn memory_key(node: &str) -> String {
    format!("{MEMORY_OF}{node}")
}

fn key_bytes(key: &Key) -> Vec<u8> {
    let mut bytes = key.name.as_bytes().to_vec();
    bytes.push(0);
    bytes.extend_from_slice(&key.incarnation.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::v1::Instance;

    fn record(name: &str, held_bytes: u64) -> Record {
        let instance = Instance { name: name.to_owned(), incarnation: 7, ..Instance::default() };
        Record { instance, session: 9, address: "127.0.0.1:1".to_owned(), held_bytes }
    }

    #[test]
    fn what_was_saved_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let (a, b) = (record("a", 1), record("b", 2));
        let key = |record: &Record| Key::of(&record.instance);
        let (id, term) = {
            let store = Store::open(&path).unwrap();
            store.save(&[(key(&a), Some(a.clone())), (key(&b), Some(b.clone()))]).unwrap();
            store.save(&[(key(&a), None), (key(&b), Some(Record { held_bytes: 3, ..b.clone() }))]).unwrap();
            store.begin_term(0).unwrap()
        };
        let store = Store::open(&path).unwrap();
        assert_eq!(store.records().unwrap(), [Record { held_bytes: 3, ..b }]);
        assert_eq!(store.begin_term(0).unwrap(), (id, term + 1));
        assert_eq!(store.begin_term(50).unwrap(), (id, 50));
        let second = Store::open(&path).unwrap_err();
        assert!(
            control::access::causes(&second).contains("already open"),
            "{}",
            control::access::causes(&second)
        );
    }

    #[test]
    fn a_file_that_is_something_else_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        std::fs::write(&path, "some text that is no database, and long enough to be looked at".repeat(100))
            .unwrap();
        let error = Store::open(&path).unwrap_err();
        assert!(error.to_string().contains("notes.txt"), "{error}");
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("some text"), "it is left alone");
    }

    fn told(number: u64) -> Arc<Told> {
        let decided = crate::decide::Decided {
            node: "here".to_owned(),
            memory_bytes: 1 << 30,
            is_short: true,
            idle: None,
            moves: Vec::new(),
            pools: Vec::new(),
            unmet: Vec::new(),
        };
        Arc::new(Told::new(number, 9, "most-hits", decided))
    }

    #[test]
    fn the_latest_decisions_are_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let numbers = |store: &Store, most| {
            let (decisions, last) = store.decisions(most).unwrap();
            (decisions.iter().map(|told| told.number).collect::<Vec<_>>(), last)
        };
        let store = Store::open(&path).unwrap();
        assert_eq!(numbers(&store, 9), (vec![], 0));
        store.save_decisions(&[told(1), told(2), told(3)], 1).unwrap();
        store.save_decisions(&[told(3), told(4)], 2).unwrap();
        drop(store);
        let store = Store::open(&path).unwrap();
        assert_eq!(numbers(&store, 9), (vec![2, 3, 4], 4));
        assert_eq!(numbers(&store, 2), (vec![3, 4], 4), "the latest ones");
        let unknown = |database: &Database| {
            let write = database.begin_write()?;
            write.open_table(DECISIONS)?.insert(7, &b"{}"[..])?;
            Ok(write.commit()?)
        };
        store.attempt(unknown).unwrap();
        assert_eq!(numbers(&store, 2), (vec![3, 4], 7), "one of another version");
    }

    #[test]
    fn a_state_that_cannot_be_opened_has_a_remedy() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        let _open = Store::open(&path).expect("a store");
        let words = |path: &Path| Store::open(path).expect_err("it cannot be opened").to_string();
        assert!(words(&path).contains("another orchestrator has it open"), "{}", words(&path));
        assert!(words(&folder.path().join("none/state")).contains("its folder must exist"));
        let other = folder.path().join("other");
        std::fs::write(&other, "a text").expect("a file");
        assert!(words(&other).contains("not the state of an orchestrator"), "{}", words(&other));
    }
}
