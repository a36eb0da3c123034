//! Cache of compiled schemas.
//!
//! The key is the text, which each job stores: the same text is the same schema for all users. The least
//! recently used schema is evicted.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use super::{Schema, SchemaError};

/// Maximum number of cached schemas, and of their text in bytes.
const MOST_SCHEMAS: usize = 200;
const MOST_TEXT: usize = 2 << 20;

type Outcome = Result<Arc<Schema>, SchemaError>;

#[derive(Default)]
struct SchemaCache {
    schemas: HashMap<Arc<str>, (Outcome, u64)>,
    text: usize,
    /// Number of uses so far: the clock of the eviction.
    uses: u64,
}

static CACHE: LazyLock<Mutex<SchemaCache>> = LazyLock::new(Mutex::default);

/// Returns the schema of this text, compiling it if it is not cached.
pub fn compiled(text: &str) -> Outcome {
    if let Some(outcome) = CACHE.lock().unwrap_or_else(PoisonError::into_inner).find(text) {
        return outcome;
    }
    let outcome = crate::task::heavy(|| Schema::compile(text)).map(Arc::new);
    CACHE.lock().unwrap_or_else(PoisonError::into_inner).insert(text, outcome.clone());
    outcome
}

impl SchemaCache {
    fn find(&mut self, text: &str) -> Option<Outcome> {
        self.uses += 1;
        let (outcome, used) = self.schemas.get_mut(text)?;
        *used = self.uses;
        Some(outcome.clone())
    }

    fn insert(&mut self, text: &str, outcome: Outcome) {
        while self.schemas.len() >= MOST_SCHEMAS || (self.text + text.len() > MOST_TEXT && !self.schemas.is_empty()) {
            let oldest = self.schemas.iter().min_by_key(|(_, (_, used))| *used).map(|(text, _)| Arc::clone(text));
            let Some(oldest) = oldest else { break };
            self.schemas.remove(&oldest);
            self.text -= oldest.len();
        }
        self.uses += 1;
        if self.schemas.insert(text.into(), (outcome, self.uses)).is_none() {
            self.text += text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_schema_is_evicted() {
        let mut cache = SchemaCache::default();
        let outcome = || Err(SchemaError::Invalid("no".to_owned()));
        let text = |n: usize| format!("{n:>20000}");
        for n in 0..150 {
            cache.insert(&text(n), outcome());
            assert!(cache.find(&text(0)).is_some());
        }
        assert!(cache.text <= MOST_TEXT && cache.schemas.len() == MOST_TEXT / 20_000);
        assert!(cache.find(&text(1)).is_none() && cache.find(&text(149)).is_some());
    }
}
