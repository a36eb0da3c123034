//! Fields of a posted form, and the response to a refusal: the same page with the typed values and status 422.

use app::components::json::pretty;
use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    response::Response,
};
use domain::{Code, Document, Problem, Time, id::is_key};
use uuid::Uuid;

use super::Visit;
use crate::{
    App,
    http::{
        enqueue::idempotency::Key,
        extract::{body, media_type, wrong_media_type},
    },
};
use engine::error::{Error, Result};

const FORM: &str = "application/x-www-form-urlencoded";

/// Maximum number of fields of a form, and of a form with an editable table.
const MOST_FIELDS: usize = 1_000;
const MOST_CELLS: usize = 50_000;

/// Fields of a form, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(Vec<(String, String)>);

/// Fields of a form with one for every cell of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells(pub(super) Fields);

impl FromRequest<App> for Fields {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        of(request, app, MOST_FIELDS).await
    }
}

impl FromRequest<App> for Cells {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        of(request, app, MOST_CELLS).await.map(Self)
    }
}

async fn of(request: Request, app: &App, most: usize) -> Result<Fields, Response> {
    let (mut parts, rest) = request.into_parts();
    let visit = <Visit as FromRequestParts<App>>::from_request_parts(&mut parts, app).await?;
    read(Request::from_parts(parts, rest), app, most).await.map_err(|error| visit.error_page(error))
}

/// Reads a form with one field for every cell of a table.
pub(super) async fn cells(request: Request, app: &App) -> Result<Fields> {
    read(request, app, MOST_CELLS).await
}

async fn read(request: Request, app: &App, most: usize) -> Result<Fields> {
    let stated = media_type(request.headers());
    let bytes = body(request, app.config.body_limit.bytes()).await?;
    // A form without fields may have no content type.
    if !bytes.is_empty() && stated.as_deref() != Some(FORM) {
        return Err(wrong_media_type(FORM).into());
    }
    // Counted before parsing: a field of two bytes takes fifty once parsed.
    if bytes.split(|&byte| byte == b'&').count() > most {
        return Err(Problem::invalid_body([(String::new(), format!("expected at most {most} fields"))]).into());
    }
    let fields: Vec<(String, String)> = form_urlencoded::parse(&bytes).into_owned().collect();
    if fields.iter().any(|(_, value)| value.contains('\0')) {
        return Err(Problem::invalid_body([(String::new(), "expected text without NUL".to_owned())]).into());
    }
    Ok(Fields(fields))
}

impl Fields {
    /// First field with this name, as sent; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
    }

    pub(super) fn into_pairs(self) -> impl Iterator<Item = (String, String)> {
        self.0.into_iter()
    }

    /// Fields with their values.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// First field with this name, without white space around it.
    pub(super) fn trimmed(&self, name: &str) -> String {
        self.text(name).trim().to_owned()
    }

    /// Values of a field that can be sent several times.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(field, _)| field == name).map(|(_, value)| value.clone()).collect()
    }

    /// Returns true if the form has a field with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(field, _)| field == name)
    }

    /// Field like [`Self::trimmed`]; `None` if it is empty.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        Some(self.text(name).trim()).filter(|text| !text.is_empty())
    }

    /// Idempotency-Key of the form, if it has one.
    pub(super) fn key(&self) -> Key {
        Key(self.given("key").filter(|key| is_key(key)).map(str::to_owned))
    }

    /// Returns true if a checkbox is checked.
    pub(super) fn ticked(&self, name: &str) -> bool {
        self.text(name) == "yes"
    }

    /// Text of a multi-line field. Browsers send all line ends as CR LF.
    pub(super) fn lines(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value.replace("\r\n", "\n"))
    }

    /// Document that may have been edited: `None` if it is unchanged, either as the stored text or in the form that
    /// pages show, with one member per line.
    pub(super) fn edited(&self, name: &str, stored: Option<&Document>) -> Result<Option<Document>> {
        let Some(typed) = self.lines(name) else { return Ok(None) };
        let is_stored = |stored: &Document| {
            stored.text().replace("\r\n", "\n").trim() == typed.trim() || pretty(stored).trim() == typed.trim()
        };
        if stored.is_some_and(is_stored) {
            return Ok(None);
        }
        let document = Document::parse(typed.trim().to_owned()).map_err(|e| {
            let detail = format!("expected JSON; found {e}");
            Problem::invalid_body([(format!("/{name}"), detail)])
        })?;
        Ok(Some(document))
    }

    /// Point in time, if one is given.
    pub(super) fn time(&self, name: &str) -> Result<Option<Time>> {
        let Some(typed) = self.given(name) else { return Ok(None) };
        let read = Time::parse(typed).ok_or_else(|| {
            let detail = "expected a time such as 2026-12-01T12:00:00Z".to_owned();
            Problem::invalid_body([(format!("/{name}"), detail)])
        })?;
        Ok(Some(read))
    }
}

/// New Idempotency-Key of a form, so that a repeated click does what it says once.
pub(super) fn new_key() -> String {
    Uuid::new_v4().to_string()
}

/// Problem as a form shows it that was sent before with other values; the form has a new key then.
pub(super) fn sent_before(problem: Problem) -> Problem {
    if problem.code != Code::IdempotencyKeyReused {
        return problem;
    }
    let detail = "This form was sent before, with other values, and has been carried out. Send it again to repeat it.";
    Problem { detail: detail.to_owned(), ..problem }
}

/// Returns the problem if it is shown in the form: the cause is the input, or the object's state.
pub(super) fn in_the_form(error: Error) -> Result<Problem> {
    match error {
        Error::Problem(problem) if matches!(problem.status, 400 | 409 | 412 | 422 | 429) => Ok(sent_before(*problem)),
        error => Err(error),
    }
}
