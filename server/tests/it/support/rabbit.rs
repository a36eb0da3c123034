//! RabbitMQ for the tests: private nodes on free ports, with their data in a temporary folder.
//!
//! One node serves all tests that do not disturb it, each with its own virtual host. A node is killed when the test
//! process ends in any way: a guard waits for its input to close.

use std::{
    net::TcpListener,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::sync::OnceCell;
use uuid::Uuid;

/// Arguments of Erlang: listens on this machine only, has two schedulers, does not spin while it waits, and counts the
/// messages of a queue four times a second instead of every five seconds.
const ERLANG: &str = "-kernel inet_dist_use_interface {127,0,0,1} -rabbit quorum_tick_interval 250 +S 2:2 +P 65536 \
    +sbwt none +sbwtdcpu none +sbwtdio none";

/// Node shared by the tests.
static SHARED: OnceCell<Node> = OnceCell::const_new();

/// Private RabbitMQ, running or not.
pub(crate) struct Node {
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
    management: u16,
    /// Ports of Erlang's name server and of the node itself.
    pub(crate) names: u16,
    distribution: u16,
    running: Option<Guarded>,
    /// Removes the folder when its input closes.
    _sweeper: Child,
}

/// Process group that ends with this value, or with the test process.
struct Guarded {
    group: u32,
    child: Child,
    _guard: Child,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        kill(self.group);
        let _ = self.child.wait();
    }
}

/// Virtual host of one test.
pub(crate) struct Vhost {
    name: String,
    management: u16,
    client: reqwest::Client,
    pub(crate) url: String,
}

/// Creates a virtual host on the shared node.
pub(crate) async fn vhost() -> Vhost {
    let node = SHARED
        .get_or_init(|| async {
            let mut node = Node::new();
            node.start().await;
            node
        })
        .await;
    node.vhost().await
}

impl Node {
    /// Creates a node without starting it; its address is fixed.
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("treeline-rabbit-").tempdir().expect("a folder").keep();
        for part in ["home", "log", "data"] {
            std::fs::create_dir(folder.join(part)).expect("a folder");
        }
        let [port, management, names, distribution] = free_ports();
        std::fs::write(folder.join("plugins"), "[rabbitmq_management].").expect("a file");
        let settings = format!(
            "listeners.tcp.1 = 127.0.0.1:{port}\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {management}\n\
             management.rates_mode = none\ncollect_statistics_interval = 1000\nlog.file.level = warning\ndisk_free_limit.absolute = 1MB\n\
             vm_memory_high_watermark.relative = 0.8\n"
        );
        std::fs::write(folder.join("rabbitmq.conf"), settings).expect("a file");
        let sweeper = Command::new("sh")
            .args(["-c", "cat > /dev/null; sleep 1; rm -rf \"$0\""])
            .arg(&folder)
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("sh runs");
        Self { folder, port, management, names, distribution, running: None, _sweeper: sweeper }
    }

    /// URL of its default virtual host.
    pub(crate) fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}", self.port)
    }

    /// Starts it and waits until it serves.
    pub(crate) async fn start(&mut self) {
        let file = |name: &str| self.folder.join(name);
        let mut server = Command::new("sh");
        server
            .args(["-c", "epmd -port \"$ERL_EPMD_PORT\" -address 127.0.0.1 & exec \"$0\" -noinput"])
            .arg(program())
            .env("HOME", file("home"))
            .env("ERL_EPMD_PORT", self.names.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODENAME", format!("treeline-{}@localhost", self.port))
            .env("RABBITMQ_DIST_PORT", self.distribution.to_string())
            .env("RABBITMQ_MNESIA_BASE", file("data"))
            .env("RABBITMQ_LOG_BASE", file("log"))
            .env("RABBITMQ_PID_FILE", file("pid"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", file("plugins"))
            .env("RABBITMQ_CONFIG_FILE", file("rabbitmq.conf"))
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", ERLANG)
            // The script then becomes the node, instead of watching it.
            .env("RABBITMQ_ALLOW_INPUT", "1")
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(file("out")).expect("a file"))
            .stderr(std::fs::File::create(file("errors")).expect("a file"))
            .process_group(0);
        let child = server.spawn().expect("sh runs");
        let group = child.id();
        let guard = Command::new("sh")
            .args(["-c", "cat > /dev/null; kill -s KILL -- \"-$0\" 2> /dev/null"])
            .arg(group.to_string())
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("sh runs");
        self.running = Some(Guarded { group, child, _guard: guard });
        let began = Instant::now();
        let vhost = self.root();
        let listens = format!("/api/health/checks/port-listener/{}", self.port);
        while vhost
            .management_request(reqwest::Method::GET, &listens, &Value::Null)
            .await
            .is_none_or(|(status, _)| status != 200)
        {
            let ended = self.running.as_mut().and_then(|it| it.child.try_wait().ok().flatten());
            let errors = || std::fs::read_to_string(file("errors")).unwrap_or_default();
            assert!(ended.is_none(), "RabbitMQ ended: {ended:?} {}", errors());
            assert!(began.elapsed() < Duration::from_mins(2), "RabbitMQ does not start: {}", errors());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Kills it; its data stays.
    pub(crate) fn kill(&mut self) {
        self.running = None;
    }

    pub(crate) async fn vhost(&self) -> Vhost {
        let name = format!("test-{}", Uuid::now_v7().simple());
        let vhost = Vhost {
            url: format!("amqp://guest:guest@127.0.0.1:{}/{name}", self.port),
            management: self.management,
            client: client(),
            name,
        };
        vhost.put(&format!("/api/vhosts/{}", vhost.name), &json!({})).await;
        let all = json!({"configure": ".*", "write": ".*", "read": ".*"});
        vhost.put(&format!("/api/permissions/{}/guest", vhost.name), &all).await;
        vhost
    }

    /// Default virtual host.
    pub(crate) fn root(&self) -> Vhost {
        Vhost { name: "%2F".to_owned(), management: self.management, client: client(), url: self.url() }
    }
}

impl Vhost {
    async fn management_request(&self, method: reqwest::Method, path: &str, body: &Value) -> Option<(u16, Value)> {
        let url = format!("http://127.0.0.1:{}{path}", self.management);
        let mut request = self.client.request(method, url).basic_auth("guest", Some("guest"));
        if !body.is_null() {
            request = request.json(body);
        }
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.json().await.unwrap_or(Value::Null)))
    }

    async fn put(&self, path: &str, body: &Value) {
        let (status, answer) =
            self.management_request(reqwest::Method::PUT, path, body).await.expect("RabbitMQ answers");
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
    }

    /// Deletes the messages of a queue.
    pub(crate) async fn purge(&self, queue: &str) {
        self.management_request(
            reqwest::Method::DELETE,
            &format!("/api/queues/{}/{queue}/contents", self.name),
            &Value::Null,
        )
        .await;
    }

    /// Deletes a queue.
    pub(crate) async fn delete(&self, queue: &str) {
        self.management_request(reqwest::Method::DELETE, &format!("/api/queues/{}/{queue}", self.name), &Value::Null)
            .await;
    }

    /// State of a queue as reported by the broker; null if there is none.
    pub(crate) async fn queue(&self, queue: &str) -> Value {
        match self
            .management_request(reqwest::Method::GET, &format!("/api/queues/{}/{queue}", self.name), &Value::Null)
            .await
        {
            Some((200, found)) => found,
            _ => Value::Null,
        }
    }

    /// Waits until a queue exists and serves.
    pub(crate) async fn wait_until_running(&self, queue: &str) {
        let began = Instant::now();
        while self.queue(queue).await["state"] != "running" {
            assert!(began.elapsed() < Duration::from_secs(15), "no {queue} within 15 s");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Number of connected consumers of a queue; `None` if no broker responds. A node that was killed counts former
    /// consumers for a while.
    async fn consumers(&self, queue: &str) -> Option<usize> {
        let (_, all) = self
            .management_request(reqwest::Method::GET, &format!("/api/consumers/{}", self.name), &Value::Null)
            .await?;
        let is_here = |one: &&Value| one["queue"]["name"] == queue && one["channel_details"]["peer_port"].is_number();
        Some(all.as_array()?.iter().filter(is_here).count())
    }

    /// Waits until a queue has this number of consumers; returns the duration.
    pub(crate) async fn wait_for_consumers(&self, queue: &str, consumers: usize) -> Duration {
        let began = Instant::now();
        loop {
            let found = self.consumers(queue).await;
            if found.is_some_and(|found| found >= consumers) {
                return began.elapsed();
            }
            assert!(
                began.elapsed() < Duration::from_secs(15),
                "{found:?} of {consumers} consumers of {queue} after 15 s"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Path of the server's script: Debian's command of that name changes the user, which requires root.
pub(crate) fn program() -> &'static Path {
    let debian = Path::new("/usr/lib/rabbitmq/bin/rabbitmq-server");
    if debian.exists() { debian } else { Path::new("rabbitmq-server") }
}

/// One per test: its connections belong to the test's runtime, and end with it.
fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

/// Finds free ports that the system assigns to no one else while a node is down: below the range of outgoing
/// connections.
fn free_ports() -> [u16; 4] {
    let listeners = [(); 4].map(|()| {
        let mut tried = (0..1_000).map(|_| rand::random_range(15_000..32_000));
        tried.find_map(|port: u16| TcpListener::bind(("127.0.0.1", port)).ok()).expect("a free port")
    });
    listeners.map(|listener| listener.local_addr().expect("its address").port())
}

fn kill(group: u32) {
    let group = rustix::process::Pid::from_raw(group as i32).expect("a process");
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
}
