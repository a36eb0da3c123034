//! Limits of callbacks: no closed addresses, no mutual delays, no duplicates by two servers or losses by a killed one,
//! no disappearance with their tree. And their display.

use serde_json::{Value, json};
use server::config::Config;

use crate::{
    bulk::id,
    callbacks::{deliveries, done, once, quick, quick_server, server_for_late_answers, statuses},
    retention::until,
    support::{Api, Server, receiver::Receiver},
};

#[tokio::test]
async fn callback_to_blocked_address_is_never_sent() {
    let mut receiver = Receiver::start().await;
    let port = receiver.port;
    let strict = Server::start().await;
    strict.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let forms = [
        "127.0.0.1",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "10.0.0.1",
        "169.254.169.254",
        "[fd00:ec2::254]",
    ];
    let (mut tried, mut refused) = (0, 0);
    for host in forms {
        for scheme in ["http", "https"] {
            tried += 1;
            let body =
                json!({"type": "a", "sealed": true, "on_completed": {"url": format!("{scheme}://{host}:{port}/")}});
            let problem = strict.post("/api/v1/jobs", body).await.expect_problem(422, "url_not_allowed");
            assert_eq!(problem["errors"][0]["pointer"], "/on_completed/url");
            refused += 1;
        }
    }
    assert_eq!(tried, refused);

    // What was accepted while it was open, or is a name, is asked again at the moment of connecting.
    let open = strict.another_with(quick).await;
    let path = "/api/v1/jobs";
    let mut jobs = Vec::new();
    for host in
        forms.iter().filter(|host| !host.starts_with("10.") && !host.starts_with("169.") && !host.contains("ec2"))
    {
        let body = json!({"type": "a", "on_completed": {"url": format!("http://{host}:{port}/")}});
        let answer = open.post(path, body).await;
        if answer.status == 201 {
            jobs.push(answer.json());
        }
    }
    let name = gethostname();
    let body = json!({"type": "a", "on_completed": {"url": format!("http://{name}:{port}/")}});
    jobs.push(strict.post(path, body).await.expect(201));
    assert!(jobs.len() >= 8, "{jobs:?}");
    open.stop().await;
    for job in &jobs {
        strict.post(&format!("{path}/{}/seal", id(job)), json!({})).await.expect(200);
    }
    for job in &jobs {
        until(async || {
            !deliveries(&strict, job).await.is_empty() && !statuses(&deliveries(&strict, job).await[0]).is_empty()
        })
        .await;
        let delivery = deliveries(&strict, job).await[0].clone();
        assert_eq!((&delivery["state"], statuses(&delivery)), (&json!("pending"), vec![Value::Null]), "{delivery}");
    }
    assert!(receiver.now().is_none(), "0 requests out of all that were tried");
    strict.stop().await;
}

#[tokio::test]
async fn cloud_metadata_address_is_refused_by_name() {
    let server = Server::start_with(|config| {
        let all = "169.254.0.0/16,fe80::/10,fd00::/8,168.63.129.16,100.64.0.0/10";
        config.callback_allow = all.parse().expect("a list");
        config.outbound.push_allow = all.parse().expect("a list");
    })
    .await;
    for host in ["169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "168.63.129.16", "100.100.100.200"] {
        let url = format!("http://{host}/latest/");
        let callback = json!({"type": "a", "on_completed": {"url": url}});
        server.put("/api/v1/job-types/a", json!({})).await;
        server.post("/api/v1/jobs", callback).await.expect_problem(422, "url_not_allowed");
        let push = json!({"executor": {"kind": "push", "url": url}});
        server.put("/api/v1/job-types/b", push).await.expect_problem(422, "url_not_allowed");
    }
    server.stop().await;
}

#[tokio::test]
async fn internal_host_name_is_reported_like_an_unknown_host() {
    let server = Server::start_with(|config| {
        quick(config);
        config.callback_allow = "".parse().expect("a list");
    })
    .await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let mut bodies = Vec::new();
    // This machine's own name stands for an address that is not open; the other one for none.
    for host in [gethostname(), "treeline-nobody.invalid".to_owned()] {
        let job = done(&server, json!({"url": format!("http://{host}:39999/")})).await;
        until(async || {
            deliveries(&server, &job).await.first().is_some_and(|delivery| delivery["tries"][0]["error"].is_string())
        })
        .await;
        bodies.push(deliveries(&server, &job).await[0]["tries"][0]["error"].clone());
    }
    assert_eq!(bodies[0], bodies[1]);
    server.stop().await;
}

/// Name of this machine, which resolves to its own address.
fn gethostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name").trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_callback_receiver_does_not_delay_others() {
    let server = quick_server().await;
    let (mut slow, mut fast) = (Receiver::start().await, Receiver::start().await);
    for _ in 0..30 {
        done(&server, json!({"url": slow.url("/")})).await;
    }
    let mut hanging = vec![slow.next().await];
    let mut jobs = Vec::new();
    for _ in 0..10 {
        jobs.push(done(&server, json!({"url": fast.url("/")})).await);
    }
    for _ in &jobs {
        fast.next().await.status(200);
    }
    for job in &jobs {
        once(&server, job, "delivered").await;
    }
    while let Some(post) = slow.now() {
        hanging.push(post);
    }
    // The first ones have not even timed out, or the next few have taken their place: never more at once.
    assert!(hanging.len() <= 16, "{} posts to one host", hanging.len());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_send_each_callback_once() {
    let waiting = |config: &mut Config| {
        quick(config);
        config.outbound.callback_timeout_seconds = 60.0;
    };
    let server = Server::start_with(waiting).await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let second = server.another_with(waiting).await;
    let mut receiver = Receiver::start().await;
    let mut jobs = Vec::new();
    for n in 0..40 {
        let api: &Api = if n % 2 == 0 { &server } else { &second };
        jobs.push(id(&done(api, json!({"url": receiver.url("/")})).await));
    }
    let mut called_jobs = Vec::new();
    for _ in &jobs {
        let post = receiver.next().await;
        called_jobs.push(post.json()["data"]["job_id"].as_str().expect("an id").to_owned());
        post.status(200);
    }
    called_jobs.sort();
    jobs.sort();
    assert_eq!(called_jobs, jobs);
    until(async || server.get("/api/v1/deliveries?state=pending").await.expect(200)["data"][0].is_null()).await;
    assert!(receiver.now().is_none());
    second.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callback_is_repeated_unchanged_after_crash_before_record() {
    let server = quick_server().await;
    let mut receiver = Receiver::start().await;
    let job =
        server.post("/api/v1/jobs", json!({"type": "a", "on_completed": {"url": receiver.url("/")}})).await.expect(201);
    // Only the program posts.
    server.running.app.shutdown.cancel();
    let environment = [("TREELINE_CALLBACK_ALLOW", "127.0.0.1"), ("TREELINE_CALLBACK_TIMEOUT_SECONDS", "1")];
    let program = server.spawn_program_with(&environment).await;
    program.api.post(&format!("/api/v1/jobs/{}/seal", id(&job)), json!({})).await.expect(200);
    let first = receiver.next().await;
    // Killed (-9) while the receiver has the message and nobody has recorded that.
    drop(program);
    let next = server.another_with(quick).await;
    let second = receiver.next().await;
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
    assert_eq!(first.body, second.body);
    second.status(200);
    let delivery = once(&next, &job, "delivered").await;
    assert_eq!(statuses(&delivery), [json!(200)]);
    next.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tree_is_retained_until_its_callback_is_delivered() {
    let server = server_for_late_answers().await;
    let mut receiver = Receiver::start().await;
    server.put("/api/v1/job-types/brief", json!({"retain_seconds": 0})).await.expect(201);
    let job = json!({"type": "brief", "sealed": true, "on_completed": {"url": receiver.url("/"), "secret": "s3cret-of-the-owner"}});
    let job = server.post("/api/v1/jobs", job).await.expect(201);
    let path = format!("/api/v1/jobs/{}", id(&job));
    let post = receiver.next().await;
    until(async || {
        let looked =
            "select count(*) from maintenance_check where next_check_at > clock_timestamp() + interval '50 seconds'";
        sqlx::query_scalar::<_, i64>(looked).fetch_one(&server.running.app.pool).await.expect("a count") > 0
    })
    .await;
    server.get(&path).await.expect(200);
    post.status(200);
    once(&server, &job, "delivered").await;
    server.delete(&path).await.expect(204);
    server.get(&path).await.expect_problem(410, "job_removed");
    let delivery = deliveries(&server, &job).await[0].clone();
    assert_eq!(delivery["state"], "delivered", "it outlives the tree");
    server.post(&format!("/api/v1/deliveries/{}/resend", id(&delivery)), json!({})).await.expect(200);
    let again = receiver.next().await;
    assert!(again.is_signed_by(b"s3cret-of-the-owner") && again.json()["data"]["job_id"] == job["id"]);
    again.status(200);
    until(async || deliveries(&server, &job).await[0]["state"] == "delivered").await;

    sqlx::query("update delivery set deleted_at = deleted_at - interval '31 days'")
        .execute(&server.running.app.pool)
        .await
        .expect("a month goes by");
    server.running.app.engine.delete_expired_records().await.expect("it forgets");
    server.get(&format!("{path}/deliveries")).await.expect_problem(410, "job_removed");
    server.get(&format!("/api/v1/deliveries?job={}", id(&job))).await.expect(200);
    let left = "select (select count(*) from delivery) + (select count(*) from delivery_try)";
    let left: i64 = sqlx::query_scalar(left).fetch_one(&server.running.app.pool).await.expect("a count");
    assert_eq!(left, 0);
    server.stop().await;
}

#[tokio::test]
async fn callback_deliveries_are_listed_and_resent_by_people() {
    let server = quick_server().await;
    let mut receiver = Receiver::start().await;
    let (ada, sam) = (server.person("ada", "user").await, server.person("sam", "support").await);
    let job = done(&ada, json!({"url": receiver.url("/hook?key=s3cret")})).await;
    receiver.next().await.text(410, "<b>gone</b>");
    let delivery = once(&ada, &job, "failed").await;
    let (page, of_job) = (format!("/deliveries/{}", id(&delivery)), format!("/jobs/{}", id(&job)));

    let list = sam.get("/deliveries?state=failed").await;
    assert!(list.status == 200 && list.text.contains(&page), "{}", list.text);
    assert!(list.text.contains("410 Gone: &lt;b&gt;gone&lt;/b&gt;") && !list.text.contains("s3cret"), "{}", list.text);
    assert!(!sam.get("/deliveries?state=pending").await.text.contains(&page));
    assert_eq!(sam.get("/deliveries?state=odd").await.status, 400);
    assert_eq!(ada.get("/deliveries").await.status, 403, "it shows everybody's");
    let own = ada.get(&of_job).await;
    assert!(own.text.contains("Webhooks") && own.text.contains(&format!("{page}/resend")), "{}", own.text);
    assert_eq!(ada.get(&page).await.status, 200);
    let overview = sam.get("/").await;
    assert!(overview.text.contains(&format!("{of_job}#callbacks")), "{}", overview.text);

    let resend = format!("{page}/resend");
    let refused = sam.form(&resend, &[("reason", " ")]).await;
    assert!(refused.status == 422 && refused.text.contains("A reason is required"), "{}", refused.text);
    let again = sam.form(&resend, &[("reason", "they asked for it")]).await;
    assert_eq!(again.status, 303);
    assert_eq!(again.headers["location"], format!("{page}?did=resent"));
    receiver.next().await.status(200);
    once(&ada, &job, "delivered").await;
    assert_eq!(ada.form(&resend, &[]).await.status, 303, "one's own takes no reason");
    receiver.next().await.status(200);
    let opened = sam.get(&resend).await;
    assert_eq!(opened.status, 303);
    assert_eq!(opened.headers["location"], format!("{page}?open=resend"));
    server.stop().await;
}
