//! `/dead`, `/items` and `/items/{id}`: failed items, items by filter, and one item with its actions.

use std::cmp::Reverse;

use app::{
    components::action_form::RefusedAction,
    frame::Page,
    pages::{
        self,
        item::{Actions, Edit},
        operator::dead_letters::{GroupOrder, GroupTab, Items, RefusedState},
    },
};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use domain::{
    Code, Item, ItemState, Job, JobStatus, Outcome,
    api::{ErrorGroup, GroupState, ReplayBody, RetryBody},
    event_wait::EventBody,
    query::filter::lists::List,
    saved_view::ViewList,
};
use uuid::Uuid;

use crate::http::ui::{
    Signed,
    form::{Fields, in_the_form, new_key},
    jobs::{is_own_job, type_names},
    list_request::ListRequest,
    pairs, see_other, views,
};
use crate::{
    App,
    http::{
        extract::{Path, TriedPath},
        operator::replay::keyed,
        query::{cursor::Paged as _, items::ItemList},
    },
};
use engine::{
    GroupFilter,
    access::caller::Caller,
    error::{Error, Result},
    store::query::job_views,
};

/// Part of the API's refusal of a text search without another filter, which would scan every item.
const TEXT_ALONE: &str = "expected beside id, job, root";

/// Maximum number of groups read, in the chosen order.
const GROUPS: i64 = 1_000;

/// `GET /dead`
pub(crate) async fn dead(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    if let Some(opening) = views::opening(&app, &signed.caller, ViewList::Failures, query.as_deref()).await {
        return opening;
    }
    let word =
        |of: &str| pairs(query.as_deref()).find(|(name, _)| name == of).map(|(_, word)| word).unwrap_or_default();
    let shown = (GroupTab::read(&word("groups")), GroupOrder::read(&word("order")));
    let request = ListRequest::read(List::Dead, "/dead", query.as_deref());
    list_page(&app, &signed, request, shown, None).await
}

/// `GET /items`
pub(crate) async fn list(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    if let Some(opening) = views::opening(&app, &signed.caller, ViewList::Items, query.as_deref()).await {
        return opening;
    }
    let request = ListRequest::read(List::Items, "/items", query.as_deref());
    list_page(&app, &signed, request, Default::default(), None).await
}

/// Page of a list; `shown`: which groups, in which order; `refused`: a change of an error group that was refused.
pub(crate) async fn list_page(
    app: &App,
    signed: &Signed,
    mut request: ListRequest,
    shown: (GroupTab, GroupOrder),
    refused: Option<RefusedState>,
) -> Response {
    if let Err(error) = views::add_menu(app, &signed.caller, &mut request.list_filter).await {
        return signed.visit.error_page(error);
    }
    let mut status = if refused.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { request.status() };
    let mut page_data = Items {
        first: request.cursor.is_none(),
        flash: request.flash.clone(),
        staff: signed.caller.sees_all(),
        tab: shown.0,
        order: shown.1,
        refused,
        ..Items::nothing(request.list_filter.clone())
    };
    if let Err(error) = find(app, &signed.caller, &request, &mut page_data).await {
        status = match request.fault(error) {
            Ok(status) => status,
            Err(error) => return signed.visit.error_page(error),
        };
        page_data.list_filter = request.list_filter;
        if let Some(fault) = page_data.list_filter.fault.as_mut().filter(|fault| fault.detail.contains(TEXT_ALONE)) {
            "To search text, choose a job or a state other than succeeded first".clone_into(&mut fault.detail);
        }
    }
    let dead = page_data.list_filter.list == List::Dead;
    signed.visit.page(status, move || {
        if dead {
            pages::operator::dead_letters::page(&page_data)
        } else {
            pages::operator::dead_letters::items_page(&page_data)
        }
    })
}

async fn find(app: &App, caller: &Caller, request: &ListRequest, page_data: &mut Items) -> Result<()> {
    page_data.types = type_names(app);
    if request.list_filter.fault.is_some() {
        return Ok(());
    }
    let dead = request.list_filter.list == List::Dead;
    let (filter, order) = ItemList::read_ordered(&request.api(dead.then_some(("state", "dead"))))?;
    let pages = request.pages();
    let place = pages.place::<(i64, i64)>()?;
    let limit = pages.rows()?;
    let items = app.engine.list_items_with_payloads(caller, &filter, order, place, limit);
    let first = pages.first();
    let group_order = page_data.order;
    let groups = async { if first && dead { groups(app, caller, request, group_order).await } else { Ok(None) } };
    let job = async {
        if dead {
            return Ok(None);
        }
        match only_job(app, caller, request).await {
            // The list is shown without the name of its job.
            Err(error) if error.is_database_away() => Ok(None),
            found => found,
        }
    };
    let ((items, summaries, next), groups, job) = futures::try_join!(items, groups, job)?;
    (page_data.groups, page_data.summaries) = (groups, summaries);
    if let Some((job, whole_tree)) = job {
        page_data.exact = exact(request, &job, whole_tree).filter(|_| first);
        page_data.job = Some((job, whole_tree));
    }
    let page = pages.page(items, next);
    page_data.next = request.next(page.next_cursor);
    page_data.items = page.data;
    if first && dead && caller.sees_all() {
        add_failures(app, caller, request, page_data).await?;
    }
    Ok(())
}

/// Adds the failures over time of the listed groups, or the details of the group that the filter selects.
async fn add_failures(app: &App, caller: &Caller, request: &ListRequest, page_data: &mut Items) -> Result<()> {
    let Some(fingerprint) = request.value("error") else {
        page_data.sparklines = app.engine.error_sparklines(caller, &page_data.listed_groups()).await?;
        return Ok(());
    };
    let only = page_data.groups.as_deref().and_then(|groups| if let [one] = groups { Some(one) } else { None });
    let job_type = request.value("type").or(only.map(|group| group.job_type.as_str()));
    let Some(job_type) = job_type.filter(|job_type| !job_type.contains(',')) else { return Ok(()) };
    page_data.detail = match app.engine.error_group(caller, job_type, fingerprint).await {
        Ok(detail) => Some(detail),
        Err(Error::Problem(problem)) if problem.status == 404 => None,
        Err(error) => return Err(error),
    };
    Ok(())
}

/// Number of matching items, if a job's counters have it: of one job or one tree, in some states or in all.
fn exact(request: &ListRequest, job: &Job, whole_tree: bool) -> Option<i64> {
    let is_supported = |name: &str| matches!(name, "job" | "root" | "state");
    if !request.query.iter().all(|(name, _)| is_supported(name)) {
        return None;
    }
    let counts = if whole_tree { job.tree.counts } else { job.counts };
    let states = request.value("state").map(|words| words.split(',').filter_map(ItemState::parse));
    Some(states.map_or(counts.total(), |states| states.map(|state| counts.get(state)).sum()))
}

/// The job that the filter names, and whether the jobs below it are included.
async fn only_job(app: &App, caller: &Caller, request: &ListRequest) -> Result<Option<(Job, bool)>> {
    let id = |name: &str| request.value(name).and_then(|id| Uuid::parse_str(id).ok());
    let (of, whole_tree) = match (id("job"), id("root")) {
        (Some(job), None) => (job, false),
        (None, Some(root)) => (root, true),
        _ => return Ok(None),
    };
    Ok(Some((app.engine.job(caller, of, false).await?, whole_tree)))
}

/// Groups that match the filter, in this order; `None` if it has conditions that groups are not counted by.
async fn groups(
    app: &App,
    caller: &Caller,
    request: &ListRequest,
    order: GroupOrder,
) -> Result<Option<Vec<ErrorGroup>>> {
    let is_supported = |name: &str| matches!(name, "job" | "root" | "type" | "error" | "q");
    if !request.query.iter().all(|(name, _)| is_supported(name)) {
        return Ok(None);
    }
    let id = |name: &str| request.value(name).and_then(|id| Uuid::parse_str(id).ok());
    let filter = GroupFilter {
        job: id("job"),
        // The list has the items of the job alone.
        alone: true,
        root: id("root"),
        job_type: request.value("type").map(str::to_owned),
        owner: None,
        q: request.value("q").map(str::to_owned),
        states: Some(GroupState::ALL.to_vec()),
        order: match order {
            GroupOrder::LastSeen => job_views::GroupOrder::Latest,
            GroupOrder::Items => job_views::GroupOrder::Largest,
            GroupOrder::FirstSeen => job_views::GroupOrder::Newest,
        },
    };
    let mut groups = app.engine.groups(caller, &filter, GROUPS).await?;
    // Equal counts have no order of their own.
    if order == GroupOrder::Items {
        groups.sort_by_key(|group| Reverse((group.count, group.last_seen_at)));
    }
    if let Some(fingerprint) = request.value("error") {
        groups.retain(|group| group.fingerprint == fingerprint);
    }
    Ok(Some(groups))
}

/// `GET /items/{id}`
pub(crate) async fn show(
    State(app): State<App>,
    signed: Signed,
    RawQuery(query): RawQuery,
    id: TriedPath<Uuid>,
) -> Response {
    let mut actions = Actions::default();
    for (name, value) in pairs(query.as_deref()) {
        match name.as_str() {
            "did" => actions.flash = Some(value),
            "open" => actions.open = Some(value),
            "attempt" => actions.attempt = value.parse().ok(),
            _ => {}
        }
    }
    let rendered = match id {
        Ok(Path(id)) => draw(&app, &signed.caller, id, actions).await,
        Err(error) => Err(error.into()),
    };
    signed.answer(rendered)
}

async fn draw(app: &App, caller: &Caller, id: Uuid, actions: Actions) -> Result<impl FnOnce() -> Page + use<>> {
    let item = app.engine.item(caller, id).await?;
    let (mut attempts, log) =
        futures::try_join!(app.engine.attempts(caller, id), app.engine.log_tail(id, actions.attempt))?;
    attempts.reverse();
    let job = app.engine.job(caller, item.job_id, false).await?;
    let root = if item.root_id == item.job_id { None } else { app.engine.job(caller, item.root_id, false).await.ok() };
    let actions = Actions {
        own: is_own_job(caller, &job),
        staff: caller.sees_all(),
        job_canceled: job.status == JobStatus::Cancelling || job.outcome == Some(Outcome::Cancelled),
        key: new_key(),
        root: root.map(|root| name_of(&root)),
        owner: Some(job.owner.name.clone()),
        job: Some(name_of(&job)),
        log,
        ..actions
    };
    Ok(move || pages::item::page(&item, &attempts, &actions))
}

/// Display name of a job.
fn name_of(job: &Job) -> String {
    job.name.clone().unwrap_or_else(|| job.key.clone())
}

/// Action on an item by a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemAction {
    Retry,
    Cancel,
    Replay,
    Event,
}

impl ItemAction {
    const fn word(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Cancel => "cancel",
            Self::Replay => "replay",
            Self::Event => "event",
        }
    }
}

/// `POST /items/{id}/retry`
pub(crate) async fn retry(app: State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    submit(&app, signed, id, fields, ItemAction::Retry).await
}

/// `POST /items/{id}/cancel`
pub(crate) async fn cancel(app: State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    submit(&app, signed, id, fields, ItemAction::Cancel).await
}

/// `POST /items/{id}/replay`
pub(crate) async fn replay(app: State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    submit(&app, signed, id, fields, ItemAction::Replay).await
}

/// `POST /items/{id}/events`: the answer to the form of a wait.
pub(crate) async fn answer(app: State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    submit(&app, signed, id, fields, ItemAction::Event).await
}

/// Performs the action and redirects to its outcome, or shows the page again with the refusal in its form.
async fn submit(app: &App, signed: Signed, id: TriedPath<Uuid>, fields: Fields, action: ItemAction) -> Response {
    let id = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    let refused = match perform(app, &signed.caller, id, &fields, action).await {
        Ok(to) => return see_other(&to),
        Err(error) => in_the_form(error),
    };
    let problem = match refused {
        Ok(problem) => problem,
        Err(error) => return signed.visit.error_page(error),
    };
    let actions = Actions {
        refused: Some(RefusedAction { action: action.word(), problem, reason: fields.text("reason").to_owned() }),
        edit: Edit {
            payload: fields.lines("payload"),
            expires_at: fields.text("expires_at").to_owned(),
            restart: fields.ticked("restart"),
            answers: answers(&fields),
        },
        ..Actions::default()
    };
    match draw(app, &signed.caller, id, actions).await {
        Ok(draw) => signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, draw),
        Err(error) => signed.visit.error_page(error),
    }
}

/// Answers of a form by the name of their field.
fn answers(fields: &Fields) -> Vec<(String, String)> {
    let named = fields.pairs().filter_map(|(name, value)| Some((name.strip_prefix("answer.")?, value)));
    // Browsers send all line ends as CR LF.
    named.map(|(name, value)| (name.to_owned(), value.replace("\r\n", "\n"))).collect()
}

/// Sends the answers of the form as the event, for the wait that the form was drawn for.
async fn send_answer(app: &App, caller: &Caller, item: &Item, fields: &Fields) -> Result<()> {
    let answers = answers(fields);
    let typed = |name: &str| answers.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone());
    let form = item.wait.as_ref().and_then(|wait| wait.form.as_ref());
    let data = form.map(|form| form.data_of(typed));
    let body = EventBody { name: fields.text("name").to_owned(), data, reason: None };
    app.engine.send_answer(caller, item.id, body, fields.time("since")?).await
}

async fn perform(app: &App, caller: &Caller, id: Uuid, fields: &Fields, action: ItemAction) -> Result<String> {
    let engine = &app.engine;
    let reason = fields.given("reason").map(str::to_owned);
    if action == ItemAction::Cancel {
        engine.cancel_item(caller, id, reason.as_deref()).await?;
        return Ok(format!("/items/{id}?did=item-cancelled"));
    }
    let item = engine.item(caller, id).await?;
    if action == ItemAction::Event {
        send_answer(app, caller, &item, fields).await?;
        return Ok(format!("/items/{id}?did=answered"));
    }
    let has_changed = fields.given("version").is_some_and(|shown| shown != item.version.to_string());
    let payload = fields.edited("payload", item.payload.as_ref())?;
    if has_changed && payload.is_some() {
        let detail =
            "It has changed since this form was opened. Compare your text with its payload, then send it again.";
        return Err(Error::refuse(Code::PreconditionFailed, detail));
    }
    let expires_at = fields.time("expires_at")?;
    if action == ItemAction::Retry {
        // A repeated click finds the item that the first one has retried.
        if has_changed && !item.state.is_final() && !fields.has("payload") {
            return Ok(format!("/items/{id}?did=retried"));
        }
        let body = RetryBody { payload, expires_at, restart: fields.ticked("restart"), reason };
        engine.retry_item(caller, id, body).await?;
        return Ok(format!("/items/{id}?did=retried"));
    }
    let body = ReplayBody { payload, expires_at, reason };
    let key = keyed(fields.key(), caller, "POST /items/{id}/replay", id, &body).map_err(|error| error.0)?;
    let made = engine.replay_item(caller, id, body, key).await?;
    Ok(format!("/jobs/{made}?did=replayed"))
}
