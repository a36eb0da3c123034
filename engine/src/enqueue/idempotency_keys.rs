//! Idempotency-Keys of every call except the creation of trees (`idempotency-key`): the same key and body get the first
//! answer again.
//!
//! Adding items advances the key in the transaction of the rows, so a repeated stream continues after its last commit.
//! Calls that create one small thing use [`Engine::begin_call`] and store their answer with what they create. If the
//! server dies before that, a key without an answer remains and nothing was created; the same request takes the key
//! over after a minute.

use std::collections::HashMap;

use domain::{
    Code, Problem,
    api::{Added, NewItem},
    dispatch::traceparent::Traceparent,
};
use uuid::Uuid;

use crate::{
    Core, Engine,
    access::caller::{Caller, Scope},
    enqueue::key_locks::KeyGuard,
    error::{Error, Result},
    notify::audit,
    store::{
        Tx,
        access::quotas::Usage,
        enqueue::idempotency::{self, CallProgress, IdempotencyRecord, KeyName},
        notify::audit::AuditRow,
        tree::definitions::JobInfo,
    },
    stored_response::under_way,
};

use super::add::{self, AddCommand, AddedRows, JobStateLocking, Reserved};

/// Time limit of a call that creates one small thing, in seconds.
const TAKE_OVER_SECONDS: f64 = 60.0;

/// Handling of items whose dedupe key is already used in the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDuplicate {
    /// Adds none of the request's items.
    #[default]
    Refuse,
    /// Adds the other items and counts the duplicates.
    Skip,
}

/// Options for adding items.
#[derive(Clone, Debug, Default)]
pub struct AddOptions {
    /// True if these are the last items.
    pub seal: bool,
    pub on_duplicate: OnDuplicate,
    pub key: Option<KeyAdvance>,
    /// Reason; required for jobs of other owners.
    pub reason: Option<String>,
    /// Set if the items are part of a stream.
    pub stream: Option<StreamPosition>,
    /// Trace context of the request.
    pub traceparent: Option<Traceparent>,
}

/// Position of items in a stream; the audit log has one entry for the whole stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamPosition {
    First,
    Later,
}

/// Idempotency-Key that advances with the items of one commit.
#[derive(Clone, Debug)]
pub struct KeyAdvance {
    pub name: KeyName,
    /// Call that the key is used for.
    pub call: String,
    /// Current position: lines committed, and the SHA-256 of the stream up to there. `None` for a new key.
    pub from: Option<(i64, [u8; 32])>,
    /// Position after these items.
    pub to: (i64, [u8; 32]),
    /// Items added by earlier commits of the same call.
    pub before: Added,
    /// True if this commit finishes the call.
    pub last: bool,
}

/// Progress of an earlier call with the same key.
#[derive(Clone, Debug)]
pub struct EarlierCall {
    /// Number of lines committed.
    pub lines: i64,
    /// SHA-256 of the stream up to there.
    pub fingerprint: Vec<u8>,
    /// Items added so far.
    pub added: Added,
    /// True if the call is finished.
    pub done: bool,
}

/// Answer to adding no items.
pub(crate) const NOTHING_ADDED: Added = Added { accepted: 0, duplicates: 0, merged: 0, sealed: false };

impl Engine {
    /// Adds all items to an unsealed job, or none of them.
    pub async fn add_items(
        &self,
        caller: &Caller,
        job_id: Uuid,
        items: Vec<NewItem>,
        options: AddOptions,
    ) -> Result<Added> {
        caller.require(Scope::JobsWrite)?;
        let job = self.visible_job(caller, job_id).await?;
        let reason = audit::reason_for(caller, job.owner_id, options.reason.as_deref())?;
        let entry = audit_entry(caller, &job, items.len(), &options, reason.as_deref());
        let mut items = self.0.core.prepare(&job, items, "")?;
        // Items of the request that created their job share its context.
        let traceparent = options.traceparent.filter(|_| options.traceparent != job.traceparent);
        for item in &mut items {
            item.traceparent = traceparent;
        }
        self.0.core.record_requester(caller, [&*job]).await?;
        let more = Usage { items: items.len() as i64, ..Usage::default() };
        let _taken = self.0.core.quotas.take(job.owner_id, more).await?;
        self.0
            .adds
            .run(AddCommand {
                job,
                items,
                seal: options.seal,
                on_duplicate: options.on_duplicate,
                cursor_move: None,
                key: options.key,
                audit: entry,
            })
            .await
    }

    /// Progress of adding items with this key; `None` if the key is unused. Returns 422 if the key belongs to another
    /// call.
    pub async fn earlier_call(&self, name: &KeyName, call: &str) -> Result<Option<EarlierCall>> {
        let stored = idempotency::find(&self.0.core.pools.read, name).await?.filter(|stored| !stored.lapsed());
        let Some(stored) = stored else { return Ok(None) };
        if stored.call != call {
            return Err(key_reused().into());
        }
        let added = stored.answer.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(NOTHING_ADDED);
        let done = stored.status.is_some();
        Ok(Some(EarlierCall { lines: stored.lines, fingerprint: stored.fingerprint, added, done }))
    }

    /// Waits for all earlier requests with this key on this server.
    pub async fn lock_key(&self, name: &KeyName) -> KeyGuard {
        self.0.core.key_locks.take(name).await
    }

    /// Begins a call that is answered once. `Some`: the stored status and text of the first answer. Returns 422 if the
    /// key belongs to another body or call, 409 while the same call is running elsewhere.
    pub async fn begin_call(&self, name: &KeyName, call: &str, fingerprint: &[u8]) -> Result<Option<(u16, String)>> {
        let core = &self.0.core;
        let call_begins = CallProgress { name, call, lines: 0, fingerprint };
        if idempotency::begin(&core.pools.read, &call_begins, core.window_seconds).await? {
            return Ok(None);
        }
        let Some(stored) = idempotency::find(&core.pools.read, name).await? else { return Err(under_way()) };
        if stored.call != call || stored.fingerprint != fingerprint {
            return Err(key_reused().into());
        }
        if let (Some(status), Some(answer)) = (stored.status, stored.answer) {
            return Ok(Some((u16::try_from(status).unwrap_or(200), answer)));
        }
        if idempotency::take_over(&core.pools.read, name, TAKE_OVER_SECONDS).await? {
            Ok(None)
        } else {
            Err(under_way())
        }
    }

    /// Releases the key of a refused call. A call that has been answered keeps its stored response.
    pub async fn forget_call(&self, name: &KeyName) -> Result<()> {
        Ok(idempotency::forget(&self.0.core.pools.read, name).await?)
    }
}

/// Audit log entry for items added to another owner's job, or with a reason.
fn audit_entry(
    caller: &Caller,
    job: &JobInfo,
    items: usize,
    options: &AddOptions,
    reason: Option<&str>,
) -> Option<Box<AuditRow>> {
    let is_own = caller.owner_id == job.owner_id && reason.is_none();
    if is_own || options.stream == Some(StreamPosition::Later) {
        return None;
    }
    let seals = options.seal && items == 0 && options.stream.is_none();
    let action = if seals { "job.seal" } else { "items.add" };
    let row = audit::row(caller, action, job.owner_id, reason)?.about(job.root_id, job.job_id, None);
    let what = match (seals, options.stream) {
        (true, _) => return Some(Box::new(row)),
        (_, Some(_)) => "a stream of items".to_owned(),
        (_, None) if items == 1 => "1 item".to_owned(),
        (_, None) => format!("{items} items"),
    };
    let sealed = if options.seal { ", the last ones" } else { "" };
    Some(Box::new(row.with_detail(format!("{what}{sealed}"))))
}

/// Call that stores its Idempotency-Key in the transaction of its changes.
#[derive(Clone, Debug)]
pub struct KeyedCall {
    pub name: KeyName,
    pub call: &'static str,
    /// SHA-256 of the request.
    pub fingerprint: [u8; 32],
}

impl Core {
    /// Stored result of an earlier identical call, if any. Returns 422 if the key belongs to another call.
    pub(crate) async fn stored_call(&self, key: &KeyedCall) -> Result<Option<IdempotencyRecord>> {
        let stored = idempotency::find(&self.pools.read, &key.name).await?.filter(|stored| !stored.lapsed());
        match stored {
            Some(stored) if stored.call != key.call || stored.fingerprint != key.fingerprint => {
                Err(key_reused().into())
            }
            other => Ok(other),
        }
    }

    /// Takes the key in the transaction of the call. False if another request was faster: look it up again.
    pub(crate) async fn take_call(&self, tx: &mut Tx, key: &KeyedCall) -> Result<bool> {
        let call = CallProgress { name: &key.name, call: key.call, lines: 0, fingerprint: &key.fingerprint };
        Ok(idempotency::begin(&mut **tx, &call, self.window_seconds).await?)
    }
}

/// Adds items and advances their keys. Keys are locked first, sorted, as the lock order requires; a command refused
/// afterwards leaves its key unchanged.
pub(crate) async fn add(
    core: &Core,
    tx: &mut Tx,
    commands: &[&AddCommand],
    reserved: Option<&Reserved>,
) -> Result<AddedRows> {
    let mut keyed: Vec<(usize, &KeyAdvance)> =
        commands.iter().enumerate().filter_map(|(at, command)| Some((at, command.key.as_ref()?))).collect();
    let job_states = reserved.map_or(JobStateLocking::Lock, JobStateLocking::Reserved);
    if keyed.is_empty() {
        return add::add(core, tx, commands, job_states).await;
    }
    keyed.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    let mut moved: HashMap<usize, &KeyAdvance> = HashMap::new();
    let mut lost: Vec<usize> = Vec::new();
    for (at, key) in keyed {
        let to = CallProgress { name: &key.name, call: &key.call, lines: key.to.0, fingerprint: &key.to.1 };
        let has_key = match key.from {
            None => idempotency::begin(&mut **tx, &to, core.window_seconds).await?,
            Some((lines, _)) => idempotency::advance(tx, &to, lines).await?,
        };
        if has_key {
            moved.insert(at, key);
        } else {
            lost.push(at);
        }
    }
    let accepted: Vec<usize> = (0..commands.len()).filter(|at| !lost.contains(at)).collect();
    let accepted_commands: Vec<&AddCommand> = accepted.iter().map(|&at| commands[at]).collect();
    let mut added = add::add(core, tx, &accepted_commands, job_states).await?;
    let mut answers: Vec<Result<Added>> = commands.iter().map(|_| Err(Error::KeyMoved)).collect();
    for (&at, answer) in accepted.iter().zip(std::mem::take(&mut added.answers)) {
        if let Some(key) = moved.get(&at) {
            store_progress(tx, key, answer.as_ref().ok()).await?;
        }
        answers[at] = answer;
    }
    added.answers = answers;
    Ok(added)
}

/// Stores the items that the call has added so far, or resets the key.
async fn store_progress(tx: &mut Tx, key: &KeyAdvance, added: Option<&Added>) -> Result<()> {
    match (added, key.from) {
        (Some(added), _) => {
            let all = sum(key.before, *added);
            let text = serde_json::to_string(&all).map_err(|e| Error::Broken(e.to_string()))?;
            idempotency::answer(&mut **tx, &key.name, key.last.then_some(200), &text).await?;
        }
        (None, None) => idempotency::forget(&mut **tx, &key.name).await?,
        (None, Some((lines, fingerprint))) => {
            let back = CallProgress { name: &key.name, call: &key.call, lines, fingerprint: &fingerprint };
            idempotency::advance(tx, &back, key.to.0).await?;
        }
    }
    Ok(())
}

/// Sum of two commits of one call.
pub fn sum(before: Added, now: Added) -> Added {
    Added {
        accepted: before.accepted + now.accepted,
        duplicates: before.duplicates + now.duplicates,
        merged: before.merged + now.merged,
        sealed: now.sealed,
    }
}

/// Problem 422: the key was used for another request.
pub fn key_reused() -> Problem {
    Problem::new(
        Code::IdempotencyKeyReused,
        "This Idempotency-Key was used with another body or for another call. Use a new key for a new request.",
    )
}
