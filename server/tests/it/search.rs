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
    // Pending items of a serialize key come before those that have ended.
    let head = claim(&shop, "packer-1", &["ship-order"], 1).await;
    shop.post(&format!("/api/v1/assignments/{}/result", id(&head[0])), json!({"result": 1})).await.expect(200);
    for api in [&shop, &*server] {
        assert_eq!(found(api, "customer-9").await, [items(2, "serialize_key"), items(1, "serialize_key")]);
    }
    assert_eq!(found(&bakery, "customer-9").await, []);
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
async fn search_finds_keys_by_their_beginning_within_access() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let shop = server.service("shop", &["jobs:read", "jobs:write"]).await;
    let bakery = server.service("bakery", &["jobs:read", "jobs:write"]).await;
    let request_id = uuid::Uuid::now_v7().to_string();
    let items = json!([{"payload": 1, "dedupe_key": "order-4711"}, {"payload": 2, "serialize_key": "customer_%9"}]);
    let body = json!({"type": "a", "dedupe_key": "payroll-2026-11", "items": items});
    let request = shop.request(Method::POST, "/api/v1/jobs").header("idempotency-key", &request_id);
    let created = Answer::of(request.json(&body)).await.expect(201);
    let listed = shop.get(&format!("/api/v1/items?job={}", id(&created))).await.expect(200)["data"].clone();
    let job = |matched: &str| ("jobs".to_owned(), id(&created).to_owned(), matched.to_owned());
    let item = |n: usize, matched: &str| ("items".to_owned(), id(&listed[n]).to_owned(), matched.to_owned());
    for (q, expected) in [
        ("payroll-2026", job("dedupe_key")),
        (&request_id[..20], job("idempotency_key")),
        (request_id.as_str(), job("idempotency_key")),
        ("order-4", item(0, "dedupe_key")),
        ("customer_%", item(1, "serialize_key")),
    ] {
        for api in [&shop, &*server] {
            assert_eq!(found(api, q).await, std::slice::from_ref(&expected), "{q}");
        }
        assert_eq!(found(&bakery, q).await, [], "{q}");
    }
    for q in ["ayroll-2026", "rder-4711", "customer__", "order-47111"] {
        assert_eq!(found(&shop, q).await, [], "only from the beginning: {q}");
    }
    server.stop().await;
}

#[tokio::test]
async fn search_finds_what_has_a_name_by_id_and_name_within_access() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let shop = server.service("shop", &["jobs:read", "jobs:write"]).await;
    let bakery = server.service("bakery", &["jobs:read", "jobs:write"]).await;
    server.person("sue", "support").await;
    let (sue, ada) = (server.person("suzanne", "support").await, server.person("ada", "admin").await);
    let schedule = json!({"name": "Nightly invoices", "cron": "0 2 * * *", "time_zone": "UTC", "job": {"type": "a"}});
    let schedule = shop.post("/api/v1/schedules", schedule).await.expect(201);
    let view = json!({"list": "jobs", "name": "Stuck parcels", "q": "status:running"});
    let view = shop.post("/api/v1/views", view).await.expect(201);
    let items = json!([{"payload": 1}]);
    let tree = shop.post("/api/v1/jobs", json!({"type": "a", "items": items})).await.expect(201);
    let filter = json!({"root": id(&tree), "state": "available"});
    let bulk = json!({"action": "cancel", "target": "items", "filter": filter, "reason": "wrong price list"});
    let bulk = shop.post("/api/v1/bulk-operations", bulk).await.expect(202);
    let file = shop.post_text("/api/v1/uploads?filename=orders-june.csv", "text/csv", "n\n1\n").await.expect(201);

    for (kind, thing, words, field) in [
        ("schedules", &schedule, "INVOICES", "name"),
        ("bulk_operations", &bulk, "price", "reason"),
        ("uploads", &file, "june", "filename"),
    ] {
        for (q, field) in [(id(thing), "id"), (words, field)] {
            let hit = (kind.to_owned(), id(thing).to_owned(), field.to_owned());
            assert_eq!(found(&shop, q).await, std::slice::from_ref(&hit), "{q}");
            assert_eq!(found(&sue, q).await, [hit], "{q}");
            assert_eq!(found(&bakery, q).await, [], "{q}");
        }
    }
    // Views are their owner's until they are shared; people and services are for admins.
    let hit = |field: &str| ("views".to_owned(), id(&view).to_owned(), field.to_owned());
    assert_eq!(found(&shop, "stuck").await, [hit("name")]);
    assert_eq!(found(&shop, id(&view)).await, [hit("id")]);
    assert_eq!(found(&sue, "stuck").await, []);
    let people = found(&ada, "suz").await;
    assert_eq!((people.len(), people[0].0.as_str(), people[0].2.as_str()), (1, "people", "name"), "{people:?}");
    let path = server.get("/api/v1/search?q=suz").await.expect(200)["groups"][0]["hits"][0]["path"].clone();
    assert_eq!(path, format!("/people/{}", people[0].1));
    assert_eq!(found(&ada, &people[0].1).await, [("people".into(), people[0].1.clone(), "id".into())]);
    let services = found(&ada, "bakery").await;
    assert_eq!((services.len(), services[0].0.as_str()), (1, "services"), "{services:?}");
    for q in ["suz", "bakery", &people[0].1, &services[0].1] {
        assert_eq!(found(&sue, q).await, [], "{q}");
    }
    let page = sue.get("/search?q=INVOICES").await.text;
    assert!(page.contains(&format!("href=\"/schedules/{}\"", id(&schedule))), "{page}");
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
    // The palette shows the detail: type, state in the words of the pages, and date.
    for (q, state) in [("march", "a, waiting, "), ("4711", "a, waiting, ")] {
        let results = sue.get(&format!("/api/v1/search?q={q}")).await.expect(200);
        let detail = results["groups"][0]["hits"][0]["detail"].as_str().expect("a detail").to_owned();
        let date = detail.strip_prefix(state).unwrap_or_else(|| panic!("{detail}"));
        assert!(date.as_bytes()[3] == b' ' && date.contains(", 20"), "{date}");
    }
    assert_eq!(sue.get(&format!("/search?q={}", "x".repeat(300))).await.status, 400);
    server.stop().await;
}
