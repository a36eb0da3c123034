//! Page that asks for authentication again, and the fields of second factors.
//!
//! The setup of factors is in `factors`. The pending form travels in the page, sealed by the server, so its fields
//! cannot be read here. Enter presses the button for typed factors.

use domain::Problem;
use leptos::prelude::*;

use super::factors;
use crate::{
    components::{form::Field, panel::refusal},
    frame::Page,
    t,
};

/// Content of the page that asks again.
#[derive(Clone, Debug, Default)]
pub struct StepUp {
    /// Accepted methods.
    pub methods: Vec<String>,
    /// Sealed form to submit afterwards; or the page to return to.
    pub pending_form: String,
    pub back: String,
    /// Providers to sign in with again: name and label.
    pub providers: Vec<(String, String)>,
    pub problem: Option<Problem>,
}

/// Asks for authentication before a sensitive action.
pub fn page(form: &StepUp) -> Page {
    let problem = form.problem.as_ref();
    let refused = problem.map(|problem| refusal("That is wrong", &problem.detail));
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
                                <a class="btn" href=format!("/sign-in/oidc/{name}?fresh=1")>
                                    {format!("Sign in again with {label}")}
                                </a>
                            </p>
                        }
                    })
                    .collect_view()}
                <form method="post" action="/sign-out" class="actions">
                    <button class="btn btn-primary" type="submit">
                        "Sign out and sign in again"
                    </button>
                </form>
            </div>
        };
        return factors::page("Sign in again", content.into_any());
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
    let only_passkey = accepts("passkey") && !typed;
    let content = view! {
        <div class="narrow">
            <h1>"Confirm that it is you"</h1>
            <p>"This asks for a recent sign-in, and yours is more than ten minutes ago. Nothing was changed yet."</p>
            {refused}
            <form method="post" action="/step-up" class="form form-short">
                <input type="hidden" name="kept" value=form.pending_form.clone() />
                <input type="hidden" name="back" value=form.back.clone() />
                {accepts("passkey")
                    .then(|| {
                        view! {
                            {only_passkey
                                .then(|| {
                                    view! {
                                        <noscript>
                                            <p>"Only your passkey can confirm this, and it needs JavaScript. Turn JavaScript on, then open this page again."</p>
                                        </noscript>
                                    }
                                })}
                            <div data-passkey="step-up" class="actions" hidden=true>
                                <button class="btn" type="button" data-start="">
                                    "Use a passkey"
                                </button>
                                <span class="sub" role="status"></span>
                            </div>
                        }
                    })}
                {fields}
                {typed
                    .then(|| {
                        view! {
                            <div class="actions">
                                <button class="btn btn-primary" type="submit">
                                    "Confirm"
                                </button>
                            </div>
                        }
                    })}
                // After the button for typed factors, so that Enter presses that one.
                <button class="btn" type="submit" name="confirmed" value="yes" formnovalidate=true data-continue="" hidden=true>
                    "Go on"
                </button>
            </form>
        </div>
    };
    factors::page("Confirm that it is you", content.into_any())
}

/// Fields for a code of the app and for a recovery code.
pub(crate) fn second_factor_fields(methods: &[String], problem: Option<&Problem>) -> AnyView {
    let accepts = |method: &str| methods.iter().any(|it| it == method);
    let code = accepts("totp").then(|| {
        let hint = t!("signin-code-help");
        Field::new(t!("signin-code"), "code", "text")
            .optional()
            .autocomplete("one-time-code")
            .hint(hint)
            .judged(problem, "/code")
            .view()
    });
    let recovery = accepts("recovery_code").then(|| {
        let hint = t!("signin-recovery-help");
        Field::new(t!("signin-recovery"), "recovery_code", "text")
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
