//! `/jobs` and `/jobs/{id}`: the API's views as pages, with the actions on a job.

use app::{
    components::deed::Refused,
    frame::Page,
    pages::{self, job::Deeds},
};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use domain::{Job, filter::lists::List, job::OwnerKind};
use uuid::Uuid;

use super::{
    Signed,
    asked::{Asking, now},
    form::{Fields, in_the_form},
    pairs, see_other,
};
use crate::{
    App,
    auth::Caller,
    error::Result,
    http::{cursor::Paged as _, extract::Path, jobs::JobList},
    store::deliveries::DeliveryQuery,
};

/// Maximum number of callbacks on the page of a job, newest first.
const CALLBACKS: i64 = 10;

/// `GET /jobs`
pub(super) async fn list(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let mut asking = Asking::read(List::Jobs, "/jobs", query.as_deref());
    let mut shown = pages::jobs::Jobs {
        asked: asking.asked.clone(),
        job_types: Vec::new(),
        jobs: Vec::new(),
        next: None,
        first: asking.cursor.is_none(),
        did: asking.did.clone(),
        watched: None,
    };
    let mut status = asking.status();
    if let Err(error) = find(&app, &signed.caller, &asking, &mut shown).await {
        status = match asking.fault(error) {
            Ok(status) => status,
            Err(error) => return signed.visit.trouble(error),
        };
        shown.asked = asking.asked;
    }
    signed.visit.page(status, move || pages::jobs::page(&shown))
}

async fn find(app: &App, caller: &Caller, asking: &Asking, shown: &mut pages::jobs::Jobs) -> Result<()> {
    shown.job_types = type_names(app);
    if asking.asked.fault.is_some() {
        return Ok(());
    }
    let as_of = now();
    // Whole trees, unless the filter is about jobs within them.
    let (filter, oldest_first) =
        JobList::read_ordered(&asking.api((!asking.asked.is_within()).then_some(("root", "true"))))?;
    let pages = asking.pages();
    let (jobs, next) =
        app.engine.list_jobs(caller, &filter, oldest_first, pages.place::<i64>()?, pages.rows()?).await?;
    let page = pages.page(jobs, next);
    shown.next = asking.next(page.next_cursor);
    shown.jobs = page.data;
    if shown.jobs.iter().all(|job| job.parent_id.is_none()) && filter.root != Some(false) {
        let (asked, cursor) = (asking.query.clone(), asking.cursor.clone());
        shown.watched = Some(pages::jobs::Watched { asked, as_of, cursor });
    }
    Ok(())
}

/// Names of all job types for lists.
pub(super) fn type_names(app: &App) -> Vec<String> {
    app.engine.types().all().iter().take(1_000).map(|job_type| job_type.name.clone()).collect()
}

/// Returns true if the job is probably the caller's own. The server checks again.
pub(super) fn own(caller: &Caller, job: &Job) -> bool {
    job.owner.kind == caller.kind && job.owner.name == caller.name
}

/// `GET /jobs/{id}`
pub(super) async fn show(
    State(app): State<App>,
    signed: Signed,
    RawQuery(query): RawQuery,
    id: Result<Path<Uuid>>,
) -> Response {
    let word = |wanted: &str| pairs(query.as_deref()).find(|(name, _)| name == wanted).map(|(_, word)| word);
    let deeds = Deeds { did: word("did"), open: word("open"), ..Deeds::default() };
    let drawn = match id {
        Ok(Path(id)) => draw(&app, &signed.caller, id, deeds).await,
        Err(error) => Err(error),
    };
    signed.answer(drawn)
}

async fn draw(app: &App, caller: &Caller, id: Uuid, deeds: Deeds) -> Result<impl FnOnce() -> Page + use<>> {
    let query = DeliveryQuery { limit: CALLBACKS, ..DeliveryQuery::default() };
    let (job, groups, in_flight, held, called) = futures::try_join!(
        app.engine.job(caller, id, true),
        app.engine.error_groups(caller, id),
        app.engine.items_in_flight(caller, id),
        app.engine.held(caller, id),
        app.engine.job_deliveries(caller, id, query),
    )?;
    let deeds = Deeds { own: own(caller, &job), admin: caller.is_admin(), ..deeds };
    Ok(move || pages::job::page(&job, &groups, &in_flight, &held, &called, &deeds))
}

/// Action on a job by a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Cancel,
    Replay,
    Pin,
    Unpin,
    Delete,
}

impl Deed {
    const fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Replay => "replay",
            Self::Pin => "pin",
            Self::Unpin => "unpin",
            Self::Delete => "delete",
        }
    }
}

/// `POST /jobs/{id}/cancel`
pub(super) async fn cancel(app: State<App>, signed: Signed, id: Result<Path<Uuid>>, fields: Fields) -> Response {
    done(&app, signed, id, fields, Deed::Cancel).await
}

/// `POST /jobs/{id}/replay`
pub(super) async fn replay(app: State<App>, signed: Signed, id: Result<Path<Uuid>>, fields: Fields) -> Response {
    done(&app, signed, id, fields, Deed::Replay).await
}

/// `POST /jobs/{id}/pin`
pub(super) async fn pin(app: State<App>, signed: Signed, id: Result<Path<Uuid>>, fields: Fields) -> Response {
    done(&app, signed, id, fields, Deed::Pin).await
}

/// `POST /jobs/{id}/unpin`
pub(super) async fn unpin(app: State<App>, signed: Signed, id: Result<Path<Uuid>>, fields: Fields) -> Response {
    done(&app, signed, id, fields, Deed::Unpin).await
}

/// `POST /jobs/{id}/delete`
pub(super) async fn delete(app: State<App>, signed: Signed, id: Result<Path<Uuid>>, fields: Fields) -> Response {
    done(&app, signed, id, fields, Deed::Delete).await
}

/// Performs the action and redirects to its outcome, or shows the page again with the refusal in its form.
async fn done(app: &App, signed: Signed, id: Result<Path<Uuid>>, fields: Fields, deed: Deed) -> Response {
    let id = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.trouble(error),
    };
    let refused = match act(app, &signed.caller, id, fields.given("reason"), deed).await {
        Ok(to) => return see_other(&to),
        Err(error) => in_the_form(error),
    };
    let problem = match refused {
        Ok(problem) => problem,
        Err(error) => return signed.visit.trouble(error),
    };
    let refused = Refused { deed: deed.word(), problem, reason: fields.text("reason").to_owned() };
    let deeds = Deeds { refused: Some(refused), ..Deeds::default() };
    match draw(app, &signed.caller, id, deeds).await {
        Ok(draw) => signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, draw),
        Err(error) => signed.visit.trouble(error),
    }
}

async fn act(app: &App, caller: &Caller, id: Uuid, reason: Option<&str>, deed: Deed) -> Result<String> {
    let engine = &app.engine;
    Ok(match deed {
        Deed::Cancel => {
            engine.cancel_job(caller, id, reason).await?;
            format!("/jobs/{id}?did=cancelled")
        }
        Deed::Replay => {
            let made = engine.replay_tree(caller, id, reason, None).await?;
            format!("/jobs/{made}?did=replayed")
        }
        Deed::Pin => {
            engine.pin(caller, id, true, reason).await?;
            format!("/jobs/{id}?did=pinned")
        }
        Deed::Unpin => {
            engine.pin(caller, id, false, reason).await?;
            format!("/jobs/{id}?did=unpinned")
        }
        Deed::Delete => {
            engine.remove(caller, id, reason).await?;
            let home = if caller.kind == OwnerKind::User && !caller.sees_all() { "/imports" } else { "/jobs" };
            format!("{home}?did=deleted")
        }
    })
}
