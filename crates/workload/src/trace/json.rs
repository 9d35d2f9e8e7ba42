//! JSON lines of language-model prompts: each line is a prompt, each of its `hash_ids` a block of
//! the KV cache.
//!
//! The blocks of a prompt are asked for in order, because a block can be used only where all blocks
//! before it are.

use serde::Deserialize;

use super::lines::Lines;
use super::{Op, Request, TraceError, TraceKey};

/// The fields of a line that matter here; all others are passed over.
#[derive(Deserialize)]
struct Prompt {
    #[serde(default)]
    timestamp: Option<serde_json::Number>,
    hash_ids: Vec<u64>,
}

/// The prompt whose blocks are being asked for.
#[derive(Default)]
pub(super) struct JsonRows {
    blocks: std::vec::IntoIter<u64>,
    ts: Option<u64>,
}

impl JsonRows {
    pub(super) fn next_request(
        &mut self,
        name: &str,
        lines: &mut Lines,
    ) -> Result<Option<Request<'_>>, TraceError> {
        loop {
            if let Some(block) = self.blocks.next() {
                return Ok(Some(Request {
                    key: TraceKey::Number(block),
                    key_size: None,
                    size: None,
                    op: Op::Get,
                    ts: self.ts,
                    ttl_secs: None,
                }));
            }
            if !lines.advance(name)? {
                return Ok(None);
            }
            let prompt: Prompt = serde_json::from_slice(lines.line()).map_err(|error| {
                let problem = format!("not a JSON object with a list of numbers `hash_ids`: {error}");
                TraceError::line(name, lines.number(), problem, "correct or remove the line")
            })?;
            self.ts = prompt.timestamp.and_then(|ts| ts.as_u64().or_else(|| ts.as_f64().map(|ts| ts as u64)));
            self.blocks = prompt.hash_ids.into_iter();
        }
    }
}
