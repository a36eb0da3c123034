//! The section of `/account` about notices: how the person receives them.

use domain::{Problem, notice::NoticeSettings};
use leptos::prelude::*;

use crate::components::{
    form::{Field, fault},
    panel::section,
};

/// Content of the section.
#[derive(Clone, Debug)]
pub struct NoticeForm {
    pub settings: NoticeSettings,
    /// True if the server sends mail.
    pub mail: bool,
    /// Address of the account.
    pub address: Option<String>,
    /// The URL as it was typed, if it was refused.
    pub typed_url: String,
}

pub(super) fn account_section(form: &NoticeForm, problem: Option<&Problem>) -> AnyView {
    let settings = &form.settings;
    let email_hint = match (&form.address, form.mail) {
        (_, false) => "This server sends no mail.".to_owned(),
        (None, true) => "Your account has no email address.".to_owned(),
        (Some(address), true) => format!("Sent to {address}."),
    };
    let is_possible = form.mail && form.address.is_some();
    let email_below = view! {
        <span class="help">{email_hint}</span>
        {fault(problem, "/email").map(|fault| view! { <span class="field-error">{fault}</span> })}
    };
    let browser_below = view! { <span class="help" data-browser-notices="" hidden=true></span> };
    let current = settings.webhook_url.clone().map(|url| {
        view! {
            <p class="small soft">"Posted to " <span class="mono">{url}</span></p>
            {check("remove_webhook", "Remove this webhook", false, false, None)}
        }
    });
    let content = view! {
        <p class="small soft">"You are told when an import of yours, or a job that you watch, finishes or needs attention. Notices name the job and count its failures; they contain no payloads."</p>
        <form method="post" action="/account/notices" class="form form-short" id="notice-form">
            {check("in_page", "In the bell of every page", settings.in_page, false, None)}
            {check("browser", "As a notification of this browser", settings.browser, false, Some(browser_below.into_any()))}
            {check("email", "By email", settings.email, !is_possible, Some(email_below.into_any()))}
            {current}
            {Field::new("Webhook URL", "webhook_url", "url")
                .optional()
                .value(&form.typed_url)
                .hint("Each notice is posted there, signed. Empty: the webhook stays as it is.")
                .judged(problem, "/webhook_url")
                .maxlength(2_048)
                .view()}
            {Field::new("Webhook secret", "webhook_secret", "password")
                .optional()
                .hint("Signs the posts. Empty: stays as it is, or for a new URL that of your account.")
                .judged(problem, "/webhook_secret")
                .maxlength(255)
                .view()}
            <div class="actions">
                <button class="btn" type="submit">
                    "Save"
                </button>
            </div>
        </form>
    };
    section("notices", "Notices", content.into_any())
}

/// A checkbox with what stands below its words. One that is checked can always be cleared.
fn check(name: &'static str, word: &'static str, checked: bool, disabled: bool, below: Option<AnyView>) -> AnyView {
    view! {
        <label class="check">
            <input type="checkbox" name=name value="yes" checked=checked disabled=disabled && !checked />
            <span>{word} {below}</span>
        </label>
    }
    .into_any()
}
