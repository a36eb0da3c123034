//! Roles of a shared PostgreSQL, created by the commands in docs/postgres.md: the server works, and can change neither
//! the schema nor an audit entry.

use serde_json::json;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, postgres::PgConnectOptions};

use crate::support::{Api, Database, Server, run, until};

/// Code blocks of one language in the page.
fn blocks(language: &str) -> Vec<String> {
    let page = include_str!("../../../docs/postgres.md");
    let open = format!("```{language}\n");
    page.split(&open).skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// Error code of PostgreSQL.
async fn refusal(connection: &mut PgConnection, statement: &'static str) -> String {
    let refused = sqlx::raw_sql(statement).execute(connection).await.expect_err(statement);
    refused.as_database_error().and_then(sqlx::error::DatabaseError::code).expect("a refusal").into_owned()
}

#[tokio::test]
async fn server_role_cannot_change_audit_log_or_schema() {
    let database = Database::create().await;
    // Roles belong to the whole cluster: names of this story's own, and its own database.
    let suffix = database.name.replace("treeline_it_", "");
    let mine = |text: &str| {
        text.replace("treeline_owner", &format!("tl_owner_{suffix}"))
            .replace("treeline_app", &format!("tl_app_{suffix}"))
            .replace("database treeline", &format!("database {}", database.name))
    };
    let setup = blocks("sql");
    assert_eq!(setup.len(), 1, "one block sets everything up");
    run(&database.admin, format!("drop database {}", database.name)).await;
    for statement in mine(&setup[0]).split_terminator(";\n") {
        run(&database.admin, statement.to_owned()).await;
    }
    let url = |role: &str, password: &str| {
        let options: PgConnectOptions = database.admin.clone().database(&database.name);
        options.username(&mine(role)).password(password).to_url_lossy().to_string()
    };
    let (owner, app) = (url("treeline_owner", "owner-password"), url("treeline_app", "app-password"));
    let program = async |url: &str, arguments: &[&str]| {
        tokio::process::Command::new(env!("CARGO_BIN_EXE_treeline-server"))
            .args(arguments)
            .env("DATABASE_URL", url)
            .output()
            .await
            .expect("the program runs")
    };

    // Before the migrations a server of that role says what is missing.
    let early = program(&app, &["migrate"]).await;
    let stderr_text = String::from_utf8_lossy(&early.stderr).into_owned();
    assert!(!early.status.success() && stderr_text.contains("treeline-server migrate"), "{stderr_text}");

    let commands = blocks("sh");
    assert!(commands[0].contains("treeline-server migrate --app-role treeline_app"), "{}", commands[0]);
    for _ in 0..2 {
        let done = program(&owner, &["migrate", "--app-role", &mine("treeline_app")]).await;
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    let server = Server::on(database, |config| config.database_url = Some(app.parse().expect("a secret"))).await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": [{"payload": 1}]})).await;
    job.expect(201);
    let worker: Api = server.service("worker", &["work"]).await;
    let claim = json!({"worker_id": "w", "types": ["a"], "max": 1});
    let claimed = worker.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0]["id"].clone();
    let path = format!("/api/v1/assignments/{}/result", claimed.as_str().expect("an id"));
    worker.post(&path, json!({"result": {}})).await.expect(200);
    let audit = server.get("/api/v1/audit?action=job_type.create").await.expect(200);
    assert_eq!(audit["data"].as_array().expect("a list").len(), 1);

    let mut connection = PgConnection::connect(&app).await.expect("the role of the server");
    for statement in [
        "update audit set actor_name = 'nobody'",
        "delete from audit",
        "truncate audit",
        "alter table audit add column x int",
        "drop table audit",
        "drop table item",
        "create table mine (a int)",
        "insert into _sqlx_migrations select * from _sqlx_migrations",
        "alter table audit disable trigger all",
    ] {
        assert_eq!(refusal(&mut connection, statement).await, "42501", "{statement}");
    }
    connection.close().await.expect("it closes");
    let expired = program(&owner, &["expire-audit", "--older-than-days", "730"]).await;
    assert!(expired.status.success(), "{}", String::from_utf8_lossy(&expired.stderr));
    let refused = program(&app, &["expire-audit", "--older-than-days", "730"]).await;
    assert!(!refused.status.success());
    // A server that is to do it says that it cannot.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let log = std::fs::File::create(&path).expect("a file");
    let variables = [("DATABASE_URL", app.as_str()), ("TREELINE_AUDIT_RETAIN_DAYS", "730")];
    let second = server.spawn_program_logging_to(log.into(), &variables).await;
    let parts = ["WARN", "audit retention skipped", "treeline-server expire-audit"];
    until(async || {
        let text = std::fs::read_to_string(&path).expect("the log");
        text.lines().any(|line| parts.iter().all(|part| line.contains(part)))
    })
    .await;
    second.terminate().await;
    server.stop().await;
}
