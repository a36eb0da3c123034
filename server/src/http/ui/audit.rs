//! `/audit`: the audit log, for staff. The filter is in the URL.

use std::collections::HashMap;

use app::pages::audit as page;
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use domain::{Problem, Time};
use serde::Serialize;
use uuid::Uuid;

use super::{Signed, address, pairs};
use crate::{
    App,
    http::query::cursor::{Paged as _, paged},
};
use engine::{
    access::caller::Role,
    error::{Error, Result},
    store::notify::audit::AuditQuery,
};

/// Number of entries on a page.
const ROWS: i64 = 50;

/// Filter as typed; a cursor is bound to it.
#[derive(Clone, Debug, Default, Serialize)]
struct AuditList {
    actor: String,
    action: String,
    since: String,
    job: String,
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(AuditList, "page of the audit log", |_| Some(ROWS));

impl AuditList {
    /// Parses a URL query. Unknown parameters are ignored: they may belong to other pages.
    fn read(query: Option<&str>) -> Self {
        let mut list = Self::default();
        for (name, value) in pairs(query) {
            let value = value.trim().to_owned();
            match name.as_str() {
                "actor" => list.actor = value,
                "action" => list.action = value,
                "since" => list.since = value,
                "job" => list.job = value,
                "cursor" => list.cursor = Some(value),
                _ => {}
            }
        }
        list
    }

    /// The filter; `offset_minutes` is the zone of the reader, in which the page shows times.
    fn query(&self, offset_minutes: Option<i32>) -> Result<AuditQuery> {
        let given = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        let since = given(&self.since)
            .map(|text| {
                since(&text, offset_minutes.unwrap_or(0)).ok_or_else(|| {
                    Problem::parameter("since", "expected a day or a time, such as 2026-11-20 or 2026-11-20 14:03")
                })
            })
            .transpose()?;
        let job = given(&self.job)
            .map(|text| Uuid::parse_str(&text).map_err(|_| Problem::parameter("job", "expected the id of a job")))
            .transpose()?;
        let before = self.place::<(Time, Uuid)>()?;
        Ok(AuditQuery {
            owner_id: None,
            actor: given(&self.actor),
            action: given(&self.action),
            job_id: job,
            root_id: None,
            item_id: None,
            since: since.map(|at| at.0),
            oldest_first: false,
            behind: before.map(|(at, id)| (at.0, id)),
            limit: ROWS + 1,
        })
    }
}

/// Time that a person typed. A date means its first moment; people type a space instead of the T.
fn since(text: &str, offset_minutes: i32) -> Option<Time> {
    let sign = if offset_minutes < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset_minutes.abs() / 60, offset_minutes.abs() % 60);
    let zone = format!("{sign}{hours:02}:{minutes:02}");
    Time::parse(&match text.len() {
        10 => format!("{text}T00:00:00{zone}"),
        16 => format!("{}:00{zone}", text.replace(' ', "T")),
        _ => text.replace(' ', "T"),
    })
}

/// `GET /audit`
pub(super) async fn show(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    if let Err(refused) = signed.require(Role::Support) {
        return *refused;
    }
    let list = AuditList::read(query.as_deref());
    let AuditList { actor, action, since, job, .. } = list.clone();
    let mut page_data = page::Audit { filter: page::Filter { actor, action, since, job }, ..page::Audit::default() };
    match find(&app, &signed, &list, &mut page_data).await {
        Ok(()) => signed.visit.page(StatusCode::OK, move || page::page(&page_data)),
        // An invalid filter gets the same page with the typed text.
        Err(Error::Problem(problem)) if problem.status == 400 => {
            page_data.problem = Some(problem.detail);
            signed.visit.page(StatusCode::BAD_REQUEST, move || page::page(&page_data))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

async fn find(app: &App, signed: &Signed, list: &AuditList, page_data: &mut page::Audit) -> Result<()> {
    let found = app.engine.audit(&signed.caller, list.query(signed.visit.offset_minutes)?).await?;
    let paged = list.page_of(found, |entry| (entry.at, entry.id))?;
    page_data.next = paged.next_cursor.map(|cursor| {
        let AuditList { actor, action, since, job, .. } = list;
        address("/audit", &[("actor", actor), ("action", action), ("since", since), ("job", job), ("cursor", &cursor)])
    });
    let mut roots: Vec<Uuid> = paged.data.iter().filter_map(|entry| entry.root_id).collect();
    roots.sort_unstable();
    roots.dedup();
    page_data.roots = match app.engine.job_names(&signed.caller, &roots).await {
        // The entries are shown without the names of their jobs.
        Err(error) if error.is_database_away() => HashMap::new(),
        found => found?,
    };
    page_data.entries = paged.data;
    Ok(())
}
