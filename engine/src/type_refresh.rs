//! Edits of job types while jobs run: they take effect within a second, also for waiting claims.

use std::{collections::HashMap, sync::Arc};

use crate::{error::Result, store::tree::definitions::TypeInfo};

use super::Engine;

impl Engine {
    /// Reads the job types again. If a type was resumed, its cap was raised, or its limits changed, one waiting claim is woken; it wakes the
    /// next one if it finds an item.
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
    !after.paused && (before.paused || cap(after) > cap(before) || after.limits != before.limits)
}
