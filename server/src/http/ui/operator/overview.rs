//! `/`: current activity, for staff. The statistics are those of the API; people without the role are redirected to
//! their uploads.

use app::{
    components::chart::Range,
    pages::{
        self,
        overview::{MOST_ALERTS, Overview},
    },
};
use axum::{
    extract::{RawQuery, State},
    response::Response,
};

use super::activity_charts::{history, range};
use crate::http::ui::{Signed, see_other};
use crate::{
    App,
    http::query::{cursor::cut, stats},
};
use engine::{
    access::caller::Caller,
    error::Result,
    store::{
        notify::alerts::AlertQuery,
        page_range::{NamedOrder, PageRange},
    },
};

/// Maximum number of workers on the overview.
const WORKERS: i64 = 1_000;

/// `GET /`
pub(crate) async fn start(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    if !signed.caller.sees_all() {
        return see_other("/imports");
    }
    let rendered = overview(&app, &signed.caller, range(query.as_deref())).await;
    signed.answer(rendered.map(|overview| move || pages::overview::page(&overview)))
}

async fn overview(app: &App, caller: &Caller, range: Range) -> Result<Overview> {
    let part = PageRange::newest(None, MOST_ALERTS as i64 + 1);
    let query = AlertQuery { owner_id: None, kind: None, all: false, part };
    let workers = app.engine.workers(caller, NamedOrder::ByName, None, WORKERS + 1).await?;
    let (workers, more) = cut(workers, WORKERS, |_| ());
    Ok(Overview {
        stats: stats::stats(app, caller).await?,
        alerts: app.engine.alerts(caller, query).await?,
        workers: workers.into_iter().map(|(_, worker)| worker).collect(),
        more_workers: more.is_some(),
        history: history(app, caller, None, range).await?,
    })
}
