//! Exports: a job that writes the rows of another one to a file.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::Row as _;

use crate::{
    bulk::{claim, id, id as id_of, kill},
    support::{
        Api, Server,
        imports::{complete, import, lines, upload},
        until,
        xlsx::workbook,
    },
};

/// Runs an export of a job; returns the item.
async fn export(caller: &Api, order: Value) -> Value {
    let job = json!({"type": "export", "sealed": true, "items": [{"payload": order}]});
    let job = caller.post("/api/v1/jobs", job).await.expect(201);
    let job = complete(caller, &job).await;
    let id = job["id"].as_str().expect("an id");
    let items = caller.get(&format!("/api/v1/items?job={id}")).await.expect(200);
    caller.get(&format!("/api/v1/items/{}", items["data"][0]["id"].as_str().expect("an id"))).await.expect(200)
}

async fn content(caller: &Api, item: &Value) -> String {
    assert_eq!(item["state"], "succeeded", "{item}");
    let id = item["result"]["upload_id"].as_str().expect("an upload");
    let answer = caller.get(&format!("/api/v1/uploads/{id}/content")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(item["result"]["bytes"], answer.text.len());
    answer.text
}

#[tokio::test]
async fn results_failures_and_items_are_downloaded_as_files() {
    let server = Server::start().await;
    let mine = server.service("mine", &["jobs:read", "jobs:write"]).await;
    let id = upload(&mine, "people.csv", "id,sum\n1,=1+1\n2\n3,-5\n").await;
    let job = complete(&mine, &import(&mine, "import", &id).await).await;
    let job_id = job["id"].as_str().expect("an id");

    for (what, format) in [("results", "csv"), ("results", "ndjson"), ("failures", "csv"), ("failures", "ndjson")] {
        let item = export(&mine, json!({"job_id": job_id, "what": what, "format": format})).await;
        let streamed = mine.get(&format!("/api/v1/jobs/{job_id}/{what}?format={format}")).await.text;
        assert_eq!(content(&mine, &item).await, streamed, "{what} as {format}");
        assert_eq!(item["result"]["rows"], if what == "results" { 2 } else { 1 });
    }
    let item = export(&mine, json!({"job_id": job_id, "what": "items", "format": "csv"})).await;
    let expected = "_line,id,sum,_state,_result,_code,_problem\n2,1,'=1+1,succeeded,,,\n\
        3,2,,dead,,too_few_fields,\"Line 3, column 2 (sum): expected 2 fields, found 1.\"\n4,3,-5,succeeded,,,\n";
    assert_eq!(content(&mine, &item).await, expected);
    let item = export(&mine, json!({"job_id": job_id, "what": "items"})).await;
    let text = content(&mine, &item).await;
    let second: Value = serde_json::from_str(text.lines().nth(1).expect("a line")).expect("JSON");
    assert_eq!((&second["state"], &second["error"]["kind"]), (&json!("dead"), &json!("too_few_fields")));

    // The file is its owner's, and stays as long as the export.
    let file = format!("/api/v1/uploads/{}", item["result"]["upload_id"].as_str().expect("an upload"));
    assert_eq!(mine.get(&file).await.expect(200)["filename"], "import-items.ndjson");
    mine.delete(&file).await.expect_problem(409, "upload_in_use");
    server.service("theirs", &["jobs:read"]).await.get(&file).await.expect_problem(404, "not_found");

    // That of an export whose outcome was refused goes, except if a job was created from it.
    let app = &server.running.app;
    let remove = async |item: &Value| {
        let id = item["result"]["upload_id"].as_str().and_then(|id| id.parse().ok()).expect("an upload");
        server::uploads::delete_exported(&app.pool, &app.files, id).await.expect("no failure");
        mine.get(&format!("/api/v1/uploads/{id}/content")).await.status
    };
    assert_eq!(remove(&item).await, 404);
    let item = export(&mine, json!({"job_id": job_id, "what": "items", "format": "csv"})).await;
    import(&mine, "import", item["result"]["upload_id"].as_str().expect("an upload")).await;
    assert_eq!(remove(&item).await, 200);
    server.stop().await;
}

/// A download that is given up in the middle of a statement must leave no transaction open, in which the writes of the next
/// request would be lost.
#[tokio::test]
async fn aborted_downloads_leave_no_open_transaction() {
    let server = Server::start().await;
    let csv = (0..2_000).fold("id\n".to_owned(), |csv, n| csv + &format!("{n}\n"));
    let job = complete(&server, &import(&server, "import", &upload(&server, "ids.csv", csv).await).await).await;
    let path = format!("/api/v1/jobs/{}/results", job["id"].as_str().expect("an id"));
    for n in 0..200 {
        let download = server.get(&path);
        let _aborted = tokio::time::timeout(Duration::from_micros(500 + 61 * n), download).await;
    }
    let pool = &server.running.app.pools.read;
    let connections = (0..pool.options().get_max_connections()).map(|_| pool.acquire());
    for mut connection in futures::future::try_join_all(connections).await.expect("connections") {
        let now = sqlx::raw_sql("select now() = statement_timestamp()").fetch_one(&mut *connection).await;
        let is_outside: bool = now.expect("an open connection").get(0);
        assert!(is_outside, "a connection came back with an open transaction");
    }
    server.stop().await;
}

#[tokio::test]
async fn tables_are_downloaded_as_a_workbook() {
    let server = Server::start().await;
    let mine = server.service("mine", &["jobs:read", "jobs:write"]).await;
    let id = upload(&mine, "people.csv", "id,sum\n007,=1+1\n2\n3,-5\n").await;
    let job = complete(&mine, &import(&mine, "import", &id).await).await;
    let job_id = job["id"].as_str().expect("an id");
    let cells = |bytes: Vec<u8>| {
        let part = |name: &str| {
            let mut archive = zip::ZipArchive::new(std::io::Cursor::new(&bytes)).expect("an archive");
            std::io::read_to_string(archive.by_name(name).expect(name)).expect("text")
        };
        part("xl/worksheets/sheet1.xml")
    };
    let address = format!("/api/v1/jobs/{job_id}/results?format=xlsx");
    let answer = mine.request(reqwest::Method::GET, &address).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let disposition = answer.headers()["content-disposition"].to_str().expect("text").to_owned();
    assert!(disposition.contains("import-results.xlsx"), "{disposition}");
    let sheet = cells(answer.bytes().await.expect("bytes").to_vec());
    // Text stays text, so nothing is executed; the number of the line is a number.
    assert!(sheet.contains("<t>007</t>") && sheet.contains("<t>=1+1</t>") && !sheet.contains("<f>"), "{sheet}");
    assert!(sheet.contains("<v>2</v>"), "{sheet}");

    // Failed rows come back as an import of the same columns.
    let item = export(&mine, json!({"job_id": job_id, "what": "failures", "format": "xlsx"})).await;
    assert_eq!(item["result"]["rows"], 1, "{item}");
    let file = item["result"]["upload_id"].as_str().expect("an upload");
    let preview = mine.get(&format!("/api/v1/uploads/{file}/preview")).await;
    assert_eq!(preview.expect(200)["columns"], json!(["id", "sum"]), "{}", preview.text);

    for (query, parameter) in [
        ("format=xlsx&delimiter=%3B", "delimiter"),
        ("format=ndjson&bom=true", "bom"),
        ("format=csv&delimiter=a", "delimiter"),
        (&*format!("format=xlsx&after={job_id}"), "after"),
    ] {
        let answer = mine.get(&format!("/api/v1/jobs/{job_id}/results?{query}")).await;
        let problem = answer.expect_problem(400, "invalid_parameter");
        assert!(problem.to_string().contains(parameter), "{query}: {problem}");
    }
    server.stop().await;
}

#[tokio::test]
async fn csv_has_the_separator_and_byte_order_mark_that_were_asked_for() {
    let server = Server::start().await;
    let mine = server.service("mine", &["jobs:read", "jobs:write"]).await;
    let id = upload(&mine, "people.csv", "id,name\n1,\"Müller; Söhne\"\n").await;
    let job = complete(&mine, &import(&mine, "import", &id).await).await;
    let address = format!("/api/v1/jobs/{}/results", job["id"].as_str().expect("an id"));
    let german = mine.get(&format!("{address}?format=csv&delimiter=%3B&bom=true")).await.text;
    assert_eq!(german, "\u{feff}_line;id;name;_result\n2;1;\"Müller; Söhne\";\n");
    let plain = mine.get(&format!("{address}?format=csv")).await.text;
    assert_eq!(plain, "_line,id,name,_result\n2,1,Müller; Söhne,\n");
    let order = json!({"job_id": job["id"], "what": "results", "format": "csv", "delimiter": ";", "bom": true});
    assert_eq!(content(&mine, &export(&mine, order).await).await, german);
    server.stop().await;
}

#[tokio::test]
async fn invalid_export_fails_immediately() {
    let server = Server::start().await;
    let mine = server.service("mine", &["jobs:read", "jobs:write"]).await;
    let theirs = server.service("theirs", &["jobs:read", "jobs:write"]).await;
    let id = upload(&theirs, "a.csv", "id\n1\n").await;
    let job = complete(&theirs, &import(&theirs, "import", &id).await).await;
    for (order, kind) in [
        (json!({"job_id": job["id"], "what": "results", "format": "csv"}), "not_found"),
        (json!({"job_id": job["id"], "what": "everything", "format": "csv"}), "invalid_body"),
        (json!({"job_id": job["id"], "what": "items", "format": "csv", "to": "elsewhere"}), "invalid_body"),
        (json!(null), "invalid_body"),
    ] {
        let item = export(&mine, order.clone()).await;
        assert_eq!((&item["state"], &item["attempts"]), (&json!("dead"), &json!(1)), "{order}");
        assert_eq!(item["last_error"]["kind"], kind, "{order}: {item}");
    }
    // Staff see everybody's.
    let item = export(&server, json!({"job_id": job["id"], "what": "results", "format": "csv"})).await;
    assert_eq!(content(&server, &item).await, "_line,id,_result\n2,1,\n");
    server.stop().await;
}

#[tokio::test]
async fn export_is_resumed_by_another_server_without_partial_file() {
    let server = Server::start().await;
    let rows: String = (0..30_000).map(|row| format!("{row},{}\n", "x".repeat(200))).collect();
    let id = upload(&server, "rows.csv", format!("id,text\n{rows}")).await;
    let job = complete(&server, &import(&server, "import", &id).await).await;
    let order = json!({"job_id": job["id"], "what": "items", "format": "ndjson"});
    let new = json!({"type": "export", "sealed": true, "items": [{"payload": order}]});
    let export = server.post("/api/v1/jobs", new).await.expect(201);
    let path = format!("/api/v1/jobs/{}", export["id"].as_str().expect("an id"));
    let other = server.another().await;
    while server.get(&path).await.expect(200)["counts"]["available"] == 1 {}
    server.stop().await;
    let export = complete(&other, &export).await;
    assert_eq!(export["outcome"], "succeeded");
    let result = &lines(&other, &export, "results").await[0]["result"];
    assert_eq!(result["rows"], 30_000);
    let stored_files =
        std::fs::read_dir(other.running.app.config.data_dir().expect("a folder").join("files")).expect("files");
    assert_eq!(stored_files.count(), 4, "the table, its export, the owner, and the folder where files arrive");
    other.stop().await;
}

#[tokio::test]
async fn export_includes_cancellations_before_propagation() {
    const N: usize = 1_500;
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let items: Vec<Value> = (0..N).map(|n| json!({"payload": n})).collect();
    let job = server.post("/api/v1/jobs", json!({"type": "a", "items": items})).await.expect(201);
    let claimed = claim(&server, "a", 2, 0).await;
    kill(&server, &claimed[0]).await;
    let pool = &server.running.app.pool;
    let mut tx = pool.begin().await.expect("a transaction");
    sqlx::query("select from ready for update").execute(&mut *tx).await.expect("nobody takes them");
    server.post(&format!("/api/v1/jobs/{}/cancel", id(&job)), json!({})).await.expect(200);
    let early = lines(&server, &job, "failures").await;
    assert_eq!(early.len(), N - 1, "all but the one in somebody's hands");
    assert_eq!((&early[0]["state"], &early[0]["attempts"]), (&json!("dead"), &json!(1)));
    for (at, line) in early.iter().enumerate().skip(1) {
        assert_eq!((&line["state"], &line["payload"]), (&json!("cancelled"), &json!(at + 1)));
    }
    tx.rollback().await.expect("let go");
    until(async || {
        let left = sqlx::query_scalar::<_, bool>("select exists (select 1 from propagation)");
        !left.fetch_one(pool).await.expect("yes or no")
    })
    .await;
    assert_eq!(lines(&server, &job, "failures").await, early);
    server.stop().await;
}

#[tokio::test]
async fn pending_items_are_exported() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let items = json!([{"payload": 1}, {"payload": 2}]);
    let job = server.post("/api/v1/jobs", json!({"type": "a", "items": items})).await.expect(201);
    let worker = server.service("worker", &["work"]).await;
    kill(&worker, &claim(&worker, "a", 1, 20).await[0]).await;
    for format in ["ndjson", "csv"] {
        let item = export(&server, json!({"job_id": job["id"], "what": "items", "format": format})).await;
        assert_eq!(item["result"]["rows"], 2);
        let text = content(&server, &item).await;
        assert!(text.contains("dead") && text.contains("available"), "{text}");
    }
    server.stop().await;
}

#[tokio::test]
async fn csv_export_escapes_formulas_and_round_trips() {
    let server = Server::start().await;
    let mine = server.service("mine", &["jobs:read", "jobs:write"]).await;
    let rows = "{\"a\":\"x;=HYPERLINK(1)\"}\n{\"a\":\"＝1+1\"}\n";
    let id = upload(&mine, "rows.ndjson", rows).await;
    let job = complete(&mine, &import(&mine, "import", &id).await).await;
    let path = format!("/api/v1/jobs/{}/results?format=csv", id_of(&job));
    let text = mine.get(&path).await.text;
    assert!(!text.contains(";=") && text.contains(";'="), "{text}");

    // A list of failures that is uploaded again has the cells of before.
    let id = upload(&mine, "people.csv", "id,sum,n\nx;=1,＝2\n").await;
    let job = complete(&mine, &import(&mine, "import", &id).await).await;
    let failures = mine.get(&format!("/api/v1/jobs/{}/failures?format=csv", id_of(&job))).await.text;
    assert!(failures.contains("x;'=1,'＝2"), "{failures}");
    let id = upload(&mine, "again.csv", failures).await;
    let job = complete(&mine, &import(&mine, "import", &id).await).await;
    let payload = &lines(&mine, &job, "results").await[0]["payload"];
    assert_eq!(payload, &json!({"id": "x;=1", "sum": "＝2", "n": ""}));
    server.stop().await;
}

#[tokio::test]
async fn csv_of_a_file_in_another_encoding_has_a_byte_order_mark() {
    let server = Server::start().await;
    let mine = server.service("mine", &["jobs:read", "jobs:write"]).await;
    let row = "<row><c t=\"inlineStr\"><is><t>name</t></is></c></row>";
    for (name, file) in
        [("a.csv", b"name;n\nM\xFCller;1\nM\xFCller\n".to_vec()), ("b.xlsx", workbook(&[("a", &row.repeat(2))], &[]))]
    {
        let id = upload(&mine, name, file).await;
        let job = complete(&mine, &import(&mine, "import", &id).await).await;
        for what in ["results", "failures"] {
            let path = format!("/api/v1/jobs/{}/{what}?format=csv", job["id"].as_str().expect("an id"));
            let text = mine.get(&path).await.text;
            assert!(text.starts_with('\u{feff}'), "{name} {what}: {text}");
            assert!(!mine.get(&format!("{path}&bom=false")).await.text.starts_with('\u{feff}'));
        }
    }
    server.stop().await;
}
