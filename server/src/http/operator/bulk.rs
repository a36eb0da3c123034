//! HTTP handlers for bulk operations. The filter is an object with the list's own filters and is read by the list's
//! own parser, so an operation affects exactly the rows that a page shows.

use axum::{
    Json as Answer,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use domain::{
    Document, Problem,
    api::{BulkOperation, BulkTarget, NewBulk, Page, ReasonBody},
    document::pointer::{elements, members},
};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::http::{
    callers::{BulkWriter, Reader, Writer},
    enqueue::idempotency::{Key, Text, fingerprint},
    extract::{JsonOrDefault, Path, Query},
    query::{
        cursor::{Paged as _, paged},
        items::ItemList,
        sort::ByAge,
    },
    tree::jobs::JobList,
};
use crate::{
    App,
    http::error::{Error, Result},
};
use engine::{BulkSelection, KeyedCall};

/// Query parameters of the list of operations.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BulkList {
    /// `-created_at` (default): newest first; `created_at`: oldest first
    #[serde(default)]
    #[param(value_type = Option<String>)]
    sort: ByAge,
    /// Maximum number of rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(BulkList, "bulk operations");

/// Start a bulk operation on all rows that match a filter
///
/// Retries or cancels items; cancels or deletes jobs. `dry_run` counts exactly and shows some of the members; it is
/// finished when its state is `ready`. Without it, the set of members is frozen and then processed one by one at a
/// limited rate. Each member is counted once: `processed`, `skipped` by reason, or `errored`. A retry delays the
/// completion of the affected trees until it has processed their items.
#[utoipa::path(post, path = "/bulk-operations", tag = "bulk", request_body = NewBulk,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 200, description = "A dry run", body = BulkOperation),
              (status = 202, description = "Started", body = BulkOperation, headers(("Location" = String)))))]
pub async fn create_bulk(
    State(app): State<App>,
    BulkWriter(caller): BulkWriter,
    key: Key,
    Text { value: new, text }: Text<NewBulk>,
) -> Result<Response> {
    let wanted = bulk_selection(new.target, &new.filter)?;
    app.engine.check_bulk(&new)?;
    let key = key.name(&caller).map(|name| KeyedCall {
        name,
        call: "POST /bulk-operations",
        fingerprint: fingerprint(&text),
    });
    let status = if new.dry_run { StatusCode::OK } else { StatusCode::ACCEPTED };
    let created = app.engine.create_bulk(&caller, new, wanted, key).await?;
    let place = HeaderValue::try_from(format!("/api/v1/bulk-operations/{}", created.id))
        .map_err(|e| Error(engine::error::Error::Broken(e.to_string())))?;
    Ok((status, [(header::LOCATION, place)], Answer(created)).into_response())
}

/// List bulk operations
///
/// Newest first. Callers see their own operations, staff see all. A requester who is no longer staff sees those with only
/// their own work. Finished operations are kept for 30 days.
#[utoipa::path(get, path = "/bulk-operations", tag = "bulk", params(BulkList),
    responses((status = 200, body = Page<BulkOperation>)))]
pub async fn list_bulk(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(list): Query<BulkList>,
) -> Result<Answer<Page<BulkOperation>>> {
    let found = app.engine.list_bulk(&caller, list.sort.part(list.place()?, list.rows_to_read()?)).await?;
    Ok(Answer(list.page_of(found, |one| one.id)?))
}

/// Get a bulk operation
///
/// Progress of the operation, and some of its members as they were when they were selected.
#[utoipa::path(get, path = "/bulk-operations/{id}", tag = "bulk", params(("id" = Uuid, Path)),
    responses((status = 200, body = BulkOperation)))]
pub async fn get_bulk(
    State(app): State<App>,
    Reader(caller): Reader,
    Path(id): Path<Uuid>,
) -> Result<Answer<BulkOperation>> {
    Ok(Answer(app.engine.bulk(&caller, id).await?))
}

/// Cancel a bulk operation
///
/// Stops at once; processed members stay processed. Repeating the call has no effect; 409 `operation_over` if finished.
#[utoipa::path(post, path = "/bulk-operations/{id}/cancel", tag = "bulk", params(("id" = Uuid, Path)),
    request_body = Option<ReasonBody>, responses((status = 200, body = BulkOperation)))]
pub async fn cancel_bulk(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<Answer<BulkOperation>> {
    Ok(Answer(app.engine.cancel_bulk(&caller, id, body.reason.as_deref()).await?))
}

/// Parses the filter with the list's own parser.
pub(crate) fn bulk_selection(target: BulkTarget, filter: &Document) -> Result<BulkSelection> {
    let query = query(filter).map_err(|(name, detail)| Problem::invalid_body([(pointer(&name), detail.to_owned())]))?;
    let read = match target {
        BulkTarget::Items => ItemList::read(&query).map(BulkSelection::Items),
        BulkTarget::Jobs => JobList::read(&query).map(BulkSelection::Jobs),
    };
    read.map_err(|error| match error {
        Error(engine::error::Error::Problem(problem)) => {
            let faults = problem.errors.into_iter();
            Problem::invalid_body(faults.map(|fault| (pointer(fault.pointer.trim_start_matches('?')), fault.detail)))
                .into()
        }
        other => other,
    })
}

fn pointer(name: &str) -> String {
    if name.is_empty() {
        "/filter".to_owned()
    } else {
        format!("/filter/{}", name.replace('~', "~0").replace('/', "~1"))
    }
}

/// Converts an object of filters to the equivalent query: several states as an array or separated by commas, metadata
/// as an object or as single entries. An error holds the name of the member and the expected form.
fn query(filter: &Document) -> Result<String, (String, &'static str)> {
    let expected = "expected an object with the filters of the list, at least one";
    let given = members(filter.text()).ok_or((String::new(), expected))?;
    let mut query = form_urlencoded::Serializer::new(String::new());
    let mut n = 0;
    for (name, value) in given {
        let fault = |detail| (name.clone(), detail);
        if matches!(name.as_str(), "limit" | "cursor" | "sort") {
            return Err(fault("expected nothing, as an operation has neither pages nor an order"));
        }
        let mut add = |name: &str, text: &str| {
            query.append_pair(name, text);
            n += 1;
        };
        if let Some(inner) = members(value).filter(|_| name == "metadata") {
            for (inner, value) in inner {
                add(&format!("metadata.{inner}"), &text(value).unwrap_or_else(|| value.to_owned()));
            }
        } else if let Some(words) = elements(value) {
            let words: Option<Vec<String>> = words.into_iter().map(text).collect();
            add(&name, &words.ok_or_else(|| fault("expected texts"))?.join(","));
        } else if value.starts_with('{') {
            return Err(fault("expected a text, a number, or true or false"));
        } else if value != "null" {
            add(&name, &text(value).unwrap_or_else(|| value.to_owned()));
        }
    }
    if n == 0 { Err((String::new(), expected)) } else { Ok(query.finish()) }
}

/// Value of a JSON string.
fn text(value: &str) -> Option<String> {
    serde_json::from_str(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_query(text: &str) -> Result<String, String> {
        query(&Document::parse(text.to_owned()).expect(text)).map_err(|fault| fault.0)
    }

    #[test]
    fn a_filter_says_what_the_query_of_the_list_says() {
        let text = r#"{"state":["dead","expired"],"row":7,"root":true,"q":"a&b","job":null}"#;
        assert_eq!(as_query(text).as_deref(), Ok("state=dead%2Cexpired&row=7&root=true&q=a%26b"));
        let text = r#"{"metadata":{"team":"hr","n":5},"metadata.x":"y"}"#;
        assert_eq!(as_query(text).as_deref(), Ok("metadata.team=hr&metadata.n=5&metadata.x=y"));
        for (text, name) in [("{}", ""), ("[]", ""), (r#"{"job":null}"#, ""), (r#"{"limit":5}"#, "limit")] {
            assert_eq!(as_query(text), Err(name.to_owned()), "{text}");
        }
        assert_eq!(as_query(r#"{"q":{"a":1}}"#), Err("q".to_owned()));
    }
}
