//! Page of one operation.

use leptos::prelude::*;

use super::{
    Answer, Body, Operation, Parameter, Place, Reference, anchor, method, prose,
    snippets::RequestParts,
    title,
    try_it::{Try, received, try_it},
};
use crate::{
    components::{
        breadcrumbs::breadcrumbs,
        json::{pretty, viewer},
        panel::section,
        table::{self, words},
        text_area::hidden_source,
    },
    frame::{NavSection, Page},
};

/// `/api/docs/{operation}`.
pub fn operation_page(reference: &Reference, operation: &Operation, tried: &Try) -> Page {
    let group = reference.groups.iter().find(|group| group.operations.iter().any(|it| it.id == operation.id));
    let group = group.map(|group| group.name.clone()).unwrap_or_default();
    let above = format!("/api/docs#{}", anchor(&group));
    breadcrumbs(&[("/api/docs", "API reference"), (&above, &title(&group))], operation.summary.clone());
    let description = operation.description.split("\n\n").filter(|text| !text.is_empty());
    let description = description.map(|text| view! { <p>{prose(text)}</p> }).collect_view();
    let parameters = (!operation.parameters.is_empty())
        .then(|| table_card("parameters", "Parameters", parameters(&operation.parameters)));
    let bodies = operation.bodies.iter().enumerate().map(|(at, it)| body_card(at, it)).collect_view();
    let response = tried.response.as_ref();
    let response = response.map(|response| section("outcome", "Response", received(&operation.id, response)));
    let content = view! {
        <div class="page-head">
            <h1>{operation.summary.clone()}</h1>
            <p class="sub api-line">{method(&operation.method)} <code class="mono">{operation.path.clone()}</code></p>
        </div>
        {parts(operation)}
        <div class="api-operation api-reference">
            <div class="stack gap-4">
                <div class="stack api-text">{description}</div>
                {parameters}
                {bodies}
                {section("responses", "Responses", responses(&operation.responses))}
            </div>
            <div class="stack gap-4">
                {section("try", "Try it", try_it(operation, tried))}
                {response}
                {section("code", "In a program", code(operation, tried))}
            </div>
        </div>
    }
    .into_any();
    Page {
        title: operation.summary.clone(),
        nav_section: NavSection::Documentation,
        content,
        is_live: false,
        is_translated: false,
    }
}

/// Links to the parts of the page, where they are below each other.
fn parts(operation: &Operation) -> AnyView {
    let parts = [
        ("#try", "Try it", true),
        ("#parameters", "Parameters", !operation.parameters.is_empty()),
        ("#body-0", "Body", !operation.bodies.is_empty()),
        ("#responses", "Responses", true),
        ("#code", "In a program", true),
    ];
    let links = parts.into_iter().filter(|(.., is_there)| *is_there).map(|(to, word, _)| {
        view! {
            <a class="chip" href=to>
                {word}
            </a>
        }
    });
    view! {
        <nav class="filters api-parts" aria-label="Parts of this page">
            {links.collect_view()}
        </nav>
    }
    .into_any()
}

/// A card with nothing but a table.
fn table_card(id: &'static str, heading: &'static str, table: AnyView) -> AnyView {
    view! {
        <section class="card clip-card" id=id aria-labelledby=format!("{id}-heading")>
            <div class="card-head">
                <h2 id=format!("{id}-heading")>{heading}</h2>
            </div>
            {table}
        </section>
    }
    .into_any()
}

fn parameters(parameters: &[Parameter]) -> AnyView {
    let rows = parameters.iter().map(|parameter| {
        let place = parameter.place.as_str();
        let place = if parameter.required { format!("{place}, required") } else { place.to_owned() };
        field_row(&parameter.name, place, (&parameter.shape, parameter.pattern.as_deref()), &parameter.description)
    });
    table::frame("Parameters", "api-fields", words(["Name", "Type", "Meaning"]), rows.collect_view())
}

fn fields(label: &'static str, body: &Body) -> AnyView {
    let rows = body.fields.iter().map(|field| {
        let required = if field.required { "required".to_owned() } else { String::new() };
        field_row(&field.path, required, (&field.shape, field.pattern.as_deref()), &field.description)
    });
    table::frame(label, "api-fields", words(["Field", "Type", "Meaning"]), rows.collect_view())
}

fn field_row(name: &str, below: String, (shape, pattern): (&str, Option<&str>), meaning: &str) -> AnyView {
    let pattern = pattern.map(|pattern| view! { " matching " <code class="mono">{pattern.to_owned()}</code> });
    let meaning = if meaning.is_empty() {
        view! { <td role="cell" class="wide-only"></td> }.into_any()
    } else {
        view! {
            <td role="cell" class="wide" data-label="Meaning">
                {prose(meaning)}
            </td>
        }
        .into_any()
    };
    let below = (!below.is_empty()).then(|| view! { <span>{below}</span> });
    view! {
        <tr role="row">
            <th scope="row" role="rowheader" class="name">
                <span class="two">
                    <code class="mono">{name.to_owned()}</code>
                    {below}
                </span>
            </th>
            <td role="cell" class="wide" data-label="Type">
                {shape.to_owned()}
                {pattern}
            </td>
            {meaning}
        </tr>
    }
    .into_any()
}

/// Body of the request: its fields and an example.
fn body_card(at: usize, body: &Body) -> AnyView {
    let id = format!("body-{at}");
    let table = (!body.fields.is_empty()).then(|| fields("Fields of the body", body));
    let example = body.example.as_ref().map(|example| {
        view! {
            <p class="label api-label">"Example"</p>
            {viewer(&format!("{id}-example"), "Example of the body", example, None)}
        }
    });
    view! {
        <section class="card clip-card" aria-labelledby=id.clone()>
            <div class="card-head">
                <h2 id=id.clone()>"Body"</h2>
                <span class="sub">
                    <code class="mono">{body.media_type.clone()}</code>
                    {format!(": {}", body.shape)}
                </span>
            </div>
            {table}
            {example}
        </section>
    }
    .into_any()
}

/// Successful responses with their fields; refusals, which all have the same body, in a list.
fn responses(all: &[Answer]) -> AnyView {
    let (good, refusals): (Vec<&Answer>, Vec<&Answer>) = all.iter().partition(|it| it.status.as_str() < "400");
    let good = good.into_iter().map(answer).collect_view();
    let lines = refusals.iter().map(|refusal| {
        view! {
            <div>
                <dt class="mono">{refusal.status.clone()}</dt>
                <dd>{prose(&refusal.description)}</dd>
            </div>
        }
    });
    let refusals = (!refusals.is_empty()).then(|| {
        view! {
            <details class="api-fold">
                <summary>"Refusals, as problem documents"</summary>
                <dl class="api-refusals">{lines.collect_view()}</dl>
            </details>
        }
    });
    view! { <div class="stack">{good} {refusals}</div> }.into_any()
}

fn answer(answer: &Answer) -> AnyView {
    let line = view! { <code class="mono">{answer.status.clone()}</code> " " {prose(&answer.description)} };
    if answer.bodies.is_empty() {
        return view! { <p>{line}</p> }.into_any();
    }
    let bodies = answer.bodies.iter().enumerate().map(|(at, body)| {
        let table = (!body.fields.is_empty()).then(|| fields("Fields of the response", body));
        let example = body.example.as_ref().filter(|_| body.fields.is_empty() || answer.status == "200");
        let id = format!("answer-{}-{at}", answer.status);
        let example = example.map(|example| viewer(&id, "Example of the response", example, None));
        view! {
            <p><code class="mono">{body.media_type.clone()}</code> {format!(": {}", body.shape)}</p>
            {table}
            {example}
        }
    });
    view! {
        <details class="api-fold">
            <summary>{line}</summary>
            <div class="stack">{bodies.collect_view()}</div>
        </details>
    }
    .into_any()
}

/// The request in programs: the one that was sent, or an example.
fn code(operation: &Operation, tried: &Try) -> AnyView {
    let request = tried.sent.clone().unwrap_or_else(|| example(operation));
    let snippets = request.snippets(&operation.id).into_iter().map(|snippet| {
        let (id, open) = (format!("code-{}", snippet.id), snippet.id == "curl");
        view! {
            <details class="api-fold" open=open>
                <summary>{snippet.name}</summary>
                <div class="api-snippet">
                    <pre class="api-code" tabindex="0" role="group" aria-label=format!("Request with {}", snippet.name)>
                        {snippet.text.clone()}
                    </pre>
                    {hidden_source(&id, &snippet.text)}
                    {copy(&id, snippet.name)}
                </div>
            </details>
        }
    });
    view! {
        <div class="stack">
            {snippets.collect_view()}
            <p class="help">
                <code class="mono">"TREELINE_URL"</code> " is the address of this server, " <code class="mono">"TREELINE_TOKEN"</code>
                " a token."
            </p>
        </div>
    }
    .into_any()
}

fn copy(id: &str, name: &str) -> AnyView {
    view! {
        <button
            type="button"
            class="btn btn-sm only-scripted"
            data-copy=format!("{id}-source")
            aria-label=format!("Copy the request with {name}")
        >
            {crate::components::state::icon("copy")}
            <span>{crate::t!("script-copy")}</span>
        </button>
    }
    .into_any()
}

/// Request with what is required, and the example of the body.
fn example(operation: &Operation) -> RequestParts {
    let mut request = RequestParts {
        method: operation.method.clone(),
        path: operation.path.clone(),
        body: operation.json_body().and_then(|body| body.example.clone()),
        ..RequestParts::default()
    };
    for parameter in &operation.parameters {
        let sample = || parameter.choices.first().cloned().unwrap_or_else(|| parameter.name.to_uppercase());
        match parameter.place {
            Place::Path => {
                let value = parameter.name.to_uppercase();
                request.path = request.path.replace(&format!("{{{}}}", parameter.name), &value);
                request.values.push(value);
            }
            Place::Query if parameter.required => request.query.push((parameter.name.clone(), sample())),
            Place::Header if parameter.required => request.headers.push((parameter.name.clone(), sample())),
            Place::Query | Place::Header => {}
        }
    }
    request
}

/// Example of the body for the form.
pub(super) fn example_text(body: &Body) -> String {
    body.example.as_ref().map(pretty).unwrap_or_default()
}
