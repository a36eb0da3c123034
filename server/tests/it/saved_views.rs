//! Saved views (`saved-views`): over the API and by forms, own and shared ones, and the view that a list opens with.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Server};

/// Redirect target of a form, or of a list that opens with a view.
#[track_caller]
fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.headers["location"].to_str().expect("text").to_owned()
}

async fn save(caller: &Api, view: Value) -> String {
    let saved = caller.post("/api/v1/views", view).await.expect(201);
    saved["id"].as_str().expect("an id").to_owned()
}

/// Names of the views that a caller may use, in the order of the list.
async fn names(caller: &Api, query: &str) -> Vec<String> {
    let views = caller.get(&format!("/api/v1/views{query}")).await.expect(200);
    let views = views["data"].as_array().expect("a list").clone();
    views.iter().map(|view| view["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn saved_view_belongs_to_its_creator_and_only_staff_share() {
    let server = Server::start().await;
    let (ada, ben) = (server.person("Ada", "user").await, server.person("Ben", "user").await);
    let (sam, root) = (server.person("Sam", "support").await, server.person("Root", "admin").await);
    let running = json!({"list": "jobs", "name": "Running", "q": "status:running created:<2h", "sort": "created_at"});
    let mine = save(&ada, running.clone()).await;
    let view = ada.get(&format!("/api/v1/views/{mine}")).await.expect(200);
    assert_eq!(
        (&view["q"], &view["sort"], &view["shared"], &view["is_default"], &view["owner"]["name"]),
        (&running["q"], &running["sort"], &json!(false), &json!(false), &json!("Ada"))
    );
    // The same name: once for each owner and list.
    assert_eq!(ada.post("/api/v1/views", running.clone()).await.expect(409)["code"], "duplicate");
    save(&ben, running.clone()).await;
    save(&ada, json!({"list": "items", "name": "Running", "q": "state:running"})).await;

    // Nobody else sees it, whatever their role.
    for other in [&ben, &sam, &root] {
        other.get(&format!("/api/v1/views/{mine}")).await.expect(404);
        other.patch(&format!("/api/v1/views/{mine}"), json!({"name": "x", "reason": "why"})).await.expect(404);
        other.delete(&format!("/api/v1/views/{mine}?reason=why")).await.expect(404);
    }
    assert_eq!(names(&sam, "").await, Vec::<String>::new());
    assert_eq!(names(&ada, "?list=jobs").await, ["Running"]);

    // Users do not share; staff do, and everyone may use what they share, but not change it.
    let shared = json!({"list": "failures", "name": "Late", "q": "type:orders", "shared": true});
    assert_eq!(ada.post("/api/v1/views", shared.clone()).await.expect(403)["code"], "forbidden");
    ada.patch(&format!("/api/v1/views/{mine}"), json!({"shared": true})).await.expect(403);
    let late = save(&sam, shared).await;
    assert_eq!(names(&ada, "").await, ["Late", "Running", "Running"]);
    assert_eq!(names(&ada, "?sort=created_at&limit=1").await, ["Running"]);
    ada.patch(&format!("/api/v1/views/{late}"), json!({"name": "Mine"})).await.expect(403);
    ada.delete(&format!("/api/v1/views/{late}")).await.expect(403);

    // An admin changes and deletes it, with a reason that is kept.
    let renamed = json!({"name": "Late orders"});
    assert_eq!(root.patch(&format!("/api/v1/views/{late}"), renamed).await.expect(422)["code"], "reason_required");
    let renamed = json!({"name": "Late orders", "reason": "clearer"});
    root.patch(&format!("/api/v1/views/{late}"), renamed).await.expect(200);
    root.delete(&format!("/api/v1/views/{late}?reason=unused")).await.expect(204);
    assert_eq!(names(&ada, "?list=failures").await, Vec::<String>::new());
    let audit = server.get("/api/v1/audit?actor=Root").await.expect(200);
    let entries: Vec<_> =
        audit["data"].as_array().expect("entries").iter().map(|it| (&it["action"], &it["reason"])).collect();
    assert_eq!(entries[..2], [(&json!("view.delete"), &json!("unused")), (&json!("view.change"), &json!("clearer"))]);
    server.stop().await;
}

#[tokio::test]
async fn saved_view_with_invalid_fields_is_refused() {
    let server = Server::start().await;
    let ada = server.person("Ada", "user").await;
    let pointers = |problem: Value| -> Vec<String> {
        problem["errors"].as_array().expect("errors").iter().map(|it| it["pointer"].to_string()).collect()
    };
    let bad = json!({"list": "jobs", "name": " x", "q": "state:dead", "sort": "-job"});
    assert_eq!(pointers(ada.post("/api/v1/views", bad).await.expect(422)), ["\"/name\"", "\"/q\"", "\"/sort\""]);
    assert_eq!(ada.get("/api/v1/views?list=people").await.status, 400);
    let id = save(&ada, json!({"list": "jobs", "name": "All", "sort": "created_at"})).await;
    let path = format!("/api/v1/views/{id}");
    assert_eq!(pointers(ada.patch(&path, json!({"q": "\"open"})).await.expect(422)), ["\"/q\""]);
    assert_eq!(ada.patch(&path, json!({"sort": null})).await.expect(200)["sort"], Value::Null);
    // One owner has a limited number.
    for n in 1..200 {
        save(&ada, json!({"list": "items", "name": format!("View {n}")})).await;
    }
    let refused = ada.post("/api/v1/views", json!({"list": "jobs", "name": "One more"})).await.expect(429);
    assert_eq!(refused["code"], "quota_exceeded");
    server.stop().await;
}

#[tokio::test]
async fn list_opens_with_its_default_view() {
    let server = Server::start().await;
    let (ada, sam) = (server.person("Ada", "user").await, server.person("Sam", "support").await);
    assert_eq!(ada.get("/jobs").await.status, 200);
    let id = save(&ada, json!({"list": "jobs", "name": "A", "q": "status:running", "is_default": true})).await;
    assert_eq!(location(&ada.get("/jobs").await), "/jobs?q=status:running");
    // Whatever is asked for is shown, and everything has an address.
    assert_eq!(ada.get("/jobs?q=").await.status, 200);
    let everything = ada.get("/jobs?view=all").await;
    assert_eq!(everything.status, 200);
    assert!(everything.text.contains("href=\"/jobs?view=all\""), "{}", everything.text);
    assert_eq!(
        (ada.get("/items").await.status, sam.get("/jobs").await.status),
        (reqwest::StatusCode::OK, reqwest::StatusCode::OK)
    );

    // Another view takes its place, also one of somebody else, until it is no longer shared.
    let shared = save(&sam, json!({"list": "jobs", "name": "B", "sort": "created_at", "shared": true})).await;
    ada.patch(&format!("/api/v1/views/{shared}"), json!({"is_default": true})).await.expect(200);
    assert_eq!(location(&ada.get("/jobs").await), "/jobs?sort=created_at");
    assert_eq!(ada.get(&format!("/api/v1/views/{id}")).await.expect(200)["is_default"], false);
    assert_eq!(sam.get(&format!("/api/v1/views/{shared}")).await.expect(200)["is_default"], false);
    sam.patch(&format!("/api/v1/views/{shared}"), json!({"shared": false})).await.expect(200);
    assert_eq!(ada.get("/jobs").await.status, 200);
    ada.patch(&format!("/api/v1/views/{id}"), json!({"is_default": true})).await.expect(200);
    ada.delete(&format!("/api/v1/views/{id}")).await.expect(204);
    assert_eq!(ada.get("/jobs").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn views_are_saved_renamed_and_deleted_by_forms() {
    let server = Server::start().await;
    let (ada, sam) = (server.person("Ada", "user").await, server.person("Sam", "support").await);
    let page = ada.get("/items?q=state:dead&sort=created_at").await.text;
    for field in
        ["name=\"list\" value=\"items\"", "name=\"q\" value=\"state:dead\"", "name=\"sort\" value=\"created_at\""]
    {
        assert!(page.contains(field), "{field}: {page}");
    }
    assert!(!page.contains("Share with everyone") && sam.get("/items").await.text.contains("Share with everyone"));
    let name = "Mine\"><script>alert(1)</script>";
    let fields = [("list", "items"), ("q", "state:dead \"<b>\""), ("sort", "created_at"), ("name", name)];
    let saved = location(&ada.form("/views", &fields).await);
    assert_eq!(saved, "/items?q=state:dead%20%22%3Cb%3E%22&sort=created_at&did=view-saved");
    for path in [saved.as_str(), "/views"] {
        let page = ada.get(path).await.text;
        assert!(page.contains("&lt;script>alert(1)") || page.contains("&lt;script&gt;alert(1)"), "{path}: {page}");
        assert!(!page.contains("<script>alert(1)"), "{path}: {page}");
    }
    let taken = ada.form("/views", &fields).await;
    assert_eq!(taken.status, 422);
    assert!(
        taken.text.contains("name-new-fault") && taken.text.contains("value=\"state:dead &quot;"),
        "{}",
        taken.text
    );
    // By form, a person without the right does not share.
    let shares = [("list", "jobs"), ("name", "x"), ("shared", "yes")];
    assert_eq!(ada.form("/views", &shares).await.status, 403);
    let forged = ada.clone().cross_site().form("/views", &[("list", "jobs"), ("name", "x")]).await;
    assert_eq!(forged.status, 403);

    let id = ada.get("/api/v1/views").await.expect(200)["data"][0]["id"].as_str().expect("an id").to_owned();
    let path = format!("/views/{id}");
    let bad = ada.form(&path, &[("name", "Dead"), ("q", "state:nothing"), ("sort", "")]).await;
    assert_eq!(bad.status, 422);
    assert!(bad.text.contains(&format!("id=\"q-{id}-fault\"")) && bad.text.contains("value=\"state:nothing\""));
    assert_eq!(
        location(&ada.form(&path, &[("name", "Dead"), ("q", "state:dead"), ("sort", "")]).await),
        "/views?did=changed-view"
    );
    assert_eq!(
        location(&ada.form(&format!("{path}/default"), &[("is_default", "yes")]).await),
        "/views?did=changed-view"
    );
    assert_eq!(location(&ada.get("/items").await), "/items?q=state:dead");
    assert_eq!(
        location(&ada.form(&format!("{path}/default"), &[("is_default", "no")]).await),
        "/views?did=changed-view"
    );
    assert_eq!(sam.form(&format!("{path}/delete"), &[("reason", "x")]).await.status, 404);
    assert_eq!(location(&ada.form(&format!("{path}/delete"), &[]).await), "/views?did=view-deleted");
    assert!(ada.get("/views?did=view-deleted").await.text.contains("No saved views yet"));
    server.stop().await;
}
