//! Views of a job: graph, timeline, results and activity, as pages without a script.

use serde_json::{Value, json};

use crate::{
    lists::{claim, id},
    support::{Api, Server},
};

async fn end(api: &Api, assignment: &Value, verb: &str, body: Value) {
    api.post(&format!("/api/v1/assignments/{}/{verb}", id(assignment)), body).await.expect(200);
}

async fn page(api: &Api, path: &str) -> String {
    let answer = api.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    answer.text.replace("<!>", "")
}

/// Text between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text.split_once(from).unwrap_or_else(|| panic!("{from} in {text}")).1;
    rest.split_once(to).expect("an end").0
}

/// Payroll: a stage that feeds another, a job beside it, and one that waits for both.
async fn payroll(server: &Server) -> Value {
    for name in ["calculate", "check", "ledger", "report"] {
        server.put(&format!("/api/v1/job-types/{name}"), json!({"max_failures": 1})).await.expect(201);
    }
    let items: Vec<Value> = (0..4).map(|n| json!({"payload": n})).collect();
    let body = json!({"type": "calculate", "key": "calculate", "name": "Payroll <March>", "sealed": true, "items": items,
        "children": [
            {"type": "check", "key": "check", "feed": {}},
            {"type": "ledger", "key": "ledger", "sealed": true, "items": [{"payload": 1}]},
            {"type": "report", "key": "report", "sealed": true, "items": [{"payload": 1}], "after": ["check", "ledger"]}]});
    server.post("/api/v1/jobs", body).await.expect(201)
}

#[tokio::test]
async fn graph_shows_edges_states_and_links_and_the_same_as_a_table() {
    let server = Server::start().await;
    let tree = payroll(&server).await;
    let claimed = claim(&server, "w", &["calculate"], 4).await;
    for assignment in &claimed[..3] {
        end(&server, assignment, "result", json!({"result": {}})).await;
    }
    end(&server, &claimed[3], "failure", json!({"error": {"message": "no"}})).await;
    let text = page(&server, &format!("/jobs/{}?view=graph", id(&tree))).await;
    let graph = between(&text, "class=\"dag\"", "</section>");
    for (part, n) in [
        ("class=\"edge edge-live\"", 1),
        ("class=\"edge edge-after\"", 2),
        ("class=\"edge edge-part\"", 2),
        ("<a href=\"/jobs/", 8),
    ] {
        assert_eq!(graph.matches(part).count(), n, "{part}: {graph}");
    }
    for label in [
        "aria-label=\"Payroll &lt;March&gt;: Partly failed, 4 of 4, 1 failed\"",
        "aria-label=\"check: Waiting, 0 of 3\"",
        "aria-label=\"report: Waiting, 0 of 1\"",
        ">1 failed<",
        "data-label=\"Runs after\">check, ledger<",
        "data-label=\"Fed by\">Payroll &lt;March&gt;<",
    ] {
        assert!(graph.contains(label), "{label}: {graph}");
    }
    for child in tree["children"].as_array().expect("children") {
        assert!(graph.contains(&format!("href=\"/jobs/{}\"", id(child))), "{graph}");
    }
    assert!(text.contains("href=\"/jobs/") && text.contains("view=graph\" aria-current=\"page\""), "{text}");
    assert!(!text.contains("id=\"active-items\"") && !text.contains("<March>"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn graph_of_a_large_tree_collapses() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let group = |n: usize| {
        let below: Vec<Value> =
            (0..60).map(|m| json!({"type": "a", "key": format!("g{n}-{m}"), "items": [{"payload": 1}]})).collect();
        json!({"type": "a", "key": format!("g{n}"), "children": below})
    };
    let body = json!({"type": "a", "key": "root", "children": (0..5).map(group).collect::<Vec<Value>>()});
    let tree = server.post("/api/v1/jobs", body).await.expect(201);
    let text = page(&server, &format!("/jobs/{}?view=graph", id(&tree))).await;
    let graph = between(&text, "class=\"dag\"", "</svg></div><p class=\"card-foot\"");
    let nodes = graph.matches("<a href").count();
    assert_eq!(nodes, 6 + 180, "three groups have room");
    assert!(graph.contains("aria-label=\"g4: 61 jobs, waiting, 0 of 60\""), "{graph}");
    let collapsed = id(&tree["children"][4]);
    assert!(graph.contains(&format!("href=\"/jobs/{collapsed}?view=graph\"")), "{graph}");
    let own = page(&server, &format!("/jobs/{collapsed}?view=graph")).await;
    assert_eq!(between(&own, "class=\"dag\"", "<details").matches("<a href").count(), 61);
    server.stop().await;
}

#[tokio::test]
async fn timeline_zooms_and_moves_by_links() {
    let server = Server::start().await;
    let tree = payroll(&server).await;
    for assignment in &claim(&server, "w", &["calculate", "ledger"], 5).await {
        end(&server, assignment, "result", json!({"result": {}})).await;
    }
    // The ledger ran exactly from 1.25 to 4 seconds, and the whole takes at least ten.
    sqlx::query("update job set created_at = created_at - interval '10 seconds'")
        .execute(&server.running.app.pool)
        .await
        .expect("moved");
    sqlx::query(
        "with began as (select min(created_at) as at from job)
         update job_state set started_at = began.at + interval '1 second 250 milliseconds',
           completed_at = case when completed_at is null then null else began.at + interval '4 seconds' end
         from began where started_at is not null",
    )
    .execute(&server.running.app.pool)
    .await
    .expect("moved");
    let path = format!("/jobs/{}?view=timeline", id(&tree));
    let text = page(&server, &path).await;
    let link = |text: &str, word: &str| -> Option<String> {
        let before = text.split_once(&format!("\">{word}</a>"))?.0;
        before.rsplit_once("href=\"")?.1.split('"').next().map(|to| to.replace("&amp;", "&"))
    };
    assert!(text.contains("2.8 s"), "the ledger ran for so long: {text}");
    assert!(text.contains("1.3 s"), "and waited for so long: {text}");
    assert!(text.contains("id=\"gantt\"") && text.contains("Not started"), "{text}");
    assert_eq!(link(&text, "Zoom out"), None, "the whole is shown");
    let near = link(&text, "Zoom in").expect("a link");
    assert!(near.contains("&from=") && near.contains("&to="), "{near}");
    let text = page(&server, &near).await;
    for word in ["Zoom in", "Zoom out", "Earlier", "Later", "Whole timeline"] {
        let to = link(&text, word).unwrap_or_else(|| panic!("{word}"));
        page(&server, &to).await;
    }
    assert_eq!(link(&text, "Whole timeline"), Some(path.clone()));
    let ledger = text.split("<a ").find(|link| link.contains("aria-label=\"Zoom to ledger\"")).expect("a link");
    assert!(ledger.contains("view=timeline&amp;from="), "it is shorter than the whole: {ledger}");
    // A window after the end, or what is no time, is the whole.
    for odd in ["&from=nonsense&to=x", "&from=2001-01-01T00:00:00Z&to=2000-01-01T00:00:00Z"] {
        assert_eq!(link(&page(&server, &format!("{path}{odd}")).await, "Whole timeline"), None);
    }
    server.stop().await;
}

#[tokio::test]
async fn results_and_activity_are_paged_and_follow_rights() {
    let server = Server::start().await;
    let owner = server.service("payroll", &["jobs:read", "jobs:write", "work"]).await;
    server.put("/api/v1/job-types/a", json!({"max_failures": 1})).await.expect(201);
    let items: Vec<Value> = (0..61).map(|n| json!({"payload": n})).collect();
    let tree = owner.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201);
    let claimed = claim(&owner, "w", &["a"], 61).await;
    for (n, assignment) in claimed[..60].iter().enumerate() {
        end(&owner, assignment, "result", json!({"result": {"sum": format!("sum-{n}.")}})).await;
    }
    end(&owner, &claimed[60], "failure", json!({"error": {"message": "no"}})).await;
    let path = format!("/jobs/{}?view=results", id(&tree));
    let text = page(&server, &path).await;
    assert_eq!(text.matches("sum-").count(), 50, "{text}");
    assert!(text.contains("results?format=ndjson"), "the downloads are there");
    let next = between(&text, "class=\"pages\"><a href=\"", "\"").replace("&amp;", "&");
    let rest = page(&server, &next).await;
    assert_eq!(rest.matches("sum-").count(), 10, "{rest}");
    assert_eq!(server.get(&next.replace(id(&tree), "0193f0f0-0000-7000-8000-000000000000")).await.status, 404);

    let grace = server.person("Grace", "support").await;
    let item = claimed[60]["item"]["id"].as_str().expect("an id");
    grace.post(&format!("/api/v1/items/{item}/retry"), json!({"reason": "account was opened"})).await.expect(200);
    let text = page(&grace, &format!("/jobs/{}?view=activity", id(&tree))).await;
    for part in ["Retried item", "account was opened", "Grace", "href=\"/audit\"", "href=\"/audit?actor=Grace\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Owners read the activity of their job, without links to the audit log, which they may not open.
    let ann = server.person("Ann", "user").await;
    let own = ann.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    grace.post(&format!("/api/v1/jobs/{}/cancel", id(&own)), json!({"reason": "a duplicate"})).await.expect(200);
    let text = page(&ann, &format!("/jobs/{}?view=activity", id(&own))).await;
    for part in ["Canceled job", "a duplicate", "Grace"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("\"/audit"), "{text}");
    // Somebody else's job is not found in any view.
    for view in ["graph", "timeline", "results", "activity"] {
        assert_eq!(ann.get(&format!("/jobs/{}?view={view}", id(&tree))).await.status, 404, "{view}");
    }
    server.stop().await;
}

#[tokio::test]
async fn numbers_of_a_job_between_root_and_leaves_are_those_of_its_links_and_buttons() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"max_failures": 1})).await.expect(201);
    let items = |n: usize| vec![json!({"payload": 1}); n];
    let leaf = json!({"type": "a", "key": "leaf", "sealed": true, "items": items(2)});
    let middle = json!({"type": "a", "key": "middle", "sealed": true, "items": items(1), "children": [leaf]});
    let body = json!({"type": "a", "key": "root", "sealed": true, "items": items(1), "children": [middle]});
    let tree = server.post("/api/v1/jobs", body).await.expect(201);
    for assignment in claim(&server, "w", &["a"], 4).await {
        end(&server, &assignment, "failure", json!({"error": {"message": "no account"}})).await;
    }
    let (root, middle) = (id(&tree), id(&tree["children"][0]));
    let summary = page(&server, &format!("/jobs/{middle}")).await;
    assert!(summary.contains("1 failed item in 1 group, 2 in the jobs below"), "{summary}");
    assert!(summary.contains("Retry 1 failed") && !summary.contains("state%3Adead"), "{summary}");
    let groups = async |q: &str| {
        let text = page(&server, &format!("/dead?q={q}")).await;
        between(&text, "data-count=\"\">", "<").to_owned()
    };
    for (q, n) in [(format!("job:{middle}"), "1"), (format!("root:{root}"), "4"), (format!("job:{root}"), "1")] {
        assert_eq!(groups(&q).await, n, "{q}");
    }
    let of_tree = page(&server, &format!("/jobs/{root}")).await;
    assert!(of_tree.contains("4 failed items in 1 group") && of_tree.contains("state%3Adead"), "{of_tree}");
    // The items of a job stand below its head: name, state, progress, and the way back.
    let items = page(&server, &format!("/items?q=job:{middle}")).await;
    let head = between(&items, "id=\"job\"", "id=\"list\"");
    for part in ["Items of middle", "Progress of middle", "Failed", &format!("href=\"/jobs/{middle}\"")] {
        assert!(head.contains(part), "{part}: {head}");
    }
    // The API counts the group of a job with the jobs below it.
    let api = server.get(&format!("/api/v1/dead-letters/groups?job={middle}")).await.expect(200);
    assert_eq!(api["data"][0]["count"], 3);
    server.stop().await;
}
