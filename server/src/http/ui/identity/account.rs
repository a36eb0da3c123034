//! `/account`: the caller's identity, password and sessions.

use app::pages::identity::account as page;
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use domain::{Problem, identity::account::NewPassword};
use serde::Serialize;
use uuid::Uuid;

use crate::http::ui::{
    Signed, address,
    form::{Fields, in_the_form},
    pairs, see_other,
};
use crate::{
    App,
    auth::{factors, oidc, people, sessions},
    http::{
        extract::TriedPath,
        identity::session::{after_end, with_cookies},
        query::cursor::{Paged as _, paged},
    },
    notices,
};
use engine::{
    error::{Error, Result},
    store::page_range::PageRange,
};

/// Number of sessions on a page.
const ROWS: i64 = 20;

#[derive(Clone, Debug, Default, Serialize)]
struct SessionList {
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(SessionList, "page of one's sessions", |_| Some(ROWS));

/// `GET /account`
pub(crate) async fn show(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let (mut list, mut done) = (SessionList::default(), None);
    for (name, value) in pairs(query.as_deref()) {
        match (name.as_str(), value.as_str()) {
            ("cursor", _) => list.cursor = Some(value),
            ("done", "language") => done = Some(page::LANGUAGE_SAVED),
            ("done", "password") => done = Some("Your password is set. Your other sessions have ended."),
            ("done", "totp") => done = Some("The authenticator app is on. Signing in asks for its code from now on."),
            ("done", "totp-removed") => done = Some("The authenticator app is removed."),
            ("done", "totp-renamed") => done = Some("The authenticator app has its new name."),
            ("done", "provider-removed") => done = Some("The provider is disconnected. It signs you in no more."),
            ("done", "passkey") => done = Some("The passkey is added."),
            ("done", "passkey-renamed") => done = Some("The passkey has its new name."),
            ("done", "passkey-removed") => done = Some("The passkey is removed."),
            ("done", "provider") => done = Some("The provider is connected. You can sign in with it from now on."),
            ("done", "notices") => done = Some("Your notice settings are saved."),
            ("done", "session") => done = Some("That session has ended."),
            ("done", "sessions") => done = Some("All your other sessions have ended."),
            _ => {}
        }
    }
    match read(&app, &signed, &list).await {
        Ok(account) => {
            let account = page::Account { done, ..account };
            signed.visit.page(StatusCode::OK, move || page::page(&account))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

async fn read(app: &App, signed: &Signed, list: &SessionList) -> Result<page::Account> {
    let caller = &signed.caller;
    if caller.role.is_none() {
        return Err(Error::refuse(domain::Code::Forbidden, "This page is for people. A token has no account."));
    }
    let user = people::find(app, caller, caller.owner_id).await?;
    let factors = factors::list(app, caller).await?;
    let passkeys = factors::passkeys::are_possible(&app.public_url);
    let providers = &app.config.identity.oidc_providers.0;
    let providers = providers.iter().map(|provider| (provider.name.clone(), provider.label.clone())).collect();
    let notices = page::NoticeForm {
        settings: notices::settings(app, caller).await?,
        mail: notices::mail_is_possible(app),
        address: user.email.clone(),
        typed_url: String::new(),
    };
    let asks_current = people::asks_current(app, caller).await?;
    let found =
        sessions::list(app, caller, caller.owner_id, PageRange::newest(list.place::<Uuid>()?, ROWS + 1)).await?;
    let paged = list.page_of(found, |session| session.id)?;
    let next = paged.next_cursor.map(|cursor| address("/account", &[("cursor", &cursor)]));
    Ok(page::Account {
        user,
        sessions: paged.data,
        next,
        asks_current,
        must_change_password: caller.must_change_password,
        done: None,
        problem: None,
        factors,
        passkeys,
        providers,
        connections: oidc::list(app, caller).await?.data,
        notices,
        languages: signed.visit.languages.clone(),
        language: signed.visit.language.clone(),
    })
}

/// `POST /account/password`
pub(crate) async fn set_password(State(app): State<App>, signed: Signed, fields: Fields) -> Response {
    let current = Some(fields.text("current_password").to_owned()).filter(|text| !text.is_empty());
    let new = NewPassword { current_password: current, new_password: fields.text("new_password").to_owned() };
    match people::set_password(&app, &signed.caller, new).await {
        Ok(cookies) => (with_cookies(cookies), see_other("/account?done=password")).into_response(),
        Err(error) => refused(&app, &signed, error).await,
    }
}

/// `POST /account/sessions/{id}/end`
pub(crate) async fn end_session(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    let ended = async {
        let session_id = id?.0;
        sessions::end_some(&app, &signed.caller, signed.caller.owner_id, Some(session_id)).await?;
        Ok::<_, Error>(session_id)
    };
    match ended.await.map(|session_id| after_end(&app, &signed.caller, session_id)) {
        Ok(Some(headers)) => (headers, see_other("/sign-in?ended=1")).into_response(),
        Ok(None) => see_other("/account?done=session"),
        Err(error) => signed.visit.error_page(error),
    }
}

/// `POST /account/sessions/end`
pub(crate) async fn end_others(State(app): State<App>, signed: Signed) -> Response {
    match sessions::end_some(&app, &signed.caller, signed.caller.owner_id, None).await {
        Ok(_) => see_other("/account?done=sessions"),
        Err(error) => signed.visit.error_page(error),
    }
}

/// Account page with a refusal.
pub(crate) async fn refused(app: &App, signed: &Signed, error: Error) -> Response {
    refused_url(app, signed, error, "").await
}

/// Account page with a refusal, and the URL of the webhook as it was typed.
pub(crate) async fn refused_url(app: &App, signed: &Signed, error: Error, typed_url: &str) -> Response {
    let problem: Problem = match in_the_form(error) {
        Ok(problem) => problem,
        Err(error) => return signed.visit.error_page(error),
    };
    match read(app, signed, &SessionList::default()).await {
        Ok(mut account) => {
            typed_url.clone_into(&mut account.notices.typed_url);
            let account = page::Account { problem: Some(problem), ..account };
            signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || page::page(&account))
        }
        Err(error) => signed.visit.error_page(error),
    }
}
