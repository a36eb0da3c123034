//! Imports from the upload to the list of failures, with all kinds of errors.

use std::fmt::Write as _;

use reqwest::{Method, header::CONTENT_TYPE, multipart};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{
    Answer, Api, Server,
    imports::{complete, import, lines, upload},
};

fn table(rows: std::ops::Range<u32>) -> String {
    rows.fold("id,name\n".to_owned(), |mut text, row| {
        let _ = writeln!(text, "{row},name {row}");
        text
    })
}

#[tokio::test]
async fn failed_rows_are_downloaded_as_table_and_reimported() {
    let server = Server::start().await;
    let mut file = b"id;name;sum\n1;Ada;=1+1\n2;one;too;many\n3;few\n4;caf\xC3;1\n5;\"open;1\n6;Bob;-5\n".to_vec();
    file.extend(b"\n7;\"two\nlines\";2\n");
    let id = upload(&server, "people.csv", file).await;
    let preview = server.get(&format!("/api/v1/uploads/{id}/preview")).await.expect(200);
    assert_eq!((&preview["delimiter"], &preview["columns"]), (&json!(";"), &json!(["id", "name", "sum"])));
    assert_eq!(preview["rows"][0]["cells"], json!(["1", "Ada", "=1+1"]));
    assert_eq!(preview["rows"][1]["problem"], "Line 3, column 4: expected 3 fields, found 4.");

    let job = import(&server, "import", &id).await;
    assert_eq!((&job["expected_count"], &job["upload_id"]), (&json!(7), &json!(id)));
    let job = complete(&server, &job).await;
    assert_eq!(job["message"], "Job complete, 4 of 7 failed");
    let results = lines(&server, &job, "results").await;
    assert_eq!(results.iter().map(|line| line["row"].as_i64()).collect::<Vec<_>>(), [Some(2), Some(7), Some(9)]);
    assert_eq!(results[2]["result"], json!({"id": "7", "name": "two\nlines", "sum": "2"}));

    let path = format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"));
    let failures = server.get(&format!("{path}/failures?format=csv")).await;
    assert_eq!(failures.headers["x-content-type-options"], "nosniff");
    let expected = "id;name;sum;_line;_code;_problem\n\
        2;one;too;3;too_many_fields;Line 3, column 4: expected 3 fields, found 4.;many\n\
        3;few;;4;too_few_fields;Line 4, column 3 (sum): expected 3 fields, found 2.\n";
    assert!(failures.text.starts_with(expected), "{}", failures.text);
    assert_eq!(failures.text.lines().count(), 5);
    let good = server.get(&format!("{path}/results?format=csv")).await.text;
    assert!(good.contains("\n2;1;Ada;'=1+1;\n") && good.contains("\n7;6;Bob;-5;\n"), "{good}");

    // Mended in a spreadsheet and uploaded again: the rows keep the numbers they had.
    let mended = failures.text.replace(";few;;", ";few;'=3;").replace(".;many", ".;");
    let mended =
        mended.replace(";Incomplete: empty this cell once the row is whole", "").replace("caf\u{FFFD}", "caf\u{e9}");
    let again = upload(&server, "mended.csv", mended).await;
    let again = complete(&server, &import(&server, "import", &again).await).await;
    assert_eq!(again["outcome"], "succeeded");
    let results = lines(&server, &again, "results").await;
    assert_eq!(
        results.iter().map(|line| line["row"].as_i64()).collect::<Vec<_>>(),
        [Some(3), Some(4), Some(5), Some(6)]
    );
    assert_eq!(results[1]["payload"], json!({"id": "3", "name": "few", "sum": "=3"}));
    server.stop().await;
}

#[tokio::test]
async fn schema_violations_name_the_column() {
    let server = Server::start().await;
    let schema = json!({"properties": {"age": {"type": "integer", "minimum": 0}, "ok": {"type": "boolean"}},
                        "required": ["name"]});
    let validate = json!({"payload_schema": schema, "executor": {"kind": "builtin", "name": "validate"}});
    server.put("/api/v1/job-types/people", validate).await.expect(201);
    server.put("/api/v1/job-types/pulled", json!({"payload_schema": schema})).await.expect(201);
    let file = "name,age,ok\nAda,36,true\nBob,old,true\nCy,-1,false\nDi,41,maybe\n";
    let id = upload(&server, "people.csv", file).await;

    let job = complete(&server, &import(&server, "people", &id).await).await;
    let good = lines(&server, &job, "results").await;
    assert_eq!(good.len(), 1);
    assert_eq!(good[0]["result"], json!({"name": "Ada", "age": 36, "ok": true}));
    let message = |line: &Value| line["error"]["message"].as_str().expect("a message").to_owned();
    let bad: Vec<String> = lines(&server, &job, "failures").await.iter().map(message).collect();
    assert_eq!(
        bad,
        [
            "Line 3, column age: expected a whole number, found \"old\".",
            "Line 4, column age: expected at least 0, found -1.",
            "Line 5, column ok: expected true or false, found \"maybe\".",
        ]
    );

    // Where workers pull, what does not fit never reaches them.
    let job = import(&server, "pulled", &id).await;
    let claim = json!({"worker_id": "w", "types": ["pulled"], "max": 10, "wait_seconds": 10});
    let claimed = server.post("/api/v1/assignments", claim).await.expect(200);
    assert_eq!(claimed["assignments"].as_array().map(Vec::len), Some(1));
    let bad = lines(&server, &job, "failures").await;
    assert_eq!(message(&bad[0]), "Line 3, column 2 (age): expected a whole number, found \"old\".");
    assert_eq!((bad.len(), &bad[0]["error"]["kind"]), (3, &json!("invalid_row")));
    server.stop().await;
}

#[tokio::test]
async fn ndjson_lines_are_returned_byte_for_byte() {
    let server = Server::start().await;
    let file = "{\"n\":9007199254740993, \"x\":1.10}\n{\"a\":1,\"a\":2}\n[1e400]\n";
    let id = upload(&server, "numbers.ndjson", file).await;
    let job = complete(&server, &import(&server, "import", &id).await).await;
    let path = format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"));
    let text = server.get(&format!("{path}/results")).await.text;
    assert!(text.contains(r#""result":{"n":9007199254740993, "x":1.10}"#), "{text}");
    assert!(text.contains(r#""payload":[1e400]"#), "{text}");
    assert_eq!(lines(&server, &job, "failures").await[0]["error"]["kind"], "invalid_json");

    // A stream goes on behind any item.
    let first: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    let after = format!("{path}/results?after={}", first["item_id"].as_str().expect("an id"));
    assert_eq!(server.get(&after).await.text, text.lines().nth(1).expect("a line").to_owned() + "\n");
    server
        .get(&format!("{path}/results?after={}", job["id"].as_str().expect("an id")))
        .await
        .expect_problem(400, "invalid_parameter");
    server.stop().await;
}

#[tokio::test]
async fn files_without_rows_are_refused_at_job_creation() {
    let server = Server::start().await;
    for (name, content, code) in [
        ("empty.csv", &b""[..], "no_rows"),
        ("header.csv", b"id,name\n", "no_rows"),
        ("blank.ndjson", b"\n \n", "no_rows"),
        ("double.csv", b"id,id\n1,2\n", "bad_header"),
        ("nameless.csv", b"id,,x\n1,2,3\n", "bad_header"),
        ("nul.csv", b"i\0d,x\n1,2\n", "bad_header"),
        ("wide.csv", b"i\0d\0\n\0", "no_rows"),
    ] {
        let id = upload(&server, name, content.to_vec()).await;
        let job = json!({"type": "import", "upload": {"id": id}});
        server.post("/api/v1/jobs", job).await.expect_problem(422, code);
        let preview = server.get(&format!("/api/v1/uploads/{id}/preview")).await.expect(200);
        assert!(preview["problem"].as_str().is_some_and(|problem| problem.starts_with(code)), "{preview}");
        server.delete(&format!("/api/v1/uploads/{id}")).await.expect(204);
        server.get(&format!("/api/v1/uploads/{id}")).await.expect_problem(404, "not_found");
    }
    server.stop().await;
}

#[tokio::test]
async fn invalid_upload_body_is_refused_without_residue() {
    let server = Server::start_with(|config| config.upload_limit = "1MiB".parse().expect("a size")).await;
    let path = "/api/v1/uploads";
    server.post_text(path, "text/csv", "a\n1\n").await.expect_problem(415, "unsupported_media_type");
    server.post(path, json!({"file": 1})).await.expect_problem(415, "unsupported_media_type");
    server
        .post_text("/api/v1/uploads?filename=a.png", "image/png", "x")
        .await
        .expect_problem(415, "unsupported_media_type");
    server
        .post_text("/api/v1/uploads?filename=a.xlsx", "application/octet-stream", "PK\u{3}\u{4}x")
        .await
        .expect_problem(415, "unsupported_media_type");
    server.post_text(path, "multipart/form-data", "x").await.expect_problem(415, "unsupported_media_type");
    server
        .post_text(path, "multipart/form-data; boundary=b", "--b\r\nrubbish")
        .await
        .expect_problem(422, "invalid_body");
    let gzip = server.request(Method::POST, "/api/v1/uploads?filename=a.csv").header("content-encoding", "gzip");
    Answer::of(gzip.header(CONTENT_TYPE, "text/csv").body("x")).await.expect_problem(415, "unsupported_media_type");
    server
        .post_text("/api/v1/uploads?filename=a.csv", "text/csv", vec![b'x'; 2 << 20])
        .await
        .expect_problem(413, "too_large");
    let form = |part| multipart::Form::new().text("note", "x").part("file", part);
    let large = multipart::Part::bytes(vec![b'x'; (1 << 20) + 1]).file_name("a.csv");
    Answer::of(server.request(Method::POST, path).multipart(form(large))).await.expect_problem(413, "too_large");
    Answer::of(server.request(Method::POST, path).multipart(multipart::Form::new().text("note", "x")))
        .await
        .expect_problem(422, "invalid_body");

    // Half an upload: the connection goes, the file with it.
    let mut socket = tokio::net::TcpStream::connect(server.running.addr).await.expect("connect");
    let request = format!(
        "POST /api/v1/uploads?filename=half.csv HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: text/csv\r\ncontent-length: 100000\r\n\r\nid,name\n1,",
        crate::support::TOKEN
    );
    socket.write_all(request.as_bytes()).await.expect("send");
    socket.shutdown().await.expect("half closed");
    let mut answer = String::new();
    let _ = socket.read_to_string(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    let whole = multipart::Part::bytes(b"id\n1\n".to_vec()).file_name("../../b.csv");
    let stored = Answer::of(server.request(Method::POST, path).multipart(form(whole))).await;
    assert_eq!(stored.headers["location"], format!("{path}/{}", stored.json()["id"].as_str().expect("an id")));
    assert_eq!(stored.expect(201)["filename"], "b.csv");
    let folder = server.running.app.config.data_dir().expect("a folder").join("files");
    let stored_files: Vec<_> = std::fs::read_dir(folder)
        .expect("files")
        .map(|file| file.expect("a file").file_name().into_string().expect("text"))
        .filter(|name| name.parse::<uuid::Uuid>().is_ok())
        .collect();
    assert_eq!(stored_files.len(), 1, "{stored_files:?}");
    server.stop().await;
}

#[tokio::test]
async fn upload_is_visible_to_owner_and_staff_only() {
    let server = Server::start().await;
    let mine = server.service("mine", &["jobs:read", "jobs:write"]).await;
    let theirs = server.service("theirs", &["jobs:read", "jobs:write"]).await;
    let content = "id\n1\n";
    let id = upload(&mine, "a%20%22b%22.csv", content).await;
    let path = format!("/api/v1/uploads/{id}");
    let got = mine.get(&format!("{path}/content")).await;
    assert_eq!((got.status.as_u16(), got.text.as_str()), (200, content));
    let disposition = got.headers["content-disposition"].to_str().expect("text");
    assert_eq!(disposition, "attachment; filename=\"a _b_.csv\"; filename*=UTF-8''a%20%22b%22.csv");
    for part in ["", "/content", "/preview"] {
        theirs.get(&format!("{path}{part}")).await.expect_problem(404, "not_found");
    }
    theirs.delete(&path).await.expect_problem(404, "not_found");
    theirs.post("/api/v1/jobs", json!({"type": "import", "upload": {"id": id}})).await.expect_problem(404, "not_found");
    server.get(&path).await.expect(200);
    let job = complete(&mine, &import(&mine, "import", &id).await).await;
    let results = format!("/api/v1/jobs/{}/results", job["id"].as_str().expect("an id"));
    theirs.get(&results).await.expect_problem(404, "not_found");
    mine.delete(&path).await.expect_problem(409, "upload_in_use");
    server.stop().await;
}

#[tokio::test]
async fn two_servers_split_one_file_without_duplicate_rows() {
    let server = Server::start().await;
    let other = server.another().await;
    let id = upload(&server, "rows.csv", table(0..20_000)).await;
    let job = import(&server, "import", &id).await;
    // One of them goes in the middle of it.
    let cut = complete_at_least(&server, &job, 1_000).await;
    assert!(cut["item_count"].as_i64() >= Some(1_000));
    other.stop().await;
    let job = complete(&server, &job).await;
    assert_eq!((&job["item_count"], &job["counts"]["succeeded"]), (&json!(20_000), &json!(20_000)));
    let results = lines(&server, &job, "results").await;
    assert_eq!(results.len(), 20_000);
    let ids: Vec<usize> = results.iter().filter_map(|line| line["payload"]["id"].as_str()?.parse().ok()).collect();
    assert_eq!(ids, (0..20_000).collect::<Vec<_>>(), "once each, in order");
    server.stop().await;
}

#[tokio::test]
async fn file_of_an_expired_job_is_read_to_its_end() {
    let server = Server::start().await;
    let id = upload(&server, "rows.csv", table(0..20_000)).await;
    let job = json!({"type": "import", "upload": {"id": id}, "expires_at": "2020-01-01T00:00:00Z"});
    let job = complete(&server, &server.post("/api/v1/jobs", job).await.expect(201)).await;
    assert_eq!((&job["counts"]["expired"], &job["outcome"]), (&json!(20_000), &json!("failed")));
    server.stop().await;
}

/// Waits until the job has at least `items` items.
async fn complete_at_least(caller: &Api, job: &Value, items: i64) -> Value {
    let path = format!("/api/v1/jobs/{}?wait_seconds=30", job["id"].as_str().expect("an id"));
    loop {
        let job = caller.get(&path).await.expect(200);
        if job["item_count"].as_i64() >= Some(items) || job["status"] == "completed" {
            return job;
        }
    }
}

#[tokio::test]
async fn small_import_is_not_delayed_by_a_large_one() {
    let server = Server::start().await;
    let long = upload(&server, "long.csv", table(0..30_000)).await;
    let long = import(&server, "import", &long).await;
    complete_at_least(&server, &long, 2_000).await;
    let short = upload(&server, "short.csv", table(0..10)).await;
    complete(&server, &import(&server, "import", &short).await).await;
    let path = format!("/api/v1/jobs/{}", long["id"].as_str().expect("an id"));
    let long_now = server.get(&path).await.expect(200);
    assert!(long_now["item_progress"].as_i64() < Some(25_000), "{long_now}");
    complete(&server, &long).await;
    server.stop().await;
}

#[tokio::test]
async fn upload_deleted_during_job_creation_is_refused() {
    let server = Server::start().await;
    let id = upload(&server, "late.csv", "id\n1\n").await;
    let pool = &server.running.app.pool;
    let mut tx = pool.begin().await.expect("a transaction");
    sqlx::query("delete from upload where id = $1::uuid").bind(&id).execute(&mut *tx).await.expect("about to go");
    let created = server.post("/api/v1/jobs", json!({"type": "import", "upload": {"id": id}}));
    let deletion = async {
        // The job has read the file and waits for what becomes of it.
        let waits = "select exists (select 1 from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock')";
        while !sqlx::query_scalar::<_, bool>(waits).fetch_one(pool).await.expect("yes or no") {}
        tx.commit().await.expect("gone");
    };
    let (created, ()) = tokio::join!(created, deletion);
    created.expect_problem(404, "not_found");
    server.stop().await;
}
