//! `/people`: people and the form that adds one; `/people/{id}`: one person.

use domain::{
    Problem,
    identity::account::{Session, User},
};
use leptos::prelude::*;

use crate::{
    components::{
        breadcrumbs::breadcrumbs,
        form::{Field, choice, detail, press, press_confirmed, secret},
        panel::{next_page, note, refusal, section},
        state::icon,
        table::{self, words},
        timestamp::ago,
    },
    frame::{NavSection, Page},
};

/// Roles and their rights.
const ROLES: [(&str, &str); 3] = [
    ("user", "Uploader: own imports and jobs"),
    ("support", "Support: sees all work, retries, cancels"),
    ("admin", "Admin: everything"),
];

/// Label of a role.
pub(crate) fn role_in_words(role: &str) -> &'static str {
    match role {
        "admin" => "Admin",
        "support" => "Support",
        _ => "Uploader",
    }
}

/// Form for a new person, as typed, without the password.
#[derive(Clone, Debug, Default)]
pub struct NewPerson {
    pub name: String,
    pub email: String,
    pub role: String,
    pub problem: Option<Problem>,
}

/// Content of `/people`.
#[derive(Clone, Debug, Default)]
pub struct People {
    pub users: Vec<User>,
    /// Address of the next page.
    pub next: Option<String>,
    pub form: NewPerson,
}

pub fn page(people: &People) -> Page {
    let form = &people.form;
    let problem = form.problem.as_ref();
    let refused = problem.map(|problem| refusal("Nobody was invited", &detail(problem)));
    let name = Field::new("Name", "name", "text").value(&form.name).judged(problem, "/name");
    let email = Field::new("Email address", "email", "email").value(&form.email).judged(problem, "/email");
    let password = Field::new("Password", "password", "password")
        .optional()
        .autocomplete("new-password")
        .hint("Optional, at least 12 characters; they choose their own when they sign in. Empty: you get a link that signs them in once.")
        .judged(problem, "/password");
    let add = view! {
        <form method="post" action="/people" class="form">
            <div class="fields">{name.view()} {email.view()} {choice("Role", "role", &ROLES, &form.role)} {password.view()}</div>
            <div class="actions">
                <button class="btn" type="submit">
                    "Invite"
                </button>
            </div>
        </form>
    };
    let content = view! {
        <div class="page-head">
            <h1>"People"</h1>
            <div class="actions">
                <a class="btn btn-primary" href="#add">
                    {icon("plus")}
                    "Invite"
                </a>
            </div>
        </div>
        {refused}
        {table(&people.users)}
        {next_page(people.next.as_ref(), "More people")}
        {section("add", "Invite", add.into_any())}
    }
    .into_any();
    Page { title: "People".to_owned(), nav_section: NavSection::People, content, is_live: false, is_translated: false }
}

fn table(users: &[User]) -> AnyView {
    let rows = users.iter().map(row).collect_view();
    let heads = words(["Name", "Role", "Signs in with", "Last seen", "Since"]);
    view! { <div class="card">{table::frame("People", "people", heads, rows)}</div> }.into_any()
}

fn row(user: &User) -> impl IntoView + use<> {
    let seen = match user.last_seen_at {
        Some(at) => ago(at).into_any(),
        None => view! { <span class="sub">"Never"</span> }.into_any(),
    };
    view! {
        <tr role="row" class=user.disabled.then_some("row-off")>
            <th scope="row" role="rowheader" class="name">
                <span class="person">
                    <span class="avatar" aria-hidden="true">
                        {initials(&user.name)}
                    </span>
                    <span class="two">
                        <span>
                            <a href=format!("/people/{}", user.id)>{user.name.clone()}</a>
                            {user.disabled.then(|| view! { " " <span class="tag">"deactivated"</span> })}
                        </span>
                        <span class="wrap">{user.email.clone().unwrap_or_else(|| "No email address".to_owned())}</span>
                    </span>
                </span>
            </th>
            <td role="cell" data-label="Role">
                <span class="two">
                    <span>{role_in_words(&user.role)}</span>
                    <span class="rights">{rights(&user.role)}</span>
                </span>
            </td>
            <td role="cell" class="wrap" data-label="Signs in with">{signs_in_with(user)}</td>
            <td role="cell" data-label="Last seen">{seen}</td>
            <td role="cell" class="nowrap" data-label="Since">{ago(user.created_at)}</td>
        </tr>
    }
}

/// Description of a role's rights.
fn rights(role: &str) -> &'static str {
    let whole = ROLES.iter().find(|(code, _)| *code == role).map_or("", |(_, words)| words);
    whole.split_once(": ").map_or("", |(_, rights)| rights)
}

/// Sign-in methods of a person that an admin may need to know.
fn signs_in_with(user: &User) -> AnyView {
    let proxy = user.proxy_user.as_ref();
    let sign_in_method = match (user.has_password, proxy) {
        (true, _) => "Password",
        (false, Some(_)) => "Proxy",
        (false, None) => "Link",
    };
    let proxy = proxy.map(|name| view! { <span>{format!("Proxy name: {name}")}</span> });
    view! { <span class="two"><span>{sign_in_method}</span> {proxy}</span> }.into_any()
}

/// Initials of a name, at most two letters.
fn initials(name: &str) -> String {
    let letters: String =
        name.split_whitespace().filter_map(|part| part.chars().find(|c| c.is_alphanumeric())).take(2).collect();
    letters.to_uppercase()
}

/// Content of `/people/{id}`.
#[derive(Clone, Debug)]
pub struct Person {
    pub user: User,
    pub sessions: Vec<Session>,
    /// True if it is the reader.
    pub is_self: bool,
    /// A one-time link that was just made.
    pub link: Option<String>,
    /// The form as it was typed.
    pub email: String,
    pub role: String,
    pub reason: String,
    pub problem: Option<Problem>,
}

pub fn one(person: &Person) -> Page {
    let user = &person.user;
    let id = user.id;
    let problem = person.problem.as_ref();
    let refused = problem.map(|problem| refusal("Nothing was changed", &detail(problem)));
    let link = person.link.as_ref().map(|link| {
        view! {
            <div class="notice notice-ok" role="status">
                <div class="notice-body">
                    <strong>{format!("Sign-in link for {}", user.name)}</strong>
                    <p>"Works once, for 1 hour. Copy it now; it is not shown again."</p>
                    {secret("link", "Link", link)}
                </div>
            </div>
        }
    });
    breadcrumbs(&[("/people", "People")], user.name.as_str());
    let content = view! {
        <div class="narrow">
            <h1>{user.name.clone()} {user.disabled.then(|| view! { " " <span class="tag">"deactivated"</span> })}</h1>
            {refused}
            {link}
            {user.proxy_user.clone().map(|name| note(format!("The proxy signs them in as {name}.")))}
            {section("change", "Account", change(person))}
            {section("access", "Password and sign-in", access(person))}
            {section("sessions", "Where they are signed in", sessions(person))}
            <p class="sub">
                <a href=format!("/audit?actor={}", encoded(&user.name))>"Audit log of this person"</a>
                " · id "
                <span class="mono">{id.to_string()}</span>
            </p>
        </div>
    }
    .into_any();
    Page { title: user.name.clone(), nav_section: NavSection::People, content, is_live: false, is_translated: false }
}

fn change(person: &Person) -> AnyView {
    let problem = person.problem.as_ref();
    let email = Field::new("Email address", "email", "email").value(&person.email).judged(problem, "/email");
    let email = if person.user.email.is_none() { email.optional() } else { email };
    let reason = Field::new("Reason", "reason", "text")
        .optional()
        .value(&person.reason)
        .hint("Kept in the audit log.")
        .judged(problem, "/reason");
    view! {
        <form method="post" action=format!("/people/{}", person.user.id) class="form">
            <div class="fields">{email.view()} {choice("Role", "role", &ROLES, &person.role)}</div>
            {reason.view()}
            <div class="actions">
                <button class="btn" type="submit">"Save"</button>
                <span class="sub">"A new role applies at once."</span>
            </div>
        </form>
    }
    .into_any()
}

fn access(person: &Person) -> AnyView {
    let user = &person.user;
    let action = |verb: &str| format!("/people/{}/{verb}", user.id);
    if user.disabled {
        return view! {
            <p>"They cannot sign in: no password, link, or session is accepted. Their work stays."</p>
            <form method="post" action=action("enable") class="actions">
                <button class="btn" type="submit">"Reactivate"</button>
            </form>
        }
        .into_any();
    }
    let effect = if person.is_self {
        "This is you: you are signed out at once, and only another admin can reactivate you."
    } else {
        "They are signed out everywhere and cannot sign in until they are reactivated. Their work stays."
    };
    view! {
        <div class="actions">
            <form method="post" action=action("sign-in-link")>
                <button class="btn" type="submit">"Create sign-in link"</button>
            </form>
            <span class="sub">"Works once, for 1 hour. It does not replace a second factor."</span>
        </div>
        {(!person.is_self)
            .then(|| {
                view! {
                    <div class="actions">
                        {press_confirmed(
                            action("reset-factors"),
                            "Reset second factors",
                            None,
                            "Their app, passkeys, and recovery codes are removed, and they are signed out everywhere.",
                        )}
                        <span class="sub">"For people who lost theirs."</span>
                    </div>
                }
            })}
        <div class="actions">
            {press_confirmed(action("disable"), "Deactivate", None, effect)}
        </div>
    }
    .into_any()
}

fn sessions(person: &Person) -> AnyView {
    if person.sessions.is_empty() {
        return note("Not signed in.");
    }
    let id = person.user.id;
    let end = |session: &Session| {
        let label = format!("End the session on {}", session.device);
        press(format!("/people/{id}/sessions/{}/end", session.id), "End", Some(label))
    };
    view! {
        {super::account::list(&person.sessions, &end)}
        <form method="post" action=format!("/people/{id}/sessions/end") class="actions">
            <button class="btn" type="submit">"Sign out everywhere"</button>
        </form>
    }
    .into_any()
}

/// Text encoded for a query string.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
