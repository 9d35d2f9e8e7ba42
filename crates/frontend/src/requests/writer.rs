//! The file of the log of requests, and the thread that writes it.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use protocol::memcached::reply::shown_key;

use super::{Entry, RequestLog, lock};
use crate::log::Seldom;

/// The permissions of the file: it contains keys, which not everybody may read.
const FILE_MODE: u32 = 0o640;

pub(super) const HEADER: &str = "ts,tenant,protocol,command,op,key,key_size,size,ttl,outcome,latency_us\n";

/// The file, and how long it is.
pub(super) struct Output {
    file: File,
    bytes: u64,
}

/// Returns an error if a pipe is at `path`.
pub fn refuse_pipe(path: &std::path::Path) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo()) {
        let why = "it is a pipe, whose reader could hold the server up; name a file";
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
    }
    Ok(())
}

impl Output {
    #[cfg(test)]
    pub(super) const fn of(file: File) -> Self {
        Self { file, bytes: 0 }
    }

    pub(super) fn open(path: &std::path::Path) -> std::io::Result<Self> {
        refuse_pipe(path)?;
        let mut file = OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path)?;
        let mut bytes = file.metadata()?.len();
        if bytes == 0 {
            file.write_all(HEADER.as_bytes())?;
            bytes = HEADER.len() as u64;
        }
        Ok(Self { file, bytes })
    }
}

/// The thread that writes.
pub(super) struct Writer {
    pub(super) log: Arc<RequestLog>,
    pub(super) path: PathBuf,
    /// The size at which a file is rotated; it replaces the one that was rotated before.
    pub(super) max_bytes: u64,
    /// The line that says which keys are logged, and whether the file has it since it was opened.
    pub(super) sample: String,
    pub(super) is_sample_told: bool,
    /// None after it could not be written.
    pub(super) output: Option<Output>,
    pub(super) spare: Vec<Entry>,
    /// Number of dropped requests that the server's log has not reported, and the time of the next
    /// report.
    pub(super) untold: u64,
    pub(super) telling: Seldom,
}

impl Writer {
    pub(super) fn turn(&mut self) {
        let mut entries = Vec::new();
        for buffer in &self.log.buffers {
            std::mem::swap(&mut lock(buffer).entries, &mut self.spare);
            entries.append(&mut self.spare);
        }
        let (dropped, unwritten) = (self.log.dropped.unmarked(), self.log.unwritten.unmarked());
        if entries.is_empty() && dropped + unwritten == 0 {
            return;
        }
        entries.sort_by_key(|entry| entry.unix_nanos);
        let mut text = if self.is_sample_told { String::new() } else { self.sample.clone() };
        if unwritten > 0 {
            let _ = writeln!(text, "# {unwritten} requests could not be written");
        }
        if dropped > 0 {
            let _ = writeln!(text, "# {dropped} requests were dropped");
        }
        entries.iter().for_each(|entry| write_line(&mut text, entry));
        match self.write(&text) {
            Ok(()) => {
                self.log.dropped.mark(dropped);
                self.log.unwritten.mark(unwritten);
                self.log.written.fetch_add(entries.len() as u64, Ordering::Relaxed);
                self.tell_of(dropped, unwritten);
            }
            Err(error) => {
                if self.output.take().is_some() {
                    let file = self.path.display();
                    tracing::warn!(%file, %error, "The log of requests cannot be written and ends; SIGHUP begins it anew.");
                }
                self.log.unwritten.add(entries.len() as u64);
                // Buffers were full because of that, too.
                self.log.dropped.move_to(&self.log.unwritten, dropped);
            }
        };
    }

    /// Says in the server's log that the file has holes.
    fn tell_of(&mut self, dropped: u64, unwritten: u64) {
        let file = self.path.display();
        if unwritten > 0 {
            tracing::warn!(
                %file,
                requests = unwritten,
                "The log of requests could not be written for a while; these requests are missing in it."
            );
        }
        self.untold += dropped;
        if dropped > 0 && self.telling.is_due(self.log.clock.monotonic_nanos()) {
            tracing::warn!(
                %file,
                requests = self.untold,
                "Requests came faster than the log of requests is written, and are missing in it; raise watch.request_log_one_in."
            );
            self.untold = 0;
        }
    }

    fn write(&mut self, text: &str) -> std::io::Result<()> {
        let Some(output) = &mut self.output else { return Err(std::io::ErrorKind::NotConnected.into()) };
        let was_told = std::mem::replace(&mut self.is_sample_told, true);
        if let Err(error) = output.file.write_all(text.as_bytes()) {
            // No part of a line may stand before the lines that are written once there is room
            // again.
            let _ = output.file.set_len(output.bytes);
            self.is_sample_told = was_told;
            return Err(error);
        }
        output.bytes += text.len() as u64;
        if output.bytes >= self.max_bytes {
            let mut aside = self.path.clone().into_os_string();
            aside.push(".1");
            std::fs::rename(&self.path, aside)?;
            *output = Output::open(&self.path)?;
            self.is_sample_told = false;
        }
        Ok(())
    }
}

fn write_line(text: &mut String, entry: &Entry) {
    let Entry { unix_nanos, latency_nanos, command, outcome, key_bytes, hash, .. } = entry;
    let (ts, latency_us) = (unix_nanos / 1000, *latency_nanos as f64 / 1000.0);
    let key = entry.key.as_ref().map_or_else(|| hash.to_string(), |key| shown_key(key));
    let (tenant, protocol, op) = (shown_key(entry.tenant.as_bytes()), entry.spoken.name(), entry.does.name());
    let size = entry.value_bytes.map_or_else(String::new, |bytes| bytes.to_string());
    let ttl = entry.ttl_secs.map_or_else(String::new, |secs| secs.to_string());
    let _ = writeln!(
        text,
        "{ts},{tenant},{protocol},{command},{op},{key},{key_bytes},{size},{ttl},{outcome},{latency_us:.1}"
    );
}
