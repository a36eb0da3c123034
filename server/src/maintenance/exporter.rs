//! Executor `export`: writes rows of a job to a file of the item's owner.
//!
//! Uses the same use cases as any worker, but runs separately from the fast executors, because one export may take
//! minutes. Rows stream into the file store while heartbeats report progress. A crashed server leaves no visible file;
//! the next assignment of the item starts over.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use domain::{
    Code, Document, Problem,
    api::{Assignment, Claim, FailureBody, HeartbeatOf, ReleaseBody, WorkError},
    import::{
        export::{ExportFormat, ExportOrder, Exported},
        upload::UploadFormat,
    },
    item::ItemProgress,
    job_type::Builtin,
};
use futures::StreamExt as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    App, audit,
    auth::{Ongoing, still_valid},
    exports::Export,
    uploads,
};
use engine::{
    EndingKind, Engine, Requester,
    access::caller::Caller,
    error::{Error, Result},
    import::files::ReceiveError,
    store::{access::quotas::Usage, import::uploads::NewUpload, tree::definitions},
    task::unless_silent,
};

/// Concurrent exports per server.
const MAX_CONCURRENT: usize = 3;

/// Wait of one claim, in seconds.
const WAIT: u32 = 2;

/// Heartbeat interval: a fraction of the lease of built-in types.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);

/// Pause after a failure.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Runs exports until shutdown; those in progress are then released.
pub(super) async fn run(app: App) {
    let caller = Engine::builtin_caller();
    let mut under_way = JoinSet::new();
    while !app.shutdown.is_cancelled() {
        while under_way.len() >= MAX_CONCURRENT {
            under_way.join_next().await;
        }
        match unless_silent(claim(&app, &caller)).await.flatten() {
            Ok(assignments) => {
                for assignment in assignments {
                    under_way.spawn(work(app.clone(), caller.clone(), assignment));
                }
            }
            Err(error) => {
                tracing::warn!(task = "exporter", %error, "background task failed, will retry");
                pause(&app, PAUSE_AFTER_FAILURE).await;
            }
        }
        while under_way.try_join_next().is_some() {}
    }
    while under_way.join_next().await.is_some() {}
}

async fn pause(app: &App, duration: Duration) {
    tokio::select! {
        () = tokio::time::sleep(duration) => {}
        () = app.shutdown.cancelled() => {}
    }
}

async fn claim(app: &App, caller: &Caller) -> Result<Vec<Assignment>> {
    let is_export = |info: &Arc<definitions::TypeInfo>| info.executor.name == Some(Builtin::Export);
    let types: Vec<String> =
        app.engine.builtin_types().iter().filter(|info| is_export(info)).map(|info| info.name.clone()).collect();
    if types.is_empty() {
        pause(app, Duration::from_secs(WAIT.into())).await;
        return Ok(Vec::new());
    }
    let claim = Claim {
        worker_id: "treeline".to_owned(),
        types,
        item_ids: None,
        max: Some(1),
        wait_seconds: Some(WAIT),
        claim_id: None,
    };
    Ok(app.engine.claim(caller, claim).await?.assignments)
}

/// Runs one export from claim to ending.
async fn work(app: App, caller: Caller, assignment: Assignment) {
    // Canceled when the server stops or the assignment is lost.
    let stop = app.shutdown.child_token();
    let written = unless_silent(export(&app, &caller, &assignment, &stop)).await.flatten();
    let file = written.as_ref().ok().map(|exported| exported.upload_id);
    let kind = match written {
        Ok(exported) => EndingKind::Result(Document::of(&exported)),
        Err(_) if app.shutdown.is_cancelled() => EndingKind::Release(ReleaseBody::default()),
        Err(Error::Problem(problem)) => failure(problem.detail, problem.code.as_str(), false),
        Err(error) => {
            tracing::warn!(task = "exporter", %error, item_id = %assignment.item.id, "export failed");
            failure("The database or the file store failed.".to_owned(), Code::Internal.as_str(), true)
        }
    };
    let Err(error) = end(&app, &caller, &assignment, &kind).await else { return };
    let removed = match (&error, file) {
        // The item has another outcome. A result that arrived after a cancellation still names the file, which is then gone.
        (Error::Problem(_), Some(id)) => {
            unless_silent(uploads::delete_exported(&app.pool, &app.files, id)).await.flatten()
        }
        (Error::Problem(_), None) => Ok(()),
        // The item is offered again when the lease expires.
        _ => Err(error),
    };
    if let Err(error) = removed {
        tracing::warn!(task = "exporter", %error, item_id = %assignment.item.id, "recording an export's outcome failed");
    }
}

/// Records the outcome, as often as necessary while the database is away: leases do not expire meanwhile. A repetition
/// of what was recorded gets the same answer.
async fn end(app: &App, caller: &Caller, assignment: &Assignment, kind: &EndingKind) -> Result<()> {
    loop {
        match unless_silent(app.engine.end(caller, assignment.id, kind.clone())).await.flatten() {
            Err(error) if error.is_database_away() && !app.shutdown.is_cancelled() => {
                tracing::debug!(task = "exporter", %error, "recording an export's outcome failed, will retry");
                pause(app, PAUSE_AFTER_FAILURE).await;
            }
            ended => return ended.map(drop),
        }
    }
}

fn failure(message: String, kind: &str, retryable: bool) -> EndingKind {
    let error = WorkError { message, kind: Some(kind.to_owned()), detail: None };
    EndingKind::Failure(FailureBody { error, retryable, retry_after_seconds: None, cancel_tree: false })
}

async fn export(app: &App, caller: &Caller, assignment: &Assignment, stop: &CancellationToken) -> Result<Exported> {
    let item = &assignment.item;
    let order: ExportOrder = domain::strict_json::from_str(item.payload.text()).map_err(|error| {
        let expected = "expected {job_id, what: results|failures|items, format: ndjson|csv|xlsx, delimiter?, bom?}";
        Problem::invalid_body([(String::new(), format!("{expected}: {error}"))])
    })?;
    let job = definitions::job_by_id(&app.pool, item.job_id).await?.ok_or_else(|| Problem::not_found("job"))?;
    let (export, requester) = open(app, &order, &job).await?;
    audit::record_export(app, &requester, &order, job.job_id).await?;
    let mut ongoing = Ongoing::of(app, &requester);
    let (filename, written, total) = (export.filename.clone(), export.written(), export.total().await?);
    let left = app.quotas.bytes_left(job.owner_id, 0).await?;

    let progress = move || {
        let done = written.load(Ordering::Relaxed);
        // Rows may be added meanwhile.
        ItemProgress { done: Some(done), total: Some(total.max(done)), message: None }
    };
    // A workbook is written before its first byte can be read.
    let heartbeats =
        tokio::spawn(send_heartbeats(app.clone(), caller.clone(), assignment.id, progress.clone(), stop.clone()));
    let pages = match export.pages().await {
        Ok(pages) => pages,
        Err(error) => {
            stop.cancel();
            let _ = heartbeats.await;
            return Err(error);
        }
    };
    let stopped = || Error::Broken("the export was stopped".to_owned());
    // An error in the stream makes the store discard the partial file.
    let stop_error = futures::stream::once({
        let stop = stop.clone();
        async move {
            tokio::select! {
                () = stop.cancelled() => Err(Error::Broken("the export was stopped".to_owned())),
                ended = ongoing.ended() => Err(explain(ended)),
            }
        }
    });
    let source =
        futures::stream::select(pages.map(Some).chain(futures::stream::iter([None])), Box::pin(stop_error.map(Some)));
    let source = source.take_while(|piece| std::future::ready(piece.is_some()));
    let source = source.filter_map(|piece: Option<Result<Bytes>>| std::future::ready(piece));
    let arrived = app.files.receive(Box::pin(source), left).await;
    let is_ours = !stop.is_cancelled();
    stop.cancel();
    // Wait for a heartbeat in progress: nothing may follow the ending.
    let _ = heartbeats.await;
    let arrived = arrived.map_err(|error| match error {
        ReceiveError::Sender(error) => error,
        ReceiveError::Store(error) => Error::Files(error),
        ReceiveError::NoRoom => Error::Files(object_store::Error::Generic {
            store: "files",
            source: Box::new(std::io::Error::from(std::io::ErrorKind::StorageFull)),
        }),
        ReceiveError::TooLarge => app.quotas.too_many_bytes(left).into(),
    })?;
    let allowed = if is_ours { still_valid(app, &requester).await.map_err(explain) } else { Err(stopped()) };
    if let Err(error) = allowed {
        app.files.forget(&arrived).await?;
        return Err(error);
    }
    let new = NewUpload {
        id: arrived.id,
        owner_id: job.owner_id,
        filename: uploads::clean_filename(&filename),
        bytes: arrived.bytes as i64,
        sha256: arrived.sha256.clone(),
        format: match order.format {
            ExportFormat::Csv => UploadFormat::Csv,
            ExportFormat::Ndjson => UploadFormat::Ndjson,
            ExportFormat::Xlsx => UploadFormat::Xlsx,
        },
        made_by: Some(item.job_id),
    };
    let rows = progress().done.unwrap_or(0);
    let taken = app.quotas.take(job.owner_id, Usage { bytes: new.bytes, ..Usage::default() }).await;
    let _taken = match taken {
        Ok(taken) => taken,
        Err(refused) => {
            app.files.forget(&arrived).await?;
            return Err(refused);
        }
    };
    let upload = uploads::keep(&app.pool, &app.files, &arrived, &new).await?;
    Ok(Exported { upload_id: upload.id, rows, bytes: upload.bytes })
}

/// Opens the export with the rights of its requester, who is returned too.
async fn open(app: &App, order: &ExportOrder, job: &definitions::JobInfo) -> Result<(Export, Caller)> {
    let Requester { caller, was_reduced } = app.engine.requester(job.job_id, job.owner_id).await.map_err(explain)?;
    match Export::open(app, &caller, order.job_id, order.what, order.layout(), None).await {
        Ok(export) => Ok((export, caller)),
        Err(Error::Problem(problem)) if was_reduced && problem.code == Code::NotFound => Err(explain(Error::refuse(
            Code::Forbidden,
            "The credential that asked may not see the work of others any more.",
        ))),
        Err(error) => Err(error),
    }
}

/// Explains an export that stops because of the requester's credential.
fn explain(error: Error) -> Error {
    match error {
        Error::Problem(problem) if matches!(problem.code, Code::Unauthenticated | Code::Forbidden) => Error::refuse(
            problem.code,
            format!(
                "{} An export has the rights of the credential that asked for it: ask again with another.",
                problem.detail
            ),
        ),
        other => other,
    }
}

/// Sends heartbeats with progress; stops the export when the assignment is no longer wanted.
async fn send_heartbeats(
    app: App,
    caller: Caller,
    id: uuid::Uuid,
    progress: impl Fn() -> ItemProgress + Send,
    stop: CancellationToken,
) {
    loop {
        let heartbeats = vec![HeartbeatOf { assignment_id: id.into(), progress: Some(progress()) }];
        match unless_silent(app.engine.heartbeats(&caller, heartbeats)).await.flatten() {
            Ok(answers) => {
                if answers.iter().any(|answer| answer.status != 200 || answer.cancel == Some(true)) {
                    stop.cancel();
                }
            }
            Err(error) => tracing::warn!(task = "exporter", %error, "heartbeat failed"),
        }
        tokio::select! {
            () = tokio::time::sleep(HEARTBEAT_INTERVAL) => {}
            () = stop.cancelled() => return,
        }
    }
}
