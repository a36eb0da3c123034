//! Tests with real commands: input, output, and no processes left after a stop.

use std::{cell::RefCell, future::pending};

use domain::api::FailureBody;

use super::*;

fn sh(script: &str) -> CommandLine {
    CommandLine { program: "sh".into(), args: vec!["-c".into(), script.into()] }
}

fn no_handlers() -> OutputHandlers<impl Fn(ItemProgress), impl Fn(&str)> {
    OutputHandlers { progress: |_| {}, line: |_: &str| {} }
}

async fn result(script: &str, payload: &str) -> Result<Document, Unfinished> {
    run(&sh(script), vec![("TREELINE_ROW", "7".to_owned())], payload, no_handlers(), pending()).await
}

async fn failure(script: &str) -> FailureBody {
    match result(script, "{}").await {
        Err(Unfinished::Failed(failure)) => failure,
        other => panic!("expected a failure: {other:?}"),
    }
}

#[tokio::test]
async fn the_payload_goes_in_and_the_result_comes_out_as_written() {
    let document = r#"{"n":9007199254740993,"x":1.10}"#;
    assert_eq!(result("cat", document).await.expect("a result").text(), document);
    assert_eq!(result("true", document).await.expect("a result").text(), "{}");
    assert_eq!(result("echo $TREELINE_ROW", "{}").await.expect("a result").text(), "7");
}

#[tokio::test]
async fn a_payload_larger_than_a_pipe_may_be_ignored() {
    let payload = format!("\"{}\"", "x".repeat(1 << 20));
    assert_eq!(result("echo 1", &payload).await.expect("a result").text(), "1");
    let length = result("wc -c | tr -d ' '", &payload).await.expect("a result");
    assert_eq!(length.text(), payload.len().to_string());
}

#[tokio::test]
async fn progress_is_read_from_fd_3_while_the_command_runs() {
    let received = RefCell::new(Vec::new());
    let script = "echo progress 1/2 first >&3; echo noise >&3; printf 'progress 2/2 last' >&3; echo '\"done\"'";
    let receivers = OutputHandlers { progress: |report| received.borrow_mut().push(report), line: |_: &str| {} };
    let result = run(&sh(script), Vec::new(), "{}", receivers, pending()).await;
    assert_eq!(result.expect("a result").text(), "\"done\"");
    let report = |done, text: &str| ItemProgress { done: Some(done), total: Some(2), message: Some(text.to_owned()) };
    assert_eq!(received.into_inner(), [report(1, "first"), report(2, "last")]);
}

#[tokio::test]
async fn lines_of_standard_error_are_read_while_the_command_runs() {
    let received = RefCell::new(Vec::new());
    let receivers = OutputHandlers { progress: |_| {}, line: |line: &str| received.borrow_mut().push(line.to_owned()) };
    let script = "echo one >&2; printf 'two\\nthree' >&2; echo 1";
    let result = run(&sh(script), Vec::new(), "{}", receivers, pending()).await;
    assert_eq!(result.expect("a result").text(), "1");
    let received: Vec<String> = received.into_inner().iter().map(|line| line.trim_end().to_owned()).collect();
    assert_eq!(received, ["one", "two", "three"]);
}

#[tokio::test]
async fn a_failure_has_the_exit_status_and_the_last_output() {
    let failed = failure("echo first >&2; echo 'no such customer' >&2; exit 3").await;
    assert_eq!(failed.error.kind.as_deref(), Some("exit_3"));
    assert_eq!(failed.error.message, "first\nno such customer");
    assert!(failed.retryable);

    assert!(!failure("exit 65").await.retryable, "EX_DATAERR: no retry can help");
    assert_eq!(failure("kill -9 $$").await.error.kind.as_deref(), Some("signal_9"));

    let long = failure("yes é | head -n 100000 >&2; exit 1").await.error.message;
    assert!(long.len() <= 4 * 1024 + 3 && long.starts_with('…'), "{}", long.len());
}

#[tokio::test]
async fn what_is_not_json_is_bad_output() {
    for script in ["echo hello", "printf '\\377'", "echo null", "echo '{\"a\":1,\"a\":2}'", "echo 1 2"] {
        assert_eq!(failure(script).await.error.kind.as_deref(), Some("bad_output"), "{script}");
    }
    assert_eq!(failure("yes").await.error.message, "The command wrote more than 10 MiB to its standard output.");
}

#[tokio::test]
async fn a_command_that_is_not_there_is_a_failure() {
    let missing = CommandLine { program: "/no/such/command".into(), args: Vec::new() };
    let ended = run(&missing, Vec::new(), "{}", no_handlers(), pending()).await;
    let Err(Unfinished::Failed(failed)) = ended else { panic!("{ended:?}") };
    assert_eq!(failed.error.kind.as_deref(), Some("not_started"));
}

// A soft limit of 1,024 files was reached by 200 commands, and items died without an attempt.
#[test]
fn only_a_command_that_can_never_start_is_a_failure() {
    for errno in [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM] {
        assert!(is_exhausted(&errno.into()), "{errno:?}");
    }
    for errno in [Errno::NOENT, Errno::ACCESS, Errno::TOOBIG, Errno::NOEXEC] {
        assert!(!is_exhausted(&errno.into()), "{errno:?}");
    }
    assert!(!is_exhausted(&std::io::Error::other("another error")));
}

#[test]
fn the_key_to_everything_is_not_handed_on() {
    let process = prepare(&sh("true"), vec![("TREELINE_ROW", "7".to_owned())]);
    let environment: Vec<_> = process.get_envs().collect();
    for secret in ["TREELINE_TOKEN", "AMQP_URL"] {
        assert!(environment.contains(&(secret.as_ref(), None)), "{environment:?}");
    }
    assert!(environment.contains(&("TREELINE_ROW".as_ref(), Some("7".as_ref()))), "{environment:?}");
}

#[tokio::test]
async fn background_processes_do_not_hold_a_result_for_ever() {
    let begun = Instant::now();
    let result = result("sleep 600 & echo 1", "{}").await.expect("a result");
    assert_eq!(result.text(), "1");
    assert!(begun.elapsed() < LINGER * 2);
}

/// Runs a script until it reports a process id on fd 3 and stops or drops it. Returns its result and that id.
async fn stopped_after_first_word(script: &str, drop_it: bool) -> (Option<Result<Document, Unfinished>>, i32) {
    let (pid_sender, pid_receiver) = tokio::sync::watch::channel(0);
    let report = |report: ItemProgress| {
        pid_sender.send_replace(report.done.unwrap_or_default() as i32);
    };
    let mut begun = pid_receiver.clone();
    let stopped = async move {
        let _ = begun.wait_for(|&pid| pid > 0).await;
        if drop_it {
            pending::<()>().await;
        }
    };
    let command = sh(script);
    let mut begun = pid_receiver.clone();
    let ended = {
        let run = run(&command, Vec::new(), "{}", OutputHandlers { progress: report, line: |_: &str| {} }, stopped);
        tokio::pin!(run);
        tokio::select! {
            ended = &mut run => Some(ended),
            _ = begun.wait_for(|&pid| pid > 0), if drop_it => None,
        }
    };
    let pid = *pid_receiver.borrow();
    (ended, pid)
}

/// Waits until the process is gone or a zombie.
async fn is_gone(pid: i32) -> bool {
    for _ in 0..200 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z") {
            return true;
        }
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

const WITH_A_GRANDCHILD: &str = "sleep 600 & echo progress $! >&3; wait";

#[tokio::test]
async fn a_stopped_command_ends_with_its_whole_group() {
    let (ended, grandchild) = stopped_after_first_word(WITH_A_GRANDCHILD, false).await;
    assert_eq!(ended, Some(Err(Unfinished::stopped())));
    assert!(is_gone(grandchild).await);
}

#[tokio::test]
async fn a_command_that_ends_well_when_asked_to_stop_has_its_result_counted() {
    let script = "trap 'echo 42; exit 0' TERM; echo progress $$ >&3; while :; do sleep 0.05; done";
    let (ended, _) = stopped_after_first_word(script, false).await;
    assert_eq!(ended.expect("over").expect("a result").text(), "42");
}

#[tokio::test]
async fn a_dropped_command_is_killed_even_if_it_will_not_listen() {
    let script = "trap '' TERM; sleep 600 & echo progress $! >&3; wait";
    let (ended, grandchild) = stopped_after_first_word(script, true).await;
    assert_eq!(ended, None);
    assert!(is_gone(grandchild).await);
}
