//! The Treeline server: HTTP in front, use-cases behind it, PostgreSQL as the only truth.
//!
//! [`start`] brings one server up inside a process and gives back a [`Running`]; the binary starts one
//! and waits for a signal, tests start several on one database. Everything that handlers, pages and
//! duties share is in [`App`].

use std::{
    net::SocketAddr,
    ops::Deref,
    path::Path,
    sync::{Arc, atomic::AtomicUsize},
};

use anyhow::Context as _;
use sqlx::PgPool;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub mod addresses; // what user-given URLs may reach
pub mod audit; // entries of the audit log that belong to no transaction
pub mod auth; // who is asking
pub mod body_memory; // request bodies share a byte budget
pub mod broker; // RabbitMQ
pub mod config; // what the environment says
pub mod corrections; // failed rows, corrected by hand
pub mod duties; // what goes on in the background
pub mod error; // what a use-case can fail with
pub mod exports; // results and failures as streams
pub mod failpoints; // crashes that are asked for, in builds made for that
pub mod files; // uploaded files as bytes
pub mod flush; // requests that arrive together become one batch
pub mod http; // the front door
pub mod job_types; // use-cases on job types
pub mod jobs; // use-cases on jobs, items, assignments
pub mod kept; // answers kept with what they tell of
pub mod live; // event streams
mod memory; // where it comes from, and how it is given back
pub mod outbound; // what goes out over HTTP
pub mod postgres; // the private PostgreSQL
pub mod quotas; // what one owner may have at once
pub mod rotation; // from one sealing key to the next
pub mod schema; // payloads against their schema
pub mod sealing; // secrets at rest
pub mod sheet; // rows for spreadsheets
pub mod split; // files into rows
pub mod store; // the only SQL
pub mod task; // work that nobody's going away ends
pub mod uploads; // use-cases on uploaded files
pub mod workbook; // Excel workbooks into lines

use auth::{Auth, links};
use config::{Config, PublicUrl};
use store::{Pools, identity, migrations, sealing_keys};

/// Everything that the parts of a running server share. Cloning it costs one reference count: every layer and handler of
/// a request has a clone of its own.
#[derive(Clone)]
pub struct App(Arc<Shared>);

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// The parts of an [`App`].
pub struct Shared {
    pub config: Arc<Config>,
    /// Where people reach the server.
    pub public_url: Arc<PublicUrl>,
    pub engine: jobs::Engine,
    pub pools: Pools,
    /// The pool for pages, lists and people: `pools.read`.
    pub pool: PgPool,
    pub files: files::Files,
    pub hub: live::Hub,
    /// What goes out over HTTP.
    pub outgoing: Arc<outbound::Outgoing>,
    pub auth: Arc<Auth>,
    /// Events that are in the audit log already and are only counted when they repeat.
    pub repeats: Arc<audit::Repeats>,
    /// Seals secrets before they are stored.
    pub sealer: sealing::Sealer,
    /// RabbitMQ, where there is one.
    pub broker: Option<broker::Broker>,
    /// Quotas of owners and rate limits of callers.
    pub quotas: quotas::Quotas,
    /// Byte budget of request bodies in memory.
    pub body_memory: body_memory::BodyMemory,
    /// Requests that are being answered now.
    pub under_way: Arc<AtomicUsize>,
    /// Cancelled when the server is told to stop: whatever waits or streams ends.
    pub shutdown: CancellationToken,
    /// Tasks that outlive the request that began them; the server waits for them before it ends.
    pub tasks: TaskTracker,
}

/// A server that runs.
pub struct Running {
    /// What it listens on, with the port that it really got.
    pub addr: SocketAddr,
    /// Address that serves metrics without a token, if any.
    pub metrics_addr: Option<SocketAddr>,
    /// Makes the first admin; there is one only while nobody can administer.
    pub sign_in_link: Option<String>,
    /// What the server works with.
    pub app: App,
    served: JoinHandle<()>,
    database: Database,
}

/// Starts a server: database, schema, credentials, duties, front door.
pub async fn start(config: Config) -> anyhow::Result<Running> {
    config.check()?;
    let data_dir = config.data_dir()?;
    let broker = config.broker.amqp_url.as_ref().map(|url| broker::Broker::at(url.reveal())).transpose()?;
    // The port first: a second start by mistake fails before it touches anything.
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
        (Some(certificate), Some(key)) => Some(http::tls::Tls::open(certificate, key)?),
        _ => None,
    };
    for (variable, url) in [("DATABASE_URL", &config.database_url), ("AMQP_URL", &config.broker.amqp_url)] {
        let said = url.as_ref().and_then(|url| config::transport::plaintext_warning(variable, url.reveal()));
        if let Some(said) = said {
            tracing::warn!("{said}");
        }
    }

    let database = Database::open(&config).await?;
    let pools = database.pools.clone();
    let pool = pools.read.clone();
    database.migrate().await?;
    let sealer = open_sealer(&config, &pool).await?;
    seal_what_is_not(&pool, &sealer).await?;
    let bootstrap = match &config.bootstrap_token {
        Some(token) => Some(auth::ensure_bootstrap_token(&pool, token).await?),
        None => None,
    };
    let sign_in_link =
        if identity::has_admin(&pool).await? { None } else { Some(links::create(&pool, &public_url, None).await?) };

    let files = open_files(&config, &data_dir).await?;
    let outgoing = outbound::Outgoing::open(&config, &pool, &sealer).await?;
    let hub = live::Hub::default();
    let shutdown = CancellationToken::new();
    let quotas = quotas::Quotas::new(config.limits.quotas.clone(), pool.clone());
    let limits = jobs::Limits {
        payload: config.payload_limit.bytes(),
        idempotency_window_seconds: f64::from(config.idempotency_window_seconds),
        callbacks: addresses::Reach::of_callbacks(config.callback_allow.clone()),
        has_broker: broker.is_some(),
        quotas: quotas.clone(),
        sealer: sealer.clone(),
        assignment_key: outgoing.assignments.clone(),
    };
    let engine = jobs::Engine::start(pools.clone(), hub.clone(), files.clone(), limits, shutdown.clone()).await?;
    let app = App(Arc::new(Shared {
        under_way: Arc::default(),
        auth: Arc::new(Auth::new(bootstrap, public_url.is_secure(), pool.clone())),
        repeats: Arc::default(),
        quotas,
        body_memory: body_memory::BodyMemory::new(config.limits.body_memory.bytes()),
        broker,
        config: Arc::new(config),
        public_url,
        engine,
        pools,
        pool,
        files,
        hub,
        outgoing: Arc::new(outgoing),
        sealer,
        shutdown,
        tasks: TaskTracker::new(),
    }));
    http::metrics::start(&app);
    duties::spawn(&app, &app.tasks);
    if let Some(private) = &database.private {
        app.tasks.spawn(postgres::watch(Arc::clone(private), app.shutdown.clone()));
    }
    let front = app.config.front;
    let proxies = app.config.proxies.trusted_proxies.clone();
    let router = http::router(&app);
    if let Some(tls) = &tls {
        app.tasks.spawn(tls.clone().watch(app.shutdown.clone()));
    }
    let stop = app.shutdown.clone();
    let served = tokio::spawn(http::serve::serve(listener, tls.clone(), router, front, proxies.clone(), stop));
    let metrics_addr = metrics_listener.as_ref().map(TcpListener::local_addr).transpose()?;
    if let Some(listener) = metrics_listener {
        let router = http::metrics::router(&app);
        app.tasks.spawn(http::serve::serve(listener, tls, router, front, proxies, app.shutdown.clone()));
    }
    Ok(Running { addr, metrics_addr, sign_in_link, app, served, database })
}

/// The keys of this server. Fails where the secrets in the database are sealed with a key that is not among them.
pub async fn open_sealer(config: &Config, pool: &PgPool) -> anyhow::Result<sealing::Sealer> {
    let config = config.clone();
    let sealer = tokio::task::spawn_blocking(move || sealing::Sealer::of(&config)).await??;
    let current = sealing_keys::adopt(pool, &sealer.current_id()).await?;
    anyhow::ensure!(
        sealer.use_key(&current.id),
        "The secrets in this database are sealed with the key {}, and this server has the key {}. Set \
         TREELINE_SECRET_KEY to the key of the other servers, or copy the file secret.key from the data folder of the \
         server that made it.",
        current.id,
        sealer.ids().join(", "),
    );
    Ok(sealer)
}

/// Seals secrets from before they were sealed, or that a rotation has not come to.
async fn seal_what_is_not(pool: &PgPool, sealer: &sealing::Sealer) -> anyhow::Result<()> {
    let current = sealing_keys::current(pool).await?;
    if current.is_some_and(|current| !current.is_complete && current.id == sealer.current_id()) {
        let changed = rotation::complete(pool, sealer).await.context("cannot seal the stored secrets")?;
        tracing::info!(changed, "every stored secret is sealed");
    }
    Ok(())
}

/// Opens the file store, and makes sure that it answers: a wrong key shows at the start.
async fn open_files(config: &Config, data_dir: &Path) -> anyhow::Result<files::Files> {
    let files = files::Files::open(&config.files, &data_dir.join("files"))
        .with_context(|| format!("cannot keep files under {}: set TREELINE_DATA_DIR", data_dir.display()))?;
    files.check().await.context("cannot reach the file store: look at TREELINE_STORE_URL")?;
    Ok(files)
}

impl Running {
    /// Where it can be reached by people, without a slash at the end.
    pub fn url(&self) -> &str {
        self.app.public_url.as_str()
    }

    /// Stops: nothing new is accepted, streams and waits end, requests and duties under way finish.
    /// Takes ten seconds at most for requests.
    pub async fn shutdown(self) -> anyhow::Result<()> {
        self.app.shutdown.cancel();
        self.served.await.context("the front door broke")?;
        self.app.tasks.close();
        self.app.tasks.wait().await;
        self.database.close().await
    }
}

/// The database of a server, private or not.
pub struct Database {
    pub pools: Pools,
    private: Option<Arc<postgres::PrivatePostgres>>,
}

impl Database {
    /// Connects to `DATABASE_URL`, or starts the private PostgreSQL and says so.
    pub async fn open(config: &Config) -> anyhow::Result<Self> {
        let mut private = None;
        if config.database_url.is_none() {
            let started = postgres::start(config.data_dir()?).await?;
            tracing::info!(
                version = started.major(),
                folder = %started.home().display(),
                "no DATABASE_URL: started a private PostgreSQL"
            );
            private = Some(started);
        }
        let url = match (&config.database_url, &private) {
            (Some(given), _) => given.reveal(),
            (None, Some(private)) => &private.app_url(),
            (None, None) => "",
        };
        let pools = Pools::connect(url, config.db_pool).await.context("cannot reach the database")?;
        Ok(Self { pools, private: private.map(Arc::new) })
    }

    /// Brings the schema up to date: a private one as its owner, who then gives the role of the server what it needs;
    /// another as the role of the URL, which may be one that can only look.
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

    /// Connections as whoever owns the schema, as far as this server knows. Those of a private database are new ones.
    pub async fn owner_pool(&self) -> anyhow::Result<PgPool> {
        match &self.private {
            Some(private) => Ok(store::owner_pool(private.url()).await.context("cannot reach the database")?),
            None => Ok(self.pools.read.clone()),
        }
    }

    /// Closes every connection, and stops the private PostgreSQL unless another server uses it.
    pub async fn close(self) -> anyhow::Result<()> {
        self.pools.close().await;
        if let Some(private) = self.private.and_then(Arc::into_inner) {
            tokio::task::spawn_blocking(move || private.stop()).await??;
        }
        Ok(())
    }
}
