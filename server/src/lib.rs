//! Treeline server: HTTP on top of use cases, with PostgreSQL as the single source of truth.
//!
//! [`start`] runs one server inside a process and returns a [`Running`]; the binary starts one and waits for a signal,
//! tests start several on one database. State shared by handlers, pages and background tasks is in [`App`].

use std::{
    net::SocketAddr,
    ops::Deref,
    path::Path,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use anyhow::Context as _;
use sqlx::PgPool;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub mod alert_channels; // use-cases on receivers of alerts
mod allocator; // allocator
pub mod audit; // audit entries outside of transactions
pub mod auth; // authentication
pub mod body_memory; // byte budget of request bodies
pub mod broker; // RabbitMQ
pub mod config; // settings from the environment
pub mod corrections; // failed rows, corrected by hand
pub mod documentation; // documentation as pages
pub mod exports; // results and failures as streams
pub mod health; // health check of a running server
pub mod http; // HTTP API and pages
pub mod import_template; // template files of job types
pub mod job_types; // use-cases on job types
pub mod json_body; // reading of JSON documents
pub mod live; // event streams
pub mod maintenance; // background tasks
pub mod notices; // use-cases on notices of people
pub mod outbound; // outbound HTTP
pub mod payload_form; // payloads as forms
pub mod postgres; // the private PostgreSQL
pub mod redaction; // bodies as the log may show them
pub mod rotation; // rotation of the sealing key
pub mod traces; // OpenTelemetry traces
pub mod uploads; // use-cases on uploaded files

use auth::{Auth, sign_in_links};
use config::{Config, PublicUrl, roles::Role};
use engine::{
    Engine, addresses,
    import::files,
    quotas, sealing,
    store::{
        self, Pools,
        access::{identity, sealing_keys},
        migrations,
    },
    task::unless_silent,
};

/// Shared state of a running server. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    /// Starts work that waits for the database and outlives its request. Only a silent database ends it early.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = engine::error::Result<T>> + Send + 'static,
    ) -> JoinHandle<engine::error::Result<T>> {
        self.tasks.spawn(async move { unless_silent(work).await.flatten() })
    }
}

/// The parts of an [`App`].
pub struct Shared {
    pub config: Arc<Config>,
    /// Public URL of the server.
    pub public_url: Arc<PublicUrl>,
    pub engine: Engine,
    pub pools: Pools,
    /// Pool for pages, lists and people: `pools.read`.
    pub pool: PgPool,
    /// URL of the private database as its owner. `None`: the database is not private.
    pub owner_url: Option<String>,
    pub files: files::Files,
    pub hub: live::Hub,
    /// Languages of the pages.
    pub languages: app::speech::Languages,
    /// Number of dead items, for the sidebar of pages.
    pub dead_item_count: http::ui::DeadItemCount,
    /// Job types with gauges.
    pub measured_types: http::metrics::MeasuredTypes,
    /// Outbound HTTP.
    pub outgoing: Arc<outbound::Outgoing>,
    pub auth: Arc<Auth>,
    /// Audited events that are only counted when they repeat.
    pub repeats: Arc<audit::Repeats>,
    /// Seals secrets before they are stored.
    pub sealer: sealing::Sealer,
    /// RabbitMQ, if configured.
    pub broker: Option<broker::Broker>,
    /// Quotas of owners and rate limits of callers.
    pub quotas: quotas::Quotas,
    /// Byte budget of request bodies in memory.
    pub body_memory: body_memory::BodyMemory,
    /// Sender of trace spans.
    pub traces: traces::Traces,
    /// Requests in progress.
    pub under_way: Arc<AtomicUsize>,
    /// Canceled when the server is told to stop: waits and streams end.
    pub shutdown: CancellationToken,
    /// Tasks that outlive their request; the server waits for them before it ends.
    pub tasks: TaskTracker,
}

/// Running server.
pub struct Running {
    /// Listen address, with the actual port.
    pub addr: SocketAddr,
    /// Address that serves metrics without a token, if any.
    pub metrics_addr: Option<SocketAddr>,
    /// Link that creates the first admin; only while there is no admin.
    pub sign_in_link: Option<String>,
    /// State of the server.
    pub app: App,
    served: JoinHandle<()>,
    database: Database,
}

/// Starts a server: database, schema, credentials, background tasks, listener.
pub async fn start(config: Config) -> anyhow::Result<Running> {
    config.check()?;
    let data_dir = config.data_dir()?;
    let languages = open_languages(&config)?;
    let broker = config.broker.amqp_url.as_ref().map(|url| broker::Broker::at(url.reveal())).transpose()?;
    // Bind first: an accidental second start fails before it changes anything.
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}: is another server running there?", config.listen))?;
    let addr = listener.local_addr()?;
    let metrics_listener = match config.monitoring.metrics_listen {
        Some(wanted) => {
            Some(TcpListener::bind(wanted).await.with_context(|| format!("cannot serve metrics on {wanted}"))?)
        }
        None => None,
    };
    let public_url = Arc::new(config.public_url(addr));
    let tls = match (&config.transport.tls_cert, &config.transport.tls_key) {
        (Some(certificate), Some(key)) => Some(http::connection::tls::Tls::open(certificate, key)?),
        _ => None,
    };
    for (variable, url) in [
        ("DATABASE_URL", &config.database_url),
        ("TREELINE_READ_URL", &config.read_url),
        ("AMQP_URL", &config.broker.amqp_url),
        ("TREELINE_SMTP_URL", &config.mail.smtp_url),
    ] {
        let warning = url.as_ref().and_then(|url| config::transport::plaintext_warning(variable, url.reveal()));
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
    }

    let database = Database::open(&config).await?;
    let pools = database.pools.clone();
    let pool = pools.read.clone();
    database.migrate().await?;
    if config.audit.url.is_some() {
        // Before anything that writes an entry: it is posted.
        engine::store::notify::audit::begin_posting(&pool).await?;
    }
    let sealer = open_sealer(&config, &pool).await?;
    seal_what_is_not(&pool, &sealer).await?;
    let bootstrap = match &config.bootstrap_token {
        Some(token) => Some(auth::ensure_bootstrap_token(&pool, token).await?),
        None => None,
    };
    let sign_in_link = if !config.roles.has(Role::Web) || identity::has_admin(&pool).await? {
        None
    } else {
        Some(sign_in_links::create(&pool, &public_url, None).await?)
    };

    let files = open_files(&config, &data_dir).await?;
    let outgoing = outbound::Outgoing::open(&config, &pool, &sealer).await?;
    let hub = live::Hub::default();
    let shutdown = CancellationToken::new();
    let quotas = quotas::Quotas::new(config.limits.quotas.clone(), pool.clone());
    let traces = traces::Traces::open(&config.monitoring)?;
    let (ended_sender, ended_receiver) = tokio::sync::mpsc::channel(traces::MAX_ENDED);
    let limits = engine::Limits {
        payload: config.payload_limit.bytes(),
        idempotency_window_seconds: f64::from(config.idempotency_window_seconds),
        callbacks: addresses::Reach::of_callbacks(config.callback_allow.clone()),
        has_broker: broker.is_some(),
        quotas: quotas.clone(),
        sealer: sealer.clone(),
        assignment_key: outgoing.assignments.clone(),
        ended_attempts: traces.is_on().then_some(ended_sender),
    };
    let engine = Engine::start(pools.clone(), Arc::new(hub.clone()), files.clone(), limits, shutdown.clone()).await?;
    let app = App(Arc::new(Shared {
        under_way: Arc::default(),
        auth: Arc::new(Auth::new(bootstrap, public_url.is_secure(), &pools.credentials)),
        repeats: Arc::default(),
        quotas,
        body_memory: body_memory::BodyMemory::new(config.limits.body_memory.bytes()),
        broker,
        config: Arc::new(config),
        public_url,
        engine,
        pools,
        pool,
        owner_url: database.private.as_ref().map(|private| private.url().to_owned()),
        files,
        hub,
        languages,
        dead_item_count: http::ui::DeadItemCount::default(),
        measured_types: http::metrics::MeasuredTypes::default(),
        outgoing: Arc::new(outgoing),
        sealer,
        traces,
        shutdown,
        tasks: TaskTracker::new(),
    }));
    http::metrics::start(&app);
    traces::spawn_ended(&app, ended_receiver);
    maintenance::spawn(&app, &app.tasks);
    if let Some(private) = &database.private {
        app.tasks.spawn(postgres::watch(Arc::clone(private), app.shutdown.clone()));
    }
    let http_settings = app.config.http_settings;
    let proxies = app.config.proxies.trusted_proxies.clone();
    let router = if app.config.roles.has(Role::Web) { http::router(&app) } else { http::probe_router(&app) };
    if let Some(tls) = &tls {
        app.tasks.spawn(tls.clone().watch(app.shutdown.clone()));
    }
    let stop = app.shutdown.clone();
    let served = tokio::spawn(http::connection::serve::serve(
        listener,
        tls.clone(),
        router,
        http_settings,
        proxies.clone(),
        stop,
    ));
    let metrics_addr = metrics_listener.as_ref().map(TcpListener::local_addr).transpose()?;
    // Plain HTTP on a loopback address, which nobody else can read and which the certificate does not name.
    let metrics_tls = tls.filter(|_| metrics_addr.is_some_and(|addr| !addr.ip().to_canonical().is_loopback()));
    if let Some(listener) = metrics_listener {
        let router = http::metrics::router(&app);
        app.tasks.spawn(http::connection::serve::serve(
            listener,
            metrics_tls,
            router,
            http_settings,
            proxies,
            app.shutdown.clone(),
        ));
    }
    Ok(Running { addr, metrics_addr, sign_in_link, app, served, database })
}

/// Languages of the pages: the built-in ones, and those of the configured folder. A bad file is refused.
fn open_languages(config: &Config) -> anyhow::Result<app::speech::Languages> {
    let Some(folder) = &config.languages_dir else { return Ok(app::speech::Languages::default()) };
    let (languages, unknown) = app::speech::Languages::with_folder(folder)
        .map_err(|why| anyhow::anyhow!("cannot use the languages of TREELINE_LANGUAGES_DIR: {why}"))?;
    for key in unknown {
        tracing::warn!("{key}");
    }
    Ok(languages)
}

/// Sealing keys of this server, whose key the database adopts at the first start.
async fn open_sealer(config: &Config, pool: &PgPool) -> anyhow::Result<sealing::Sealer> {
    let config = config.clone();
    let sealer = tokio::task::spawn_blocking(move || config.sealing.open_or_make(&config.data_dir()?)).await??;
    let current = sealing_keys::adopt(pool, &sealer.current_id()).await?;
    sealing_with(sealer, &current.id)
}

/// Sealing keys for a command: those of the servers. Fails before the first start of a server.
pub async fn read_sealer(config: &Config, pool: &PgPool) -> anyhow::Result<sealing::Sealer> {
    let current = sealing_keys::current(pool).await?;
    let current = current.context("The database has no sealing key yet: start a server first.")?;
    let config = config.clone();
    let sealer = tokio::task::spawn_blocking(move || config.sealing.open(&config.data_dir()?)).await??;
    sealing_with(sealer, &current.id)
}

/// Lets a sealer seal with the key of the database. Fails if it does not have that key.
fn sealing_with(sealer: sealing::Sealer, current_id: &str) -> anyhow::Result<sealing::Sealer> {
    anyhow::ensure!(
        sealer.use_key(current_id),
        "The secrets in this database are sealed with the key {current_id}, and this server has the key {}. Set \
         TREELINE_SECRET_KEY to the key of the other servers, or copy the file secret.key from the data folder of the \
         server that made it.",
        sealer.ids().join(", "),
    );
    Ok(sealer)
}

/// Seals secrets that are still in plaintext or under the previous key.
async fn seal_what_is_not(pool: &PgPool, sealer: &sealing::Sealer) -> anyhow::Result<()> {
    let current = sealing_keys::current(pool).await?;
    if current.is_some_and(|current| !current.is_complete && current.id == sealer.current_id()) {
        let changed = rotation::complete(pool, sealer).await.context("cannot seal the stored secrets")?;
        tracing::info!(changed, "stored secrets sealed");
    }
    Ok(())
}

/// Longest wait of a stopping server for its background tasks. Service managers wait 90 seconds, and PostgreSQL must
/// stop, too.
const TASKS_DEADLINE: Duration = Duration::from_mins(1);

/// Opens the file store and checks that it responds: a wrong key is detected at startup.
async fn open_files(config: &Config, data_dir: &Path) -> anyhow::Result<files::Files> {
    let files = files::Files::open(&config.files, &data_dir.join("files"))
        .with_context(|| format!("cannot keep files under {}: set TREELINE_DATA_DIR", data_dir.display()))?;
    files.check().await.context("cannot reach the file store: look at TREELINE_STORE_URL")?;
    Ok(files)
}

impl Running {
    /// Public URL, without a trailing slash.
    pub fn url(&self) -> &str {
        self.app.public_url.as_str()
    }

    /// Stops the server: no new requests are accepted, streams and waits end, requests and background tasks in progress
    /// finish. Waits at most ten seconds for requests.
    pub async fn shutdown(self) -> anyhow::Result<()> {
        self.app.shutdown.cancel();
        self.served.await.context("the accept loop failed")?;
        self.app.tasks.close();
        if tokio::time::timeout(TASKS_DEADLINE, self.app.tasks.wait()).await.is_err() {
            tracing::warn!(tasks = self.app.tasks.len(), "background tasks did not end in time: stopping without them");
        }
        maintenance::write_counts(&self.app).await;
        self.app.traces.close().await;
        self.database.close().await
    }
}

/// Database of a server, private or not.
pub struct Database {
    pub pools: Pools,
    private: Option<Arc<postgres::PrivatePostgres>>,
}

impl Database {
    /// Connects to `DATABASE_URL`, or starts and logs the private PostgreSQL.
    pub async fn open(config: &Config) -> anyhow::Result<Self> {
        let mut private = None;
        if config.database_url.is_none() {
            let started = postgres::start(config.data_dir()?).await?;
            tracing::info!(
                version = started.major(),
                folder = %started.home().display(),
                "private PostgreSQL started: no DATABASE_URL"
            );
            private = Some(started);
        }
        let url = match (&config.database_url, &private) {
            (Some(given), _) => given.reveal(),
            (None, Some(private)) => &private.app_url(),
            (None, None) => "",
        };
        let pools = Pools::connect(url, config.db_pool).await.context("cannot reach the database")?;
        let pools = match &config.read_url {
            Some(standby) => pools.with_standby(standby.reveal()).context("cannot use TREELINE_READ_URL")?,
            None => pools,
        };
        Ok(Self { pools, private: private.map(Arc::new) })
    }

    /// Migrates the schema: of a private database as its owner, with grants for the server's role; of another as the
    /// role of the URL, which may be read-only.
    pub async fn migrate(&self) -> anyhow::Result<()> {
        let owner = self.owner_pool().await?;
        migrations::migrate(&owner).await.context("cannot bring the schema up to date")?;
        if self.private.is_some() {
            let granted = migrations::grant_to(&owner, postgres::cluster::APP_ROLE).await;
            granted.context("cannot give the server's role what it needs")?;
            owner.close().await;
        }
        Ok(())
    }

    /// Connections as the owner of the schema, as far as known. New ones for a private database.
    pub async fn owner_pool(&self) -> anyhow::Result<PgPool> {
        match &self.private {
            Some(private) => Ok(store::owner_pool(private.url()).await.context("cannot reach the database")?),
            None => Ok(self.pools.read.clone()),
        }
    }

    /// Closes all connections, and stops the private PostgreSQL unless another server uses it.
    pub async fn close(self) -> anyhow::Result<()> {
        self.pools.close().await;
        if let Some(private) = self.private.and_then(Arc::into_inner) {
            tokio::task::spawn_blocking(move || private.stop()).await??;
        }
        Ok(())
    }
}
