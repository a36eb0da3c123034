//! Job types as people change them while jobs run: what is edited acts within a second, also for
//! claims that are waiting already.

use std::{collections::HashMap, sync::Arc};

use crate::{error::Result, store::contracts::TypeInfo};

use super::Engine;

impl Engine {
    /// Reads the job types again. Where more may be had of one than before (it was resumed, or its cap
    /// was raised), a waiting claim looks; it passes the word on when it found something.
    pub async fn refresh_types(&self) -> Result<()> {
        let before: HashMap<i32, Arc<TypeInfo>> = self.types().all().into_iter().map(|info| (info.id, info)).collect();
        self.types().refresh_now().await?;
        for after in self.types().all() {
            if before.get(&after.id).is_some_and(|before| opened(before, &after)) {
                self.wake(after.id);
            }
        }
        Ok(())
    }
}

fn opened(before: &TypeInfo, after: &TypeInfo) -> bool {
    let cap = |info: &TypeInfo| info.concurrency.unwrap_or(i32::MAX);
    !after.paused && (before.paused || cap(after) > cap(before))
}
