//! Second factors on the account page, setting up an authenticator app, recovery codes, and the page that asks again who
//! one is.
//!
//! Everything but passkeys works without JavaScript; passkeys need the browser's own interface. Codes and
//! secrets are on a page once, in the answer to the press of a button.

use domain::{
    Problem,
    factors::{Factors, Passkey, TotpStarted},
};
use leptos::prelude::*;

use crate::{
    components::{
        form::{Field, press},
        moment::ago,
        panel::{note, refusal, section},
    },
    frame::{Page, Place},
};

/// The section on the account page. `passkeys`: whether browsers have passkeys for this host.
pub fn account_section(factors: &Factors, passkeys: bool) -> AnyView {
    let needed = (factors.required && !factors.any()).then(|| {
        refusal(
            "Your role needs a second factor",
            "Add an authenticator app or a passkey. Until then nothing else opens.",
        )
    });
    let state = if factors.any() {
        "Signing in asks for a second factor."
    } else {
        "Signing in takes your password alone. A second factor keeps others out who learn it."
    };
    let content = view! {
        {needed}
        <p>{state}</p>
        <ul class="lines">{app_line(factors)} {factors.passkeys.iter().map(passkey_line).collect_view()} {codes_line(factors)}</ul>
        {passkeys.then(add_passkey)}
        {(!passkeys)
            .then(|| note("Passkeys need a host name: this server is reached by an address, or has no public URL."))}
    };
    section("factors", "Second factors", content.into_any())
}

fn app_line(factors: &Factors) -> AnyView {
    let (said, press) = match factors.totp_since {
        Some(since) => (
            view! { <span class="sub">"since " {ago(since)}</span> }.into_any(),
            press("/account/totp/remove".to_owned(), "Remove", Some("Remove the authenticator app".to_owned())),
        ),
        None => (
            view! { <span class="sub">"An app on your phone shows a code of six digits."</span> }.into_any(),
            press("/account/totp".to_owned(), "Set up", Some("Set up an authenticator app".to_owned())),
        ),
    };
    view! {
        <li class="line">
            <span class="line-text">
                <strong>"Authenticator app"</strong>
                {said}
            </span>
            {press}
        </li>
    }
    .into_any()
}

fn passkey_line(passkey: &Passkey) -> AnyView {
    let id = passkey.id;
    let used = passkey.last_used_at.map(|at| view! { " · last used " {ago(at)} });
    view! {
        <li class="line">
            <span class="line-text">
                <strong>{passkey.name.clone()}</strong>
                <span class="sub">"passkey, added " {ago(passkey.created_at)} {used}</span>
            </span>
            <details class="rename">
                <summary aria-label=format!("Rename {}", passkey.name)>"Rename"</summary>
                <form method="post" action=format!("/account/passkeys/{id}/rename") class="actions">
                    <input
                        type="text"
                        name="name"
                        value=passkey.name.clone()
                        maxlength="100"
                        required=true
                        aria-label="Name of the passkey"
                    />
                    <button class="small" type="submit">
                        "Save"
                    </button>
                </form>
            </details>
            {press(
                format!("/account/passkeys/{id}/remove"),
                "Remove",
                Some(format!("Remove the passkey {}", passkey.name)),
            )}
        </li>
    }
    .into_any()
}

fn codes_line(factors: &Factors) -> AnyView {
    if !factors.any() {
        return ().into_any();
    }
    let left = match factors.recovery_codes_left {
        1 => "1 code left".to_owned(),
        n => format!("{n} codes left"),
    };
    view! {
        <li class="line">
            <span class="line-text">
                <strong>"Recovery codes"</strong>
                <span class="sub">{left} ". Each signs you in once without your second factor."</span>
            </span>
            {press("/account/recovery-codes".to_owned(), "Make new codes", None)}
        </li>
    }
    .into_any()
}

fn add_passkey() -> AnyView {
    view! {
        <div data-passkey="register" hidden=true>
            <div class="form form-short">
                {Field::new("Name of the new passkey", "passkey_name", "text")
                    .optional()
                    .hint("What you know the device by, such as Work laptop.")
                    .view()}
                <div class="actions">
                    <button type="button" data-start="">
                        "Add a passkey"
                    </button>
                    <span class="sub" role="status"></span>
                </div>
            </div>
        </div>
        <div class="notice notice-good" id="new-recovery-codes" tabindex="-1" hidden=true>
            <div class="notice-body">
                <strong>"The passkey is added. Keep these recovery codes"</strong>
                <p>
                    "Each signs you in once if you lose your second factor. They are shown this once: print them or put them into a password manager."
                </p>
                <pre class="codes"></pre>
                <p>
                    <a class="button" href="/account#factors">
                        "I have kept them"
                    </a>
                </p>
            </div>
        </div>
    }
    .into_any()
}

/// Setting up an authenticator app.
pub fn totp(started: &TotpStarted, problem: Option<&Problem>) -> Page {
    let refused = problem.map(|problem| refusal("That code did not fit", &problem.detail));
    let code = Field::new("Code", "code", "text")
        .autocomplete("one-time-code")
        .hint("The six digits that the app shows now.")
        .judged(problem, "/code");
    let content = view! {
        <div class="narrow">
            <p class="crumbs">
                <a href="/account">"Your account"</a>
            </p>
            <h1>"Set up an authenticator app"</h1>
            {refused}
            <ol>
                <li>"Open an authenticator app on your phone, such as Aegis, Google Authenticator or 1Password."</li>
                <li>"Scan this picture with it, or type the key."</li>
                <li>"Enter the code that the app shows."</li>
            </ol>
            <div class="qr" role="img" aria-label="QR code of the key below" inner_html=started.qr_svg.clone()></div>
            {crate::components::form::secret("totp-key", "Key", &started.secret)}
            <form method="post" action="/account/totp/confirm" class="form form-short">
                {code.view()}
                <div class="actions">
                    <button class="primary" type="submit">
                        "Turn on"
                    </button>
                    <a class="button" href="/account">
                        "Not now"
                    </a>
                </div>
            </form>
        </div>
    };
    page("Set up an authenticator app", content.into_any())
}

/// Connecting the account with providers; nothing where there are none.
pub fn providers_section(providers: &[(String, String)]) -> AnyView {
    if providers.is_empty() {
        return ().into_any();
    }
    let rows = providers
        .iter()
        .map(|(name, label)| {
            view! {
                <li class="line">
                    <span class="line-text">
                        <strong>{label.clone()}</strong>
                    </span>
                    {press(format!("/account/providers/{name}"), "Connect", Some(format!("Connect {label}")))}
                </li>
            }
        })
        .collect_view();
    let content = view! {
        <p>"Connect your account with a provider to sign in with it."</p>
        <ul class="lines">{rows}</ul>
    };
    section("providers", "Other ways to sign in", content.into_any())
}

/// The way to a provider that is to be connected.
pub fn leave(provider: &str, url: &str) -> Page {
    let content = view! {
        <div class="narrow">
            <h1>"Connect your account"</h1>
            <p>"Sign in at the provider to connect it. You come back here then."</p>
            <p class="actions">
                <a class="button" href=url.to_owned()>
                    {format!("Continue to {provider}")}
                </a>
                <a class="button" href="/account">
                    "Not now"
                </a>
            </p>
        </div>
    };
    page("Connect your account", content.into_any())
}

/// New recovery codes, shown this once.
pub fn recovery_codes(codes: &[String]) -> Page {
    let content = view! {
        <div class="narrow">
            <h1>"Your recovery codes"</h1>
            <p>
                "Each signs you in once if you lose your second factor. They are shown this once: print them or put them into a password manager. Earlier codes do not work any more."
            </p>
            <pre class="codes">{codes.join("\n")}</pre>
            <p>
                <a class="button" href="/account#factors">
                    "I have kept them"
                </a>
            </p>
        </div>
    };
    page("Recovery codes", content.into_any())
}

/// Content of the page that asks again.
#[derive(Clone, Debug, Default)]
pub struct StepUp {
    /// Methods that would be accepted.
    pub methods: Vec<String>,
    /// The action to go on with, sealed; or the page to go back to.
    pub kept: String,
    pub back: String,
    /// Providers to sign in with again: name and label.
    pub providers: Vec<(String, String)>,
    pub problem: Option<Problem>,
}

/// Asks again who one is, before an action with consequences.
pub fn step_up(form: &StepUp) -> Page {
    let problem = form.problem.as_ref();
    let refused = problem.map(|problem| refusal("That did not fit", &problem.detail));
    let accepts = |method: &str| form.methods.iter().any(|it| it == method);
    if form.methods.is_empty() {
        let content = view! {
            <div class="narrow">
                <h1>"Sign in again"</h1>
                <p>"This asks for a recent sign-in, and yours is more than ten minutes ago. Nothing was changed."</p>
                {form
                    .providers
                    .iter()
                    .map(|(name, label)| {
                        view! {
                            <p class="actions">
                                <a class="button" href=format!("/sign-in/oidc/{name}?fresh=1")>
                                    {format!("Sign in again with {label}")}
                                </a>
                            </p>
                        }
                    })
                    .collect_view()}
                <form method="post" action="/sign-out" class="actions">
                    <button class="primary" type="submit">
                        "Sign out and sign in again"
                    </button>
                </form>
            </div>
        };
        return page("Sign in again", content.into_any());
    }
    let fields = view! {
        {accepts("password")
            .then(|| {
                Field::new("Password", "password", "password")
                    .autocomplete("current-password")
                    .judged(problem, "/password")
                    .view()
            })}
        {second_factor_fields(&form.methods, problem)}
    };
    let typed = accepts("password") || accepts("totp") || accepts("recovery_code");
    let content = view! {
        <div class="narrow">
            <h1>"Confirm that it is you"</h1>
            <p>"This asks for a recent sign-in, and yours is more than ten minutes ago. Nothing was changed yet."</p>
            {refused}
            <form method="post" action="/step-up" class="form form-short">
                <input type="hidden" name="kept" value=form.kept.clone() />
                <input type="hidden" name="back" value=form.back.clone() />
                {fields}
                {typed
                    .then(|| {
                        view! {
                            <div class="actions">
                                <button class="primary" type="submit">
                                    "Confirm and go on"
                                </button>
                            </div>
                        }
                    })}
                {accepts("passkey")
                    .then(|| {
                        view! {
                            <div data-passkey="step-up" class="actions" hidden=true>
                                <button type="button" data-start="">
                                    "Use a passkey"
                                </button>
                                <button type="submit" name="confirmed" value="yes" formnovalidate=true data-continue="" hidden=true>
                                    "Go on"
                                </button>
                                <span class="sub" role="status"></span>
                            </div>
                        }
                    })}
            </form>
        </div>
    };
    page("Confirm that it is you", content.into_any())
}

/// The fields for a code of the app and a recovery code.
pub(super) fn second_factor_fields(methods: &[String], problem: Option<&Problem>) -> AnyView {
    let accepts = |method: &str| methods.iter().any(|it| it == method);
    let code = accepts("totp").then(|| {
        let hint = "The six digits that your authenticator app shows now.";
        Field::new("Code", "code", "text")
            .optional()
            .autocomplete("one-time-code")
            .hint(hint)
            .judged(problem, "/code")
            .view()
    });
    let recovery = accepts("recovery_code").then(|| {
        let hint = "In place of the code or the passkey, if you lost them. Each works once.";
        Field::new("Recovery code", "recovery_code", "text")
            .optional()
            .hint(hint)
            .judged(problem, "/recovery_code")
            .view()
    });
    view! {
        {code}
        {recovery}
    }
    .into_any()
}

fn page(title: &str, content: AnyView) -> Page {
    Page { title: title.to_owned(), place: Place::Account, content, lives: false }
}
