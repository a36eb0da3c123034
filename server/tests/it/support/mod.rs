//! Test helpers: a server on a fresh database, and callers that use it.
//!
//! Servers run inside the test, on free ports. The database is created on `TREELINE_TEST_POSTGRES` (an admin URL;
//! CONTRIBUTING.md says how to get one) and dropped with the last server of the test.
//!
//! Long because it holds every setting of a server in tests, beside the callers that use it.

pub(crate) mod collector; // of traces
mod database; // of one test
pub(crate) mod imports; // files on their way to a complete job
pub(crate) mod invariants; // what must hold in the tables
pub(crate) mod program; // a server in a process of its own
pub(crate) mod rabbit; // RabbitMQ
pub(crate) mod receiver; // who is posted to
pub(crate) mod s3; // a bucket
pub(crate) mod smtp; // a mail server
pub(crate) mod standby; // a PostgreSQL with a hot standby
pub(crate) mod tcp_proxy; // to the database, and cut
pub(crate) mod xlsx; // workbooks

use std::{ops::Deref, sync::Arc, time::Duration};

use reqwest::{Method, StatusCode, header::HeaderMap};
use serde_json::{Value, json};
use server::{Running, config::Config};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use tempfile::TempDir;
use uuid::Uuid;

pub(crate) use database::{Database, run};

/// Bootstrap token of every test server.
pub(crate) const TOKEN: &str = "a-bootstrap-token-for-stories-0123456789";

/// A second in which something must happen. Debug builds beside other tests have four.
pub(crate) const SECOND: Duration = Duration::from_secs(if cfg!(debug_assertions) { 4 } else { 1 });

/// Server, and a caller with its bootstrap token: `server.get("/api/v1/me")`.
pub(crate) struct Server {
    pub(crate) running: Running,
    api: Api,
    shared: Arc<SharedState>,
}

/// State shared by the servers of one test.
struct SharedState {
    database: Database,
    data_dir: TempDir,
}

impl Server {
    /// Starts a server on its own database.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts a server on its own database with other settings.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let database = Database::create().await;
        let data_dir = TempDir::new().expect("a temporary folder");
        Self::at(Arc::new(SharedState { database, data_dir }), change).await
    }

    /// Starts a server on its own database in the PostgreSQL of this admin URL.
    pub(crate) async fn start_in(postgres: &str) -> Self {
        let database = Database::create_in(postgres).await;
        let data_dir = TempDir::new().expect("a temporary folder");
        Self::at(Arc::new(SharedState { database, data_dir }), |_| {}).await
    }

    /// Starts a server on this database.
    pub(crate) async fn on(database: Database, change: impl FnOnce(&mut Config)) -> Self {
        let data_dir = TempDir::new().expect("a temporary folder");
        Self::at(Arc::new(SharedState { database, data_dir }), change).await
    }

    /// Starts a server on its own database, with the wire in between.
    pub(crate) async fn start_with_proxy() -> (Self, tcp_proxy::TcpProxy) {
        Self::start_with_proxy_and(|_| {}).await
    }

    /// The same, with other settings.
    pub(crate) async fn start_with_proxy_and(change: impl FnOnce(&mut Config)) -> (Self, tcp_proxy::TcpProxy) {
        let database = Database::create().await;
        let tcp_proxy = tcp_proxy::TcpProxy::forward_to(database.address().await).await;
        let url = database.admin.clone().host("127.0.0.1").port(tcp_proxy.port).database(&database.name).to_url_lossy();
        let data_dir = TempDir::new().expect("a temporary folder");
        let shared = Arc::new(SharedState { database, data_dir });
        let change = |config: &mut Config| {
            config.database_url = Some(url.as_str().parse().expect("a secret"));
            change(config);
        };
        (Self::at(shared, change).await, tcp_proxy)
    }

    /// Starts a second server on the same database and files.
    pub(crate) async fn another(&self) -> Self {
        Self::at(Arc::clone(&self.shared), |_| {}).await
    }

    /// Starts a second server with other settings.
    pub(crate) async fn another_with(&self, change: impl FnOnce(&mut Config)) -> Self {
        Self::at(Arc::clone(&self.shared), change).await
    }

    /// Tries to start a second server; returns its error, if any.
    pub(crate) async fn try_another_with(&self, change: impl FnOnce(&mut Config)) -> anyhow::Result<()> {
        server::start(Self::config(&self.shared, change)).await?.shutdown().await
    }

    async fn at(shared: Arc<SharedState>, change: impl FnOnce(&mut Config)) -> Self {
        let running = server::start(Self::config(&shared, change)).await.expect("the server starts");
        let api = Api::new(&format!("http://{}", running.addr)).with_token(TOKEN);
        Self { running, api, shared }
    }

    fn config(shared: &SharedState, change: impl FnOnce(&mut Config)) -> Config {
        let mut config = Config {
            listen: ([127, 0, 0, 1], 0).into(),
            public_url: None,
            environment: None,
            languages_dir: None,
            roles: server::config::roles::Roles::default(),
            data_dir: Some(shared.data_dir.path().to_owned()),
            database_url: Some(shared.database.url().parse().expect("a secret")),
            read_url: None,
            db_pool: 8,
            bootstrap_token: Some(TOKEN.parse().expect("a secret")),
            log_http: server::config::log_http::LogHttp::Off,
            body_limit: "10MiB".parse().expect("a size"),
            upload_limit: "2GiB".parse().expect("a size"),
            payload_limit: "256KiB".parse().expect("a size"),
            idempotency_window_seconds: 86_400,
            callback_allow: "".parse().expect("a list"),
            http_settings: server::config::http::HttpSettings::default(),
            proxies: server::config::proxies::Proxies::default(),
            // Workers that are posted to listen on this machine.
            outbound: server::config::outbound::Outbound {
                push_allow: "127.0.0.1".parse().expect("a list"),
                ..server::config::outbound::Outbound::default()
            },
            mail: server::config::mail::MailSettings::default(),
            alerts: server::config::Alerts::default(),
            transport: server::config::transport::Transport::default(),
            audit: server::config::audit::AuditSettings::default(),
            broker: server::config::broker::BrokerSettings::default(),
            files: engine::settings::files::FileSettings::default(),
            monitoring: server::config::monitoring::Monitoring::default(),
            limits: server::config::limits::LimitSettings::default(),
            identity: server::config::identity::IdentitySettings::default(),
            sealing: server::config::sealing::SealingSettings::default(),
        };
        change(&mut config);
        config
    }

    /// Caller without a credential.
    pub(crate) fn stranger(&self) -> Api {
        Api { token: None, ..self.api.clone() }
    }

    /// Creates a service with a token of the given scopes.
    pub(crate) async fn service(&self, name: &str, scopes: &[&str]) -> Api {
        let created = self.post("/api/v1/services", json!({"name": name})).await;
        assert!([201, 409].contains(&created.status.as_u16()), "{created:?}");
        let created = self.post("/api/v1/tokens", json!({"service": name, "name": "test", "scopes": scopes})).await;
        let secret = created.expect(201)["secret"].as_str().expect("a secret").to_owned();
        self.stranger().with_token(&secret)
    }

    /// Creates a person of the given role, signed in by a link.
    pub(crate) async fn person(&self, name: &str, role: &str) -> Api {
        let (app, id) = (&self.running.app, Uuid::now_v7());
        sqlx::query("insert into owner (id, kind, name, role) values ($1, 'user', $2, $3)")
            .bind(id)
            .bind(name)
            .bind(role)
            .execute(&app.pool)
            .await
            .expect("a new person");
        let link = server::auth::sign_in_links::create(&app.pool, &app.public_url, Some(id)).await.expect("a link");
        self.signed_in(&link).await
    }

    /// Creates the first admin, signed in by the printed link.
    pub(crate) async fn admin(&self) -> Api {
        let link = self.running.sign_in_link.clone().expect("a sign-in link");
        self.signed_in(&link).await
    }

    /// Signs in with a one-time link.
    pub(crate) async fn signed_in(&self, link: &str) -> Api {
        self.session(json!({"link": link})).await
    }

    /// Signs in by email and password.
    pub(crate) async fn sign_in(&self, email: &str, password: &str) -> Api {
        self.session(json!({"email": email, "password": password})).await
    }

    /// Caller with this cookie.
    pub(crate) fn with_cookie(&self, cookie: &str) -> Api {
        Api { cookie: Some(cookie.to_owned()), ..self.stranger() }
    }

    /// Signs in with these credentials.
    pub(crate) async fn session(&self, credentials: Value) -> Api {
        let answer = self.stranger().post("/api/v1/session", credentials).await;
        answer.expect(204);
        let cookie =
            answer.headers["set-cookie"].to_str().expect("text").split(';').next().expect("a cookie").to_owned();
        Api { cookie: Some(cookie), ..self.stranger() }
    }

    /// Runs the server program on the same database; returns its standard output.
    pub(crate) async fn program(&self, arguments: &[&str]) -> String {
        self.try_program(arguments).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs the server program on the same database; returns its standard output, or its standard error if it failed.
    pub(crate) async fn try_program(&self, arguments: &[&str]) -> Result<String, String> {
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_treeline-server"))
            .args(arguments)
            .env("DATABASE_URL", self.shared.database.url())
            .env("TREELINE_DATA_DIR", self.shared.data_dir.path())
            .env("TREELINE_LISTEN", self.running.addr.to_string())
            .output()
            .await
            .expect("the program runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Stops this server, the only one. Returns by table the rows that its statements read in full scans, as counted by
    /// PostgreSQL.
    pub(crate) async fn stop_and_count_rows_of_scans(self) -> Vec<(String, i64)> {
        let Self { running, shared, .. } = self;
        running.shutdown().await.expect("the server stops");
        let mut connection = PgConnection::connect(&shared.database.url()).await.expect("PostgreSQL");
        // What a connection counted is known when it has ended.
        let others =
            "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
        while sqlx::query_scalar::<_, i64>(others).fetch_one(&mut connection).await.expect("a number") > 0 {
            crate::support::moment().await;
        }
        let rows = "select relname::text, seq_tup_read from pg_stat_user_tables";
        sqlx::query_as(rows).fetch_all(&mut connection).await.expect("rows")
    }

    /// Stops this server; its database stays while another uses it.
    pub(crate) async fn stop(self) {
        self.running.shutdown().await.expect("the server stops");
    }
}

impl Deref for Server {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

/// Caller, with or without a credential.
#[derive(Clone)]
pub(crate) struct Api {
    base: String,
    token: Option<String>,
    cookie: Option<String>,
    /// True if another site makes the browser send the requests.
    forged: bool,
    client: reqwest::Client,
}

impl Api {
    /// Caller without a credential, at a server's address.
    pub(crate) fn new(base: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        Self { base: base.to_owned(), token: None, cookie: None, forged: false, client }
    }

    /// Adds a bearer token.
    pub(crate) fn with_token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    /// The bearer token.
    pub(crate) fn token(&self) -> &str {
        self.token.as_deref().expect("a token")
    }

    /// The same browser, with requests caused by a page of another site.
    pub(crate) fn cross_site(self) -> Self {
        Self { forged: true, ..self }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Builds a request with the caller's credential. Like a browser, a request with a cookie says where it comes from.
    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let mut request = self.client.request(method, self.url(path));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
            if !self.forged {
                request = request.header("sec-fetch-site", "same-origin");
            }
        }
        request
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        Answer::of(self.request(Method::POST, path).json(&body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        Answer::of(self.request(Method::PUT, path).json(&body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Answer {
        Answer::of(self.request(Method::PATCH, path).json(&body)).await
    }

    /// Submits a form like one of our pages.
    pub(crate) async fn form(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.post_text(path, "application/x-www-form-urlencoded", body).await
    }

    /// Sends a POST of text.
    pub(crate) async fn post_text(&self, path: &str, media_type: &str, text: impl Into<reqwest::Body>) -> Answer {
        Answer::of(self.request(Method::POST, path).header("content-type", media_type).body(text)).await
    }

    /// Cookie of the caller; for requests with a forged origin.
    pub(crate) fn cookie(&self) -> &str {
        self.cookie.as_deref().expect("signed in")
    }
}

/// Response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status(), response.headers().clone());
        Self { status, headers, text: response.text().await.expect("a whole answer") }
    }

    /// Body as JSON; null if empty.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// Body of a response that must have this status.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json()
    }

    /// Problem document with this status and code, complete by RFC 9457 and the API contract.
    #[track_caller]
    pub(crate) fn expect_problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json", "{}", self.text);
        let problem = self.json();
        assert_eq!(problem["code"], code, "{}", self.text);
        assert_eq!(problem["status"], status);
        assert!(problem["type"].as_str().is_some_and(|uri| uri.ends_with(code)), "{problem}");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        assert_eq!(problem["request_id"], self.headers["x-request-id"].to_str().expect("text"), "{problem}");
        problem
    }
}

/// Polls for a condition without a notification, for at most half a minute.
pub(crate) async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            moment().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("it is so within half a minute");
}

/// Waits between two looks at something that does not notify, so that other tests have the processor meanwhile.
pub(crate) async fn moment() {
    tokio::time::sleep(Duration::from_millis(25)).await;
}
