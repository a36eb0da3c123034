//! `/account`: the person's identity, password, and sessions.

use domain::{
    Problem,
    identity::{
        account::{Session, User},
        factors::{Connection, Factors},
    },
};
use leptos::prelude::*;

use crate::{
    components::{
        form::{Field, choice, detail, press},
        panel::{next_page, note, refusal, section},
        timestamp::ago,
    },
    frame::{NavSection, Page},
    t,
};

pub use crate::pages::notices::NoticeForm;

/// Content of the page.
#[derive(Clone, Debug)]
pub struct Account {
    pub user: User,
    pub sessions: Vec<Session>,
    /// Address of the next page of sessions.
    pub next: Option<String>,
    /// True if the form asks for the current password.
    pub asks_current: bool,
    /// Set if somebody else chose the password: no other page opens until it is changed.
    pub must_change_password: bool,
    /// Last action.
    pub done: Option<&'static str>,
    pub problem: Option<Problem>,
    pub factors: Factors,
    /// True if browsers have passkeys for this host.
    pub passkeys: bool,
    /// Providers to connect with: name and label.
    pub providers: Vec<(String, String)>,
    pub connections: Vec<Connection>,
    pub notices: NoticeForm,
    /// Tag and own name of each language, and the chosen tag.
    pub languages: Vec<(&'static str, &'static str)>,
    pub language: Option<String>,
}

/// Last action: the language was chosen. Its text is in that language.
pub const LANGUAGE_SAVED: &str = "language";

const FIRST_STEP: &str = "An admin chose the password you signed in with. Choose your own to continue.";

pub fn page(account: &Account) -> Page {
    let user = &account.user;
    let refused = account.problem.as_ref().map(|problem| refusal("Nothing was changed", &detail(problem)));
    let done = account.done.map(|text| if text == LANGUAGE_SAVED { t!("language-saved") } else { text });
    let done = done.map(|text| view! { <p class="note note-done" role="status">{text}</p> });
    let content = view! {
        <div class="narrow">
            <h1>"Account"</h1>
            {refused}
            {done}
            {account.must_change_password.then(|| note(FIRST_STEP))}
            <dl class="facts">
                {fact("Name", user.name.clone())}
                {fact("Email address", user.email.clone().unwrap_or_else(|| "none".to_owned()))}
                {fact("Role", super::people::role_in_words(&user.role).to_owned())}
            </dl>
            {section("language", t!("language-choice"), language(account))}
            {section("password", "Password", password(account))}
            {super::factors::account_section(&account.factors, account.passkeys)}
            {super::factors::providers_section(&account.providers, &account.connections)}
            {crate::pages::notices::account_section(&account.notices, account.problem.as_ref())}
            {section("sessions", "Where you are signed in", sessions(account))}
        </div>
    }
    .into_any();
    Page {
        title: "Account".to_owned(),
        nav_section: NavSection::Account,
        content,
        is_live: false,
        is_translated: false,
    }
}

fn fact(term: &'static str, text: String) -> impl IntoView {
    view! {
        <div>
            <dt>{term}</dt>
            <dd>{text}</dd>
        </div>
    }
}

/// Choice of the language of the pages.
fn language(account: &Account) -> AnyView {
    let browser = ("", t!("language-browser"));
    let words: Vec<(&str, &str)> = std::iter::once(browser).chain(account.languages.iter().copied()).collect();
    view! {
        <form method="post" action="/language" class="form form-short">
            <input type="hidden" name="back" value="/account?done=language" />
            {choice(t!("language-choice"), "language", &words, account.language.as_deref().unwrap_or_default())}
            <div class="actions">
                <button class="btn" type="submit">
                    {t!("language-save")}
                </button>
                <span class="sub">{t!("language-help")}</span>
            </div>
        </form>
    }
    .into_any()
}

fn password(account: &Account) -> AnyView {
    let problem = account.problem.as_ref();
    if account.user.email.is_none() {
        let email_link = if account.user.role == "admin" {
            let to = format!("/people/{}", account.user.id);
            view! { <a href=to>"Add an email address"</a> }.into_any()
        } else {
            "An admin can add one under People.".into_any()
        };
        return note(view! { "A password needs an email address, and this account has none. " {email_link} });
    }
    let current = account.asks_current.then(|| {
        Field::new("Current password", "current_password", "password")
            .autocomplete("current-password")
            .judged(problem, "/current_password")
            .view()
    });
    let new = Field::new("New password", "new_password", "password")
        .autocomplete("new-password")
        .hint("At least 12 characters. Several unrelated words are good.")
        .judged(problem, "/new_password");
    view! {
        <form method="post" action="/account/password" class="form form-short">
            {current}
            {new.view()}
            <div class="actions">
                <button class="btn" type="submit">{if account.user.has_password { "Change password" } else { "Set password" }}</button>
                <span class="sub">"Signs you out everywhere else."</span>
            </div>
        </form>
    }
    .into_any()
}

fn sessions(account: &Account) -> AnyView {
    let others = account.sessions.iter().any(|session| !session.current);
    let end = |session: &Session| {
        let label = format!("End the session on {}", session.device);
        press(format!("/account/sessions/{}/end", session.id), "End", Some(label))
    };
    view! {
        {list(&account.sessions, &end)}
        {next_page(account.next.as_ref(), "Older sessions")}
        {others
            .then(|| {
                view! {
                    <form method="post" action="/account/sessions/end" class="actions">
                        <button class="btn" type="submit">"Sign out everywhere else"</button>
                    </form>
                }
            })}
    }
    .into_any()
}

/// List of sessions, each with a button.
pub(crate) fn list(sessions: &[Session], end: &dyn Fn(&Session) -> AnyView) -> AnyView {
    let rows = sessions
        .iter()
        .map(|session| {
            let end = if session.current {
                view! { <span class="sub">"This browser"</span> }.into_any()
            } else {
                end(session)
            };
            view! {
                <li class="line">
                    <span class="line-text">
                        <strong>{session.device.clone()}</strong>
                        <span class="sub">
                            "signed in " {ago(session.created_at)} " · last seen " {ago(session.last_seen_at)}
                        </span>
                    </span>
                    {end}
                </li>
            }
        })
        .collect_view();
    view! { <ul class="lines">{rows}</ul> }.into_any()
}
