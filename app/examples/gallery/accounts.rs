//! Pages for people, services and the audit log, with sample data.

use app::{
    frame::Page,
    pages::{
        audit::{self, Audit},
        identity::{
            account::{self, Account, NoticeForm},
            factors,
            people::{self, NewPerson, People, Person},
            services::{self, NewTokenForm, Services},
            share::{self, SharePanel},
            sign_in::{self, SecondStep, SignIn},
            step_up::{self, StepUp},
        },
        import::progress,
    },
};
use domain::{
    Code, Job, Outcome, Problem,
    api::ErrorGroup,
    id::Uuid,
    identity::{
        access::{Service, Token},
        account::{Session, User},
        audit::{Actor, ActorKind, AuditEntry},
        factors::{Connection, Factors, Passkey, TotpStarted},
    },
    job::{Owner, OwnerKind},
    notice::{Notice, NoticeKind, NoticeList, NoticeSettings},
    tree::share_link::Share,
};

use super::{Draw, at};

const HOSTILE: &str = "</title><script>alert(1)</script> a-name-without-any-place-to-break-that-goes-on-and-on-and-on";

/// The pages; jobs to share come from the fixtures.
pub(super) fn all(running: &Job, partial: Job, groups: Vec<ErrorGroup>) -> Vec<(&'static str, Draw)> {
    let (shared_job, again, shared_groups) = (running.clone(), partial.clone(), groups.clone());
    vec![
        draw("sign-in-refused", || {
            let problem = Some(Problem::new(Code::Unauthenticated, ""));
            sign_in::page(&SignIn { email: "ada@example.com".to_owned(), problem, ..SignIn::default() })
        }),
        draw("people", || {
            people::page(&People { users: users(), next: Some("?x".to_owned()), form: NewPerson::default() })
        }),
        draw("people-refused", || {
            let problem = Problem::invalid_body([
                ("/email".to_owned(), "expected an email address, such as ada@example.com".to_owned()),
                ("/password".to_owned(), "expected at least 8 characters and at most 1,000 bytes".to_owned()),
            ]);
            let form = NewPerson {
                name: HOSTILE.to_owned(),
                email: "ada".to_owned(),
                role: "support".to_owned(),
                problem: Some(problem),
            };
            people::page(&People { users: users(), next: None, form })
        }),
        draw("person", || people::one(&person(1, Some("http://127.0.0.1:3000/sign-in/0nce0nce0nce0nce0nce0nce0nce")))),
        draw("person-disabled", || people::one(&person(3, None))),
        draw("services-empty", || services::page(&Services::default())),
        draw("services", || {
            let created = Some(("night run".to_owned(), "trl_0000000000000000000000000000000000000000000".to_owned()));
            services::page(&Services { services: programs(), tokens: tokens(), created, ..Services::default() })
        }),
        draw("services-refused", || {
            let detail = "expected at least one of jobs:read, jobs:write, work, admin".to_owned();
            let problem = Some(Problem::invalid_body([("/scopes".to_owned(), detail)]));
            let token = NewTokenForm { name: HOSTILE.to_owned(), ..NewTokenForm::default() };
            services::page(&Services { services: programs(), tokens: tokens(), token, problem, ..Services::default() })
        }),
        draw("account", || account::page(&own(None, Some("Your password is set. Your other sessions have ended.")))),
        draw("account-refused", || {
            let fault = ("/current_password".to_owned(), "this is not your password".to_owned());
            account::page(&own(Some(Problem::invalid_body([fault])), None))
        }),
        draw("account-factors", || {
            let passkey = |id, name: &str, used: Option<&str>| Passkey {
                id: Uuid::from_u128(id),
                name: name.to_owned(),
                created_at: at("2026-10-01T09:00:00Z"),
                last_used_at: used.map(at),
            };
            account::page(&Account {
                factors: Factors {
                    required: true,
                    totp_since: Some(at("2026-09-01T09:00:00Z")),
                    totp_name: Some("Phone".to_owned()),
                    passkeys: vec![passkey(1, "Work laptop", Some("2026-11-20T13:58:00Z")), passkey(2, HOSTILE, None)],
                    recovery_codes_left: 9,
                },
                providers: vec![named("northwind", "Northwind"), named("google", "Google")],
                connections: vec![Connection {
                    id: Uuid::from_u128(7),
                    provider: Some("northwind".to_owned()),
                    label: "Northwind".to_owned(),
                    subject: "248289761001".to_owned(),
                    created_at: at("2026-09-01T09:00:00Z"),
                    last_used_at: at("2026-11-20T13:58:00Z"),
                }],
                ..own(None, None)
            })
        }),
        draw("account-enroll", || {
            account::page(&Account { factors: Factors { required: true, ..Factors::default() }, ..own(None, None) })
        }),
        draw("sign-in-providers", || {
            let providers = vec![named("northwind", "Northwind"), named("google", "Google")];
            sign_in::page(&SignIn { providers, passkeys: true, ..SignIn::default() })
        }),
        draw("sign-in-second", || {
            let problem = Problem::invalid_body([(
                "/code".to_owned(),
                "expected the six digits that the app shows now".to_owned(),
            )]);
            let methods = ["totp", "passkey", "recovery_code"].map(str::to_owned).to_vec();
            sign_in::second_step(&SecondStep { methods, problem: Some(problem), ..SecondStep::default() })
        }),
        draw("step-up", || {
            let methods = ["totp", "passkey", "recovery_code"].map(str::to_owned).to_vec();
            step_up::page(&StepUp { methods, ..StepUp::default() })
        }),
        draw("step-up-provider", || {
            step_up::page(&StepUp { providers: vec![named("northwind", "Northwind")], ..StepUp::default() })
        }),
        draw("recovery-codes", || {
            factors::recovery_codes(&["0a1b-2c3d-4e5f-6g7h", "8j9k-0m1n-2p3q-4r5s"].map(str::to_owned))
        }),
        draw("totp", || {
            let started = TotpStarted {
                secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP".to_owned(),
                otpauth_url: String::new(),
                qr_svg: r##"<svg viewBox="0 0 4 4"><path fill="#000" d="M0 0h2v2H0zM2 2h2v2H2z"/></svg>"##.to_owned(),
            };
            factors::totp(&started, None)
        }),
        draw("audit", || audit::page(&Audit { entries: entries(), next: Some("?x".to_owned()), ..Audit::default() })),
        draw("audit-empty", || audit::page(&Audit::default())),
        draw("audit-nothing", || {
            let filter = audit::Filter { actor: "nobody".to_owned(), ..audit::Filter::default() };
            audit::page(&Audit { filter, ..Audit::default() })
        }),
        draw("import-share", move || {
            let created = Some("http://127.0.0.1:3000/s/0nce0nce0nce0nce0nce0nce0nce0nce0nce0nce0nce".to_owned());
            let panel = SharePanel { shares: shares(), created, ..SharePanel::default() };
            progress::page_with(&partial, &groups, false, import_context(share::panel(&partial, &panel)))
        }),
        draw("import-share-others", move || {
            let panel = SharePanel { shares: shares(), needs_reason: true, ..SharePanel::default() };
            progress::page_with(&again, &[], true, import_context(share::panel(&again, &panel)))
        }),
        draw("sign-out-shared", move || share::page(&shared_job, true, &shared_groups)),
        draw("trouble-share", || share::gone(&Problem::new(Code::LinkUsed, ""))),
    ]
}

fn named(name: &str, label: &str) -> (String, String) {
    (name.to_owned(), label.to_owned())
}

fn draw(name: &'static str, page: impl FnOnce() -> Page + 'static) -> (&'static str, Draw) {
    (name, Box::new(page))
}

fn user(id: u128, name: &str, role: &str) -> User {
    User {
        id: Uuid::from_u128(id),
        name: name.to_owned(),
        email: Some(format!("{}@example.com", name.split(' ').next().unwrap_or_default().to_lowercase())),
        role: role.to_owned(),
        disabled: id == 3,
        has_password: id != 2,
        proxy_user: (id == 4).then(|| "grace@corp.example".to_owned()),
        created_at: at("2026-09-01T09:00:00Z"),
        last_seen_at: (id != 2).then(|| at("2026-11-20T13:58:00Z")),
    }
}

fn users() -> Vec<User> {
    vec![
        user(1, "Ada Lovelace", "admin"),
        user(2, "Ben", "user"),
        user(3, "Grace Hopper", "support"),
        user(4, HOSTILE, "user"),
        User { email: None, ..user(5, "admin", "admin") },
    ]
}

fn sessions() -> Vec<Session> {
    let session = |id, device: &str, current| Session {
        id: Uuid::from_u128(id),
        device: device.to_owned(),
        created_at: at("2026-11-18T09:00:00Z"),
        last_seen_at: at("2026-11-20T14:01:00Z"),
        expires_at: at("2026-12-20T14:01:00Z"),
        current,
    };
    vec![session(1, "Firefox on Linux", true), session(2, "Safari on iPhone", false), session(3, "curl", false)]
}

fn person(id: u128, link: Option<&str>) -> Person {
    let user =
        users().into_iter().find(|user| user.id == Uuid::from_u128(id)).unwrap_or_else(|| user(1, "Ada", "user"));
    Person {
        email: user.email.clone().unwrap_or_default(),
        role: user.role.clone(),
        sessions: if user.disabled { Vec::new() } else { sessions() },
        is_self: false,
        link: link.map(str::to_owned),
        reason: String::new(),
        problem: None,
        user,
    }
}

fn own(problem: Option<Problem>, done: Option<&'static str>) -> Account {
    Account {
        languages: app::speech::Languages::default().choices(),
        language: None,
        user: user(1, "Ada Lovelace", "admin"),
        sessions: sessions(),
        next: None,
        asks_current: true,
        must_change_password: false,
        done,
        problem,
        factors: Factors::default(),
        passkeys: true,
        providers: Vec::new(),
        connections: Vec::new(),
        notices: NoticeForm {
            settings: NoticeSettings {
                in_page: true,
                browser: false,
                email: true,
                webhook_url: Some("https://hooks.example/…".to_owned()),
                has_webhook_secret: true,
            },
            mail: true,
            address: Some("ada@example.org".to_owned()),
            typed_url: String::new(),
        },
    }
}

/// Notices in the bell: one of each kind, one of them read.
pub(super) fn notices() -> NoticeList {
    let notice = |n, kind, name: &str, outcome, dead, read_at| Notice {
        id: Uuid::from_u128(n),
        kind,
        job_id: Uuid::from_u128(n),
        job_name: name.to_owned(),
        is_import: n == 3,
        outcome,
        dead,
        created_at: at("2026-11-20T13:40:00Z"),
        read_at,
    };
    let data = vec![
        notice(3, NoticeKind::NeedsAttention, "refunds-november.xlsx", None, 12, None),
        notice(2, NoticeKind::Finished, "Payroll, November 2026", Some(Outcome::Partial), 3, None),
        notice(1, NoticeKind::Finished, HOSTILE, Some(Outcome::Succeeded), 0, Some(at("2026-11-20T13:50:00Z"))),
    ];
    NoticeList { data, unread: 2, browser: false }
}

fn programs() -> Vec<Service> {
    let service = |id, name: &str| Service {
        id: Uuid::from_u128(id),
        name: name.to_owned(),
        disabled: name == "site-creation",
        created_at: at("2026-11-01T08:00:00Z"),
    };
    vec![service(1, "bootstrap"), service(2, "payroll"), service(3, "site-creation")]
}

fn tokens() -> Vec<Token> {
    let token = |id, name: &str, scopes: &[&str], types: Option<&[&str]>, revoked: bool| Token {
        id: Uuid::from_u128(id),
        service: "payroll".to_owned(),
        name: name.to_owned(),
        scopes: scopes.iter().map(|it| (*it).to_owned()).collect(),
        types: types.map(|types| types.iter().map(|it| (*it).to_owned()).collect()),
        created_at: at("2026-11-02T08:00:00Z"),
        last_used_at: (id != 2).then(|| at("2026-11-20T14:02:00Z")),
        expires_at: (id == 1).then(|| at("2026-12-31T00:00:00Z")),
        revoked_at: revoked.then(|| at("2026-11-19T10:00:00Z")),
    };
    vec![
        token(1, "night run", &["work"], Some(&["calculate-payroll", "send-check"]), false),
        token(2, HOSTILE, &["jobs:read", "jobs:write"], None, false),
        token(3, "old machine", &["jobs:read", "jobs:write", "work", "admin"], None, true),
    ]
}

fn shares() -> Vec<Share> {
    let share = |id, name: &str, seen: Option<&str>| Share {
        id: Uuid::from_u128(id),
        job_id: Uuid::from_u128(9),
        created_by: Owner { kind: OwnerKind::User, name: name.to_owned() },
        created_at: at("2026-11-20T13:30:00Z"),
        expires_at: at("2026-12-20T13:30:00Z"),
        open: true,
        last_seen_at: seen.map(at),
        revoked_at: None,
    };
    vec![share(1, "Ada Lovelace", None), share(2, HOSTILE, Some("2026-11-20T14:00:00Z"))]
}

pub(super) fn entries() -> Vec<AuditEntry> {
    let entry = |id: u128, when: &str, action: &str, reason: Option<&str>, detail: Option<&str>| AuditEntry {
        id: Uuid::from_u128(id),
        at: at(when),
        actor: Actor { kind: ActorKind::User, name: "Grace Hopper".to_owned() },
        action: action.to_owned(),
        owner: Some(Owner { kind: OwnerKind::Service, name: "payroll".to_owned() }),
        root_id: None,
        job_id: action.starts_with("job").then(|| Uuid::from_u128(77)),
        item_id: action.starts_with("item").then(|| Uuid::from_u128(78)),
        reason: reason.map(str::to_owned),
        detail: detail.map(str::to_owned),
        address: Some("203.0.113.9".to_owned()),
        credential_id: Some(Uuid::from_u128(79)),
        operation_id: None,
    };
    vec![
        entry(1, "2026-11-20T14:02:00Z", "job.delete", Some("The customer asked for it, ticket 4711."), None),
        entry(2, "2026-11-20T13:40:00Z", "item.retry", Some("The bank is back."), None),
        entry(3, "2026-11-20T12:00:00Z", "user.role", None, Some("user → support")),
        entry(4, "2026-11-19T12:00:00Z", "token.create", Some(HOSTILE), Some("night run: work")),
    ]
}

fn import_context(panel: leptos::prelude::AnyView) -> progress::ImportContext {
    progress::ImportContext { panel: Some(panel), ..progress::ImportContext::default() }
}
