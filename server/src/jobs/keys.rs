//! Idempotency-Keys of every call that is not the making of a tree (`idempotency-key`): the same key and body
//! again gives the first answer.
//!
//! Adding items moves the key in the transaction of the rows, so a stream that is sent again goes on
//! where it was committed. Calls that make one small thing follow [`Engine::begin_call`] and keep their answer
//! with what they make; a server that dies before that leaves a key without an answer and nothing made, and the
//! same request takes it over a minute later.

use std::collections::HashMap;

use domain::{
    Problem,
    api::{Added, NewItem},
};
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::{Error, Result},
    kept::under_way,
    store::{
        Tx,
        audit::AuditRow,
        contracts::JobInfo,
        idempotency::{self, KeyName, Progress, Stored},
        quotas::Usage,
    },
};

use super::{
    Core, Engine,
    add::{self, AddCommand, AddedRows, Gates, Reserved},
    audit,
    create::{Turn, reused},
};

/// How long a call may take that makes one small thing, in seconds.
const PATIENCE_SECONDS: f64 = 60.0;

/// What becomes of an item whose dedupe key its job has already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDuplicate {
    /// None of the request's items is added.
    #[default]
    Refuse,
    /// The others are, and it is counted.
    Skip,
}

/// How items are added.
#[derive(Clone, Debug, Default)]
pub struct Adding {
    /// They are the last.
    pub seal: bool,
    pub on_duplicate: OnDuplicate,
    pub key: Option<KeyMove>,
    /// Why; required on somebody else's work.
    pub reason: Option<String>,
    /// They are part of a stream.
    pub stream: Option<InStream>,
}

/// Position of items in a stream; the audit log has one entry for the whole stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InStream {
    First,
    Later,
}

/// An Idempotency-Key that moves with the items of one commit.
#[derive(Clone, Debug)]
pub struct KeyMove {
    pub name: KeyName,
    /// The call that it is used for.
    pub call: String,
    /// Where it stands: lines committed, and the SHA-256 of everything up to there. `None`: it is new.
    pub from: Option<(i64, [u8; 32])>,
    /// Where it stands after these items.
    pub to: (i64, [u8; 32]),
    /// What earlier commits of the same call have added.
    pub before: Added,
    /// The call is through with this commit.
    pub last: bool,
}

/// How a call stands that was made with a key before.
#[derive(Clone, Debug)]
pub struct Once {
    /// Lines committed.
    pub lines: i64,
    /// Of everything up to there.
    pub fingerprint: Vec<u8>,
    /// What it has added so far.
    pub added: Added,
    /// It is through.
    pub done: bool,
}

/// What adding nothing answers.
pub(super) const NOTHING: Added = Added { accepted: 0, duplicates: 0, sealed: false };

impl Engine {
    /// Adds items to an unsealed job, all or none.
    pub async fn add_items(&self, caller: &Caller, job_id: Uuid, items: Vec<NewItem>, adding: Adding) -> Result<Added> {
        caller.require(Scope::JobsWrite)?;
        let job = self.visible_job(caller, job_id).await?;
        let reason = audit::reason_for(caller, job.owner_id, adding.reason.as_deref())?;
        let entry = audit_entry(caller, &job, items.len(), &adding, reason.as_deref());
        let items = self.0.core.prepare(&job, items, "")?;
        self.0.core.ask_in(caller, [&*job]).await?;
        let more = Usage { items: items.len() as i64, ..Usage::default() };
        let _taken = self.0.core.quotas.take(job.owner_id, more).await?;
        self.0
            .adds
            .run(AddCommand {
                job,
                items,
                seal: adding.seal,
                on_duplicate: adding.on_duplicate,
                place: None,
                key: adding.key,
                audit: entry,
            })
            .await
    }

    /// How the adding of items stands that was begun with this key; `None`: not at all. 422 when the key
    /// stands for another call.
    pub async fn known_adding(&self, name: &KeyName, call: &str) -> Result<Option<Once>> {
        let stored = idempotency::find(&self.0.core.pools.read, name).await?.filter(|stored| !stored.lapsed());
        let Some(stored) = stored else { return Ok(None) };
        if stored.call != call {
            return Err(reused().into());
        }
        let added = stored.answer.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(NOTHING);
        let done = stored.status.is_some();
        Ok(Some(Once { lines: stored.lines, fingerprint: stored.fingerprint, added, done }))
    }

    /// Waits for everybody on this server who came earlier with this key.
    pub async fn key_turn(&self, name: &KeyName) -> Turn<'_> {
        self.0.core.turns.take(name).await
    }

    /// Begins a call that is answered once. `Some`: it was answered before, with this status and text.
    /// 422 when the key stands for another body or call, 409 while the same call is under way elsewhere.
    pub async fn begin_call(&self, name: &KeyName, call: &str, fingerprint: &[u8]) -> Result<Option<(u16, String)>> {
        let core = &self.0.core;
        let call_begins = Progress { name, call, lines: 0, fingerprint };
        if idempotency::begin(&core.pools.read, &call_begins, core.window_seconds).await? {
            return Ok(None);
        }
        let Some(stored) = idempotency::find(&core.pools.read, name).await? else { return Err(under_way()) };
        if stored.call != call || stored.fingerprint != fingerprint {
            return Err(reused().into());
        }
        if let (Some(status), Some(answer)) = (stored.status, stored.answer) {
            return Ok(Some((u16::try_from(status).unwrap_or(200), answer)));
        }
        if idempotency::take_over(&core.pools.read, name, PATIENCE_SECONDS).await? {
            Ok(None)
        } else {
            Err(under_way())
        }
    }

    /// Frees the key of a call that was refused. One that was answered after all keeps its answer.
    pub async fn forget_call(&self, name: &KeyName) -> Result<()> {
        Ok(idempotency::forget(&self.0.core.pools.read, name).await?)
    }
}

/// Entry about items that are added to somebody else's work, or for a given reason.
fn audit_entry(
    caller: &Caller,
    job: &JobInfo,
    items: usize,
    adding: &Adding,
    reason: Option<&str>,
) -> Option<Box<AuditRow>> {
    let is_own = caller.owner_id == job.owner_id && reason.is_none();
    if is_own || adding.stream == Some(InStream::Later) {
        return None;
    }
    let seals = adding.seal && items == 0 && adding.stream.is_none();
    let action = if seals { "job.seal" } else { "items.add" };
    let row = audit::row(caller, action, job.owner_id, reason)?.about(job.root_id, job.job_id, None);
    let what = match (seals, adding.stream) {
        (true, _) => return Some(Box::new(row)),
        (_, Some(_)) => "a stream of items".to_owned(),
        (_, None) if items == 1 => "1 item".to_owned(),
        (_, None) => format!("{items} items"),
    };
    let sealed = if adding.seal { ", the last ones" } else { "" };
    Some(Box::new(row.with_detail(format!("{what}{sealed}"))))
}

/// A call that writes its Idempotency-Key in the transaction of what it makes.
#[derive(Clone, Debug)]
pub struct KeyedCall {
    pub name: KeyName,
    pub call: &'static str,
    /// SHA-256 of what was asked.
    pub fingerprint: [u8; 32],
}

impl Core {
    /// What the same call has made before, if it was made. 422 when the key stands for another.
    pub(super) async fn made_by(&self, key: &KeyedCall) -> Result<Option<Stored>> {
        let stored = idempotency::find(&self.pools.read, &key.name).await?.filter(|stored| !stored.lapsed());
        match stored {
            Some(stored) if stored.call != key.call || stored.fingerprint != key.fingerprint => Err(reused().into()),
            other => Ok(other),
        }
    }

    /// Takes the key in the transaction of what the call makes. False: somebody was faster; look again.
    pub(super) async fn take_call(&self, tx: &mut Tx, key: &KeyedCall) -> Result<bool> {
        let call = Progress { name: &key.name, call: key.call, lines: 0, fingerprint: &key.fingerprint };
        Ok(idempotency::begin(&mut **tx, &call, self.window_seconds).await?)
    }
}

/// Adds, and moves the keys that come along. Keys are locked first, sorted, as the lock order wants it;
/// what is refused afterwards leaves its key where it was.
pub(super) async fn add(
    core: &Core,
    tx: &mut Tx,
    commands: &[&AddCommand],
    reserved: Option<&Reserved>,
) -> Result<AddedRows> {
    let mut keyed: Vec<(usize, &KeyMove)> =
        commands.iter().enumerate().filter_map(|(at, command)| Some((at, command.key.as_ref()?))).collect();
    let gates = reserved.map_or(Gates::Lock, Gates::Reserved);
    if keyed.is_empty() {
        return add::add(core, tx, commands, gates).await;
    }
    keyed.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    let mut moved: HashMap<usize, &KeyMove> = HashMap::new();
    let mut late: Vec<usize> = Vec::new();
    for (at, key) in keyed {
        let to = Progress { name: &key.name, call: &key.call, lines: key.to.0, fingerprint: &key.to.1 };
        let held = match key.from {
            None => idempotency::begin(&mut **tx, &to, core.window_seconds).await?,
            Some((lines, _)) => idempotency::advance(tx, &to, lines).await?,
        };
        if held {
            moved.insert(at, key);
        } else {
            late.push(at);
        }
    }
    let going: Vec<usize> = (0..commands.len()).filter(|at| !late.contains(at)).collect();
    let going_on: Vec<&AddCommand> = going.iter().map(|&at| commands[at]).collect();
    let mut added = add::add(core, tx, &going_on, gates).await?;
    let mut answers: Vec<Result<Added>> = commands.iter().map(|_| Err(Error::KeyMoved)).collect();
    for (&at, answer) in going.iter().zip(std::mem::take(&mut added.answers)) {
        if let Some(key) = moved.get(&at) {
            settle(tx, key, answer.as_ref().ok()).await?;
        }
        answers[at] = answer;
    }
    added.answers = answers;
    Ok(added)
}

/// Keeps what the call has added so far, or puts the key back.
async fn settle(tx: &mut Tx, key: &KeyMove, added: Option<&Added>) -> Result<()> {
    match (added, key.from) {
        (Some(added), _) => {
            let all = sum(key.before, *added);
            let text = serde_json::to_string(&all).map_err(|e| Error::Broken(e.to_string()))?;
            idempotency::answer(&mut **tx, &key.name, key.last.then_some(200), &text).await?;
        }
        (None, None) => idempotency::forget(&mut **tx, &key.name).await?,
        (None, Some((lines, fingerprint))) => {
            let back = Progress { name: &key.name, call: &key.call, lines, fingerprint: &fingerprint };
            idempotency::advance(tx, &back, key.to.0).await?;
        }
    }
    Ok(())
}

/// What two commits of one call have added.
pub fn sum(before: Added, now: Added) -> Added {
    Added {
        accepted: before.accepted + now.accepted,
        duplicates: before.duplicates + now.duplicates,
        sealed: now.sealed,
    }
}

/// 422: the key stands for something else.
pub fn key_reused() -> Problem {
    reused()
}
