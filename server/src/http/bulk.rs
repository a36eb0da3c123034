//! Bulk operations over HTTP. The filter is an object of the list's own filters and is read by the list's
//! own reader, so that what a page shows is what an operation meets.

use axum::{
    Json as Answer,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use domain::{
    Document, Problem,
    api::{BulkOperation, BulkTarget, NewBulk, Page, ReasonBody},
    document::walk::{elements, members},
};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    cursor::{Paged, cut},
    extract::{JsonOrDefault, Path, Query},
    idempotency::{Key, Text, fingerprint},
    items::ItemList,
    jobs::JobList,
    sort::ByAge,
};
use crate::{
    App,
    auth::Caller,
    error::{Error, Result},
    jobs::{KeyedCall, Wanted},
};

/// The list of operations.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BulkList {
    /// `-created_at`, the default: the newest first; `created_at`: the oldest first
    #[serde(default)]
    #[param(value_type = Option<String>)]
    sort: ByAge,
    /// Rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

impl Paged for BulkList {
    const LIST: &'static str = "bulk operations";
    fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
    fn limit(&self) -> Option<i64> {
        self.limit
    }
}

/// Do something to everything that a list shows
///
/// Items are retried or cancelled, jobs are cancelled or deleted. `dry_run` counts exactly and shows some
/// of the members; it is through when its state is `ready`. Without it the members are frozen, then dealt
/// with one by one, paced, each counted once: `processed`, `skipped` by reason, or `errored`. A retry holds
/// the completion of the trees it touches until it is through with them.
#[utoipa::path(post, path = "/bulk-operations", tag = "bulk", request_body = NewBulk,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 200, description = "A dry run", body = BulkOperation),
              (status = 202, description = "Begun", body = BulkOperation, headers(("Location" = String)))))]
pub async fn create_bulk(
    State(app): State<App>,
    caller: Caller,
    key: Key,
    Text { value: new, text }: Text<NewBulk>,
) -> Result<Response> {
    let wanted = wanted(new.target, &new.filter)?;
    app.engine.check_bulk(&new)?;
    let key = key.name(&caller).map(|name| KeyedCall {
        name,
        call: "POST /bulk-operations",
        fingerprint: fingerprint(&text),
    });
    let status = if new.dry_run { StatusCode::OK } else { StatusCode::ACCEPTED };
    let made = app.engine.create_bulk(&caller, new, wanted, key).await?;
    let place = HeaderValue::try_from(format!("/api/v1/bulk-operations/{}", made.id))
        .map_err(|e| Error::Broken(e.to_string()))?;
    Ok((status, [(header::LOCATION, place)], Answer(made)).into_response())
}

/// List bulk operations, newest first: one's own, to staff everybody's
///
/// Operations that are over are remembered for 30 days.
#[utoipa::path(get, path = "/bulk-operations", tag = "bulk", params(BulkList),
    responses((status = 200, body = Page<BulkOperation>)))]
pub async fn list_bulk(
    State(app): State<App>,
    caller: Caller,
    Query(list): Query<BulkList>,
) -> Result<Answer<Page<BulkOperation>>> {
    let (limit, before) = (list.rows()?, list.place::<Uuid>()?);
    let (data, next) =
        cut(app.engine.list_bulk(&caller, list.sort.part(before, limit + 1)).await?, limit, |one| one.id);
    Ok(Answer(list.page(data, next)))
}

/// A bulk operation
///
/// Progress of the operation, and some of its members as they were when they were found.
#[utoipa::path(get, path = "/bulk-operations/{id}", tag = "bulk", params(("id" = Uuid, Path)),
    responses((status = 200, body = BulkOperation)))]
pub async fn get_bulk(State(app): State<App>, caller: Caller, Path(id): Path<Uuid>) -> Result<Answer<BulkOperation>> {
    Ok(Answer(app.engine.bulk(&caller, id).await?))
}

/// Stop a bulk operation: from the answer on nothing more is done
///
/// What was done stays done. Again is no change; one that is through is 409 `operation_over`.
#[utoipa::path(post, path = "/bulk-operations/{id}/cancel", tag = "bulk", params(("id" = Uuid, Path)),
    request_body = Option<ReasonBody>, responses((status = 200, body = BulkOperation)))]
pub async fn cancel_bulk(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<Answer<BulkOperation>> {
    Ok(Answer(app.engine.cancel_bulk(&caller, id, body.reason.as_deref()).await?))
}

/// The filter as the list reads it.
pub(super) fn wanted(target: BulkTarget, filter: &Document) -> Result<Wanted> {
    let query = query(filter).map_err(|(name, detail)| Problem::invalid_body([(pointer(&name), detail.to_owned())]))?;
    let read = match target {
        BulkTarget::Items => ItemList::read(&query).map(Wanted::Items),
        BulkTarget::Jobs => JobList::read(&query).map(Wanted::Jobs),
    };
    read.map_err(|error| match error {
        Error::Problem(problem) => {
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

/// An object of filters as the query that would say the same: several states as an array or with commas
/// between them, metadata as an object or one by one. The error names the member and what was expected.
fn query(filter: &Document) -> Result<String, (String, &'static str)> {
    let expected = "expected an object with the filters of the list, at least one";
    let given = members(filter.text()).ok_or((String::new(), expected))?;
    let mut query = form_urlencoded::Serializer::new(String::new());
    let mut n = 0;
    for (name, value) in given {
        let wrong = |detail| (name.clone(), detail);
        if matches!(name.as_str(), "limit" | "cursor" | "sort") {
            return Err(wrong("expected nothing, as an operation has neither pages nor an order"));
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
            add(&name, &words.ok_or_else(|| wrong("expected texts"))?.join(","));
        } else if value.starts_with('{') {
            return Err(wrong("expected a text, a number, or true or false"));
        } else if value != "null" {
            add(&name, &text(value).unwrap_or_else(|| value.to_owned()));
        }
    }
    if n == 0 { Err((String::new(), expected)) } else { Ok(query.finish()) }
}

/// The text of a JSON string.
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
