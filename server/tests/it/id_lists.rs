//! Lists and actions on ids: exactly these items, as far as the caller may see them.

use serde_json::{Value, json};

use crate::{
    bulk::{claim, id, kill},
    lists::all,
    support::{Api, Server},
};

const OPERATIONS: &str = "/api/v1/bulk-operations";

/// Creates a job with `n` dead items; returns its id and theirs, in order.
async fn graveyard(api: &Api, name: &str, n: usize) -> (String, Vec<String>) {
    let items: Vec<Value> = (0..n).map(|n| json!({"payload": {"n": n}})).collect();
    let job = id(&api.post("/api/v1/jobs", json!({"type": name, "sealed": true, "items": items})).await.expect(201));
    for assignment in claim(api, name, 1_000, 0).await {
        kill(api, &assignment).await;
    }
    let items = all(api, &format!("/api/v1/items?job={job}&state=dead")).await;
    assert_eq!(items.len(), n);
    (job, items)
}

fn these<const N: usize>(ids: [&String; N]) -> [String; N] {
    ids.map(Clone::clone)
}

async fn two_shops(server: &Server) -> (Api, Api) {
    for name in ["a", "b"] {
        server.put(&format!("/api/v1/job-types/{name}"), json!({})).await.expect(201);
    }
    let scopes = ["jobs:read", "jobs:write", "work"];
    (server.service("shop", &scopes).await, server.service("bakery", &scopes).await)
}

/// Waits until the operation is finished.
async fn over(api: &Api, id: &str) -> Value {
    tokio::time::timeout(std::time::Duration::from_mins(1), async {
        loop {
            let now = api.get(&format!("{OPERATIONS}/{id}")).await.expect(200);
            if matches!(now["state"].as_str(), Some("completed" | "ready")) {
                return now;
            }
            crate::support::moment().await;
        }
    })
    .await
    .expect("the operation gets there")
}

async fn dead(api: &Api, job: &str) -> Vec<String> {
    all(api, &format!("/api/v1/items?job={job}&state=dead")).await
}

#[tokio::test]
async fn id_list_filter_keeps_order() {
    let server = Server::start().await;
    let (shop, bakery) = two_shops(&server).await;
    let (one, items) = graveyard(&shop, "a", 5).await;
    let (two, more) = graveyard(&shop, "b", 2).await;
    let (of_bakery, theirs) = graveyard(&bakery, "b", 1).await;
    let nobodys = "00000000-0000-7000-8000-000000000000";

    let list = |ids: &[&String], rest: &str| {
        let ids = ids.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(",");
        let (shop, path) = (&shop, format!("/api/v1/items?sort=created_at&id={ids},{nobodys}{rest}"));
        async move { all(shop, &path).await }
    };
    let both = [&more[1], &items[3], &items[0], &items[3], &theirs[0]];
    assert_eq!(list(&both, "").await, these([&items[0], &items[3], &more[1]]));
    assert_eq!(list(&both, "&limit=1").await, these([&items[0], &items[3], &more[1]]), "page by page");
    assert_eq!(list(&both, &format!("&job={one}")).await, these([&items[0], &items[3]]));
    assert_eq!(list(&both, "&type=b").await, these([&more[1]]));
    assert_eq!(list(&both, "&state=succeeded").await, Vec::<String>::new());
    assert_eq!(list(&both, "&q=%22n%22%3A3").await, these([&items[3]]), "a text may be sought among them");
    assert_eq!(all(&server, &format!("/api/v1/items?id={}", theirs[0])).await, theirs, "staff see everybody's");

    let jobs = format!("/api/v1/jobs?id={one},{of_bakery},{two},{nobodys}");
    assert_eq!(all(&shop, &jobs).await, these([&two, &one]));
    assert_eq!(all(&shop, &format!("{jobs}&limit=1")).await, these([&two, &one]));
    assert_eq!(all(&shop, &format!("{jobs}&type=b&root=true")).await, these([&two]));
    assert_eq!(all(&server, &jobs).await, these([&of_bakery, &two, &one]));

    for list in ["items", "jobs", "dead-letters"] {
        shop.get(&format!("/api/v1/{list}?id=12")).await.expect_problem(400, "invalid_parameter");
        let many = vec![nobodys; 1_001].join(",");
        shop.get(&format!("/api/v1/{list}?id={many}")).await.expect_problem(400, "invalid_parameter");
    }
    server.stop().await;
}

#[tokio::test]
async fn bulk_operation_by_ids_ignores_foreign_items() {
    let server = Server::start().await;
    let (shop, bakery) = two_shops(&server).await;
    let (job, items) = graveyard(&shop, "a", 6).await;
    let (of_bakery, theirs) = graveyard(&bakery, "b", 2).await;

    let chosen = [&items[1], &items[4], &items[2], &theirs[0]];
    let body = json!({"action": "retry", "target": "items", "filter": {"id": chosen}});
    let done = over(&shop, &id(&shop.post(OPERATIONS, body).await.expect(202))).await;
    assert_eq!((&done["total"], &done["processed"], &done["errored"]), (&json!(3), &json!(3), &json!(0)));
    assert_eq!(dead(&shop, &job).await, these([&items[0], &items[3], &items[5]]));
    assert_eq!(dead(&bakery, &of_bakery).await, theirs, "a stranger's is not touched");

    let body = json!({"action": "retry", "target": "items", "filter": {"id": theirs[0]}});
    let none = over(&shop, &id(&shop.post(OPERATIONS, body).await.expect(202))).await;
    assert_eq!(none["total"], json!(0));

    let body = json!({"action": "cancel", "target": "jobs", "filter": {"id": format!("{job},{of_bakery}")}});
    let done = over(&shop, &id(&shop.post(OPERATIONS, body).await.expect(202))).await;
    assert_eq!((&done["total"], &done["processed"]), (&json!(1), &json!(1)));
    let of_bakery = bakery.get(&format!("/api/v1/jobs/{of_bakery}")).await.expect(200);
    assert_eq!(of_bakery["tree"]["outcome"], "failed", "{of_bakery}");
    server.stop().await;
}

#[tokio::test]
async fn selected_rows_are_previewed() {
    let server = Server::start().await;
    let (shop, _) = two_shops(&server).await;
    let (job, items) = graveyard(&shop, "a", 4).await;
    let grace = server.person("Grace", "support").await;
    let page = grace.get("/dead").await;
    assert!(page.text.contains(&format!("value=\"{}\"", items[0])), "{}", page.text);
    assert!(page.text.contains("Select all 4 that match"), "{}", page.text);
    let page = grace.get(&format!("/items?q=job:{job} state:dead,running")).await;
    assert!(page.text.contains("Select all 4 that match"), "{}", page.text);

    let nothing =
        grace.form("/bulk", &[("selection", "yes"), ("what", "retry items"), ("matching", "state:dead")]).await;
    assert_eq!(nothing.status, 422, "{}", nothing.text);
    assert!(nothing.text.contains("Nothing was selected"), "{}", nothing.text);

    let preview = async |fields: &[(&str, &str)]| {
        let answer = grace.form("/bulk", fields).await;
        assert_eq!(answer.status, 303, "{}", answer.text);
        let to = answer.headers["location"].to_str().expect("text").to_owned();
        (over(&grace, to.trim_start_matches("/bulk/")).await, to)
    };
    let fields = [
        ("selection", "yes"),
        ("matching", "state:dead"),
        ("id", items[3].as_str()),
        ("id", items[0].as_str()),
        ("what", "retry items"),
    ];
    let (dry, to) = preview(&fields).await;
    assert_eq!((&dry["dry_run"], &dry["total"]), (&json!(true), &json!(2)), "{dry}");
    let begun = grace.form(&format!("{to}/start"), &[("reason", "the bank said yes")]).await;
    assert_eq!(begun.status, 303, "{}", begun.text);
    let begun = begun.headers["location"].to_str().expect("text").to_owned();
    over(&grace, begun.trim_start_matches("/bulk/")).await;
    assert_eq!(dead(&shop, &job).await, items[1..3]);

    let (dry, _) = preview(&[&fields[..], &[("all", "yes")]].concat()).await;
    assert_eq!(dry["total"], json!(2), "all that match now: {dry}");
    server.stop().await;
}
