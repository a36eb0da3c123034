//! Items sent as an array: added all together or not at all, and with an Idempotency-Key only once.

use domain::{
    api::{Added, NewItem},
    dispatch::traceparent::Traceparent,
    id::Uuid,
};

use super::{AddItemsQuery, NOTHING};
use crate::{
    App,
    http::{
        enqueue::idempotency,
        error::{Error, Result},
    },
};
use engine::{KeyAdvance, access::caller::Caller, key_reused, store::enqueue::idempotency::KeyName};

/// Context of one array of items.
pub(super) struct Array<'a> {
    pub(super) app: &'a App,
    pub(super) caller: &'a Caller,
    pub(super) job_id: Uuid,
    pub(super) query: AddItemsQuery,
    pub(super) traceparent: Option<Traceparent>,
}

/// Number of attempts if another server moves the key at the same time.
pub(super) const MAX_ATTEMPTS: usize = 20;

impl Array<'_> {
    pub(super) async fn add(&self, items: Vec<NewItem>, key: Option<KeyAdvance>) -> Result<Added> {
        let adding = self.query.adding(self.query.seal.unwrap_or(false), key, None, self.traceparent);
        Ok(self.app.engine.add_items(self.caller, self.job_id, items, adding).await?)
    }

    /// Adds all items or none, once: a repeat gets the first response.
    pub(super) async fn add_once(&self, items: Vec<NewItem>, name: KeyName, text: &str) -> Result<Added> {
        let call = self.query.call(self.job_id);
        let fingerprint = idempotency::fingerprint(text);
        for _ in 0..MAX_ATTEMPTS {
            if let Some(stored) = self.app.engine.earlier_call(&name, &call).await? {
                let same = stored.done && stored.fingerprint == fingerprint;
                return if same { Ok(stored.added) } else { Err(key_reused().into()) };
            }
            let key = KeyAdvance {
                name: name.clone(),
                call: call.clone(),
                from: None,
                to: (0, fingerprint),
                before: NOTHING,
                last: true,
            };
            match self.add(items.clone(), Some(key)).await {
                Err(Error(engine::error::Error::KeyMoved)) => {}
                other => return other,
            }
        }
        Err(key_reused().into())
    }
}
