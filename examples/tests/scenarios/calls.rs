//! Administration: every call that the examples do not use, once, with its response.

use client::{AuditFilter, PageQuery};
use domain::{
    Document, ItemState, Outcome,
    api::{
        BulkAction, BulkState, BulkTarget, Claim, FailureBody, ItemPatch, JobPatch, LogLevel, LogsBody, NewBulk,
        NewItem, NewJob, NewLogLine, ReplayBody, SeriesMetric, SeriesStep, WorkError,
    },
    identity::{
        access::{NewService, NewToken, ServicePatch},
        account::{NewUser, UserPatch},
    },
    job_type::JobTypeSpec,
};

use crate::support::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_keeps_job_types_trees_and_files_in_order() {
    let server = Server::start().await;
    let client = &server.client;
    client.create_job_type(&JobTypeSpec::named("letters")).await.expect("made");
    let again = client.create_job_type(&JobTypeSpec::named("letters")).await.expect_err("there is one");
    assert_eq!(again.code(), Some(domain::Code::Duplicate));
    let paused = client.pause_job_type("letters").await.expect("paused");
    assert!(paused.paused);
    let resumed = client.resume_job_type("letters").await.expect("resumed");
    let fields = serde_json::json!({"concurrency": 5});
    let late = client.patch_job_type("letters", &fields, Some(paused.version)).await.expect_err("it is newer");
    assert_eq!(late.status(), Some(412));
    client.patch_job_type("letters", &fields, Some(resumed.version)).await.expect("changed");

    let item = |n: i64| NewItem { payload: Some(Document::of(&n)), ..NewItem::default() };
    let new = NewJob { items: vec![item(1), item(2)], sealed: true, ..NewJob::of("letters") };
    let job = client.create_job(&new).await.expect("made");
    let patch = JobPatch { priority: Some(Some(7)), ..JobPatch::default() };
    let job = client.patch_job(job.id, &patch, Some(job.version)).await.expect("changed");
    let filter = client::ItemFilter { job: Some(job.id), ..client::ItemFilter::default() };
    let items = client.items(&filter).await.expect("two").data;
    let first = ItemPatch { priority: Some(Some(50)), ..ItemPatch::default() };
    client.patch_item(items[1].id, &first, None).await.expect("changed");
    let claim = Claim {
        worker_id: "w".to_owned(),
        types: vec!["letters".to_owned()],
        item_ids: None,
        max: Some(10),
        wait_seconds: None,
        claim_id: None,
    };
    let assignments = client.claim(&claim).await.expect("both").assignments;
    assert_eq!(assignments.iter().map(|one| one.item.id).collect::<Vec<_>>(), [items[1].id, items[0].id]);
    client.alert(assignments[0].id, "look at this").await.expect("raised");
    let alerts = client.alerts(&PageQuery::default()).await.expect("one").data;
    assert!(alerts.iter().any(|alert| alert.message.contains("look at this")), "{alerts:?}");
    let line =
        |message: &str| NewLogLine { at: None, level: LogLevel::Warn, message: message.to_owned(), fields: None };
    let lines = vec![line("no paper"), line("no ink")];
    assert_eq!(client.log(assignments[0].id, &LogsBody { lines }).await.expect("logged").added, 2);
    let log = client.logs(assignments[0].item.id, Some(1), &PageQuery::default()).await.expect("two lines").data;
    assert_eq!(log.iter().map(|line| line.message.as_str()).collect::<Vec<_>>(), ["no paper", "no ink"]);
    for one in &assignments {
        let error = WorkError { message: "no".to_owned(), kind: None, detail: None };
        let failed = FailureBody { error, retryable: false, retry_after_seconds: None, cancel_tree: false };
        client.failure(one.id, &failed).await.expect("dead");
    }
    assert_eq!(client.workers(&PageQuery::default()).await.expect("one").data[0].worker_id, "w");
    assert!(client.stats().await.expect("figures").data.iter().any(|of| of.job_type == "letters"));
    let added = client.series(SeriesMetric::Added, Some("letters"), SeriesStep::Day).await.expect("activity");
    assert_eq!(added.data.iter().map(|point| point.value).sum::<i64>(), 2);

    let bulk = NewBulk {
        action: BulkAction::Retry,
        target: BulkTarget::Items,
        filter: Document::of(&serde_json::json!({"job": job.id, "state": "dead"})),
        payload_edit: Vec::new(),
        reason: None,
        rate_per_second: None,
        dry_run: false,
    };
    let begun = client.create_bulk(&bulk).await.expect("begun");
    let mut one = client.bulk(begun.id).await.expect("the operation");
    while one.state != BulkState::Completed {
        tokio::task::yield_now().await;
        one = client.bulk(begun.id).await.expect("the operation");
    }
    assert_eq!((one.total, one.processed), (2, 2));
    assert_eq!(client.bulks(&PageQuery::default()).await.expect("one").data.len(), 1);
    let cancelled = client.cancel_bulk(begun.id).await.expect_err("it is through");
    assert_eq!(cancelled.status(), Some(409));

    client.cancel_job(job.id, None).await.expect("cancelled");
    let twice = client.replay_item(items[0].id, &ReplayBody::default()).await.expect("a tree of its own");
    assert_eq!(twice.counts.available, 1);
    assert!(client.pin_job(job.id, true, None).await.expect("pinned").pinned);
    assert!(!client.pin_job(job.id, false, None).await.expect("unpinned").pinned);
    let share = client.share_job(job.id, &domain::tree::share_link::ShareBody::default()).await.expect("a link");
    assert_eq!(client.shares(job.id, &PageQuery::default()).await.expect("one").data[0].id, share.id);
    client.revoke_share(share.id, None).await.expect("taken back");
    let gone = client.job(job.id).await.expect("the job");
    assert_eq!((gone.outcome, gone.counts.cancelled), (Some(Outcome::Cancelled), 2));
    assert_eq!(client.item(items[0].id).await.expect("the item").state, ItemState::Cancelled);

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("few.csv");
    std::fs::write(&path, "id,name\n1,ant\n").expect("a file");
    let upload = client.upload(&path, |_| ()).await.expect("stored");
    assert_eq!(client.stored_upload(upload.id).await.expect("known").sha256, upload.sha256);
    assert_eq!(client.preview(upload.id, Some("letters")).await.expect("rows").rows.len(), 1);
    let mut content = client.content(upload.id).await.expect("bytes");
    assert_eq!(content.chunk().await.expect("some").as_deref(), Some(&b"id,name\n1,ant\n"[..]));
    client.delete_upload(upload.id).await.expect("removed");
    assert_eq!(client.stored_upload(upload.id).await.expect_err("gone").status(), Some(404));

    let used = client.delete_job_type("letters").await.expect_err("a job uses it");
    assert_eq!(used.code(), Some(domain::Code::JobTypeInUse));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_lets_people_and_services_in_and_out() {
    let server = Server::start().await;
    let client = &server.client;
    let new = NewUser {
        name: "Ada".to_owned(),
        email: "ada@example.com".to_owned(),
        role: None,
        password: None,
        must_change_password: None,
        proxy_user: None,
        reason: None,
    };
    let ada = client.create_user(&new).await.expect("made");
    assert!(ada.sign_in_link.is_some());
    let support = UserPatch { role: Some("support".to_owned()), ..UserPatch::default() };
    assert_eq!(client.patch_user(ada.user.id, &support).await.expect("changed").role, "support");
    assert_eq!(client.user(ada.user.id).await.expect("known").name, "Ada");
    assert_eq!(client.users(&PageQuery::default()).await.expect("all").data.len(), 1);
    client.create_sign_in_link(ada.user.id).await.expect("a link");
    assert_eq!(client.user_sessions(ada.user.id, &PageQuery::default()).await.expect("none").data.len(), 0);
    client.end_user_sessions(ada.user.id).await.expect("ended");
    let session = client.end_user_session(ada.user.id, ada.user.id).await.expect_err("no such session");
    assert_eq!(session.status(), Some(404));

    let service = client.create_service(&NewService { name: "payroll".to_owned() }).await.expect("made");
    let disabled = ServicePatch { disabled: Some(true), reason: None };
    assert!(client.patch_service(service.id, &disabled).await.expect("disabled").disabled);
    let enabled = ServicePatch { disabled: Some(false), reason: None };
    assert!(!client.patch_service(service.id, &enabled).await.expect("enabled").disabled);
    assert_eq!(client.service(service.id).await.expect("there").name, "payroll");
    let token = NewToken {
        service: "payroll".to_owned(),
        name: "the night job".to_owned(),
        scopes: vec!["jobs:read".to_owned()],
        types: None,
        expires_at: None,
    };
    let made = client.create_token(&token).await.expect("made");
    let payroll = client::Client::new(&server.url, Some(&made.secret)).expect("a client");
    assert_eq!(payroll.me().await.expect("known").name, "payroll");
    client.revoke_token(made.token.id).await.expect("taken back");
    assert_eq!(payroll.me().await.expect_err("closed").status(), Some(401));
    let tokens = client.tokens(&PageQuery { limit: Some(10), cursor: None }).await.expect("some").data;
    assert!(tokens.iter().any(|one| one.id == made.token.id && one.revoked_at.is_some()));
    assert!(client.services(&PageQuery::default()).await.expect("two").data.iter().any(|one| one.name == "payroll"));
    let filter = AuditFilter { action: Some("user.create".to_owned()), ..AuditFilter::default() };
    assert_eq!(client.audit(&filter).await.expect("one").data.len(), 1);
    server.stop().await;
}
