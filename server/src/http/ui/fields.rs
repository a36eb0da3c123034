//! A form as it comes in: names and values, whatever the page asked for.
//!
//! Nothing is refused here but what is no form: what is missing is empty, and the use-case says what it
//! expected, at its place.

use axum::{
    extract::{FromRequest, Request},
    response::Response,
};
use domain::Problem;

use super::Visit;
use crate::{
    App,
    error::{Error, Result},
    http::extract::{body, media_type, wrong_media_type},
};

/// The most bytes of a form without a file.
const FORM: usize = 64 << 10;

/// The fields of a form, in order.
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// The value of a field, without white space around it; empty when it was not sent.
    pub(super) fn text(&self, name: &str) -> String {
        self.raw(name).trim().to_owned()
    }

    /// The value as it was sent, for passwords.
    pub(super) fn raw(&self, name: &str) -> &str {
        self.0.iter().find(|(its, _)| its == name).map_or("", |(_, value)| value)
    }

    /// The value, unless there is none.
    pub(super) fn given(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// Every value of a field that can be sent several times.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(its, _)| its == name).map(|(_, value)| value.clone()).collect()
    }
}

impl FromRequest<App> for Fields {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let (mut parts, rest) = request.into_parts();
        let visit = <Visit as axum::extract::FromRequestParts<App>>::from_request_parts(&mut parts, app).await?;
        read(Request::from_parts(parts, rest)).await.map_err(|error| visit.trouble(error))
    }
}

async fn read(request: Request) -> Result<Fields> {
    const TYPE: &str = "application/x-www-form-urlencoded";
    let typed = media_type(request.headers());
    let bytes = body(request, FORM).await?;
    // A form without fields has no type.
    if !bytes.is_empty() && typed.as_deref() != Some(TYPE) {
        return Err(wrong_media_type(TYPE));
    }
    let fields: Vec<(String, String)> = form_urlencoded::parse(&bytes).into_owned().collect();
    if fields.iter().any(|(_, value)| value.contains('\0')) {
        return Err(Error::from(Problem::invalid_body([(String::new(), "expected text without NUL".to_owned())])));
    }
    Ok(Fields(fields))
}
