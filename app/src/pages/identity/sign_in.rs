//! `/sign-in`: sign-in by email and password; and the page behind a one-time link.
//!
//! Opening a link does not use it up, because mail scanners and previews open links before people do. Pressing the
//! button does.

use domain::{Code, Problem};
use leptos::prelude::*;

use crate::{
    components::{form::Field, panel::refusal},
    frame::{NavSection, Page},
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
        Code::TooManyRequests => refusal("Too many attempts", &problem.detail),
        _ => refusal("Email or password is wrong", "Check both and try again."),
    });
    // The browser offers passkeys in this field.
    let username = if form.passkeys { "username webauthn" } else { "username" };
    let email = Field::new("Email address", "email", "email").value(&form.email).autocomplete(username);
    let password = Field::new("Password", "password", "password").autocomplete("current-password");
    let content = view! {
        <h1>"Sign in"</h1>
        {(form.ended && form.problem.is_none()).then(|| view! { <p role="status">"You are signed out."</p> })}
        {refused}
        <form method="post" action="/sign-in" class="form">
            <input type="hidden" name="back" value=form.back.clone() />
            {email.view()}
            {password.view()}
            <button class="btn btn-primary btn-lg" type="submit">
                "Sign in"
            </button>
        </form>
        {form.passkeys.then(|| passkey_button(&form.back, "Sign in with a passkey"))}
        {form
            .providers
            .iter()
            .map(|(name, label)| {
                let back = super::people::encoded(&form.back);
                view! {
                    <p class="standalone-other">
                        <a class="btn btn-lg" href=format!("/sign-in/oidc/{name}?back={back}")>
                            {format!("Sign in with {label}")}
                        </a>
                    </p>
                }
            })
            .collect_view()}
        <p class="small">"No account, or forgot your password? Ask an admin for a sign-in link. On the first start, the terminal that runs Treeline prints one."</p>
        <p class="small">"Services use a token instead: " <a href="/api/docs">"API reference"</a> ", " <a href="/docs">"documentation"</a> "."</p>
    };
    framed("Sign in", content.into_any())
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
        Code::TooManyRequests => refusal("Too many attempts", &problem.detail),
        _ => refusal("That code is wrong", "Check it, or use another way. Each code works once."),
    });
    let passkey = form.methods.iter().any(|method| method == "passkey");
    let content = view! {
        <h1>"Second factor"</h1>
        {refused}
        {passkey.then(|| passkey_button(&form.back, "Use a passkey"))}
        <form method="post" action="/sign-in/second-step" class="form">
            <input type="hidden" name="state" value=form.state.clone() />
            <input type="hidden" name="back" value=form.back.clone() />
            {super::step_up::second_factor_fields(&form.methods, problem)}
            <button class="btn btn-primary btn-lg" type="submit">
                "Sign in"
            </button>
        </form>
        <p class="small">"Lost your second factor and your recovery codes? An admin can reset it."</p>
        <p class="small">
            <a href="/sign-in">"Start over"</a>
        </p>
    };
    framed("Second factor", content.into_any())
}

/// Sign-in by a provider or a proxy that led to no account.
pub fn provider_refused(problem: &Problem) -> Page {
    let content = view! {
        <h1>"You are not signed in"</h1>
        <p>{problem.detail.clone()}</p>
        <p class="actions">
            <a class="btn" href="/sign-in?ended=1">
                "Other ways to sign in"
            </a>
        </p>
    };
    framed("Not signed in", content.into_any())
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
        <h1>"Sign in to Treeline"</h1>
        <p>"This link works once. Continue to use it in this browser."</p>
        <form method="post" action=format!("/sign-in/{token}") class="form">
            <button class="btn btn-primary btn-lg" type="submit">
                "Sign in"
            </button>
        </form>
    };
    framed("Sign in", content.into_any())
}

/// `/sign-in/{token}` if the link does not work.
pub fn refused() -> Page {
    let content = view! {
        <h1>"This link has expired or was used"</h1>
        <p>"Ask an admin for a new one."</p>
        <p>"If you used it in this browser, you are probably signed in."</p>
        <p class="actions">
            <a class="btn" href="/">
                "Open Treeline"
            </a>
        </p>
    };
    framed("Link not valid", content.into_any())
}

fn framed(title: &str, content: AnyView) -> Page {
    let content = view! { <div class="standalone">{content}</div> }.into_any();
    Page { title: title.to_owned(), nav_section: NavSection::Standalone, content, is_live: false }
}
