//! `/services`: services and their tokens. A token is shown once.

use domain::{
    Problem,
    identity::access::{Service, Token},
};
use leptos::prelude::*;

use crate::{
    components::{
        form::{Field, choice, detail, fault, press, press_confirmed, secret},
        panel::{next_page, note, refusal, section},
        table::{
            self,
            Head::{Unseen, Words},
        },
        timestamp::{ago, clock},
    },
    frame::{NavSection, Page},
};

/// Scopes of a token, with their descriptions.
const SCOPES: [(&str, &str); 5] = [
    ("jobs:read", "See its jobs"),
    ("jobs:write", "Create, change, and cancel jobs"),
    ("work", "Take items and report results"),
    ("metrics", "Read /metrics"),
    ("admin", "Everything"),
];

/// Form for a new token, as typed.
#[derive(Clone, Debug, Default)]
pub struct NewTokenForm {
    pub service: String,
    pub name: String,
    pub scopes: Vec<String>,
    /// Names of job types, as typed.
    pub types: String,
    /// Last day of validity, as typed.
    pub expires: String,
}

/// Content of the page.
#[derive(Clone, Debug, Default)]
pub struct Services {
    pub services: Vec<Service>,
    pub tokens: Vec<Token>,
    /// Address of the next page of tokens.
    pub next: Option<String>,
    /// Token that was just created: its name and its secret.
    pub created: Option<(String, String)>,
    pub service_name: String,
    pub token: NewTokenForm,
    /// Problem of one of the forms.
    pub problem: Option<Problem>,
}

pub fn page(page_data: &Services) -> Page {
    let refused = page_data.problem.as_ref().map(|problem| refusal("Nothing was created", &detail(problem)));
    let created = page_data.created.as_ref().map(|(name, value)| {
        view! {
            <div class="notice notice-ok" role="status">
                <div class="notice-body">
                    <strong>{format!("Token {name}")}</strong>
                    <p>"Copy it now; it is not shown again. Keep it where the service reads its secrets."</p>
                    {secret("token", "Token", value)}
                </div>
            </div>
        }
    });
    let content = view! {
        <div class="page-head"><h1>"API access"</h1></div>
        <p class="soft">
            "A service is a program that creates jobs or works on items. It signs in with a token and owns what it creates."
        </p>
        {refused}
        {created}
        {section("services", "Services", services(page_data))}
        {section("tokens", "Tokens", tokens(page_data))}
        {(!page_data.services.is_empty()).then(|| section("add-token", "New token", token_form(page_data)))}
    }
    .into_any();
    Page {
        title: "API access".to_owned(),
        nav_section: NavSection::Services,
        content,
        is_live: false,
        is_translated: false,
    }
}

fn services(page_data: &Services) -> AnyView {
    let problem = page_data.problem.as_ref();
    let rows = page_data
        .services
        .iter()
        .map(|service| {
            let state = service.disabled.then(|| view! { <span class="sub">"Disabled: its tokens are refused"</span> });
            // The bootstrap service is removed with its environment variable.
            let control = (service.name != "bootstrap").then(|| {
                let (verb, word) = if service.disabled { ("enable", "Enable") } else { ("disable", "Disable") };
                let label = format!("{word} the service {}", service.name);
                press(format!("/services/{}/{verb}", service.id), word, Some(label))
            });
            view! {
                <li class="line">
                    <span class="line-text">
                        <strong>{service.name.clone()}</strong>
                        <span class="sub">"created " {ago(service.created_at)}</span>
                        {state}
                    </span>
                    {control}
                </li>
            }
        })
        .collect_view();
    let name = Field::new("New service", "name", "text")
        .value(&page_data.service_name)
        .hint("Lowercase letters, digits, and -, such as payroll.")
        .judged(problem, "/name");
    view! {
        {if page_data.services.is_empty() { note("No services yet.") } else { view! { <ul class="lines">{rows}</ul> }.into_any() }}
        <form method="post" action="/services" class="form form-short">
            {name.view()}
            <div class="actions">
                <button class="btn" type="submit">"Add service"</button>
            </div>
        </form>
    }
    .into_any()
}

fn tokens(page_data: &Services) -> AnyView {
    if page_data.tokens.is_empty() {
        return note("No tokens yet.");
    }
    let rows = page_data.tokens.iter().map(row).collect_view();
    let heads = [
        Words("Token"),
        Words("Service"),
        Words("Permissions"),
        Words("Created"),
        Words("Last used"),
        Words("Expires"),
        Unseen("Revoke"),
    ];
    let table = table::frame("Tokens", "tokens", heads, rows);
    view! {
        {table}
        {next_page(page_data.next.as_ref(), "Older tokens")}
    }
    .into_any()
}

fn row(token: &Token) -> impl IntoView + use<> {
    let types = token.types.as_ref().map(|types| format!(" of {}", types.join(", "))).unwrap_or_default();
    let used = match token.last_used_at {
        Some(at) => ago(at).into_any(),
        None => view! { <span class="sub">"Never used"</span> }.into_any(),
    };
    let expires = match token.expires_at {
        Some(at) => clock(at).into_any(),
        None => view! { <span class="sub">"Never"</span> }.into_any(),
    };
    let end = if let Some(at) = token.revoked_at {
        view! { <span class="sub">"revoked " {ago(at)}</span> }.into_any()
    } else {
        let label = Some(format!("Revoke the token {}", token.name));
        let effect = "Programs that use it are refused at once. This cannot be undone.";
        press_confirmed(format!("/tokens/{}/revoke", token.id), "Revoke", label, effect)
    };
    view! {
        <tr role="row" class=token.revoked_at.map(|_| "row-off")>
            <th scope="row" role="rowheader" class="name">{token.name.clone()}</th>
            <td role="cell" data-label="Service">{token.service.clone()}</td>
            <td role="cell" class="wrap mono" data-label="Permissions">{format!("{}{types}", token.scopes.join(" "))}</td>
            <td role="cell" data-label="Created">{ago(token.created_at)}</td>
            <td role="cell" data-label="Last used">{used}</td>
            <td role="cell" data-label="Expires">{expires}</td>
            <td role="cell">{end}</td>
        </tr>
    }
}

/// Place of the first error in the names of job types.
fn types_pointer(problem: Option<&Problem>) -> String {
    let mut faults = problem.map_or(&[][..], |problem| &problem.errors).iter();
    faults.find(|fault| fault.pointer.starts_with("/types")).map_or("/types", |fault| &fault.pointer).to_owned()
}

fn token_form(page_data: &Services) -> AnyView {
    let (form, problem) = (&page_data.token, page_data.problem.as_ref());
    let names: Vec<(&str, &str)> = page_data
        .services
        .iter()
        .filter(|service| service.name != "bootstrap")
        .map(|service| (service.name.as_str(), service.name.as_str()))
        .collect();
    if names.is_empty() {
        return note("Add a service first: each token belongs to one.");
    }
    let name = Field::new("Name", "token_name", "text")
        .value(&form.name)
        .hint("Such as the machine it is on.")
        .judged(problem, "/token_name");
    let types = Field::new("Job types (empty: all)", "types", "text")
        .optional()
        .value(&form.types)
        .hint("Names with spaces between. Limits which items it may work on.")
        .judged(problem, &types_pointer(problem));
    let expires = Field::new("Expires (optional)", "expires", "date")
        .optional()
        .value(&form.expires)
        .hint("At the end of this day, UTC.")
        .judged(problem, "/expires");
    let scopes = SCOPES
        .map(|(scope, words)| {
            let checked = form.scopes.iter().any(|chosen| chosen == scope);
            view! {
                <label class="check">
                    <input type="checkbox" name="scope" value=scope checked=checked />
                    <span>
                        <span class="mono">{scope}</span>
                        " "
                        <span class="sub">{words}</span>
                    </span>
                </label>
            }
        })
        .collect_view();
    let scope_fault = fault(problem, "/scopes").map(|fault| view! { <span class="field-error">{fault}</span> });
    view! {
        <form method="post" action="/services/tokens" class="form">
            <div class="fields">{choice("Service", "service", &names, &form.service)} {name.view()} {types.view()} {expires.view()}</div>
            <fieldset class="checks">
                <legend>"Permissions"</legend>
                {scopes}
                {scope_fault}
            </fieldset>
            <div class="actions">
                <button class="btn btn-primary" type="submit">
                    "Create token"
                </button>
            </div>
        </form>
    }
    .into_any()
}
