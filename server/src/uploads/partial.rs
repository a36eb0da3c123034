//! Resumable uploads: data received before a connection broke stays, and the next request continues after it.
//!
//! A part is stored first and then counted, in one statement guarded by the previous end of the file: a server killed
//! at any point has lost nothing that it confirmed, and of two concurrent senders one wins. After the last byte, the
//! parts become one file and an ordinary upload, under the same rules as other uploads. No transaction is open while
//! bytes are transferred.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use domain::{
    Code, Problem,
    import::upload::{ResumableUpload, Upload, UploadFormat},
};
use futures::{Stream, StreamExt as _};
use uuid::Uuid;

use super::{admit, clean_filename, limit_of, no_room, not_of, refusal_of, too_large};
use crate::App;
use engine::{
    access::caller::{Caller, Scope},
    error::{Error, Result},
    import::files::{Arrived, ReceiveError},
    store::{
        access::quotas::Usage,
        enqueue::idempotency::KeyName,
        import::{
            partial_uploads::{self, PartialUpload},
            uploads::{self, NewUpload},
        },
    },
    stored_response::ResponseSlot,
    task::{in_task, unless_silent},
};

/// Maximum bytes of a part: the amount to send again after a server is killed.
const PART: u64 = 8 << 20;

/// Maximum parts of a file: 2 GiB over a connection that breaks every 100 KiB.
const MOST_PARTS: i64 = 20_000;

/// Number of first bytes that suffice to check the format.
const TELLING: usize = 1 << 10;

/// Upload to be created.
#[derive(Clone, Debug)]
pub struct NewPartial {
    pub filename: String,
    /// `None`: detected from its name and first bytes.
    pub format: Option<UploadFormat>,
    pub bytes: u64,
    /// Header `Upload-Metadata`, unchanged.
    pub metadata: Option<String>,
}

/// Creates a resumable upload.
pub async fn begin(app: &App, caller: &Caller, new: NewPartial, response_slot: ResponseSlot) -> Result<PartialUpload> {
    caller.require(Scope::JobsWrite)?;
    let NewPartial { filename, format, bytes, metadata } = new;
    let filename = clean_filename(&filename);
    let (limit, is_workbook) = limit_of(app, &filename, format);
    if bytes > limit {
        return Err(too_large(limit, is_workbook));
    }
    admit(app, caller, bytes).await?;
    let _taken = app.quotas.take(caller.owner_id, Usage { bytes: bytes as i64, ..Usage::default() }).await?;
    let (pool, owner_id) = (app.pool.clone(), caller.owner_id);
    let partial = in_task("beginning a file", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let partial =
            partial_uploads::insert(&mut tx, owner_id, &filename, format, bytes as i64, metadata.as_deref()).await?;
        response_slot.store(&mut tx, &ResumableUpload::from(partial.clone())).await?;
        engine::store::commit(tx).await?;
        Ok(partial)
    })
    .await?;
    if bytes == 0 {
        finish(app, &partial).await?;
    }
    Ok(partial)
}

/// Finds the caller's own resumable upload. A complete one becomes an upload first: the client may have missed the
/// response, or the server was killed before it could.
pub async fn find(app: &App, caller: &Caller, id: Uuid) -> Result<PartialUpload> {
    let partial = own(app, caller, id).await?;
    if partial.received == partial.bytes && !partial.is_finished {
        finish(app, &partial).await?;
    }
    Ok(partial)
}

/// Finds it without finishing it.
pub async fn own(app: &App, caller: &Caller, id: Uuid) -> Result<PartialUpload> {
    caller.require(Scope::JobsWrite)?;
    let found = partial_uploads::find(&app.pool, id, caller.owner_id).await?;
    Ok(found.ok_or_else(|| Problem::not_found("upload"))?)
}

/// Appends the body at `offset`; `announced`: its length, if given. Returns the new end of the file. Must run to
/// completion after a client disconnect: spawn it.
pub async fn append<S>(app: &App, partial: PartialUpload, offset: i64, announced: Option<u64>, source: S) -> Result<i64>
where
    S: Stream<Item = Result<Bytes, String>> + Unpin + Send,
{
    if offset != partial.received {
        return Err(wrong_offset(partial.received));
    }
    let left = (partial.bytes - partial.received) as u64;
    if announced.is_some_and(|bytes| bytes > left) {
        return Err(too_long(&partial));
    }
    if left > 0 && partial_uploads::count_parts(&app.pool, partial.id).await? >= MOST_PARTS {
        let detail = format!("The file comes in more than {MOST_PARTS} pieces; start over with larger ones.");
        return Err(Error::refuse(Code::TooLarge, detail));
    }
    let mut coming = Coming { source, waiting: Bytes::new(), left: 0, ended: false, broken: None };
    let mut at = partial.received;
    while coming.has_more().await {
        if at == partial.bytes {
            return Err(too_long(&partial));
        }
        at += store_part(app, &partial, at, &mut coming).await?;
    }
    if at == partial.bytes {
        finish(app, &partial).await?;
    } else if let Some(why) = coming.broken {
        let detail = format!("expected {} bytes; what came before it broke off is stored: {why}", partial.bytes - at);
        return Err(Problem::invalid_body([(String::new(), detail)]).into());
    }
    Ok(at)
}

/// Stores the next bytes, up to the length of a part, and counts them. Returns their number.
async fn store_part<S>(app: &App, partial: &PartialUpload, at: i64, coming: &mut Coming<S>) -> Result<i64>
where
    S: Stream<Item = Result<Bytes, String>> + Unpin + Send,
{
    coming.left = PART.min((partial.bytes - at) as u64);
    let arrived = app.files.receive(&mut *coming, PART).await.map_err(|error| match error {
        ReceiveError::NoRoom => no_room(),
        ReceiveError::Store(error) => Error::Files(error),
        ReceiveError::TooLarge | ReceiveError::Sender(_) => Error::Broken("a part became too long".to_owned()),
    })?;
    let end = at + arrived.bytes as i64;
    if end == partial.bytes && coming.has_more().await {
        app.files.forget(&arrived).await?;
        return Err(too_long(partial));
    }
    if at == 0
        && let Some(refused) = early(app, partial, &arrived)
    {
        app.files.forget(&arrived).await?;
        remove(app, partial.id).await?;
        return Err(refused);
    }
    app.files.keep(&arrived).await?;
    if partial_uploads::add_part(&app.pool, partial.id, at, arrived.bytes as i64, arrived.id).await? {
        return Ok(arrived.bytes as i64);
    }
    app.files.remove(arrived.id).await?;
    match partial_uploads::find(&app.pool, partial.id, partial.owner_id).await? {
        Some(now) => Err(wrong_offset(now.received)),
        None => Err(Problem::not_found("upload").into()),
    }
}

/// Refuses with the first part what would be refused at the end.
fn early(app: &App, partial: &PartialUpload, first: &Arrived) -> Option<Error> {
    if first.start.len() < TELLING {
        return None;
    }
    let format = partial.format.unwrap_or_else(|| UploadFormat::detect(&partial.filename, &first.start));
    let workbook_limit = app.files.workbook_limit();
    if format == UploadFormat::Xlsx && partial.bytes as u64 > workbook_limit {
        return Some(too_large(workbook_limit, true));
    }
    not_of(format, &first.start).map(Error::from)
}

/// Converts a complete file to an upload. Concurrent callers on this server wait for it; another server may assemble it
/// too, and the first commit wins. A silent database ends only its statements: the assembly of a large file takes
/// minutes, and goes on.
async fn finish(app: &App, partial: &PartialUpload) -> Result<()> {
    let (app, partial) = (app.clone(), partial.clone());
    let task = app.tasks.clone().spawn(async move {
        let turn = KeyName { owner_id: partial.owner_id, scope: "upload".to_owned(), key: partial.id.to_string() };
        let _turn = app.engine.lock_key(&turn).await;
        match unless_silent(partial_uploads::find(&app.pool, partial.id, partial.owner_id)).await?? {
            None => Err(Problem::not_found("upload").into()),
            Some(now) if now.is_finished => Ok(()),
            Some(now) => put_together(&app, now).await,
        }
    });
    task.await.map_err(|e| Error::Broken(e.to_string()))?
}

async fn put_together(app: &App, partial: PartialUpload) -> Result<()> {
    let arrived = assemble(app, &partial).await?;
    let format = partial.format.unwrap_or_else(|| UploadFormat::detect(&partial.filename, &arrived.start));
    if let Some(refused) = refusal_of(app, format, &arrived) {
        app.files.forget(&arrived).await?;
        remove(app, partial.id).await?;
        return Err(refused);
    }
    app.files.keep(&arrived).await?;
    let new = NewUpload {
        id: partial.id,
        owner_id: partial.owner_id,
        format,
        filename: partial.filename,
        bytes: partial.bytes,
        sha256: arrived.sha256,
        made_by: None,
    };
    if let Some(objects) = unless_silent(insert_finished(app, &new)).await.flatten()? {
        for object in objects {
            app.files.remove(object).await?;
        }
    } else if unless_silent(uploads::find(&app.pool, new.id, None)).await??.is_none() {
        // Another server was not first: the upload was deleted meanwhile, and the file is orphaned.
        app.files.remove(new.id).await?;
    }
    Ok(())
}

/// Writes the parts of a file as one.
async fn assemble(app: &App, partial: &PartialUpload) -> Result<Arrived> {
    let parts = unless_silent(partial_uploads::parts(&app.pool, partial.id)).await??;
    let source = app.files.read_all(parts);
    let arriving = app.files.receive_as(partial.id, source, u64::MAX);
    let arrived = tokio::select! {
        arrived = arriving => arrived.map_err(|error| match error {
            ReceiveError::NoRoom => no_room(),
            ReceiveError::Store(error) | ReceiveError::Sender(error) => Error::Files(error),
            ReceiveError::TooLarge => Error::Broken("a file without end".to_owned()),
        })?,
        () = app.shutdown.cancelled() => {
            return Err(Error::refuse(Code::ShuttingDown, "The server stops; ask again where the file stands."));
        }
    };
    if arrived.bytes != partial.bytes as u64 {
        return Err(Error::Broken(format!("of upload {} there are {} bytes", partial.id, arrived.bytes)));
    }
    Ok(arrived)
}

/// Stores an assembled file as an upload. Returns the objects of its parts, and `None` if another server was first or the
/// file is gone.
async fn insert_finished(app: &App, new: &NewUpload) -> Result<Option<Vec<Uuid>>> {
    let mut tx = engine::store::begin(&app.pool).await?;
    if !partial_uploads::finish(&mut tx, new.id).await? {
        tx.rollback().await?;
        return Ok(None);
    }
    let _: Upload = uploads::insert(&mut tx, new).await?;
    let objects = partial_uploads::take_parts(&mut tx, new.id).await?;
    // If the response of the commit is lost, the file stays: if the commit failed, the next request repeats it, and an
    // orphaned file is deleted later.
    engine::store::commit(tx).await?;
    Ok(Some(objects))
}

/// Deletes a resumable upload, or the upload it has become (409 `upload_in_use`).
pub async fn delete(app: &App, caller: &Caller, id: Uuid) -> Result<()> {
    let partial = own(app, caller, id).await?;
    remove(app, id).await?;
    match partial_uploads::find(&app.pool, id, partial.owner_id).await? {
        Some(_) => super::delete(app, caller, id, None).await,
        None => Ok(()),
    }
}

async fn remove(app: &App, id: Uuid) -> Result<()> {
    for object in unless_silent(partial_uploads::remove(&app.pool, id)).await?? {
        app.files.remove(object).await?;
    }
    Ok(())
}

fn wrong_offset(received: i64) -> Error {
    Error::refuse(Code::WrongOffset, format!("The file ends at byte {received}; go on from there."))
}

fn too_long(partial: &PartialUpload) -> Error {
    Error::refuse(Code::TooLarge, format!("The file was announced with {} bytes; this is more.", partial.bytes))
}

/// Incoming body, cut into parts: a stream of at most `left` bytes, which ends with the body, complete or not.
struct Coming<S> {
    source: S,
    /// Received bytes that are not yet consumed.
    waiting: Bytes,
    left: u64,
    ended: bool,
    broken: Option<String>,
}

impl<S: Stream<Item = Result<Bytes, String>> + Unpin> Coming<S> {
    /// Waits for a byte. False at the end of the body.
    async fn has_more(&mut self) -> bool {
        while self.waiting.is_empty() && !self.ended {
            match self.source.next().await {
                Some(Ok(piece)) => self.waiting = piece,
                end => self.end(end.and_then(Result::err)),
            }
        }
        !self.waiting.is_empty()
    }

    fn end(&mut self, why: Option<String>) {
        self.ended = true;
        self.broken = why;
    }
}

impl<S: Stream<Item = Result<Bytes, String>> + Unpin> Stream for Coming<S> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while self.left > 0 {
            if !self.waiting.is_empty() {
                let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.waiting.len());
                self.left -= most as u64;
                return Poll::Ready(Some(Ok(self.waiting.split_to(most))));
            }
            if self.ended {
                break;
            }
            match std::task::ready!(self.source.poll_next_unpin(context)) {
                Some(Ok(piece)) => self.waiting = piece,
                end => self.end(end.and_then(Result::err)),
            }
        }
        Poll::Ready(None)
    }
}
