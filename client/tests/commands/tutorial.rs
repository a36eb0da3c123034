//! The tutorial for developers, run as written: docs/tutorials/developer.md.

use std::{path::Path, process::Stdio, time::Duration};

use domain::{JobStatus, Outcome};
use tempfile::TempDir;
use tokio::{process::Command, time::timeout};

use crate::support::{Server, TOKEN};

/// Longest run of all commands.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The blocks of shell commands in a document.
fn commands(document: &str) -> String {
    let blocks = document.split("\n```sh\n").skip(1);
    blocks.map(|block| block.split("\n```").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tutorial_for_developers_runs_as_written() {
    let server = Server::start().await;
    let script = commands(include_str!("../../../docs/tutorials/developer.md"));
    let folder = TempDir::new().expect("a temporary folder");
    let program = Path::new(env!("CARGO_BIN_EXE_treeline"));
    let programs = program.parent().expect("a folder").display();
    let mut shell = Command::new("bash");
    shell
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(&folder)
        .env("PATH", format!("{programs}:{}", std::env::var("PATH").expect("a path")))
        .env("TREELINE_URL", &server.url)
        .env("TREELINE_TOKEN", TOKEN)
        .env("XDG_CONFIG_HOME", folder.path())
        .env_remove("TREELINE_CONTEXT")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(TIMEOUT, shell.output()).await.expect("the tutorial ends").expect("bash runs");
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}\n{errors}");
    for expected in ["Signed in", "greet  workers", "there is no one to greet", "Hello, Margaret!", "Hello, Grace!"] {
        assert!(printed.contains(expected), "{expected}: {printed}\n{errors}");
    }
    let jobs = server.client.jobs(&client::JobFilter::default()).await.expect("jobs").data;
    let greetings: Vec<_> = jobs.iter().filter(|job| job.job_type == "greet").collect();
    assert_eq!(greetings.len(), 2);
    assert!(greetings.iter().all(|job| job.tree.status == JobStatus::Completed), "{greetings:?}");
    assert!(greetings.iter().all(|job| job.tree.outcome == Some(Outcome::Succeeded)), "{greetings:?}");
    server.stop().await;
}
