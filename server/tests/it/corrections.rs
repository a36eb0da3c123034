//! From a file with mismatching columns to its corrected rows: warnings before it runs, and the two ways to correct
//! failed rows. Through the pages without scripts, and through the API.

use serde_json::{Value, json};

use crate::{
    concurrent_writes::{lock_job, waiting},
    import_review::Fields,
    support::{
        Answer, Api, Server,
        imports::{complete, import, lines, upload},
        until,
    },
};

const FILE: &str = "id,customer,amount\n1,Ada,10\n2,Ben,12 CHF\n3,\"<b>Cy</b>\",007\n4,,1.50\n";

/// A type that requires numbers in columns that hold other values.
async fn invoices(server: &Server) {
    let schema = json!({
        "type": "object", "required": ["id", "amount", "customer"], "additionalProperties": false,
        "properties": {"id": {"type": "string"}, "amount": {"type": "number"}, "customer": {"type": "string", "minLength": 1}},
    });
    let spec =
        json!({"executor": {"kind": "builtin", "name": "validate"}, "max_failures": 1, "payload_schema": schema});
    server.put("/api/v1/job-types/invoices", spec).await.expect(201);
}

/// Submits the form of `/imports/new` like a browser without scripts.
async fn post_form(caller: &Api, fields: &[(&str, &str)], file: Option<(&str, &str)>) -> Answer {
    let mut form = reqwest::multipart::Form::new();
    for (name, value) in fields {
        form = form.text((*name).to_owned(), (*value).to_owned());
    }
    if let Some((name, content)) = file {
        let part = reqwest::multipart::Part::bytes(content.as_bytes().to_vec()).file_name(name.to_owned());
        form = form.part("file", part);
    }
    Answer::of(caller.request(reqwest::Method::POST, "/imports").multipart(form)).await
}

/// Value of a hidden field.
fn hidden(page: &str, name: &str) -> String {
    let at = page.find(&format!("name=\"{name}\"")).unwrap_or_else(|| panic!("no field {name} in {page}"));
    let value = &page[at..];
    let value = &value[value.find("value=\"").expect("a value") + 7..];
    value[..value.find('"').expect("its end")].to_owned()
}

fn id_of(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.headers["location"].to_str().expect("text").rsplit('/').next().expect("an id").to_owned()
}

async fn done(caller: &Api, id: &str) -> Value {
    let job = caller.get(&format!("/api/v1/jobs/{id}")).await.expect(200);
    if job["status"] == "completed" { job } else { complete(caller, &job).await }
}

#[tokio::test]
async fn mismatched_columns_are_reported_before_import() {
    let server = Server::start().await;
    invoices(&server).await;
    let ada = server.person("ada", "user").await;
    let id = upload(&ada, "invoices.csv", "id,custommer,amount\n1,Ada,10\n2,Ben,12 CHF\n3,Cy,2 CHF\n").await;
    let preview = ada.get(&format!("/api/v1/uploads/{id}/preview?type=invoices")).await.expect(200);
    let check = &preview["check"];
    assert_eq!((&check["type"], &check["rows"]), (&json!("invoices"), &json!(3)));
    assert_eq!(check["expected"], json!(["amount", "customer", "id"]));
    let findings: Vec<(&str, &str)> = check["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .map(|finding| (finding["kind"].as_str().expect("a kind"), finding["message"].as_str().expect("a sentence")))
        .collect();
    assert_eq!(
        findings,
        [
            ("missing", "Column customer is missing; every row needs it."),
            ("unknown", "Column custommer is not among those that are expected."),
            (
                "mismatch",
                "Column amount: expected a number, found \"12 CHF\" in line 3, and one more like it in the first 3 rows."
            ),
        ]
    );
    // Without the question the answer is what it always was.
    let plain = ada.get(&format!("/api/v1/uploads/{id}/preview")).await.expect(200);
    assert!(plain.get("check").is_none(), "{plain}");
    let unknown = ada.get(&format!("/api/v1/uploads/{id}/preview?type=nothing")).await;
    unknown.expect_problem(422, "unknown_job_type");
    let none = ada.get(&format!("/api/v1/uploads/{id}/preview?type=import")).await.expect(200);
    assert!(none.get("check").is_none(), "a type without a schema expects nothing");

    // Without scripts the form comes back once, with what was found and the file in it.
    let typed = [("type", "invoices"), ("header", "yes"), ("delimiter", "")];
    let page = post_form(&ada, &typed, Some(("invoices.csv", FILE))).await;
    assert_eq!(page.status, 422, "{}", page.text);
    assert!(page.text.contains("expected a number, found \"12 CHF\" in line 3"), "{}", page.text);
    let (stored, checked) = (hidden(&page.text, "upload_id"), hidden(&page.text, "checked"));
    let mut again = typed.to_vec();
    again.extend([("upload_id", stored.as_str()), ("checked", checked.as_str())]);
    // Another file has not been seen, though the form says that one was.
    let other = post_form(&ada, &again, Some(("invoices.csv", FILE))).await;
    assert_eq!(other.status, 422);
    let job = done(&ada, &id_of(&post_form(&ada, &again, None).await)).await;
    assert_eq!((&job["counts"]["succeeded"], &job["counts"]["dead"]), (&json!(1), &json!(3)));
    // What fits starts at once.
    let good = post_form(&ada, &typed, Some(("good.csv", "id,customer,amount\n1,Ada,10\n"))).await;
    assert_eq!(done(&ada, &id_of(&good)).await["outcome"], "succeeded");
    server.stop().await;
}

#[tokio::test]
async fn failed_rows_are_corrected_in_the_browser() {
    let server = Server::start().await;
    invoices(&server).await;
    let (ada, eve) = (server.person("ada", "user").await, server.person("eve", "user").await);
    let sue = server.person("sue", "support").await;
    let file = upload(&ada, "invoices.csv", FILE).await;
    let job = complete(&ada, &import(&ada, "invoices", &file).await).await;
    assert_eq!(job["counts"]["dead"], 3);
    let id = job["id"].as_str().expect("an id");
    let path = format!("/imports/{id}/correct");
    let import_page = ada.get(&format!("/imports/{id}")).await.text;
    assert!(import_page.contains(&format!("href=\"{path}\"")), "{import_page}");
    assert_eq!(eve.get(&path).await.status, 404);
    assert_eq!(eve.form(&path, &[("others", "yes")]).await.status, 404);

    let failed = lines(&ada, &job, "failures").await;
    let field = |row: i64, column: usize| {
        let item = failed.iter().find(|line| line["row"] == row).expect("a failed row");
        format!("c.{}.{column}", item["item_id"].as_str().expect("an id"))
    };
    let page = ada.get(&path).await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains(&field(3, 2)) && page.text.contains("value=\"12 CHF\""), "{}", page.text);
    assert!(page.text.contains("&lt;b&gt;Cy&lt;/b&gt;") && !page.text.contains("<b>Cy"), "{}", page.text);

    // The error is in the cell that it is about, which names it as its description.
    let cell = |text: &str, name: &str| {
        let rest = text.split_once(&format!("name=\"{name}\"")).expect("a field").1;
        rest.split_once("</td>").expect("an end").0.to_owned()
    };
    let (bad, good) = (cell(&page.text, &field(3, 2)), cell(&page.text, &field(3, 1)));
    assert!(bad.contains("aria-describedby=\"why-") && bad.contains("Expected a number, found \"12 CHF\""), "{bad}");
    assert!(!good.contains("aria-describedby") && !good.contains("expected"), "{good}");

    // Two rows are changed; the third, sent as it is, stays where it is.
    let (three, four, five) = (field(3, 2), field(4, 2), field(5, 1));
    let same = field(5, 2);
    let typed = [(three.as_str(), "12.00"), (&four, "7.0"), (&five, ""), (&same, "1.50")];
    assert_eq!(ada.form(&path, &typed).await.status, 303);
    let job = done(&ada, id).await;
    assert_eq!((&job["counts"]["succeeded"], &job["counts"]["dead"]), (&json!(3), &json!(1)));
    let raw = ada.get(&format!("/api/v1/jobs/{id}/results")).await.text;
    assert!(raw.contains("\"amount\":12.00") && raw.contains("\"amount\":7.0"), "same text, as a number: {raw}");
    assert!(raw.contains("\"id\":\"2\""), "what was text stays text: {raw}");

    // What does not fit comes back with what was typed.
    let refused = ada.form(&path, &[(same.as_str(), "a few"), (five.as_str(), "Di")]).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("Expected a number, found \"a few\""), "{}", refused.text);
    assert!(refused.text.contains("value=\"Di\""), "{}", refused.text);
    let bad = cell(&refused.text, &same);
    assert!(bad.contains("aria-invalid=\"true\"") && bad.contains("found \"a few\""), "{bad}");
    let nothing = ada.form(&path, &[]).await;
    assert_eq!(nothing.status, 422);
    assert!(nothing.text.contains("Nothing was changed"), "{}", nothing.text);
    // On somebody else's work it takes a reason.
    assert_eq!(sue.form(&path, &[(five.as_str(), "Di")]).await.status, 422);
    let reasoned = sue.form(&path, &[(five.as_str(), "Di"), ("reason", "asked on the phone")]).await;
    assert_eq!(reasoned.status, 303, "{}", reasoned.text);
    assert_eq!(done(&ada, id).await["outcome"], "succeeded");
    let page = ada.get(&path).await;
    assert!(page.text.contains("Nothing to fix"), "{}", page.text);
    server.stop().await;
}

#[tokio::test]
async fn corrected_file_is_linked_to_the_original_import() {
    let server = Server::start().await;
    invoices(&server).await;
    let (ada, eve) = (server.person("ada", "user").await, server.person("eve", "user").await);
    let file = upload(&ada, "invoices.csv", FILE).await;
    let first = complete(&ada, &import(&ada, "invoices", &file).await).await;
    let first_id = first["id"].as_str().expect("an id").to_owned();
    let again = ada.get(&format!("/imports/new?again={first_id}")).await;
    assert_eq!(again.status, 200);
    assert!(again.text.contains("Upload corrected rows") && hidden(&again.text, "corrects") == first_id);
    let second = ada.get(&format!("/imports/new?upload_id={file}&corrects={first_id}")).await;
    assert!(second.text.contains("<option value=\"invoices\" selected"), "{}", second.text);
    assert_eq!(eve.get(&format!("/imports/new?again={first_id}")).await.status, 404);

    let list = ada.get(&format!("/api/v1/jobs/{first_id}/failures?format=csv")).await.text;
    let corrected = list.replace("12 CHF", "12").replace(",007,", ",7,").replace("4,,1.50", "4,Di,1.50");
    let typed = [("type", "invoices"), ("header", "yes"), ("corrects", first_id.as_str())];
    let stolen = post_form(&eve, &typed, Some(("fixed.csv", &corrected))).await;
    assert_eq!(stolen.status, 422, "{}", stolen.text);
    let second = done(&ada, &id_of(&post_form(&ada, &typed, Some(("fixed.csv", &corrected))).await)).await;
    assert_eq!(second["metadata"], json!({"corrects": first_id}));
    assert_eq!((&second["outcome"], &second["counts"]["succeeded"]), (&json!("succeeded"), &json!(3)));
    let rows: Vec<Value> = lines(&ada, &second, "results").await.iter().map(|line| line["row"].clone()).collect();
    assert_eq!(rows, [3, 4, 5], "each row keeps its line");
    let second_id = second["id"].as_str().expect("an id");
    let (first_page, second_page) =
        (ada.get(&format!("/imports/{first_id}")).await, ada.get(&format!("/imports/{second_id}")).await);
    assert!(first_page.text.contains(&format!("href=\"/imports/{second_id}\"")), "{}", first_page.text);
    assert!(second_page.text.contains(&format!("href=\"/imports/{first_id}\"")), "{}", second_page.text);

    // Whoever writes somebody else's id there learns nothing.
    let forged =
        json!({"type": "import", "items": [{"payload": 1}], "sealed": true, "metadata": {"corrects": first_id}});
    let forged = eve.post("/api/v1/jobs", forged).await.expect(201);
    let page = eve.get(&format!("/imports/{}", forged["id"].as_str().expect("an id"))).await;
    assert!(!page.text.contains("invoices.csv") && !page.text.contains("These rows correct"), "{}", page.text);
    let page = ada.get(&format!("/imports/{first_id}")).await;
    assert_eq!(page.text.matches("Corrected rows were uploaded").count(), 1);
    server.stop().await;
}

#[tokio::test]
async fn corrected_rows_supersede_failed_rows() {
    let server = Server::start().await;
    invoices(&server).await;
    let (ada, sue) = (server.person("ada", "user").await, server.person("sue", "support").await);
    let file = upload(&ada, "invoices.csv", FILE).await;
    let first = complete(&ada, &import(&ada, "invoices", &file).await).await;
    let first_id = first["id"].as_str().expect("an id").to_owned();
    let failed = lines(&ada, &first, "failures").await;
    let item = |row: i64| {
        let line = failed.iter().find(|line| line["row"] == row).expect("a failed row");
        line["item_id"].as_str().expect("an id").to_owned()
    };
    let list = ada.get(&format!("/api/v1/jobs/{first_id}/failures?format=csv")).await.text;
    let again = |caller: &Api, content: String| {
        let (caller, first_id) = (caller.clone(), first_id.clone());
        async move {
            let upload = upload(&caller, "fixed.csv", content).await;
            let body = json!({"type": "invoices", "upload": {"id": upload}, "metadata": {"corrects": first_id}});
            let job = caller.post("/api/v1/jobs", body).await.expect(201);
            complete(&caller, &job).await
        }
    };
    // Rows of somebody else's file replace nothing, whatever it names.
    again(&sue, list.clone()).await;

    // Of three failed rows two come back: one is good now, one fails again.
    let two: String = list
        .replace("12 CHF", "12")
        .lines()
        .filter(|line| !line.starts_with("4,"))
        .map(|line| format!("{line}\n"))
        .collect();
    let second = again(&ada, two).await;
    assert_eq!((&second["counts"]["succeeded"], &second["counts"]["dead"]), (&json!(1), &json!(1)));
    let path = format!("/api/v1/jobs/{first_id}");
    let mut first = ada.get(&path).await.expect(200);
    while first["counts"]["superseded"] != 2 {
        let newer = ada.request(reqwest::Method::GET, &format!("{path}?wait_seconds=30"));
        first = Answer::of(newer.header("if-none-match", format!("\"{}\"", first["version"]))).await.expect(200);
    }
    assert_eq!((&first["counts"]["dead"], &first["counts"]["cancelled"]), (&json!(1), &json!(2)));
    assert_eq!(first["message"], "Job complete, 1 of 4 failed, 2 corrected");

    let old = ada.get(&format!("/api/v1/items/{}", item(3))).await.expect(200);
    assert_eq!(old["state"], "cancelled");
    let new = ada.get(&format!("/api/v1/items/{}", old["superseded_by"].as_str().expect("an id"))).await.expect(200);
    assert_eq!((&new["row"], &new["job_id"], &new["superseded_by"]), (&json!(3), &second["id"], &Value::Null));
    let refused = ada.post(&format!("/api/v1/items/{}/retry", item(3)), json!({})).await;
    refused.expect_problem(409, "superseded");
    assert!(refused.text.contains(new["id"].as_str().expect("an id")), "{}", refused.text);

    // Each failed row is listed once: where it needs somebody.
    let left: Vec<Value> = lines(&ada, &first, "failures").await.iter().map(|line| line["row"].clone()).collect();
    assert_eq!(left, [5]);
    let dead = ada.get("/api/v1/dead-letters").await.expect(200);
    let mut rows: Vec<i64> =
        dead["data"].as_array().expect("items").iter().map(|item| item["row"].as_i64().expect("a row")).collect();
    rows.sort_unstable();
    assert_eq!(rows, [4, 5], "{dead}");
    let groups = ada.get(&format!("/api/v1/dead-letters/groups?job={first_id}")).await.expect(200);
    let counted: i64 =
        groups["data"].as_array().expect("groups").iter().filter_map(|group| group["count"].as_i64()).sum();
    assert_eq!(counted, 1, "{groups}");
    let page = ada.get(&format!("/imports/{first_id}")).await.text;
    assert!(
        page.contains("1 row needs attention") && page.contains("2 rows were corrected in another import"),
        "{page}"
    );
    let page = ada.get(&format!("/items/{}", item(3))).await.text;
    assert!(page.contains(&format!("href=\"/items/{}\"", new["id"].as_str().expect("an id"))), "{page}");

    // The last one corrected in the page: nothing is left to do.
    let body = json!({"payload": {"id": "4", "customer": "Di", "amount": 1.5}});
    ada.post(&format!("/api/v1/items/{}/retry", item(5)), body).await.expect(200);
    let first = done(&ada, &first_id).await;
    assert_eq!(first["message"], "Job complete, 2 corrected");
    let page = ada.get(&format!("/imports/{first_id}")).await.text;
    assert!(!page.contains("need attention") && !page.contains("needs attention"), "{page}");
    server.stop().await;
}

/// Rows of a job that is deleted meanwhile are subtracted from the owner's errors once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn corrected_rows_of_a_deleted_job_are_subtracted_once() {
    let server = Server::start().await;
    let pool = &server.running.app.pool;
    invoices(&server).await;
    let ada = server.person("ada", "user").await;
    let mut imports = Vec::new();
    for _ in 0..2 {
        let file = upload(&ada, "invoices.csv", FILE).await;
        imports.push(complete(&ada, &import(&ada, "invoices", &file).await).await);
    }
    let count = async |of: &'static str| sqlx::query_scalar::<_, i64>(of).fetch_one(pool).await.expect("a count");
    let dead = "select sum(n_dead)::bigint from owner_error";
    assert_eq!(count(dead).await, 6);
    let first_id = imports[0]["id"].as_str().expect("an id");
    let path = format!("/api/v1/jobs/{first_id}");
    let list = ada.get(&format!("{path}/failures?format=csv")).await.text.replace("12 CHF", "12");
    let fixed: Vec<&str> = list.lines().filter(|line| !line.starts_with("4,") && !line.starts_with("5,")).collect();
    let fixed = upload(&ada, "fixed.csv", format!("{}\n", fixed.join("\n"))).await;

    let job_lock = lock_job(pool, first_id).await;
    let delete = tokio::spawn(Answer::of(ada.request(reqwest::Method::DELETE, &path)));
    until(async || waiting(pool).await == 1).await;
    let body = json!({"type": "invoices", "upload": {"id": fixed}, "metadata": {"corrects": first_id}});
    let second = ada.post("/api/v1/jobs", body).await.expect(201);
    until(async || waiting(pool).await == 2).await;
    job_lock.commit().await.expect("the job state is unlocked");
    assert_eq!(delete.await.expect("no panic").status, 204);
    until(async || count("select count(*) from correction").await == 0).await;
    let second = done(&ada, second["id"].as_str().expect("an id")).await;
    let failed_again = second["counts"]["dead"].as_i64().expect("a count");
    assert_eq!(count(dead).await, 3 + failed_again, "those of the other import, and those of the corrected file");
    server.stop().await;
}

#[tokio::test]
async fn corrected_rows_keep_the_mapping_of_their_import() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let schema = json!({
        "required": ["amount"], "additionalProperties": false,
        "properties": {"amount": {"type": "number"}, "customer": {"type": "string"}},
    });
    let validate = json!({"name": "validate", "kind": "builtin"});
    server.put("/api/v1/job-types/amounts", json!({"executor": validate, "payload_schema": schema})).await.expect(201);
    let mapping = |amount: &str| {
        let amount = json!({"from": amount, "to": "amount", "as": "number", "format": "1.234,56"});
        json!({"columns": [amount, {"from": "Kunde", "to": "customer"}]})
    };
    // One type names its properties, the other one none.
    for job_type in ["amounts", "import"] {
        let import = |file: String, amount: &'static str| {
            let (ada, mapping) = (ada.clone(), mapping(amount));
            async move {
                let body = json!({"type": job_type, "upload": {"id": file}, "mapping": mapping});
                complete(&ada, &ada.post("/api/v1/jobs", body).await.expect(201)).await
            }
        };
        let file = upload(&ada, "a.csv", "Betrag;Kunde;Notiz\n1,5;Ada;x\n12,5 CHF;Ben;y\n").await;
        let first = import(file, "Betrag").await;
        assert_eq!(first["counts"]["dead"], 1, "{first}");
        let first_id = first["id"].as_str().expect("an id");
        // What was remembered since is another mapping.
        let other = upload(&ada, "b.csv", "Total;Betrag;Kunde\n3;4;Cy\n").await;
        import(other, "Total").await;

        let list = ada.get(&format!("/api/v1/jobs/{first_id}/failures?format=csv")).await.text;
        let fixed = upload(&ada, "fixed.csv", list.replace("12,5 CHF", "12,5")).await;
        let page = ada.get(&format!("/imports/new?upload_id={fixed}&corrects={first_id}")).await;
        let second = done(&ada, &id_of(&Fields::of(&page).send(&ada, None).await)).await;
        assert_eq!(second["outcome"], "succeeded", "{second}");
        let results = lines(&ada, &second, "results").await;
        let expected = (json!({"amount": 12.5, "customer": "Ben"}), json!(3));
        assert_eq!((&results[0]["payload"], &results[0]["row"]), (&expected.0, &expected.1));
    }
    // A list of failures is not remembered: the next file leaves out the same columns as the one before.
    let next = upload(&ada, "c.csv", "Total;Betrag;Kunde\n3;4;Cy\n").await;
    let suggested = ada.get(&format!("/api/v1/uploads/{next}/mapping?type=amounts")).await.expect(200);
    let column = &suggested["columns"][1];
    assert_eq!((&column["to"], &column["matched"]), (&Value::Null, &json!("remembered")), "{suggested}");
    server.stop().await;
}

#[tokio::test]
async fn failed_rows_are_corrected_in_the_notation_of_their_file() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let file = upload(&ada, "a.csv", "Betrag;Datum\n1.234,5;soon\n12 CHF;31.12.2026\n").await;
    let mapping = json!({"columns": [
        {"from": "Betrag", "to": "amount", "as": "number", "format": "1.234,56"},
        {"from": "Datum", "to": "due", "as": "date", "format": "DD.MM.YYYY"},
    ]});
    let body = json!({"type": "import", "upload": {"id": file}, "mapping": mapping});
    let job = complete(&ada, &ada.post("/api/v1/jobs", body).await.expect(201)).await;
    let id = job["id"].as_str().expect("an id");
    let path = format!("/imports/{id}/correct");
    let page = ada.get(&path).await.text;
    assert!(page.contains("value=\"1234,5\"") && page.contains("value=\"31.12.2026\""), "{page}");
    let failed = lines(&ada, &job, "failures").await;
    let field = |at: usize, column: usize| format!("c.{}.{column}", failed[at]["item_id"].as_str().expect("an id"));
    let (due, amount) = (field(0, 1), field(1, 0));
    let refused = ada.form(&path, &[(due.as_str(), "2027-01-01"), (&amount, "12.50")]).await;
    assert_eq!(refused.status, 422);
    for message in [
        "Expected a number such as 1.234,56, found \"12.50\".",
        "Expected a date in the format DD.MM.YYYY, found \"2027-01-01\".",
    ] {
        assert!(refused.text.contains(message), "{}", refused.text);
    }
    assert_eq!(ada.form(&path, &[(due.as_str(), "1.1.2027"), (&amount, "12,50")]).await.status, 303);
    let job = done(&ada, id).await;
    assert_eq!(job["outcome"], "succeeded", "{job}");
    let raw = ada.get(&format!("/api/v1/jobs/{id}/results")).await.text;
    assert!(raw.contains("{\"amount\":1234.5,\"due\":\"2027-01-01\"}"), "{raw}");
    assert!(raw.contains("{\"amount\":12.50,\"due\":\"2026-12-31\"}"), "{raw}");
    server.stop().await;
}
