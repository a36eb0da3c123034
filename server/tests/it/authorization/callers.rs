//! Kinds of callers in the authorization table, and one real caller of each.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Server};

/// Kinds of callers, in the order of the table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallerKind {
    /// No credential.
    Nobody,
    /// The cookie of a share link, for the shared tree.
    Share,
    /// A person of the role `user`, about their own objects.
    User,
    /// Another person of the role `user`, about the first one's objects.
    OtherUser,
    /// A person of the role `support`, about the user's objects.
    Support,
    /// A person of the role `admin`, about the user's objects.
    Admin,
    /// Tokens of a service with one scope each, about that service's objects.
    Read,
    Write,
    Work,
    Metrics,
    /// A token of another service with the scope `admin`, about the user's objects.
    AdminToken,
    /// A token with the scope `work`, limited to another job type.
    Narrowed,
    /// A token of another service with the scopes `jobs:read`, `jobs:write` and `work`, about the user's objects.
    OtherOwner,
}

impl CallerKind {
    pub(super) const ALL: [Self; 13] = [
        Self::Nobody,
        Self::Share,
        Self::User,
        Self::OtherUser,
        Self::Support,
        Self::Admin,
        Self::Read,
        Self::Write,
        Self::Work,
        Self::Metrics,
        Self::AdminToken,
        Self::Narrowed,
        Self::OtherOwner,
    ];

    /// Header of the column.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Share => "share link",
            Self::User => "user",
            Self::OtherUser => "other user",
            Self::Support => "support",
            Self::Admin => "admin",
            Self::Read => "`jobs:read`",
            Self::Write => "`jobs:write`",
            Self::Work => "`work`",
            Self::Metrics => "`metrics`",
            Self::AdminToken => "`admin`",
            Self::Narrowed => "narrowed `work`",
            Self::OtherOwner => "other owner",
        }
    }

    /// Returns true if this caller's requests concern another owner's objects that it may not see.
    pub(super) const fn is_foreign(self) -> bool {
        matches!(self, Self::Nobody | Self::OtherUser | Self::Metrics | Self::OtherOwner)
    }

    /// Returns true if this caller's requests concern the service's objects, not the user's.
    pub(super) const fn is_of_service(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Work | Self::Metrics | Self::Narrowed)
    }
}

/// One caller of each kind.
pub(super) struct Callers(Vec<(CallerKind, Api)>);

impl Callers {
    /// Creates all callers except the holder of a share link, who is added with the shared tree.
    pub(super) async fn of(server: &Server) -> Self {
        let mut all = vec![(CallerKind::Nobody, server.stranger())];
        for (caller_kind, name, role) in [
            (CallerKind::User, "ada", "user"),
            (CallerKind::OtherUser, "eve", "user"),
            (CallerKind::Support, "sue", "support"),
            (CallerKind::Admin, "abe", "admin"),
        ] {
            all.push((caller_kind, server.person(name, role).await));
        }
        for (caller_kind, service, scopes) in [
            (CallerKind::Read, "payroll", &["jobs:read"][..]),
            (CallerKind::Write, "payroll", &["jobs:write"]),
            (CallerKind::Work, "payroll", &["work"]),
            (CallerKind::Metrics, "payroll", &["metrics"]),
            (CallerKind::AdminToken, "keeper", &["admin"]),
            (CallerKind::OtherOwner, "stranger", &["jobs:read", "jobs:write", "work"]),
        ] {
            all.push((caller_kind, server.service(service, scopes).await));
        }
        let narrow = json!({"service": "payroll", "name": "narrow", "scopes": ["work"], "types": ["other"]});
        let narrow = server.post("/api/v1/tokens", narrow).await.expect(201);
        let narrow = narrow["secret"].as_str().expect("a secret");
        all.push((CallerKind::Narrowed, server.stranger().with_token(narrow)));
        Self(all)
    }

    /// Adds the holder of a share link, whose page sets the cookie.
    pub(super) async fn share(&mut self, server: &Server, share: &Value) {
        let page = share["url"].as_str().expect("a link").replace(&server.url(""), "");
        let page: Answer = server.stranger().get(&page).await;
        let cookie = page.headers["set-cookie"].to_str().expect("text").split(';').next().expect("a cookie").to_owned();
        self.0.push((CallerKind::Share, server.with_cookie(&cookie)));
    }

    pub(super) fn get(&self, caller_kind: CallerKind) -> &Api {
        &self.0.iter().find(|caller| caller.0 == caller_kind).expect("every kind has a caller").1
    }

    /// Creates another caller of the same kind, whose session or account a call may end.
    pub(super) async fn fresh(&self, server: &Server, caller_kind: CallerKind, n: usize) -> Api {
        let role = match caller_kind {
            CallerKind::User | CallerKind::OtherUser => "user",
            CallerKind::Support => "support",
            CallerKind::Admin => "admin",
            _ => return self.get(caller_kind).clone(),
        };
        server.person(&format!("fresh-{n}"), role).await
    }
}
