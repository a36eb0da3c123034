//! Confirmation pages: number of items, permissions, payloads before and after, and an example of a real error.

use serde_json::{Value, json};

use crate::{
    bulk::{claim, id, kill},
    support::{Answer, Api, Server},
};

/// A service with a job type that accepts any payload.
async fn shop(server: &Server) -> Api {
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    server.service("shop", &["jobs:read", "jobs:write", "work"]).await
}

/// A job whose items are all dead; returns the job and the items in order.
async fn dead(shop: &Api, payloads: &[Value]) -> (String, Vec<String>) {
    let items: Vec<Value> = payloads.iter().map(|payload| json!({"payload": payload})).collect();
    let job = id(&shop.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201));
    let mut items = Vec::new();
    for assignment in claim(shop, "a", 1_000, 0).await {
        kill(shop, &assignment).await;
        items.push(id(&assignment["item"]));
    }
    assert_eq!(items.len(), payloads.len());
    (job, items)
}

#[track_caller]
fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.headers["location"].to_str().expect("text").to_owned()
}

#[tokio::test]
async fn error_group_example_belongs_to_the_group() {
    let server = Server::start().await;
    let shop = shop(&server).await;
    let (job, mut items) = dead(&shop, &[json!(1), json!(2), json!(3)]).await;
    // Whichever is the example, it goes; another takes its place, in the job and over all jobs.
    for left in [2, 1] {
        let groups = shop.get("/api/v1/dead-letters/groups").await.expect(200);
        let example = groups["data"][0]["sample_item_id"].as_str().expect("an item").to_owned();
        assert!(items.contains(&example), "{groups}");
        shop.post(&format!("/api/v1/items/{example}/retry"), json!({})).await.expect(200);
        items.retain(|item| *item != example);
        for path in ["/api/v1/dead-letters/groups".to_owned(), format!("/api/v1/dead-letters/groups?job={job}")] {
            let groups = shop.get(&path).await.expect(200);
            assert_eq!(groups["data"][0]["count"], json!(left), "{groups}");
            let example = groups["data"][0]["sample_item_id"].as_str().expect("an item").to_owned();
            assert!(items.contains(&example), "{path}: {groups}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn changed_item_count_is_confirmed_before_bulk_action() {
    let server = Server::start().await;
    let shop = shop(&server).await;
    let (job, items) = dead(&shop, &[json!(1), json!(2), json!(3)]).await;
    let grace = server.person("Grace", "support").await;
    let q = format!("root:{job}");
    let preview = location(&grace.form("/bulk", &[("what", "retry items"), ("q", &format!("state:dead {q}"))]).await);
    assert!(grace.get(&preview).await.text.contains("name=\"count\" value=\"3\""));
    shop.post(&format!("/api/v1/items/{}/retry", items[0]), json!({})).await.expect(200);

    let fields = [("count", "3"), ("reason", "the bank is open")];
    let changed = grace.form(&format!("{preview}/start"), &fields).await;
    assert_eq!(changed.status, 422, "{}", changed.text);
    assert!(changed.text.contains("It was 3 items, now it is 2 items."), "{}", changed.text);
    assert!(changed.text.contains("the bank is open"), "what was typed stays: {}", changed.text);
    let counts = shop.get(&format!("/api/v1/jobs/{job}")).await.expect(200)["counts"].clone();
    assert_eq!((&counts["dead"], &counts["available"]), (&json!(2), &json!(1)), "nothing was done");
    // The page is the preview of what matches now, and its form begins that.
    let at = changed.text.find("action=\"/bulk/").expect("a form") + 8;
    let action: String = changed.text[at..].chars().take_while(|c| *c != '"').collect();
    assert_ne!(action, format!("{preview}/start"));
    location(&grace.form(&action, &[("count", "2"), ("reason", "the bank is open")]).await);
    server.stop().await;
}

#[tokio::test]
async fn delete_action_is_hidden_for_foreign_trees() {
    let server = Server::start().await;
    let shop = shop(&server).await;
    let (job, _) = dead(&shop, &[json!(1)]).await;
    let grace = server.person("Grace", "support").await;
    let fields = [("what", "delete jobs"), ("q", &format!("id:{job}"))];
    let preview = location(&grace.form("/bulk", &fields).await);
    let page = grace.get(&preview).await;
    assert!(page.text.contains("Nothing to do"), "{}", page.text);
    assert!(page.text.contains("1 is not yours") && !page.text.contains("/start\""), "{}", page.text);
    // Its owner and admins are offered the button.
    let admin = server.admin().await;
    let preview = location(&admin.form("/bulk", &fields).await);
    let page = admin.get(&preview).await;
    assert!(page.text.contains("Delete 1 job") && page.text.contains("/start\""), "{}", page.text);
    server.stop().await;
}

#[tokio::test]
async fn payload_edit_preview_keeps_text_values_as_text() {
    let server = Server::start().await;
    let shop = shop(&server).await;
    let (job, _) = dead(&shop, &[json!({"zip": "00917"}), json!({"zip": "10117"})]).await;
    let grace = server.person("Grace", "support").await;
    let q = format!("state:dead root:{job}");
    let start = format!("{}/start", location(&grace.form("/bulk", &[("what", "retry items"), ("q", &q)]).await));
    let fields = [("count", "2"), ("reason", "moved"), ("edits", "set /zip 10115")];
    let page = grace.form(&start, &fields).await;
    assert_eq!(page.status, 422, "{}", page.text);
    for part in ["is kept as the text", "-   \"zip\": \"00917\"", "+   \"zip\": \"10115\""] {
        assert!(page.text.contains(part), "{part} in {}", page.text);
    }
    assert_eq!(shop.get(&format!("/api/v1/jobs/{job}")).await.expect(200)["counts"]["dead"], 2, "nothing was done");
    location(&grace.form(&start, &[&fields[..], &[("seen_edits", "set /zip 10115")]].concat()).await);
    let mut back = Vec::new();
    while back.len() < 2 {
        back.extend(claim(&shop, "a", 10, 5).await);
    }
    assert!(back.iter().all(|one| one["item"]["payload"]["zip"] == json!("10115")), "{back:?}");
    server.stop().await;
}

#[tokio::test]
async fn empty_search_suggests_other_places() {
    let server = Server::start().await;
    let grace = server.person("Grace", "support").await;
    for path in ["/items?q=4711", "/items?q=4711+state:dead"] {
        let page = grace.get(path).await;
        assert!(page.text.contains("href=\"/dead?q=4711\""), "{path}: {}", page.text);
        assert!(page.text.contains("Search failed items") && page.text.contains("href=\"/jobs?q=4711\""), "{path}");
    }
    assert!(!grace.get("/items?q=4711").await.text.contains("Parameter q"));
    server.stop().await;
}
