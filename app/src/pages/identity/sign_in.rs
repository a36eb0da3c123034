//! `/sign-in`: sign-in by email and password; and the page behind a one-time link.
//!
//! Opening a link does not use it up, because mail scanners and previews open links before people do. Pressing the
//! button does.

use domain::{Code, Problem};
use leptos::prelude::*;

use crate::{
    components::{form::Field, panel::refusal},
    frame::{NavSection, Page},
    t, t_view,
};

/// Form as typed, without the password.
#[derive(Clone, Debug, Default)]
pub struct SignIn {
    /// True after signing out.
    pub ended: bool,
    pub email: String,
    /// Path of the page that opens afterwards.
    pub back: String,
    /// True if browsers have passkeys for this host.
    pub passkeys: bool,
    /// Providers to sign in with: name and label.
    pub providers: Vec<(String, String)>,
    pub problem: Option<Problem>,
}

/// `/sign-in`, and every page that requires signing in.
pub fn page(form: &SignIn) -> Page {
    let refused = form.problem.as_ref().map(|problem| match problem.code {
        Code::TooManyRequests => refusal(t!("signin-too-many"), &too_many(problem)),
        _ => refusal(t!("signin-wrong"), t!("signin-wrong-text")),
    });
    // The browser offers passkeys in this field.
    let username = if form.passkeys { "username webauthn" } else { "username" };
    let email = Field::new(t!("signin-email"), "email", "email").value(&form.email).autocomplete(username);
    let password = Field::new(t!("signin-password"), "password", "password").autocomplete("current-password");
    let content = view! {
        <h1>{t!("signin-title")}</h1>
        {(form.ended && form.problem.is_none()).then(|| view! { <p role="status">{t!("signin-signed-out")}</p> })}
        {refused}
        <form method="post" action="/sign-in" class="form">
            <input type="hidden" name="back" value=form.back.clone() />
            {email.view()}
            {password.view()}
            <button class="btn btn-primary btn-lg" type="submit">
                {t!("signin-title")}
            </button>
        </form>
        {form.passkeys.then(|| passkey_button(&form.back, t!("signin-with-passkey")))}
        {form
            .providers
            .iter()
            .map(|(name, label)| {
                let back = super::people::encoded(&form.back);
                view! {
                    <p class="standalone-other">
                        <a class="btn btn-lg" href=format!("/sign-in/oidc/{name}?back={back}")>
                            {t!("signin-with", provider = label)}
                        </a>
                    </p>
                }
            })
            .collect_view()}
        <p class="small">{t!("signin-help")}</p>
        <p class="small">{t_view!(
                "signin-services",
                reference = view! { <a href="/api/docs">{t!("shell-api-reference")}</a> },
                documentation = view! { <a href="/docs">{t!("shell-documentation")}</a> },
            )}</p>
    };
    framed(t!("signin-title"), content.into_any())
}

/// Second step: the first factor was correct, and the person has a second one.
#[derive(Clone, Debug, Default)]
pub struct SecondStep {
    /// Token that proves the first factor.
    pub state: String,
    /// Accepted methods.
    pub methods: Vec<String>,
    /// Path of the page that opens afterwards.
    pub back: String,
    pub problem: Option<Problem>,
}

/// Asks for the second factor.
pub fn second_step(form: &SecondStep) -> Page {
    let problem =
        form.problem.as_ref().filter(|problem| !problem.errors.is_empty() || problem.code == Code::TooManyRequests);
    let refused = problem.map(|problem| match problem.code {
        Code::TooManyRequests => refusal(t!("signin-too-many"), &too_many(problem)),
        _ => refusal(t!("signin-wrong-code"), t!("signin-wrong-code-text")),
    });
    let passkey = form.methods.iter().any(|method| method == "passkey");
    let content = view! {
        <h1>{t!("signin-second")}</h1>
        {refused}
        {passkey.then(|| passkey_button(&form.back, t!("signin-use-passkey")))}
        <form method="post" action="/sign-in/second-step" class="form">
            <input type="hidden" name="state" value=form.state.clone() />
            <input type="hidden" name="back" value=form.back.clone() />
            {super::step_up::second_factor_fields(&form.methods, problem)}
            <button class="btn btn-primary btn-lg" type="submit">
                {t!("signin-title")}
            </button>
        </form>
        <p class="small">{t!("signin-second-help")}</p>
        <p class="small">
            <a href="/sign-in">{t!("signin-start-over")}</a>
        </p>
    };
    framed(t!("signin-second"), content.into_any())
}

/// Sign-in by a provider or a proxy that led to no account.
pub fn provider_refused(problem: &Problem) -> Page {
    let content = view! {
        <h1>{t!("signin-not")}</h1>
        <p>{problem.detail.clone()}</p>
        <p class="actions">
            <a class="btn" href="/sign-in?ended=1">
                {t!("signin-other-ways")}
            </a>
        </p>
    };
    framed(t!("signin-not"), content.into_any())
}

/// Button that signs in with a passkey; visible only if the browser supports passkeys.
fn passkey_button(back: &str, word: &'static str) -> AnyView {
    view! {
        <div data-passkey="sign-in" data-back=back.to_owned() class="standalone-other" hidden=true>
            <button class="btn btn-lg" type="button" data-start="">
                {word}
            </button>
            <span class="sub" role="status"></span>
        </div>
    }
    .into_any()
}

/// `/sign-in/{token}`: the page with the button.
pub fn confirm(token: &str) -> Page {
    let content = view! {
        <h1>{t!("signin-link-title")}</h1>
        <p>{t!("signin-link-text")}</p>
        <form method="post" action=format!("/sign-in/{token}") class="form">
            <button class="btn btn-primary btn-lg" type="submit">
                {t!("signin-title")}
            </button>
        </form>
    };
    framed(t!("signin-title"), content.into_any())
}

/// `/sign-in/{token}` if the link does not work.
pub fn refused() -> Page {
    let content = view! {
        <h1>{t!("signin-expired")}</h1>
        <p>{t!("signin-expired-ask")}</p>
        <p>{t!("signin-expired-maybe")}</p>
        <p class="actions">
            <a class="btn" href="/">
                {t!("error-open")}
            </a>
        </p>
    };
    framed(t!("signin-invalid"), content.into_any())
}

/// Time to wait after too many attempts.
fn too_many(problem: &Problem) -> String {
    match problem.retry_after_seconds {
        Some(seconds) => {
            t!("signin-try-in", time = &crate::pace::duration(f64::from(seconds)))
        }
        None => problem.detail.clone(),
    }
}

fn framed(title: &str, content: AnyView) -> Page {
    let content = view! { <div class="standalone">{content}</div> }.into_any();
    Page { title: title.to_owned(), nav_section: NavSection::Standalone, content, is_live: false, is_translated: true }
}
