//! `/api/docs`: the API reference, made from this server's own description: how to authenticate, and a page for each
//! operation with its parameters, bodies, responses, examples, and a form that sends it.
//!
//! The form sends the request with the session of its reader, so it does what the reader may do. What deletes, ends, or
//! stops something is shown first and sent after a confirmation. No scripts are needed.

mod methods; // methods of the clients
mod operation; // page of one operation
mod snippets; // requests in programs
mod try_it; // form that sends an operation, and its response

use domain::Document;
use leptos::prelude::*;

pub use self::operation::operation_page;
pub use self::snippets::RequestParts;
pub use self::try_it::{Received, Try, field_name};
use crate::{
    components::{panel::note, state::icon},
    frame::{NavSection, Page},
};

/// The whole reference.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    pub introduction: String,
    pub groups: Vec<Group>,
}

/// Operations on one kind of thing.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub name: String,
    pub description: String,
    pub operations: Vec<Operation>,
}

/// One operation.
#[derive(Clone, Debug, Default)]
pub struct Operation {
    pub id: String,
    /// In capitals.
    pub method: String,
    /// Whole path, with names in braces.
    pub path: String,
    pub summary: String,
    pub description: String,
    pub parameters: Vec<Parameter>,
    pub bodies: Vec<Body>,
    pub responses: Vec<Answer>,
    /// It deletes, ends, or stops something, or changes many things: the form asks before it sends it.
    pub dangerous: bool,
    /// Why the form cannot send it; `None` if it can.
    pub not_here: Option<&'static str>,
}

impl Operation {
    /// Body in JSON.
    pub fn json_body(&self) -> Option<&Body> {
        self.bodies.iter().find(|body| body.media_type == "application/json")
    }

    /// True if the operation has all of these words, which are in lower case, in its names and its summary.
    fn matches(&self, group: &Group, words: &[String]) -> bool {
        let text = format!("{} {} {} {} {}", self.method, self.path, self.id, self.summary, group.name).to_lowercase();
        words.iter().all(|word| text.contains(word))
    }
}

/// Place of a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Query,
    Path,
    Header,
}

impl Place {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Path => "path",
            Self::Header => "header",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Parameter {
    pub name: String,
    pub place: Place,
    /// Type and bounds in words.
    pub shape: String,
    /// Regular expression that a text matches.
    pub pattern: Option<String>,
    pub required: bool,
    pub description: String,
    /// Values that it may have, if they are listed.
    pub choices: Vec<String>,
}

/// Body of a request or a response.
#[derive(Clone, Debug, Default)]
pub struct Body {
    pub media_type: String,
    pub shape: String,
    /// Fields, with those of nested objects below them.
    pub fields: Vec<BodyField>,
    pub example: Option<Document>,
}

#[derive(Clone, Debug, Default)]
pub struct BodyField {
    /// Names from the top of the body, such as `items[].payload`.
    pub path: String,
    /// Type and bounds in words.
    pub shape: String,
    /// Regular expression that a text matches.
    pub pattern: Option<String>,
    pub required: bool,
    pub description: String,
}

/// A possible response.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: String,
    pub description: String,
    pub bodies: Vec<Body>,
}

/// `/api/docs`: all operations, or those that have all words of `filter`.
pub fn index_page(reference: &Reference, filter: &str) -> Page {
    let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
    let found: Vec<(&Group, Vec<&Operation>)> = reference
        .groups
        .iter()
        .map(|group| (group, group.operations.iter().filter(|it| it.matches(group, &words)).collect::<Vec<_>>()))
        .filter(|(_, operations)| !operations.is_empty())
        .collect();
    let count: usize = found.iter().map(|(_, operations)| operations.len()).sum();
    let total: usize = reference.groups.iter().map(|group| group.operations.len()).sum();
    let groups = found.iter().map(|(group, operations)| group_card(group, operations)).collect_view();
    let jumps = words.is_empty().then(|| {
        let links = found.iter().map(|(group, _)| {
            view! { <a class="chip" href=format!("#{}", anchor(&group.name))>{title(&group.name)}</a> }
        });
        view! { <nav class="filters api-jumps" aria-label="Groups of operations">{links.collect_view()}</nav> }
    });
    let start = words.is_empty().then(|| introduction(reference));
    let nothing =
        found.is_empty().then(|| note("No operation has these words. Search for a path, a method, or a thing."));
    let content = view! {
        <div class="page-head">
            <h1>"API reference"</h1>
            <p class="sub">"Every operation of this server, with examples and a form that sends it."</p>
        </div>
        {search_form(filter, count, total)}
        <div class="stack gap-4 api-reference">{jumps} {start} {nothing} {groups}</div>
    }
    .into_any();
    Page {
        title: "API reference".to_owned(),
        nav_section: NavSection::Documentation,
        content,
        is_live: false,
        is_translated: false,
    }
}

fn search_form(filter: &str, count: usize, total: usize) -> AnyView {
    let clear = (!filter.is_empty()).then(|| {
        let of = format!("{count} of {total} operations");
        view! {
            <a class="btn btn-quiet" href="/api/docs">"Clear"</a>
            <span class="soft small" role="status">{of}</span>
        }
    });
    view! {
        <form class="filters api-search" method="get" action="/api/docs" role="search" aria-label="Filter the operations">
            <input
                type="search"
                name="q"
                id="api-filter"
                aria-label="Filter operations"
                placeholder="Filter: jobs, cancel, POST /items"
                value=filter.to_owned()
                maxlength="200"
                autocomplete="off"
            />
            <button class="btn" type="submit">{icon("search")} "Filter"</button>
            {clear}
        </form>
    }
    .into_any()
}

/// Rules that apply to all operations.
fn introduction(reference: &Reference) -> AnyView {
    let text = reference.introduction.split("\n\n").map(|text| view! { <p>{prose(text)}</p> }).collect_view();
    view! {
        <div class="grid">
            <section class="card c6" aria-labelledby="about">
                <div class="card-head">
                    <h2 id="about">"About this API"</h2>
                </div>
                <div class="card-body stack small">
                    {text}
                    <p>
                        "For programs: " <a href="/api/v1/openapi.json">"openapi.json"</a> " (OpenAPI 3.1) and "
                        <a href="/api/v1/openapi-3.0.json">"openapi-3.0.json"</a> ". Rules and explanations: "
                        <a href="/docs/api">"conventions of the API"</a> "."
                    </p>
                </div>
            </section>
            <section class="card c6" aria-labelledby="authentication">
                <div class="card-head">
                    <h2 id="authentication">"Authentication"</h2>
                </div>
                <div class="card-body stack small">
                    <p>
                        "A program sends the token of a service with each request. Admins create tokens on the page "
                        <a href="/services">"API access"</a> "; the permissions of a token decide what it may do."
                    </p>
                    <pre class="api-code" tabindex="0" role="group" aria-label="Header of a request">"Authorization: Bearer $TREELINE_TOKEN"</pre>
                    <p>
                        "A person signs in, and the cookie of the session authenticates requests of this site. The forms "
                        "of this reference send requests as you: they do what you may do."
                    </p>
                </div>
            </section>
        </div>
    }
    .into_any()
}

/// Text of the description, in which back quotes mark code.
fn prose(text: &str) -> AnyView {
    let parts = text.split('`').enumerate().map(|(at, part)| match at % 2 {
        1 => view! { <code class="mono">{part.to_owned()}</code> }.into_any(),
        _ => part.to_owned().into_any(),
    });
    parts.collect_view().into_any()
}

/// Id of a group on the page.
fn anchor(name: &str) -> String {
    format!("group-{}", name.replace(' ', "-"))
}

fn title(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| format!("{}{}", first.to_uppercase(), letters.as_str())).unwrap_or_default()
}

fn group_card(group: &Group, operations: &[&Operation]) -> AnyView {
    let id = anchor(&group.name);
    let rows = operations
        .iter()
        .map(|operation| {
            view! {
                <li>
                    <a class="api-row" href=format!("/api/docs/{}", operation.id)>
                        {method(&operation.method)}
                        <code class="mono">{short_path(&operation.path)}</code>
                        <span>{operation.summary.clone()}</span>
                    </a>
                </li>
            }
        })
        .collect_view();
    view! {
        <section class="card clip-card" aria-labelledby=id.clone()>
            <div class="card-head">
                <h2 id=id.clone()>{title(&group.name)}</h2>
                <span class="sub">{group.description.clone()}</span>
            </div>
            <ul class="lined api-rows">{rows}</ul>
        </section>
    }
    .into_any()
}

/// Path without the prefix that nearly all have.
fn short_path(path: &str) -> String {
    path.strip_prefix("/api/v1").unwrap_or(path).to_owned()
}

/// A method as a badge; one that deletes stands out.
fn method(name: &str) -> AnyView {
    let class = match name {
        "GET" | "OPTIONS" => "badge api-method",
        "DELETE" => "badge api-method s-dead",
        "POST" => "badge api-method s-succeeded",
        _ => "badge api-method s-running",
    };
    view! { <span class=class>{name.to_owned()}</span> }.into_any()
}
