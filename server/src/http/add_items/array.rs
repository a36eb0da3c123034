//! Items sent as an array: added all together or not at all, and with an Idempotency-Key only once.

use domain::{
    api::{Added, NewItem},
    id::Uuid,
};

use super::{HowToAdd, NOTHING};
use crate::{
    App,
    auth::Caller,
    error::{Error, Result},
    http::idempotency,
    jobs::{KeyMove, key_reused},
    store::idempotency::KeyName,
};

/// Context of one array of items.
pub(super) struct Array<'a> {
    pub(super) app: &'a App,
    pub(super) caller: &'a Caller,
    pub(super) job_id: Uuid,
    pub(super) how: HowToAdd,
}

/// Number of attempts if another server moves the key at the same time.
pub(super) const TRIES: usize = 20;

impl Array<'_> {
    pub(super) async fn add(&self, items: Vec<NewItem>, key: Option<KeyMove>) -> Result<Added> {
        let adding = self.how.adding(self.how.seal.unwrap_or(false), key, None);
        self.app.engine.add_items(self.caller, self.job_id, items, adding).await
    }

    /// Adds all items or none, once: a repeat gets the first response.
    pub(super) async fn add_once(&self, items: Vec<NewItem>, name: KeyName, text: &str) -> Result<Added> {
        let call = self.how.call(self.job_id);
        let fingerprint = idempotency::fingerprint(text);
        for _ in 0..TRIES {
            if let Some(known) = self.app.engine.known_adding(&name, &call).await? {
                let same = known.done && known.fingerprint == fingerprint;
                return if same { Ok(known.added) } else { Err(key_reused().into()) };
            }
            let key = KeyMove {
                name: name.clone(),
                call: call.clone(),
                from: None,
                to: (0, fingerprint),
                before: NOTHING,
                last: true,
            };
            match self.add(items.clone(), Some(key)).await {
                Err(Error::KeyMoved) => {}
                other => return other,
            }
        }
        Err(key_reused().into())
    }
}
