//! Import pages: options, preview before the start, ownership, and allowed actions.

use serde_json::{Value, json};

use crate::support::{
    Answer, Api, Server,
    imports::{complete, import, upload},
};

/// Submits the form of the second step.
async fn start(caller: &Api, fields: &[(&str, &str)]) -> Answer {
    let form = fields.iter().fold(reqwest::multipart::Form::new(), |form, (name, value)| {
        form.text((*name).to_owned(), (*value).to_owned())
    });
    Answer::of(caller.request(reqwest::Method::POST, "/imports").multipart(form)).await
}

/// Text of a page, without hydration markers.
async fn page_text(caller: &Api, path: &str) -> String {
    let page = caller.get(path).await;
    assert_eq!(page.status, 200, "{path}: {}", page.text);
    page.text.replace("<!>", "")
}

fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.headers["location"].to_str().expect("text").to_owned()
}

async fn waiting(server: &Server, ada: &Api) -> Value {
    server.put("/api/v1/job-types/slow", json!({"executor": {"kind": "pull"}})).await.expect(201);
    let file = upload(ada, "march.csv", "name\nann\nbob\n").await;
    import(ada, "slow", &file).await
}

#[tokio::test]
async fn import_page_offers_importable_types_only() {
    let server = Server::start().await;
    for (name, builtin) in [("checked", "validate"), ("parrot", "echo"), ("archive", "export")] {
        let spec = json!({"executor": {"kind": "builtin", "name": builtin}});
        server.put(&format!("/api/v1/job-types/{name}"), spec).await.expect(201);
    }
    let ada = server.person("ada", "user").await;
    let file = upload(&ada, "march.csv", "name\nann\n").await;
    let page = ada.get(&format!("/imports/new?upload_id={file}")).await;
    assert_eq!(page.status, 200);
    let offered = |name: &str| page.text.contains(&format!("<option value=\"{name}\""));
    assert!(offered("import") && offered("checked"), "{}", page.text);
    assert!(!offered("export") && !offered("archive") && !offered("parrot"), "{}", page.text);
    for kind in ["export", "archive", "nothing"] {
        let refused = start(&ada, &[("upload_id", &file), ("type", kind), ("header", "yes")]).await;
        assert_eq!(refused.status, 422, "{kind}");
        assert!(refused.text.contains("Choose another one."), "{}", refused.text);
    }
    let jobs = ada.get("/api/v1/jobs").await.expect(200);
    assert_eq!(jobs["data"].as_array().map(Vec::len), Some(0));
    server.stop().await;
}

#[tokio::test]
async fn import_preview_shows_first_rows_completely() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let names: Vec<String> = (1..=40).map(|n| format!("name_{n}")).collect();
    let row = |line: usize, width: usize| (1..=width).map(|n| format!("{line}x{n}")).collect::<Vec<_>>().join(",");
    let lines: Vec<String> = (2..32).map(|line| row(line, if line == 4 { 42 } else { 40 })).collect();
    let file = upload(&ada, "wide.csv", format!("{}\n{}\n", names.join(","), lines.join("\n"))).await;
    let preview = ada.get(&format!("/api/v1/uploads/{file}/preview")).await.expect(200);
    let long = preview["rows"][2]["cells"].as_array().expect("cells");
    assert_eq!((long.len(), &long[40], &long[41]), (42, &json!("4x41"), &json!("4x42")));
    let page = page_text(&ada, &format!("/imports/new?upload_id={file}")).await;
    for name in &names {
        assert!(page.contains(&format!("<th scope=\"col\">{name}</th>")), "{name}: {page}");
    }
    for cell in ["4x41", "4x42", "21x1", "21x40"] {
        assert!(page.contains(&format!("<span>{cell}</span>")), "{cell}: {page}");
    }
    assert!(page.contains("29 rows are ready, 1 needs attention"), "{page}");
    let eve = server.person("eve", "user").await;
    assert_eq!(eve.get(&format!("/imports/new?upload_id={file}")).await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn import_page_shows_owner_and_visibility() {
    let server = Server::start().await;
    let (ada, sam) = (server.person("ada", "user").await, server.person("sam", "support").await);
    let job = waiting(&server, &ada).await;
    let path = format!("/imports/{}", job["id"].as_str().expect("an id"));
    let own = page_text(&ada, &path).await;
    assert!(own.contains("Visible to you, support, and administrators"), "{own}");
    assert!(!own.contains("Imported by"), "{own}");
    let others = page_text(&sam, &path).await;
    assert!(others.contains("Imported by <b>ada</b>") && others.contains("Visible to <b>ada</b>"), "{others}");
    assert!(!others.contains("Visible to you") && !others.contains("Nobody else"), "{others}");
    server.stop().await;
}

#[tokio::test]
async fn import_is_cancelled_from_its_page() {
    let server = Server::start().await;
    let (ada, sam) = (server.person("ada", "user").await, server.person("sam", "support").await);
    let job = waiting(&server, &ada).await;
    let id = job["id"].as_str().expect("an id");
    let (page, cancel) = (format!("/imports/{id}"), format!("/imports/{id}/cancel"));
    assert!(ada.get(&page).await.text.contains(&format!("action=\"{cancel}\"")));
    assert_eq!(server.person("eve", "user").await.form(&cancel, &[]).await.status, 404);
    // Somebody else's takes a reason, asked for on the same page.
    let refused = sam.form(&cancel, &[]).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("id=\"refusal\"") && refused.text.contains("name=\"reason\""), "{}", refused.text);
    assert_eq!(location(&ada.form(&cancel, &[]).await), format!("{page}?did=canceled"));
    assert_eq!(complete(&ada, &job).await["outcome"], "cancelled");
    let text = page_text(&ada, &page).await;
    assert!(text.contains("Canceled after 0 of 2 rows.") && !text.contains(&cancel), "{text}");
    // Deletion of somebody else's takes a reason, too, and stays on the page of the import.
    let delete = format!("/imports/{id}/delete");
    let admin = server.person("root", "admin").await;
    let refused = admin.form(&delete, &[]).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("id=\"refusal\"") && refused.text.contains(&page), "{}", refused.text);
    assert_eq!(server.person("max", "user").await.form(&delete, &[]).await.status, 404);
    let list = location(&ada.form(&delete, &[]).await);
    assert_eq!(list, "/imports?did=deleted");
    assert!(page_text(&ada, &list).await.contains("Deleted, with all its rows and results."));
    server.stop().await;
}

#[tokio::test]
async fn failed_import_has_no_check_mark_and_mismatch_is_a_warning() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let schema = json!({"type": "object", "properties": {"name": {"type": "number"}}});
    let spec =
        json!({"executor": {"kind": "builtin", "name": "validate"}, "max_failures": 1, "payload_schema": schema});
    server.put("/api/v1/job-types/numbers", spec).await.expect(201);
    let file = upload(&ada, "march.csv", "name\nann\nbob\n").await;
    let page = page_text(&ada, &format!("/imports/new?upload_id={file}&type=numbers")).await;
    let check = page.split("id=\"check\"").nth(1).expect("what does not fit");
    assert!(check.split("</svg>").next().expect("its icon").contains("#i-partial"), "{page}");
    let job = complete(&ada, &import(&ada, "numbers", &file).await).await;
    assert_eq!(job["outcome"], "failed");
    let page = page_text(&ada, &format!("/imports/{}", job["id"].as_str().expect("an id"))).await;
    assert!(page.contains("None of the 2 rows could be imported."), "{page}");
    let pill = page.split("pill-finished").nth(1).expect("the indicator");
    assert!(!pill.split("</svg>").next().expect("its icon").contains("i-succeeded"), "{page}");
    server.stop().await;
}

#[tokio::test]
async fn job_created_by_program_shows_items_instead_of_rows() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let new = json!({"type": "a", "sealed": true, "items": [{"payload": {}}, {"payload": {}}]});
    let job = server.post("/api/v1/jobs", new).await.expect(201);
    let id = job["id"].as_str().expect("an id");
    let (admin, path) = (server.admin().await, format!("/imports/{id}"));
    assert!(page_text(&admin, &path).await.contains("Waiting to start: 2 items."));
    server.post(&format!("/api/v1/jobs/{id}/cancel"), json!({})).await.expect(200);
    let page = page_text(&admin, &path).await;
    assert!(page.contains("Canceled after 0 of 2 items."), "{page}");
    assert!(!page.contains("This import") && !page.contains("ailed rows"), "{page}");
    server.stop().await;
}

#[tokio::test]
async fn sample_file_is_imported_with_two_clicks() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let list = page_text(&ada, "/imports").await;
    assert!(list.contains("action=\"/imports/sample\""), "{list}");
    let second = location(&ada.form("/imports/sample", &[]).await);
    let page = page_text(&ada, &second).await;
    assert!(page.contains("Import 11 rows"), "{page}");
    let file = second.split("upload_id=").nth(1).and_then(|rest| rest.split('&').next()).expect("a file");
    let created = start(&ada, &[("upload_id", file), ("type", "import"), ("header", "yes"), ("name", "Peaks")]).await;
    let id = location(&created).rsplit('/').next().expect("an id").to_owned();
    let job = complete(&ada, &ada.get(&format!("/api/v1/jobs/{id}")).await.expect(200)).await;
    assert_eq!(
        (&job["name"], &job["counts"]["succeeded"], &job["counts"]["dead"]),
        (&json!("Peaks"), &json!(11), &json!(1))
    );
    server.stop().await;
}
