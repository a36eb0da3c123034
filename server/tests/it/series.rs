//! Activity over time: the series equal what the database holds, per type and for all types together.

use serde_json::{Value, json};

use crate::{
    lists::{claim, id, job, sql},
    support::{
        Api, Server,
        imports::{complete, import, upload},
    },
};

/// Sum of a series' values, and its answer.
async fn series(api: &Api, query: &str) -> (i64, Value) {
    let answer = api.get(&format!("/api/v1/stats/series?{query}")).await.expect(200);
    let sum =
        answer["data"].as_array().expect("data").iter().map(|point| point["value"].as_i64().expect("a value")).sum();
    (sum, answer)
}

async fn count(server: &Server, statement: &'static str) -> i64 {
    sqlx::query_scalar(statement).fetch_one(&server.running.app.pool).await.expect("a count")
}

async fn end(server: &Server, assignment: &Value, verb: &str, body: Value) {
    server.post(&format!("/api/v1/assignments/{}/{verb}", id(assignment)), body).await.expect(200);
}

#[tokio::test]
async fn series_match_counted_rows() {
    let server = Server::start().await;
    let backoff = json!({"min_seconds": 0, "max_seconds": 0, "jitter": false});
    server.put("/api/v1/job-types/a", json!({"max_failures": 2, "backoff": backoff})).await.expect(201);
    server.put("/api/v1/job-types/b", json!({})).await.expect(201);
    let items: Vec<Value> = (0..8).map(|n| json!({"payload": n})).collect();
    let tree = job(&server, json!({"type": "a", "items": items})).await;
    job(&server, json!({"type": "b", "items": [{"payload": 1}]})).await;
    // Two unreadable rows are failed items from the start.
    let file = upload(&server, "rows.csv", "n\n1\n2,two\n3\n4,four\n").await;
    complete(&server, &import(&server, "import", &file).await).await;
    assert_eq!(series(&server, "metric=dead&type=import").await.0, 2);
    let rows = series(&server, "metric=added&type=import").await.0;
    assert_eq!(rows, 4);

    let claimed = claim(&server, "w", &["a"], 6).await;
    for assignment in &claimed[..4] {
        end(&server, assignment, "result", json!({"result": {}})).await;
    }
    let failure = json!({"error": {"message": "no"}, "retry_after_seconds": 0});
    end(&server, &claimed[4], "failure", failure.clone()).await;
    end(&server, &claimed[5], "failure", json!({"error": {"message": "never"}, "retryable": false})).await;
    let dead = claimed[5]["item"]["id"].as_str().expect("an id");
    server.post(&format!("/api/v1/items/{dead}/retry"), json!({})).await.expect(200);
    let replayed = claimed[0]["item"]["id"].as_str().expect("an id");
    server.post(&format!("/api/v1/items/{replayed}/replay"), json!({})).await.expect(201);
    let again = claim(&server, "w", &["a"], 20).await;
    end(&server, &again[0], "release", json!({})).await;
    server.post(&format!("/api/v1/jobs/{}/cancel", id(&tree)), json!({})).await;

    let (added, answer) = series(&server, "metric=added&type=a").await;
    assert_eq!(
        added,
        count(
            &server,
            "select count(*) from item i join job j using (job_key)
        join job_type t on t.id = j.type_id where t.name = 'a'"
        )
        .await
    );
    assert_eq!((&answer["metric"], &answer["type"], &answer["step"]), (&json!("added"), &json!("a"), &json!("minute")));
    assert_eq!(answer["data"].as_array().map(Vec::len), Some(60));
    assert_eq!(answer["bounds"], json!([]));
    assert_eq!(series(&server, "metric=added").await.0, added + rows + 1, "all types together");
    assert_eq!(series(&server, "metric=added&type=unknown").await.0, 0);

    let succeeded = series(&server, "metric=succeeded&type=a").await.0;
    assert_eq!(
        succeeded,
        count(
            &server,
            "select count(*) from outcome join job using (job_key)
        join job_type t on t.id = type_id where state = 1 and t.name = 'a'"
        )
        .await
    );
    // One that failed for good was retried, so it counts as dead once and as retried once.
    let dead = series(&server, "metric=dead&type=a").await.0 - series(&server, "metric=retried&type=a").await.0;
    assert_eq!(
        dead,
        count(
            &server,
            "select count(*) from outcome join job using (job_key)
        join job_type t on t.id = type_id where state = 2 and t.name = 'a'"
        )
        .await
    );
    assert_eq!(series(&server, "metric=failed&type=a").await.0, 2, "two attempts failed");

    let (runs, answer) = series(&server, "metric=run&type=a").await;
    assert_eq!(runs, 6, "four results and two failures; a release is neither");
    let point = answer["data"].as_array().expect("data").iter().find(|point| point["value"] != 0).expect("a point");
    assert_eq!(point["buckets"].as_array().map(Vec::len), answer["bounds"].as_array().map(|bounds| bounds.len() + 1));
    assert!(point["p50"].as_f64() <= point["p95"].as_f64(), "{point}");
    let waits = series(&server, "metric=wait&type=a").await.0;
    assert_eq!(waits, count(&server, "select count(distinct item_id) from (select item_id, job_key from lease
        union all select item_id, job_key from attempt union all select item_id, job_key from outcome where attempt > 0) as started
        join job using (job_key) join job_type t on t.id = type_id where t.name = 'a'").await);

    for step in ["hour", "day"] {
        let (sum, answer) = series(&server, &format!("metric=added&type=a&step={step}")).await;
        assert_eq!((sum, &answer["step"]), (added, &json!(step)));
    }
    server.stop().await;
}

#[tokio::test]
async fn series_has_every_point_and_old_points_are_deleted() {
    let server = Server::start().await;
    let other = server.service("other", &["jobs:read"]).await;
    sql(
        &server,
        "insert into type_history (type_name, step, starts_at, n_added)
         values ('a', 2, '2026-03-29T00:00:00Z', 5), ('b', 2, '2026-03-29T02:00:00Z', 7),
           ('a', 1, clock_timestamp() - interval '49 hours', 1), ('a', 3, clock_timestamp() - interval '700 days', 2)"
            .into(),
    )
    .await;
    let span = "from=2026-03-29T00:30:00Z&to=2026-03-29T03:00:00Z&step=hour";
    let (_, answer) = series(&server, &format!("metric=added&{span}")).await;
    let values: Vec<&Value> = answer["data"].as_array().expect("data").iter().map(|point| &point["value"]).collect();
    assert_eq!(values, [&json!(5), &json!(0), &json!(7)]);
    assert_eq!((&answer["from"], &answer["to"]), (&json!("2026-03-29T00:00:00Z"), &json!("2026-03-29T03:00:00Z")));
    assert_eq!(answer["data"][1]["at"], "2026-03-29T01:00:00Z");

    server.running.app.engine.delete_old_activity().await.expect("deletes");
    let left: i64 = count(&server, "select count(*) from type_history where step = 1").await;
    assert_eq!(left, 0, "minutes are kept for 48 hours");
    assert_eq!(count(&server, "select count(*) from type_history where step = 3").await, 1, "days for two years");

    for query in ["", "metric=speed", "metric=added&step=week", "metric=added&from=x", "metric=added&size=1"] {
        let problem =
            server.get(&format!("/api/v1/stats/series?{query}")).await.expect_problem(400, "invalid_parameter");
        assert!(problem["errors"][0]["pointer"].is_string() || problem["detail"].is_string(), "{problem}");
    }
    let two_days = (time::OffsetDateTime::now_utc() - time::Duration::hours(48))
        .format(&time::format_description::well_known::Rfc3339)
        .expect("a time");
    let (_, answer) = series(&server, &format!("metric=added&step=minute&from={two_days}")).await;
    assert!(answer["data"].as_array().is_some_and(|data| data.len() >= 2_880), "all that is stored, in one request");
    let long = "metric=added&from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z";
    server.get(&format!("/api/v1/stats/series?{long}")).await.expect_problem(400, "invalid_parameter");
    other.get("/api/v1/stats/series?metric=added").await.expect_problem(403, "forbidden");
    server.stop().await;
}

#[tokio::test]
async fn activity_chart_has_an_equal_table() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let items: Vec<Value> = (0..1_234).map(|n| json!({"payload": n})).collect();
    job(&server, json!({"type": "a", "items": items})).await;
    let admin = server.person("ada", "admin").await;
    for path in ["/", "/?range=48h", "/?range=30d", "/?range=nonsense", "/types/a", "/types/a?range=48h"] {
        let html = admin.get(path).await.text;
        assert!(html.contains("<b>1,234<") && html.contains("data-label=\"Added\" class=\"num\">1,234<"), "{path}");
        assert!(html.contains("id=\"throughput\"") && html.contains("id=\"durations\""), "{path}");
    }
    server.stop().await;
}
