//! Versions that overlap: a server of the previous version on a schema that the next one has migrated
//! (docs/how-to/upgrade.md). The rehearsal under load is F47.

use serde_json::json;

use crate::support::Server;

/// Records a migration that this version does not know, as a newer version would.
async fn record_newer(server: &Server, version: i64, description: &str) {
    let statement = "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
        values ($1, $2, true, '\\x00', 0)";
    let recorded = sqlx::query(statement).bind(version).bind(description).execute(&server.running.app.pool).await;
    recorded.expect("a migration of a newer version");
}

#[tokio::test]
async fn server_works_and_starts_on_the_expanded_schema_of_a_newer_version() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let tables = "select quote_ident(relname) from pg_class where relkind = 'r' and relnamespace = current_schema()::regnamespace";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&server.running.app.pool).await.expect("the tables");
    assert!(tables.len() > 50, "{tables:?}");
    for table in tables.iter().filter(|table| *table != "_sqlx_migrations") {
        let statement = format!("alter table {table} add column of_a_newer_version text");
        let added = sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&server.running.app.pool).await;
        added.expect("a new column");
    }
    record_newer(&server, 9_000, "expand every table").await;

    // One that was there before, and one that starts now.
    let started = server.another().await;
    for (n, server) in [&server, &started].into_iter().enumerate() {
        let tree = json!({"type": "a", "name": n.to_string(), "sealed": true, "items": [{"payload": n}]});
        let job = server.post("/api/v1/jobs", tree).await.expect(201);
        let claim = json!({"worker_id": "w", "types": ["a"], "max": 1});
        let claimed = server.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0]["id"].clone();
        let assignment = format!("/api/v1/assignments/{}", claimed.as_str().expect("an id"));
        server.post(&format!("{assignment}/heartbeat"), json!({})).await.expect(200);
        server.post(&format!("{assignment}/result"), json!({"result": n})).await.expect(200);
        let path = format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"));
        assert_eq!(server.get(&path).await.expect(200)["counts"]["succeeded"], 1);
    }
    let listed = server.program(&["migrate", "--status"]).await;
    assert!(
        listed.contains("applied  0001  baseline") && listed.contains("newer    9000  expand every table"),
        "{listed}"
    );
    started.running.shutdown().await.expect("it stops");
    server.stop().await;
}

#[tokio::test]
async fn server_does_not_start_after_a_contract_that_needs_a_newer_version() {
    let server = Server::start().await;
    // This version has enough for the first contract, and not for the second.
    record_newer(&server, 9_000, "contract after 0001 drop what nobody uses").await;
    server.try_another_with(|_| {}).await.expect("it starts");
    record_newer(&server, 9_002, "contract after 9001 drop what this version needs").await;
    let refused = format!("{:#}", server.try_another_with(|_| {}).await.expect_err("it does not start"));
    assert!(refused.contains("no longer works with it since the migration 9002"), "{refused}");
    server.stop().await;
}
