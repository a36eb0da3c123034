//! `TREELINE_LOG_HTTP=full`: bodies and outbound traffic are in the log, secrets are not.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::mpsc,
};

use crate::support::{Api, Server, TOKEN, receiver::Receiver};

/// Server program whose log the test reads.
struct LoggedProgram {
    api: Api,
    lines: mpsc::UnboundedReceiver<Value>,
    _child: Child,
}

impl LoggedProgram {
    async fn start(server: &Server, level: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_treeline-server"));
        let mut child = server
            .at_same_database(&mut command)
            .env("TREELINE_LOG_HTTP", level)
            .env("TREELINE_CALLBACK_ALLOW", "127.0.0.1")
            .env("TREELINE_ROLES", "web,push")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program runs");
        let mut out = BufReader::new(child.stdout.take().expect("its output")).lines();
        let first = out.next_line().await.expect("text").expect("a line");
        let url = first.trim().rsplit(' ').next().expect("where it listens").to_owned();
        let mut log = BufReader::new(child.stderr.take().expect("its log")).lines();
        let (sender, lines) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            // Kept open: a program that cannot print its output ends.
            let _out = out;
            while let Ok(Some(line)) = log.next_line().await {
                if let Ok(line) = serde_json::from_str(&line) {
                    let _ = sender.send(line);
                }
            }
        });
        Self { api: Api::new(&url).with_token(TOKEN), lines, _child: child }
    }

    /// Reads the log up to a line with this message and this text.
    async fn until(&mut self, message: &str, text: &str) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let line = self.lines.recv().await.expect("the log goes on");
            let found = line["fields"]["message"] == message && line.to_string().contains(text);
            seen.push(line);
            if found {
                return seen;
            }
        }
    }
}

#[tokio::test]
async fn full_http_log_shows_bodies_and_outbound_traffic_without_secrets() {
    let server = Server::start_with(|config| config.roles = "maintenance".parse().expect("roles")).await;
    let mut receiver = Receiver::start().await;
    let mut program = LoggedProgram::start(&server, "full").await;
    let url = receiver.url("/work?key=Q1w2e3r4");
    let executor = json!({"kind": "push", "url": url, "headers": {"X-Key": "Hunter2"}, "secret": "whsec_c2VjcmV0"});
    program.api.put("/api/v1/job-types/mail", json!({"executor": executor})).await.expect(201);
    let job = json!({"type": "mail", "sealed": true, "items": [{"payload": {"to": "ada", "password": "Hunter3"}}]});
    let job = program.api.post("/api/v1/jobs", job).await.expect(201);
    let post = receiver.next().await;
    let capability = post.json()["assignment_id"].as_str().expect("an id").split('.').nth(1).expect("it").to_owned();
    let json = [("content-type", "application/json")];
    post.answer(200, &json, r#"{"sent": "to ada", "token": "Hunter4"}"#.into());
    let mut log = program.until("outbound response body", "to ada").await;
    // A body of the API in both directions.
    program.api.get(&format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"))).await.expect(200);
    log.extend(program.until("response body", "mail").await);

    let text: String = log.iter().map(|line| format!("{line}\n")).collect();
    for secret in ["Hunter", "Q1w2", "c2VjcmV0", TOKEN, &capability] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let messages = ["request body", "response body", "outbound request", "outbound response", "outbound response body"];
    for message in messages {
        assert!(log.iter().any(|line| line["fields"]["message"] == message), "{message}: {text}");
    }
    let pushed = log.iter().find(|line| line["fields"]["message"] == "outbound request").expect("it was found");
    assert!(pushed["fields"]["body"].as_str().is_some_and(|body| body.contains(r#""to":"ada""#)), "{pushed}");
    let lines_of_requests = log.iter().filter(|line| line["fields"]["message"] == "request body");
    assert!(
        lines_of_requests.clone().count() > 0 && lines_of_requests.clone().all(|line| line["span"]["id"].is_string())
    );
    server.stop().await;
}
