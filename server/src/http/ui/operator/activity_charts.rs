//! Data of the charts of activity, over the range that a page's query asks for.

use app::components::chart::{History, Range};
use domain::{Time, api::Activity};
use time::OffsetDateTime;

use crate::{App, http::ui::pairs};
use engine::{Span, access::caller::Caller, error::Result};

/// Range of a page's charts, from its query.
pub(crate) fn range(query: Option<&str>) -> Range {
    pairs(query).find(|(name, _)| name == "range").map(|(_, word)| Range::read(&word)).unwrap_or_default()
}

/// Activity of one type, or of all types, for charts.
pub(crate) async fn history(app: &App, caller: &Caller, type_name: Option<&str>, range: Range) -> Result<History> {
    let span = Span::last(range.step(), range.points(), OffsetDateTime::now_utc());
    let points = app.engine.activity(caller, type_name, span).await?;
    Ok(in_points(range, points))
}

pub(super) fn in_points(range: Range, points: Vec<(OffsetDateTime, Activity)>) -> History {
    History { range, points: points.into_iter().map(|(at, activity)| (Time(at), activity)).collect(), until: None }
}
