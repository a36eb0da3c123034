//! Endings of items whose handler has ended: reported, released, or left to their lease.
//!
//! An ending stays in the queue, and its assignment gets heartbeats, until Treeline has answered: it is given up only when
//! Treeline says that the assignment is closed, or when the worker stops.

use std::time::Duration;

use domain::{
    Code, Document,
    api::{Ending, FailureBody, ReleaseBody},
    id::Uuid,
};
use tokio::{
    task::{Id, JoinError},
    time::{Instant, sleep},
};

use super::{
    Unfinished,
    active::{ActiveAssignment, NextReport, Phase, StopReason},
    claims::Claiming,
    report::{self, EndingCall, ReleaseOutcome, ReportOutcome, Reported, Unanswered},
    run::{Loop, Reply},
};

/// Time within which endings that are reported again share a report.
const SHARED_WITHIN: Duration = Duration::from_millis(250);
/// Interval at which endings that are not answered are logged.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

impl Loop {
    pub(super) fn handler_ended(&mut self, ended: Result<(Id, Result<Document, Unfinished>), JoinError>) {
        let (task, outcome) = match ended {
            Ok((task, outcome)) => (task, Some(outcome)),
            Err(error) if error.is_panic() => {
                (error.id(), Some(Err(Unfinished::failed("The worker's handler panicked.").kind("panicked"))))
            }
            Err(error) => (error.id(), None),
        };
        let Some(id) = self.by_task.remove(&task) else { return };
        let Some(active) = self.active.get_mut(&id) else { return };
        let stop_reason = match std::mem::replace(&mut active.phase, Phase::Ended) {
            Phase::Stopping { reason: stop_reason, .. } => Some(stop_reason),
            _ => None,
        };
        if stop_reason == Some(StopReason::Closed) {
            self.active.remove(&id);
            self.summary.closed += 1;
            return;
        }
        match outcome {
            Some(Ok(result)) => {
                tracing::debug!(item = %active.label, "done");
                self.endings.push_back(report::result(id, result));
            }
            // A failure while the handler is being stopped was most likely caused by the stop, unless it is final. Work
            // that is delivered at most once has begun nevertheless, and must not be released.
            Some(Err(Unfinished::Failed(failure)))
                if stop_reason.is_none() || !failure.retryable || failure.cancel_tree || active.at_most_once =>
            {
                tracing::warn!(item = %active.label, error = %failure.error.message, "failed");
                self.endings.push_back(report::failed(id, failure));
            }
            Some(Err(Unfinished::Released(body))) => self.release(id, EndingCall::Release(body)),
            Some(Err(Unfinished::Waits(body))) => self.release(id, EndingCall::Wait(body)),
            None if active.at_most_once => self.endings.push_back(report::stopped(id)),
            Some(Err(Unfinished::Failed(FailureBody { retry_after_seconds, .. }))) => {
                self.release(id, EndingCall::Release(ReleaseBody { retry_after_seconds }));
            }
            None => self.release(id, EndingCall::default()),
        }
    }

    /// Reports endings, and claims as many items as these endings free slots.
    pub(super) fn report(&mut self, now: Instant) {
        if self.reporting {
            return;
        }
        self.queue_unanswered(now);
        if self.endings.is_empty() {
            return;
        }
        let endings: Vec<Ending> = self.endings.drain(..report::batch_len(&self.endings)).collect();
        // An ending that is reported again frees no slot before it is answered.
        let is_first =
            |ending: &&Ending| self.active.get(&ending.assignment_id.id).is_none_or(ActiveAssignment::is_first_report);
        let freed = endings.iter().filter(is_first).count();
        let slots = (self.worker.concurrency + freed).saturating_sub(self.active.len());
        let may_claim = self.leaving.is_none() && self.claiming.is_none();
        let claim = (may_claim && slots > 0).then(|| self.claim_for(slots, None));
        if claim.is_some() {
            self.claiming = Some(Claiming::WithReport);
        }
        self.reporting = true;
        let client = self.worker.client.clone();
        self.calls.spawn(async move { Reply::Reported(report::report(client, endings, claim).await) });
    }

    pub(super) fn reported(&mut self, reported: Reported) {
        self.reporting = false;
        self.claiming.take_if(|claiming| matches!(claiming, Claiming::WithReport));
        for (ending, outcome) in reported.endings {
            let id = ending.assignment_id.id;
            let label = self.active.get(&id).map_or("", |active| active.label.as_str());
            match outcome {
                ReportOutcome::Accepted if ending.error.is_some() => self.summary.failed += 1,
                ReportOutcome::Accepted => self.summary.succeeded += 1,
                ReportOutcome::Closed(code) => {
                    let code = code.map_or("closed", Code::as_str);
                    tracing::warn!(item = %label, code, "ending too late; it had no effect");
                    self.summary.closed += 1;
                }
                ReportOutcome::Unanswered(unanswered) => {
                    if self.report_again(ending, &unanswered) {
                        continue;
                    }
                    self.summary.closed += 1;
                }
                ReportOutcome::Refused(reason) => {
                    tracing::error!(item = %label, reason, "ending refused");
                    if let Some(ending) = report::after_refusal(ending, &reason) {
                        self.endings.push_back(ending);
                        continue;
                    }
                    self.summary.unreported += 1;
                }
            }
            self.active.remove(&id);
        }
        self.accept(reported.assignments, reported.sent);
        if let Some(claim) = reported.unanswered {
            self.take_back_claim(claim, reported.sent);
        }
    }

    /// Puts endings into the queue whose time to be reported again has come.
    fn queue_unanswered(&mut self, now: Instant) {
        if self.endings.is_empty() && !self.unanswered_endings.iter().any(|&(at, _)| at <= now) {
            return;
        }
        let due = self.unanswered_endings.extract_if(.., |(at, _)| *at <= now + SHARED_WITHIN);
        self.endings.extend(due.map(|(_, ending)| ending));
    }

    /// Reports an ending again that Treeline has not answered; false if it is given up.
    fn report_again(&mut self, ending: Ending, unanswered: &Unanswered) -> bool {
        let now = Instant::now();
        match self.after_unanswered(ending.assignment_id.id, unanswered, now) {
            NextReport::Again(pause) => self.unanswered_endings.push((now + pause, ending)),
            NextReport::WithoutContent => self.endings.push_back(report::without_content(&ending, unanswered)),
            NextReport::Nothing => return false,
        }
        true
    }

    /// What follows a report that Treeline has not answered.
    fn after_unanswered(&mut self, id: Uuid, unanswered: &Unanswered, now: Instant) -> NextReport {
        let Some(active) = self.active.get_mut(&id) else { return NextReport::Nothing };
        let next = active.report_unanswered(unanswered, now);
        let (item, reason) = (&active.label, &unanswered.reason);
        if next == NextReport::Nothing {
            tracing::warn!(%item, reason, "ending not answered, and its assignment is over");
        } else if self.log_unanswered_at <= now {
            self.log_unanswered_at = now + LOG_INTERVAL;
            tracing::warn!(%item, reason, "ending not answered; reporting it again");
        }
        next
    }

    /// Ends an assignment without a result or a failure.
    pub(super) fn release(&mut self, id: Uuid, call: EndingCall) {
        let Some(active) = self.active.get_mut(&id) else { return };
        active.phase = Phase::Ended;
        self.send_release(id, call, Duration::ZERO);
    }

    fn send_release(&mut self, id: Uuid, call: EndingCall, pause: Duration) {
        let client = self.worker.client.clone();
        self.calls.spawn(async move {
            sleep(pause).await;
            let outcome = report::release(client, id, &call).await;
            Reply::Released { assignment: id, call, outcome }
        });
    }

    pub(super) fn release_answered(&mut self, id: Uuid, call: EndingCall, outcome: &ReleaseOutcome) {
        match outcome {
            ReleaseOutcome::Accepted => self.summary.released += 1,
            ReleaseOutcome::Closed => self.summary.closed += 1,
            ReleaseOutcome::Unanswered(unanswered) => match self.after_unanswered(id, unanswered, Instant::now()) {
                NextReport::Again(pause) => return self.send_release(id, call, pause),
                NextReport::WithoutContent => return self.release_without_content(id, call, unanswered),
                NextReport::Nothing => self.summary.closed += 1,
            },
            ReleaseOutcome::Refused(reason) => {
                let message = format!("Treeline refused the wait: {reason}");
                self.endings.push_back(report::lasting_failure(id, report::error("bad_wait", message)));
                return;
            }
            ReleaseOutcome::MustFail => {
                self.endings.push_back(report::stopped(id));
                return;
            }
        }
        self.active.remove(&id);
    }

    /// Makes a wait that is refused on the way a failure. A release has no content: it is sent again.
    fn release_without_content(&mut self, id: Uuid, call: EndingCall, unanswered: &Unanswered) {
        match call {
            EndingCall::Release(_) => self.send_release(id, call, Duration::ZERO),
            EndingCall::Wait(_) => {
                let wait = report::result(id, Document::null());
                self.endings.push_back(report::without_content(&wait, unanswered));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use domain::{Problem, api::ReleaseBody};
    use serde_json::{Value, json};
    use tokio::{
        io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
        net::{TcpListener, TcpStream},
        sync::Notify,
    };

    use super::*;
    use crate::{Client, Drain, Summary, Worker, worker::active::tests::assignment};

    /// Status and body of a response; `None` for the usual one.
    type Answer = Option<(u16, String)>;

    /// A server that hands out one item and accepts everything that `answer` does not refuse.
    struct FakeServer<A> {
        answer: A,
        /// Paths and bodies of the requests.
        requests: Mutex<Vec<(String, Value)>>,
        /// Told when the item has left the worker: it claims again.
        is_free: Notify,
    }

    impl<A: Fn(&str, &Value) -> Answer + Send + Sync + 'static> FakeServer<A> {
        fn new(answer: A) -> Arc<Self> {
            Arc::new(Self { answer, requests: Mutex::default(), is_free: Notify::new() })
        }

        /// Runs a worker with this handler until its item has ended.
        async fn work(self: &Arc<Self>, outcome: Result<Document, Unfinished>) -> Summary {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let server = Arc::clone(self);
            let serving = tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(Arc::clone(&server).respond(stream));
                }
            });
            let (drain, free) = (Drain::new(), Arc::clone(self));
            let stop = drain.clone();
            tokio::spawn(async move {
                free.is_free.notified().await;
                stop.begin();
            });
            let worker = Worker::new(Client::new(&url, None).expect("a client"), ["t"]);
            let work = worker.run_until(drain, move |_| std::future::ready(outcome.clone()));
            let summary = tokio::time::timeout(Duration::from_secs(30), work).await.expect("in time");
            serving.abort();
            summary.expect("a summary")
        }

        async fn respond(self: Arc<Self>, stream: TcpStream) -> Option<()> {
            let mut stream = BufReader::new(stream);
            let (mut line, mut path, mut length) = (String::new(), String::new(), 0);
            while stream.read_line(&mut line).await.ok()? > 2 {
                if let Some(target) = line.strip_prefix("POST ") {
                    target.split(' ').next()?.clone_into(&mut path);
                } else if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().ok()?;
                }
                line.clear();
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.ok()?;
            let body: Value = serde_json::from_slice(&body).ok()?;
            let usual = self.usual(&path, &body);
            self.requests.lock().expect("a lock").push((path.clone(), body.clone()));
            let (status, text) = (self.answer)(&path, &body).unwrap_or((200, usual.to_string()));
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n", text.len());
            let kind = if text.starts_with("{\"type\"") { "application/problem+json" } else { "application/json" };
            stream.write_all(format!("{head}content-type: {kind}\r\n\r\n{text}").as_bytes()).await.ok()
        }

        fn usual(&self, path: &str, body: &Value) -> Value {
            let named = |name: &str| {
                let rows = body[name].as_array().cloned().unwrap_or_default();
                let row = |row: &Value| json!({"assignment_id": row["assignment_id"], "status": 200});
                rows.iter().map(row).collect::<Vec<_>>()
            };
            let is_first =
                !self.requests.lock().expect("a lock").iter().any(|(path, _)| path.ends_with("/assignments"));
            match path.rsplit('/').next() {
                Some("assignments") if is_first => json!({"assignments": [assignment(0.5)]}),
                Some("assignments") => {
                    self.is_free.notify_one();
                    json!({"assignments": []})
                }
                Some("heartbeat") => json!({"heartbeats": named("heartbeats")}),
                Some("finish") => json!({"endings": named("endings"), "assignments": []}),
                _ => {
                    json!({"item_id": Uuid::nil(), "item_state": "available", "ended_as": "released", "retry_at": null})
                }
            }
        }

        fn sent(&self, ending: &str) -> Vec<Value> {
            let requests = self.requests.lock().expect("a lock");
            requests.iter().filter(|(path, _)| path.ends_with(ending)).map(|(_, body)| body.clone()).collect()
        }
    }

    fn blocked(_: &str, body: &Value) -> Answer {
        body.to_string().contains("drop table").then(|| (403, "blocked by the firewall".to_owned()))
    }

    #[tokio::test]
    async fn an_ending_whose_content_is_refused_on_the_way_becomes_a_failure_without_it() {
        for ending in [Ok(Document::of(&"drop table")), Err(Unfinished::waits_for("drop table"))] {
            let server = FakeServer::new(blocked);
            assert_eq!(server.work(ending).await, Summary { failed: 1, ..Summary::default() });
            let last = server.sent("/finish").pop().expect("a report");
            assert_eq!(last["endings"][0]["error"]["kind"], "answer_refused");
            assert_eq!(last["endings"][0]["retryable"], false);
        }
    }

    #[tokio::test]
    async fn an_ending_is_given_up_when_a_heartbeat_says_that_its_assignment_is_closed() {
        let closed = json!({"heartbeats": [{"assignment_id": Uuid::nil(), "status": 409}]}).to_string();
        let server = FakeServer::new(move |path: &str, body: &Value| {
            if path.ends_with("/heartbeat") { Some((200, closed.clone())) } else { blocked(path, body) }
        });
        let ending = Ok(Document::of(&"drop table"));
        assert_eq!(server.work(ending).await, Summary { closed: 1, ..Summary::default() });
    }

    #[tokio::test]
    async fn a_release_and_a_result_are_sent_until_they_are_answered() {
        let of = |code: Code| (code.status(), serde_json::to_string(&Problem::new(code, "why")).expect("json"));
        let foreign = |status, body: &str| (status, body.to_owned());
        // A 401 of Treeline made a result a failure that is not retryable.
        let faults =
            [of(Code::Unauthenticated), foreign(404, "404 page not found"), of(Code::Busy), foreign(200, "<html>")];
        let release = Err(Unfinished::Released(ReleaseBody::default()));
        let released = Summary { released: 1, ..Summary::default() };
        let succeeded = Summary { succeeded: 1, ..Summary::default() };
        for (path, ending, summary) in
            [("/release", release, released), ("/finish", Ok(Document::empty_object()), succeeded)]
        {
            let faults = Mutex::new(faults.to_vec());
            let server = FakeServer::new(move |sent: &str, _: &Value| {
                sent.ends_with(path).then(|| faults.lock().expect("a lock").pop()).flatten()
            });
            assert_eq!(server.work(ending).await, summary, "{path}");
            assert!(server.sent(path).len() >= 5, "{path}");
        }
    }
}
