//! Confirmation of an action that cannot be undone: a question, the effect in numbers, a reason if it is someone
//! else's work, and a cancel link that says what stays.
//!
//! These forms work without JavaScript. They check nothing; the server checks the request again.

use domain::Counts;
use leptos::prelude::*;

use crate::{job_view::kind, t};

use super::{
    action_form::{RefusedAction, key_field, problem_notice},
    state::icon,
};

/// A form behind its button.
pub struct Confirm {
    /// Names the form in addresses and ids.
    pub id: &'static str,
    /// The address that it is posted to.
    pub action: String,
    pub icon: &'static str,
    /// On the closed form.
    pub verb: &'static str,
    pub question: String,
    /// Exact effect of the action.
    pub text: String,
    /// On the button: the verb again, with its number where it is dangerous.
    pub button: String,
    pub dangerous: bool,
    /// The link that closes it, and its address.
    pub way_out: &'static str,
    pub back: String,
    /// Owner of the work if it is not the reader's; then a reason is required.
    pub others: Option<String>,
    /// Idempotency-Key of an action that does something more each time.
    pub key: Option<String>,
}

impl Confirm {
    /// Renders the form; open if a link asks for it or if it was refused.
    pub fn view(self, open: Option<&str>, refused: Option<&RefusedAction>) -> AnyView {
        let here = refused.filter(|refused| refused.action == self.id);
        let open = here.is_some() || open == Some(self.id);
        let typed = here.map(|refused| refused.reason.clone()).unwrap_or_default();
        let refusal = here.map(|refused| problem_notice(&refused.problem));
        let field = format!("{}-reason", self.id);
        let reason = self.others.map(|owner| {
            view! {
                <div class="field">
                    <label class="label" for=field.clone()>
                        {t!("form-reason")}
                    </label>
                    <input type="text" id=field name="reason" value=typed maxlength="1000" autocomplete="off" required />
                    <span class="help">{t!("form-reason-help", owner = &owner)}</span>
                </div>
            }
        });
        let (summary, button) =
            if self.dangerous { ("btn btn-danger", "btn btn-danger-solid") } else { ("btn", "btn btn-primary") };
        view! {
            <details class="menu" id=self.id open=open>
                <summary class=summary>{icon(self.icon)} {self.verb}</summary>
                <form class="menu-list confirm" method="post" action=self.action>
                    {refusal}
                    {self.key.as_deref().map(key_field)}
                    <strong>{self.question}</strong>
                    <p class="small soft">{self.text}</p>
                    {reason}
                    <div class="actions">
                        <button class=button type="submit">
                            {self.button}
                        </button>
                        <a class="btn btn-quiet" href=self.back>
                            {self.way_out}
                        </a>
                    </div>
                </form>
            </details>
        }
        .into_any()
    }
}

/// Effect of canceling, in numbers; of rows of a file, or of items.
pub fn canceling(counts: &Counts, file: bool) -> String {
    let kind = kind(file);
    let waiting = match counts.total() - counts.finished() - counts.running {
        0 => String::new(),
        n => format!("{} ", t!("cancel-waiting", kind = kind, n = n)),
    };
    let running = match counts.running {
        0 => String::new(),
        n => format!("{} ", t!("cancel-running", n = n)),
    };
    format!("{waiting}{running}{}", t!("cancel-results", kind = kind))
}
