//! The commands of `treeline`, as a person or a script runs them, each test against a server of its own.

mod management;
#[path = "../../../examples/tests/scenarios/support.rs"]
mod support;
mod tutorial; // docs/tutorials/developer.md

use std::{
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Output, Stdio},
};

use client::Client;
use domain::{
    Document, Job,
    api::{Assignment, Claim, FailureBody, LogsBody, NewItem, NewJob, ResultBody, WorkError},
    job_type::JobTypeSpec,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
};

use crate::support::{Server, TOKEN};

/// A person at a terminal, with a folder for configuration.
struct Terminal {
    home: TempDir,
}

impl Terminal {
    fn new() -> Self {
        Self { home: TempDir::new().expect("a temporary folder") }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_treeline"), arguments)
    }

    fn program(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("XDG_CONFIG_HOME", self.home.path()).kill_on_drop(true);
        for variable in ["TREELINE_URL", "TREELINE_TOKEN", "TREELINE_CONTEXT", "RUST_LOG"] {
            command.env_remove(variable);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    async fn run_with_input(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = self.command(arguments).spawn().expect("treeline starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input.as_bytes()).await.expect("the command reads");
        drop(stdin);
        child.wait_with_output().await.expect("treeline ends")
    }

    /// Output of a command that succeeds.
    async fn run(&self, arguments: &[&str]) -> String {
        let output = self.run_with_input(arguments, "").await;
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The documents that a command prints with `--json`, one on each line.
    async fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.run(&[arguments, &["--json"]].concat()).await;
        output.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// Signs in to the server.
    async fn login(&self, server: &Server) {
        let output = self.run_with_input(&["login", "--url", &server.url, "--name", "test"], TOKEN).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn id(document: &Value) -> &str {
    document["id"].as_str().expect("an id")
}

/// A job with numbers as payloads.
async fn numbers(client: &Client, count: i64) -> Job {
    client.put_job_type(&JobTypeSpec::named("letters")).await.expect("a type");
    let items = (0..count).map(|n| NewItem { payload: Some(Document::of(&n)), ..NewItem::default() }).collect();
    let new = NewJob { items, sealed: true, name: Some("March".to_owned()), ..NewJob::of("letters") };
    client.create_job(&new).await.expect("a job")
}

async fn claim(client: &Client, max: u32) -> Vec<Assignment> {
    let claim: Claim =
        serde_json::from_value(json!({"worker_id": "w", "types": ["letters"], "max": max})).expect("a claim");
    client.claim(&claim).await.expect("items").assignments
}

async fn fail(client: &Client, assignment: &Assignment) {
    let error = WorkError { message: "no paper".to_owned(), kind: None, detail: None };
    let failure = FailureBody { error, retryable: false, retry_after_seconds: None, cancel_tree: false };
    client.failure(assignment.id, &failure).await.expect("dead");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_checked_and_stays_private() {
    let server = Server::start().await;
    let terminal = Terminal::new();
    let file = terminal.home.path().join("treeline/contexts.json");

    let refused = terminal.run_with_input(&["login", "--url", &server.url], "not-the-token\n").await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("unauthenticated"), "{}", text(&refused.stderr));
    let empty = terminal.run_with_input(&["login", "--url", &server.url], "\n").await;
    assert!(text(&empty.stderr).contains("no token was given"), "{}", text(&empty.stderr));
    assert!(!file.exists());

    let output =
        terminal.run_with_input(&["login", "--url", &server.url, "--name", "here"], &format!("{TOKEN}\n")).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.contains("Signed in") && !printed.contains(TOKEN), "{printed}");
    assert_eq!(std::fs::metadata(&file).expect("stored").permissions().mode() & 0o777, 0o600);

    terminal.run_with_input(&["login", "--url", &format!("{}/", server.url), "--name", "there"], TOKEN).await;
    let contexts = terminal.json(&["context", "list"]).await;
    let current: Vec<_> = contexts.iter().filter(|one| one["current"] == true).map(|one| &one["name"]).collect();
    assert_eq!((contexts.len(), current), (2, vec![&json!("there")]));
    assert!(!format!("{contexts:?}").contains(TOKEN));
    terminal.run(&["context", "use", "here"]).await;
    assert!(terminal.run(&["types"]).await.contains("import"), "the context names the server and the token");
    assert!(terminal.run(&["types", "--context", "there"]).await.contains("import"));

    let elsewhere = terminal.run_with_input(&["types", "--url", &server.url], "").await;
    assert_eq!(elsewhere.status.code(), Some(1), "a given URL does not get the context's token");
    terminal.run(&["context", "remove", "here"]).await;
    terminal.run(&["context", "remove", "there"]).await;
    let unknown = terminal.run_with_input(&["context", "use", "here"], "").await;
    assert!(text(&unknown.stderr).contains("there is no context"), "{}", text(&unknown.stderr));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_items_are_found_retried_and_replayed() {
    let server = Server::start().await;
    let (client, terminal) = (&server.client, Terminal::new());
    terminal.login(&server).await;
    let job = numbers(client, 3).await;
    let job_id = job.id.to_string();
    for assignment in claim(client, 3).await {
        fail(client, &assignment).await;
    }

    let dead = terminal.json(&["items", "--job", &job_id, "--state", "dead,expired"]).await;
    assert_eq!(dead.len(), 3);
    let table = terminal.run(&["items", "--root", &job_id, "--limit", "2"]).await;
    assert_eq!((table.lines().count(), table.matches("no paper").count()), (3, 2), "{table}");
    let shown = terminal.run(&["item", id(&dead[0])]).await;
    assert!(shown.contains("attempt 1  failed") && shown.contains("payload 0"), "{shown}");
    let nothing = terminal.run_with_input(&["items", "--state", "asleep"], "").await;
    assert_eq!(nothing.status.code(), Some(2));

    assert!(terminal.run(&["search", "no paper"]).await.contains("Errors"));

    let for_jobs = terminal.run_with_input(&["retry", id(&dead[0]), "--dry-run"], "").await;
    assert!(text(&for_jobs.stderr).contains("--dry-run is for a job"), "{}", text(&for_jobs.stderr));
    assert_eq!(terminal.json(&["item", id(&dead[0])]).await[0]["item"]["state"], "dead", "nothing was retried");
    let item = terminal.json(&["retry", id(&dead[0]), "--payload", "{\"n\": 7}"]).await.remove(0);
    assert_eq!((&item["state"], &item["payload"]), (&json!("available"), &json!({"n": 7})));
    let counted = terminal.run(&["retry", &job_id, "--dry-run"]).await;
    assert_eq!(counted, "2 items would be retried\n");
    assert_eq!(terminal.run(&["retry", &job_id]).await, "2 of 2 items retried\n");
    assert_eq!(client.job(job.id).await.expect("the job").counts.available, 3);
    let misplaced = terminal.run_with_input(&["retry", &job_id, "--payload", "1"], "").await;
    assert!(text(&misplaced.stderr).contains("is a job"), "{}", text(&misplaced.stderr));

    let cancelled = terminal.json(&["cancel", id(&dead[1])]).await.remove(0);
    assert_eq!(cancelled["state"], "cancelled");
    let cancelled = terminal.json(&["cancel", &job_id]).await.remove(0);
    assert_eq!(cancelled["tree"]["outcome"], "cancelled");
    let replayed = terminal.json(&["replay", &job_id]).await.remove(0);
    assert_eq!(replayed["replay_of"], json!(job_id));
    let one = terminal.json(&["replay", id(&dead[2]), "--payload", "8"]).await.remove(0);
    assert_eq!(one["item_count"], 1);

    let found = terminal.json(&["search", &job_id]).await.remove(0);
    assert_eq!(found["groups"][0]["hits"][0]["id"], json!(job_id));
    let unknown = terminal.run_with_input(&["cancel", "0197a000-0000-7000-8000-0000000000af"], "").await;
    assert_eq!(unknown.status.code(), Some(1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_followed_until_the_item_is_final() {
    let server = Server::start().await;
    let (client, terminal) = (&server.client, Terminal::new());
    terminal.login(&server).await;
    numbers(client, 1).await;
    let assignment = claim(client, 1).await.remove(0);
    let log = async |message: &str| {
        let body: LogsBody =
            serde_json::from_value(json!({"lines": [{"level": "warn", "message": message}]})).expect("a body");
        client.log(assignment.id, &body).await.expect("logged");
    };
    log("first").await;
    let item = assignment.item.id.to_string();
    assert!(terminal.run(&["logs", &item]).await.contains("warn   first"));

    let mut follower = terminal.command(&["logs", &item, "--follow"]).spawn().expect("treeline starts");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let mut next = async || lines.next_line().await.expect("output").expect("a line");
    assert!(next().await.ends_with("first"));
    log("second").await;
    assert!(next().await.ends_with("second"));
    log("last").await;
    let result: ResultBody = serde_json::from_value(json!({"result": 1})).expect("a body");
    client.result(assignment.id, &result).await.expect("done");
    assert!(next().await.ends_with("last"));
    assert!(follower.wait().await.expect("it ends").success());
    assert_eq!(terminal.json(&["logs", &item, "--attempt", "1"]).await.len(), 3);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_several_pages_is_printed_to_its_end() {
    let server = Server::start().await;
    let (client, terminal) = (&server.client, Terminal::new());
    terminal.login(&server).await;
    numbers(client, 1).await;
    let assignment = claim(client, 1).await.remove(0);
    for first in [0, 750] {
        let lines: Vec<Value> =
            (first..first + 750).map(|n| json!({"level": "info", "message": format!("line {n}")})).collect();
        let body: LogsBody = serde_json::from_value(json!({"lines": lines})).expect("a body");
        client.log(assignment.id, &body).await.expect("logged");
    }
    let result: ResultBody = serde_json::from_value(json!({"result": 1})).expect("a body");
    client.result(assignment.id, &result).await.expect("done");
    let item = assignment.item.id.to_string();
    for arguments in [&["logs", &item][..], &["logs", &item, "--follow"], &["logs", &item, "--attempt", "1"]] {
        let printed = terminal.run(arguments).await;
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines.len(), 1_500, "{arguments:?}");
        assert!(lines[1_499].ends_with("line 1499"), "{arguments:?}: {}", lines[1_499]);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_without_a_server_ends_with_its_address() {
    let terminal = Terminal::new();
    let (url, job) = ("http://127.0.0.1:1", domain::id::Uuid::nil().to_string());
    for command in [&["job", &job, "--watch"][..], &["tail", &job]] {
        let output = terminal.run_with_input(&[&["--url", url], command].concat(), "").await;
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(text(&output.stderr).contains("no server answers at http://127.0.0.1:1"), "{}", text(&output.stderr));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let status = Terminal::new().command(&["completion", "bash"]).stdout(full).stderr(Stdio::null()).status().await;
    assert_eq!(status.expect("treeline starts").code(), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_tokens_and_schedules_are_managed() {
    let server = Server::start().await;
    let terminal = Terminal::new();
    terminal.login(&server).await;

    let spec = json!({"name": "letters", "concurrency": 4}).to_string();
    let applied = terminal.run_with_input(&["types", "apply", "-", "--json"], &spec).await;
    assert!(text(&applied.stdout).contains(r#""concurrency":4"#), "{}", text(&applied.stderr));
    assert!(terminal.run(&["types", "pause", "letters"]).await.contains("paused"));
    assert!(terminal.run(&["types", "resume", "letters"]).await.contains("active"));
    assert!(terminal.run(&["types", "show", "letters"]).await.contains("letters"));

    server
        .client
        .create_service(&serde_json::from_value(json!({"name": "payroll"})).expect("a body"))
        .await
        .expect("made");
    let arguments = ["tokens", "create", "--service", "payroll", "--name", "night", "--scope", "jobs:read"];
    let secret = terminal.run(&arguments).await;
    let payroll = Client::new(&server.url, Some(secret.trim())).expect("a client");
    assert_eq!(payroll.me().await.expect("known").name, "payroll");
    let tokens = terminal.json(&["tokens"]).await;
    let token = tokens.iter().find(|token| token["name"] == "night").expect("listed");
    terminal.run(&["tokens", "revoke", id(token)]).await;
    assert!(terminal.run(&["tokens"]).await.contains("revoked"));

    let file = terminal.home.path().join("nightly.json");
    let new = json!({"name": "nightly", "cron": "0 3 * * *", "time_zone": "Europe/Berlin",
                     "job": {"type": "letters", "items": [{"payload": 1}], "sealed": true}});
    std::fs::write(&file, new.to_string()).expect("written");
    let made = terminal.json(&["schedules", "create", path(&file)]).await.remove(0);
    assert!(terminal.run(&["schedules"]).await.contains("Europe/Berlin  letters"));
    assert!(terminal.run(&["schedules", "run", id(&made)]).await.contains("started"));
    assert!(terminal.run(&["schedules", "pause", id(&made)]).await.contains("paused"));
    let resumed = terminal.json(&["schedules", "resume", id(&made)]).await.remove(0);
    assert_eq!(resumed["next_runs"].as_array().map(Vec::len), Some(5));
    assert_eq!(terminal.json(&["schedules", "runs", id(&made)]).await.len(), 1);
    terminal.run(&["schedules", "delete", id(&made)]).await;
    assert_eq!(terminal.json(&["schedules"]).await.len(), 0);

    assert!(
        terminal.run_with_input(&["types", "delete", "letters"], "").await.status.code() == Some(1),
        "it is in use"
    );
    server.stop().await;
}

fn path(file: &Path) -> &str {
    file.to_str().expect("a path of text")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_completes_the_commands() {
    let terminal = Terminal::new();
    let script = terminal.run(&["completion", "bash"]).await;
    let file = terminal.home.path().join("completion.bash");
    std::fs::write(&file, script).expect("written");
    let words = "source \"$0\"; COMP_WORDS=(treeline sch); COMP_CWORD=1; _treeline treeline sch treeline; \
                 echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", words]).arg(&file).output().await.expect("bash runs");
    assert_eq!(text(&output.stdout).trim(), "schedules", "{}", text(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_of_a_worker_has_the_trace_of_its_item_and_not_that_of_the_worker() {
    let server = Server::start().await;
    let terminal = Terminal::new();
    terminal.login(&server).await;
    server.client.put_job_type(&JobTypeSpec::named("letters")).await.expect("a type");
    let sent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let http = reqwest::Client::new();
    let post = |new: &Value| http.post(format!("{}/api/v1/jobs", server.url)).bearer_auth(TOKEN).json(new);
    let new = json!({"type": "letters", "sealed": true, "items": [{}]});
    let traced = post(&new).header("traceparent", sent).send().await.expect("an answer");
    let job: Job = traced.json().await.expect("a job");
    let other: Job = post(&new).send().await.expect("an answer").json().await.expect("a job");
    let mut work = terminal.command(&["work", "--type", "letters", "--", "sh", "-c", "echo \"\\\"$TRACEPARENT\\\"\""]);
    let mut work = work.env("TRACEPARENT", sent.replace('4', "5")).spawn().expect("treeline starts");
    let mut results = Vec::new();
    for job in [&job, &other] {
        terminal.run(&["job", &job.id.to_string(), "--watch"]).await;
        let filter = client::ItemFilter { job: Some(job.id), ..client::ItemFilter::default() };
        let items = server.client.items(&filter).await.expect("one").data;
        results.extend(items.iter().map(|item| item.result.as_ref().expect("a result").text().to_owned()));
    }
    work.kill().await.expect("it ends");
    assert_eq!(results, [format!("\"{sent}\""), "\"\"".to_owned()]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_worker_gives_back_only_what_may_run_twice() {
    let server = Server::start().await;
    let terminal = Terminal::new();
    terminal.login(&server).await;
    for (name, delivery) in [("letters", "at_least_once"), ("payments", "at_most_once")] {
        let spec = serde_json::from_value(json!({"name": name, "delivery": delivery})).expect("a type");
        server.client.put_job_type(&spec).await.expect("a type");
    }
    let new = |name| NewJob { items: vec![NewItem::default()], sealed: true, ..NewJob::of(name) };
    let letters = server.client.create_job(&new("letters")).await.expect("a job");
    let payments = server.client.create_job(&new("payments")).await.expect("a job");
    let types = ["work", "--type", "letters", "--type", "payments", "--concurrency", "2", "--drain-seconds", "0"];
    let begun = terminal.home.path().join("begun");
    let command = ["--", "sh", "-c", "echo >> \"$0\"; sleep 60", path(&begun)];
    let work = terminal.command(&[&types[..], &command].concat()).spawn().expect("treeline starts");
    while std::fs::read(&begun).map_or(0, |lines| lines.len()) < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let pid = work.id().expect("it runs").to_string();
    assert!(Command::new("kill").arg(pid).status().await.expect("kill").success());
    let output = work.wait_with_output().await.expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));

    let items = async |job: Job| terminal.json(&["items", "--job", &job.id.to_string()]).await.remove(0);
    assert_eq!(items(letters).await["state"], "available");
    let payment = items(payments).await;
    assert_eq!((&payment["state"], &payment["last_error"]["kind"]), (&json!("dead"), &json!("worker_stopped")));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_item_fails_because_too_few_files_may_be_open() {
    let server = Server::start().await;
    let terminal = Terminal::new();
    terminal.login(&server).await;
    // A soft limit is raised. With such a hard limit, only some of the commands can run at once.
    for (limit, is_hard) in [("-Sn 64", false), ("-n 64", true)] {
        let job = numbers(&server.client, 40).await.id.to_string();
        let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
        let shell = ["-c", script.as_str(), env!("CARGO_BIN_EXE_treeline"), "work", "--json"];
        let options = ["--type", "letters", "--concurrency", "40", "--", "sh", "-c", "sleep 0.2; echo 1"];
        let work = terminal.program("bash", &[&shell[..], &options].concat()).spawn().expect("treeline starts");
        terminal.run(&["job", &job, "--watch"]).await;
        let pid = work.id().expect("it runs").to_string();
        assert!(Command::new("kill").arg(pid).status().await.expect("kill").success());
        let output = work.wait_with_output().await.expect("it ends");
        let summary: Value = serde_json::from_slice(&output.stdout).expect("a summary");
        assert_eq!((&summary["succeeded"], &summary["failed"]), (&json!(40), &json!(0)), "{limit}: {summary}");
        assert_eq!(summary["released"] != 0, is_hard, "{limit}: {summary}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_complete_and_end_with_the_pipe() {
    let server = Server::start().await;
    let terminal = Terminal::new();
    terminal.login(&server).await;
    for n in 0..60 {
        server.client.put_job_type(&JobTypeSpec::named(&format!("letters-{n}"))).await.expect("a type");
    }
    let listed = terminal.json(&["types"]).await;
    assert_eq!(
        listed.iter().filter(|of| of["name"].as_str().is_some_and(|name| name.starts_with("letters-"))).count(),
        60
    );

    let job = numbers(&server.client, 1).await.id.to_string();
    for arguments in [&["jobs"][..], &["job", &job]] {
        let mut command = terminal.command(arguments).spawn().expect("treeline starts");
        drop(command.stdout.take());
        let output = command.wait_with_output().await.expect("it ends");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    }
    server.stop().await;
}
