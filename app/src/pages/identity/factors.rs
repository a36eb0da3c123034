//! Second factors and connected providers on the account page, setup of an authenticator app, and recovery codes.
//!
//! Everything except passkeys works without JavaScript; passkeys need the browser's API. Codes and secrets are shown
//! once, in the response to the form.

use domain::{
    Problem,
    identity::factors::{Connection, Factors, Passkey, TotpStarted},
};
use leptos::prelude::*;

use crate::{
    components::{
        form::{Field, press, press_confirmed},
        panel::{note, refusal, section},
        timestamp::ago,
    },
    frame::{NavSection, Page},
};

/// Section on the account page. `passkeys`: true if browsers support passkeys for this host.
pub fn account_section(factors: &Factors, passkeys: bool) -> AnyView {
    let needed = (factors.required && !factors.any())
        .then(|| refusal("Your role needs a second factor", "Add an authenticator app or a passkey to continue."));
    let state = if factors.any() {
        "Signing in asks for a second factor."
    } else {
        "A second factor keeps others out who learn your password or find your link."
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
    let Some(since) = factors.totp_since else {
        return view! {
            <li class="line">
                <span class="line-text">
                    <strong>"Authenticator app"</strong>
                    <span class="sub">"An app on your phone shows a code of six digits."</span>
                </span>
                {press("/account/totp".to_owned(), "Set up", Some("Set up an authenticator app".to_owned()))}
            </li>
        }
        .into_any();
    };
    let effect = "It no longer signs you in. To use it again, set it up again.";
    let name = factors.totp_name.clone().unwrap_or_else(|| "Authenticator app".to_owned());
    view! {
        <li class="line">
            <span class="line-text">
                <strong>{name.clone()}</strong>
                <span class="sub">"authenticator app, added " {ago(since)}</span>
            </span>
            <span class="line-end">
                {rename("/account/totp/rename".to_owned(), &name)}
                {press_confirmed(
                    "/account/totp/remove".to_owned(),
                    "Remove",
                    Some("Remove the authenticator app".to_owned()),
                    effect,
                )}
            </span>
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
            <span class="line-end">
                {rename(format!("/account/passkeys/{id}/rename"), &passkey.name)}
                {press_confirmed(
                    format!("/account/passkeys/{id}/remove"),
                    "Remove",
                    Some(format!("Remove the passkey {}", passkey.name)),
                    "It no longer signs you in. To use it again, add it again.",
                )}
            </span>
        </li>
    }
    .into_any()
}

/// Form for a new name, initially closed.
fn rename(action: String, name: &str) -> AnyView {
    view! {
        <details class="rename">
            <summary class="btn btn-sm" aria-label=format!("Rename {name}")>
                "Rename"
            </summary>
            <form method="post" action=action class="inline">
                <input
                    type="text"
                    name="name"
                    value=name.to_owned()
                    maxlength="100"
                    required=true
                    aria-label=format!("New name of {name}")
                />
                <button class="btn btn-sm" type="submit">
                    "Save"
                </button>
            </form>
        </details>
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
            {press_confirmed(
                "/account/recovery-codes".to_owned(),
                "Make new codes",
                None,
                "The codes that you have now stop working at once.",
            )}
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
                    <button class="btn" type="button" data-start="">
                        "Add a passkey"
                    </button>
                    <span class="sub" role="status"></span>
                </div>
            </div>
        </div>
        <div class="notice notice-ok" id="new-recovery-codes" tabindex="-1" hidden=true>
            <div class="notice-body">
                <strong>"The passkey is added. Keep these recovery codes"</strong>
                <p>
                    "Each signs you in once if you lose your second factor. They are shown this once: print them or put them into a password manager."
                </p>
                <pre class="codes"></pre>
                <p>
                    <a class="btn" href="/account?done=passkey">
                        "I have kept them"
                    </a>
                </p>
            </div>
        </div>
    }
    .into_any()
}

/// Setup of an authenticator app.
pub fn totp(started: &TotpStarted, problem: Option<&Problem>) -> Page {
    let refused = problem.map(|problem| refusal("That code is wrong", &problem.detail));
    let code = Field::new("Code", "code", "text")
        .autocomplete("one-time-code")
        .hint("The six digits that the app shows now.")
        .judged(problem, "/code");
    let content = view! {
        <div class="narrow">
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
                    <button class="btn btn-primary" type="submit">
                        "Turn on"
                    </button>
                    <a class="btn" href="/account">
                        "Not now"
                    </a>
                </div>
            </form>
        </div>
    };
    page("Set up an authenticator app", content.into_any())
}

/// Connected providers, and others to connect; nothing if there are none.
pub fn providers_section(providers: &[(String, String)], connections: &[Connection]) -> AnyView {
    if providers.is_empty() && connections.is_empty() {
        return ().into_any();
    }
    let connected = connections
        .iter()
        .map(|connection| {
            let label = format!("Disconnect {}", connection.label);
            view! {
                <li class="line">
                    <span class="line-text">
                        <strong>{connection.label.clone()}</strong>
                        <span class="sub">
                            "connected " {ago(connection.created_at)} " · last used " {ago(connection.last_used_at)}
                        </span>
                    </span>
                    {press(format!("/account/connections/{}/remove", connection.id), "Disconnect", Some(label))}
                </li>
            }
        })
        .collect_view();
    let others = providers
        .iter()
        .filter(|(name, _)| !connections.iter().any(|connection| connection.provider.as_ref() == Some(name)))
        .map(|(name, label)| {
            view! {
                <li class="line">
                    <span class="line-text">
                        <strong>{label.clone()}</strong>
                        <span class="sub">"not connected"</span>
                    </span>
                    {press(format!("/account/providers/{name}"), "Connect", Some(format!("Connect {label}")))}
                </li>
            }
        })
        .collect_view();
    let content = view! {
        <p>"A connected provider signs you in without a password."</p>
        <ul class="lines">{connected} {others}</ul>
    };
    section("providers", "Other ways to sign in", content.into_any())
}

/// Page that leads to the provider to connect.
pub fn leave(provider: &str, url: &str) -> Page {
    let content = view! {
        <div class="narrow">
            <h1>"Connect your account"</h1>
            <p>"Sign in at the provider to connect it. You come back here then."</p>
            <p class="actions">
                <a class="btn" href=url.to_owned()>
                    {format!("Continue to {provider}")}
                </a>
                <a class="btn" href="/account">
                    "Not now"
                </a>
            </p>
        </div>
    };
    page("Connect your account", content.into_any())
}

/// New recovery codes, shown once.
pub fn recovery_codes(codes: &[String]) -> Page {
    let content = view! {
        <div class="narrow">
            <h1>"Your recovery codes"</h1>
            <p>
                "Each signs you in once if you lose your second factor. They are shown this once: print them or put them into a password manager. Earlier codes do not work any more."
            </p>
            <pre class="codes">{codes.join("\n")}</pre>
            <p>
                <a class="btn" href="/account#factors">
                    "I have kept them"
                </a>
            </p>
        </div>
    };
    page("Recovery codes", content.into_any())
}

pub(crate) fn page(title: &str, content: AnyView) -> Page {
    Page { title: title.to_owned(), nav_section: NavSection::Account, content, is_live: false, is_translated: false }
}
