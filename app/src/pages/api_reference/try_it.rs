//! Form that sends an operation as its reader, and the response.

use std::collections::BTreeMap;

use domain::{Document, Problem};
use leptos::prelude::*;

use super::{Operation, Parameter, operation::example_text, snippets::RequestParts};
use crate::components::{
    action_form::field_fault,
    json::viewer,
    panel::{note, refusal},
    state::icon,
    text_area::text_area,
};

/// The form as typed, and its outcome.
#[derive(Clone, Debug, Default)]
pub struct Try {
    /// Values of parameters by [`field_name`].
    pub values: BTreeMap<String, String>,
    pub body: Option<String>,
    pub problem: Option<Problem>,
    /// Request that waits for a confirmation: its line, and the value that confirms it.
    pub unconfirmed: Option<(String, String)>,
    /// Request that was sent.
    pub sent: Option<RequestParts>,
    pub response: Option<Received>,
}

/// Response to a request that was sent.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Method and target of the request.
    pub request: String,
    pub status: u16,
    pub reason: String,
    pub milliseconds: u64,
    pub headers: Vec<(String, String)>,
    /// Body, if it is text.
    pub text: Option<String>,
    pub is_json: bool,
    /// Only the beginning of the body is shown.
    pub is_cut: bool,
    /// Refused until the reader confirms their identity.
    pub needs_step_up: bool,
}

/// Name of the field of a parameter.
pub fn field_name(parameter: &Parameter) -> String {
    format!("{}.{}", parameter.place.as_str(), parameter.name)
}

pub(super) fn try_it(operation: &Operation, tried: &Try) -> AnyView {
    if let Some(reason) = operation.not_here {
        return note(reason);
    }
    let (required, optional): (Vec<&Parameter>, Vec<&Parameter>) =
        operation.parameters.iter().partition(|parameter| parameter.required);
    let has_value = |parameter: &&Parameter| tried.values.get(&field_name(parameter)).is_some_and(|it| !it.is_empty());
    let is_open = optional.len() <= 3 || optional.iter().any(has_value);
    let required = required.into_iter().map(|parameter| input(parameter, tried)).collect_view();
    let count = optional.len();
    let optional = optional.into_iter().map(|parameter| input(parameter, tried)).collect_view();
    let optional = (count > 0).then(|| {
        view! {
            <details class="api-fold" open=is_open>
                <summary>{if count == 1 { "1 optional parameter".to_owned() } else { format!("{count} optional parameters") }}</summary>
                <div class="stack">{optional}</div>
            </details>
        }
    });
    let confirm = tried.unconfirmed.as_ref().map(|(request, token)| confirmation(request, token));
    let is_asked = confirm.is_some();
    let button = match (operation.dangerous, is_asked) {
        (false, _) => "Send request",
        (true, false) => "Send request…",
        (true, true) => "Send it now",
    };
    let class = if is_asked { "btn btn-danger-solid" } else { "btn btn-primary" };
    let way_out = is_asked.then(|| {
        view! { <a class="btn btn-quiet" href=format!("/api/docs/{}", operation.id)>"Keep everything as it is"</a> }
    });
    view! {
        <form class="stack api-try" method="post" action=format!("/api/docs/{}#outcome", operation.id)>
            {tried.problem.as_ref().map(|problem| view! { <div id="outcome">{refusal("Nothing was sent", &problem.detail)}</div> })}
            {confirm}
            {required}
            {operation.json_body().map(|body| body_input(&example_text(body), tried))}
            {optional}
            <div class="actions">
                <button class=class type="submit">
                    {icon("send")}
                    {button}
                </button>
                {way_out}
            </div>
            <p class="help">"Sent as you, with your permissions. It is recorded like any other call."</p>
        </form>
    }
    .into_any()
}

fn confirmation(request: &str, token: &str) -> AnyView {
    view! {
        <div class="notice notice-warn" role="alert" id="outcome">
            {icon("triangle-alert")}
            <div>
                <strong>"Send this request?"</strong>
                <p><code class="mono">{request.to_owned()}</code></p>
                <p>"It takes effect at once, and cannot be undone here."</p>
            </div>
        </div>
        <input type="hidden" name="confirmed" value=token.to_owned() />
    }
    .into_any()
}

fn body_input(example: &str, tried: &Try) -> AnyView {
    let text = tried.body.as_deref().unwrap_or(example);
    let fault = field_fault(tried.problem.as_ref(), "/body", "try-body-fault");
    let bad = fault.is_some();
    view! {
        <div class="field">
            <label class="label" for="try-body">
                "Body, as JSON"
            </label>
            {text_area("try-body", "body", text, if bad { "try-body-fault" } else { "" }, bad)}
            {fault}
        </div>
    }
    .into_any()
}

fn input(parameter: &Parameter, tried: &Try) -> AnyView {
    let name = field_name(parameter);
    let id = format!("try-{}", name.replace('.', "-"));
    let value = tried.values.get(&name).cloned().unwrap_or_default();
    let (fault_id, help_id) = (format!("{id}-fault"), format!("{id}-help"));
    let fault = field_fault(tried.problem.as_ref(), &format!("/{name}"), &fault_id);
    let invalid = fault.is_some().then_some("true");
    let described = if fault.is_some() { format!("{help_id} {fault_id}") } else { help_id.clone() };
    let required = parameter.required;
    let control = if parameter.choices.is_empty() {
        view! {
            <input
                type="text"
                class="mono"
                id=id.clone()
                name=name
                value=value
                required=required
                maxlength="2000"
                spellcheck="false"
                autocomplete="off"
                aria-invalid=invalid
                aria-describedby=described
            />
        }
        .into_any()
    } else {
        let options = parameter.choices.iter().map(|choice| {
            view! {
                <option value=choice.clone() selected=*choice == value>
                    {choice.clone()}
                </option>
            }
        });
        view! {
            <select id=id.clone() name=name required=required aria-invalid=invalid aria-describedby=described>
                <option value="">"Not set"</option>
                {options.collect_view()}
            </select>
        }
        .into_any()
    };
    view! {
        <div class="field">
            <label class="label" for=id>
                <code class="mono">{parameter.name.clone()}</code>
            </label>
            {control}
            <span class="help" id=help_id>
                {format!("{}: {}", parameter.place.as_str(), parameter.shape)}
            </span>
            {fault}
        </div>
    }
    .into_any()
}

/// The response: status, headers, and body.
pub(super) fn received(operation: &str, response: &Received) -> AnyView {
    let state = if response.status < 400 { "succeeded" } else { "dead" };
    let headers = response.headers.iter().map(|(name, value)| {
        view! {
            <dt class="mono">{name.clone()}</dt>
            <dd class="mono">{value.clone()}</dd>
        }
    });
    let step_up = response.needs_step_up.then(|| {
        view! { <p><a class="btn" href=format!("/step-up?back=/api/docs/{operation}")>"Confirm that it is you"</a></p> }
    });
    view! {
        <div class="stack" role="status">
            <p class="api-status">
                <span class=format!("state s-{state} badge")>
                    {icon(state)}
                    {format!("{} {}", response.status, response.reason)}
                </span>
                <span class="soft small">{format!("{} ms", response.milliseconds)}</span>
            </p>
            <p class="api-sent"><code class="mono">{response.request.clone()}</code></p>
            {step_up}
            <dl class="kv api-headers">{headers.collect_view()}</dl>
            {body_of(response)}
        </div>
    }
    .into_any()
}

fn body_of(response: &Received) -> AnyView {
    let Some(text) = &response.text else { return note("The body is not text.") };
    if text.is_empty() {
        return note("No body.");
    }
    let document =
        (response.is_json && !response.is_cut).then(|| Document::parse(text.trim().to_owned()).ok()).flatten();
    let cut = response.is_cut.then(|| view! { <p class="doc-cut">"Showing the beginning of the response."</p> });
    match document {
        Some(document) => viewer("response-doc", "Body of the response", &document, None),
        None => view! {
            <pre class="api-code" tabindex="0" role="group" aria-label="Body of the response">
                {text.clone()}
            </pre>
            {cut}
        }
        .into_any(),
    }
}
