//! Search over everything that a caller may see.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    lists::{claim, id, job},
    support::{Answer, Api, Server},
};

/// Kinds, ids and matched fields of the results.
async fn found(api: &Api, q: &str) -> Vec<(String, String, String)> {
    let encoded: String = form_urlencoded::byte_serialize(q.as_bytes()).collect();
    let results = api.get(&format!("/api/v1/search?q={encoded}")).await.expect(200);
    assert_eq!(results["q"], q);
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let groups = results["groups"].as_array().expect("groups").clone();
    let of_group = |group: &Value| {
        let hits = group["hits"].as_array().expect("hits").clone();
        hits.iter().map(|hit| (text(&group["kind"]), text(&hit["id"]), text(&hit["matched"]))).collect::<Vec<_>>()
    };
    groups.iter().flat_map(of_group).collect()
}

#[tokio::test]
async fn search_finds_ids_names_keys_files_workers_and_errors_within_access() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/ship-order", json!({})).await.expect(201);
    let shop = server.service("shop", &["jobs:read", "jobs:write", "work"]).await;
    let bakery = server.service("bakery", &["jobs:read", "jobs:write"]).await;
    let items = json!([{"payload": 1, "dedupe_key": "4711"}, {"payload": 2, "serialize_key": "customer-9"},
        {"payload": 3, "serialize_key": "customer-9"}]);
    let body = json!({"type": "ship-order", "name": "Parcels of March", "key": "parcels", "dedupe_key": "march",
        "items": items, "metadata": {"team": "north"}});
    let request = shop.request(Method::POST, "/api/v1/jobs").header("idempotency-key", "key-of-march");
    let created = Answer::of(request.json(&body)).await.expect(201);
    let job_id = id(&created).to_owned();
    let listed = shop.get(&format!("/api/v1/items?job={job_id}")).await.expect(200)["data"].clone();
    let item = |n: usize| id(&listed[n]).to_owned();

    let jobs = |matched: &str| ("jobs".to_owned(), job_id.clone(), matched.to_owned());
    let items = |n: usize, matched: &str| ("items".to_owned(), item(n), matched.to_owned());
    for api in [&shop, &*server] {
        assert_eq!(found(api, &job_id).await, [jobs("id")]);
        assert_eq!(found(api, &item(1)).await, [items(1, "id")]);
        assert_eq!(found(api, "parcels OF").await, [jobs("name")]);
        assert_eq!(found(api, "march").await, [jobs("dedupe_key")]);
        assert_eq!(found(api, "key-of-march").await, [jobs("idempotency_key")]);
        assert_eq!(found(api, "north").await, [jobs("text")]);
        assert_eq!(found(api, "4711").await, [items(0, "dedupe_key")]);
        assert_eq!(found(api, "customer-9").await, [items(1, "serialize_key"), items(2, "serialize_key")]);
        assert_eq!(found(api, "nothing of the kind").await, []);
    }
    // What is somebody else's is as what never was; types are everybody's to see.
    for q in [&job_id, "march", "4711", "customer-9", "key-of-march"] {
        assert_eq!(found(&bakery, q).await, [], "{q}");
    }
    assert_eq!(found(&bakery, "ship-ord").await, [("job_types".into(), "ship-order".into(), "name".into())]);

    // Workers, errors and files.
    let claimed = claim(&shop, "packer-1", &["ship-order"], 1).await;
    let error = json!({"error": {"message": "no label 77"}, "retryable": false});
    shop.post(&format!("/api/v1/assignments/{}/failure", id(&claimed[0])), error).await.expect(200);
    assert_eq!(found(&shop, "packer").await, [("workers".into(), "packer-1".into(), "name".into())]);
    let errors = found(&shop, "no LABEL").await;
    assert_eq!((errors.len(), errors[0].0.as_str(), errors[0].2.as_str()), (1, "errors", "message"), "{errors:?}");
    assert_eq!(found(&bakery, "no label").await, []);
    let upload = shop.post_text("/api/v1/uploads?filename=orders-may.csv", "text/csv", "n\n1\n").await.expect(201);
    let import = job(&server, json!({"type": "ship-order"})).await;
    assert_eq!(found(&server, id(&import)).await.len(), 1);
    let import = json!({"type": "import", "upload": {"id": upload["id"]}});
    let import = shop.post("/api/v1/jobs", import).await.expect(201);
    let files = found(&shop, "ders-may").await;
    assert_eq!(files, [("uploads".to_owned(), id(&import).to_owned(), "filename".to_owned())]);

    for bad in ["", "?q=", "?q=%20", "?colour=red", &format!("?q={}", "x".repeat(256))] {
        server.get(&format!("/api/v1/search{bad}")).await.expect_problem(400, "invalid_parameter");
    }
    server.stop().await;
}

#[tokio::test]
async fn search_page_is_a_plain_form_with_links() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let sue = server.person("sue", "support").await;
    let items = json!([{"payload": 1, "dedupe_key": "4711"}]);
    let created = job(&server, json!({"type": "a", "name": "<b>March</b>", "items": items})).await;
    assert!(sue.get("/search").await.text.contains("action=\"/search\""));
    let page = sue.get("/search?q=march").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains(&format!("href=\"/jobs/{}\"", id(&created))), "{}", page.text);
    assert!(!page.text.contains("<b>March"), "names are text");
    assert!(sue.get("/search?q=4711").await.text.contains("href=\"/items/"));
    assert_eq!(sue.get(&format!("/search?q={}", "x".repeat(300))).await.status, 400);
    server.stop().await;
}
