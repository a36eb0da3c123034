//! Imports of a job type: who may start them, and the suggested column mapping of the next file.

use serde_json::{Value, json};

use crate::support::{
    Answer, Api, Server,
    imports::{complete, import, lines, upload},
};

async fn invoices(server: &Server, import: Value) {
    let schema = json!({
        "type": "object", "required": ["customer", "amount"], "additionalProperties": false,
        "properties": {
            "customer": {"type": "string"}, "amount": {"type": "number"},
            "date": {"type": ["string", "null"], "format": "date"}, "note": {"type": "string"},
        },
    });
    let spec = json!({"executor": {"kind": "builtin", "name": "validate"}, "max_failures": 1,
        "payload_schema": schema, "import": import});
    let stored = server.put("/api/v1/job-types/invoices", spec).await;
    assert!(stored.status == 200 || stored.status == 201, "{}", stored.text);
}

async fn suggestion(caller: &Api, upload: &str) -> Value {
    caller.get(&format!("/api/v1/uploads/{upload}/mapping?type=invoices")).await.expect(200)
}

/// Columns of a suggestion: property and reason, by column.
fn columns(suggestion: &Value) -> Vec<Value> {
    let columns = suggestion["columns"].as_array().expect("columns");
    columns.iter().map(|column| json!([column["from"], column["to"], column["matched"]])).collect()
}

/// Returns true if the import page offers the type.
async fn is_offered(caller: &Api) -> bool {
    let file = upload(caller, "a.csv", "customer,amount\nAda,1\n").await;
    let page = caller.get(&format!("/imports/new?upload_id={file}")).await;
    assert!(page.text.contains("<option value=\"import\""), "{}", page.text);
    page.text.contains("<option value=\"invoices\"")
}

#[tokio::test]
async fn mapping_of_previous_import_is_suggested() {
    let server = Server::start().await;
    invoices(&server, json!({"aliases": {"date": ["Rechnungsdatum"]}})).await;
    let ada = server.person("Ada", "user").await;
    let january = "Kunde;Betrag;Datum;Bemerkung\nAda;1.234,56;31.12.2026;x\n";
    let id = upload(&ada, "january.csv", january).await;

    let first = suggestion(&ada, &id).await;
    assert_eq!(first["missing"], json!(["amount", "customer"]), "{first}");
    assert_eq!(columns(&first)[0], json!(["Kunde", null, null]));
    assert_eq!(first["columns"][0]["confidence"], json!(0.0));
    let date = first["properties"].as_array().and_then(|all| all.iter().find(|it| it["name"] == "date"));
    assert_eq!(date, Some(&json!({"name": "date", "required": false, "type": "string"})));

    let mapping = json!({"columns": [
        {"from": "Kunde", "to": "customer"},
        {"from": "Betrag", "to": "amount", "as": "number", "format": "1.234,56"},
        {"from": "Datum", "to": "date", "as": "date", "format": "DD.MM.YYYY"},
    ]});
    let body = json!({"type": "invoices", "upload": {"id": id}, "mapping": mapping});
    let job = complete(&ada, &ada.post("/api/v1/jobs", body).await.expect(201)).await;
    assert_eq!(job["counts"]["succeeded"], 1);

    let february = "Notes;Rechnungsdatum;BETRAG;Kunde\ny;28.2.2027;99;Ben\n";
    let id = upload(&ada, "february.csv", february).await;
    let next = suggestion(&ada, &id).await;
    let expected = [
        json!(["Notes", "note", "fuzzy"]),
        json!(["Rechnungsdatum", "date", "alias"]),
        json!(["BETRAG", "amount", "remembered"]),
        json!(["Kunde", "customer", "remembered"]),
    ];
    assert_eq!(columns(&next), expected, "{next}");
    assert_eq!(next["missing"], json!([]));
    assert_eq!((&next["columns"][1]["as"], &next["columns"][1]["format"]), (&json!("date"), &json!("DD.MM.YYYY")));
    let amount = &next["columns"][2];
    assert_eq!((&amount["as"], &amount["format"]), (&json!("number"), &json!("1.234,56")), "as it was last month");

    // What an owner used is suggested to no one else.
    let ben = server.person("Ben", "user").await;
    ben.get(&format!("/api/v1/uploads/{id}/mapping?type=invoices")).await.expect_problem(404, "not_found");
    let own = upload(&ben, "february.csv", february).await;
    assert_eq!(columns(&suggestion(&ben, &own).await)[3], json!(["Kunde", null, null]));
    server.stop().await;
}

#[tokio::test]
async fn mapping_suggestion_requires_header_and_type() {
    let server = Server::start().await;
    invoices(&server, Value::Null).await;
    let id = upload(&server, "invoices.csv", "customer,Amount,Date\nAda,\"1,234.50\",12/31/2026\n").await;
    let path = format!("/api/v1/uploads/{id}/mapping");
    let found = suggestion(&server, &id).await;
    assert_eq!(found["columns"][0]["matched"], "exact");
    assert_eq!(
        (&found["columns"][1]["matched"], &found["columns"][1]["format"]),
        (&json!("alias"), &json!("1,234.56"))
    );
    assert_eq!(found["columns"][2]["format"], "MM/DD/YYYY");
    // The type has no aliases: the page says that the name is similar.
    let ada = server.person("Ada", "user").await;
    let own = upload(&ada, "invoices.csv", "customer,Amount\nAda,1\n").await;
    let page = ada.get(&format!("/imports/new?upload_id={own}&type=invoices")).await;
    assert!(page.text.contains("similar name") && page.text.contains("same name"), "{}", page.text);
    server.get(&format!("{path}?type=nothing")).await.expect_problem(422, "unknown_job_type");
    server.get(&path).await.expect_problem(400, "invalid_parameter");
    let lines = upload(&server, "invoices.ndjson", "{\"customer\":\"Ada\"}\n").await;
    let path = format!("/api/v1/uploads/{lines}/mapping?type=invoices");
    server.get(&path).await.expect_problem(422, "bad_header");
    server.stop().await;
}

#[tokio::test]
async fn dates_with_slashes_are_suggested_once_proven_and_mapped_with_the_day_first() {
    let server = Server::start().await;
    invoices(&server, Value::Null).await;
    let ada = server.person("Ada", "user").await;
    let file = |first: &str, second: &str| format!("customer,amount,date\nAda,1,{first}\nBen,2,{second}\n");
    for (first, second, format) in [
        ("31/12/2026", "1/2/2027", json!("DD/MM/YYYY")),
        ("12/31/2026", "1/2/2027", json!("MM/DD/YYYY")),
        ("1/2/2027", "3/3/2027", Value::Null),
        ("2/2/2027", "3/3/2027", Value::Null),
        ("31/12/2026", "12/31/2026", Value::Null),
    ] {
        let found = suggestion(&ada, &upload(&ada, "invoices.csv", file(first, second)).await).await;
        let date = &found["columns"][2];
        assert_eq!((&date["as"], &date["format"]), (&json!("date"), &format), "{first}, {second}: {found}");
    }
    let id = upload(&ada, "invoices.csv", file("31/12/2026", "1/2/2027")).await;
    let page = ada.get(&format!("/imports/new?upload_id={id}&type=invoices")).await.text;
    assert!(page.contains("<option value=\"date DD/MM/YYYY\" selected"), "{page}");

    let id = upload(&ada, "invoices.csv", file("1/2/2027", "12/31/2026")).await;
    let mapping = json!({"columns": [
        {"from": "customer", "to": "customer"},
        {"from": "amount", "to": "amount", "as": "number"},
        {"from": "date", "to": "date", "as": "date", "format": "DD/MM/YYYY"},
    ]});
    let body = json!({"type": "invoices", "upload": {"id": id}, "mapping": mapping});
    let job = complete(&ada, &ada.post("/api/v1/jobs", body).await.expect(201)).await;
    let results = lines(&ada, &job, "results").await;
    assert_eq!(results[0]["payload"], json!({"customer": "Ada", "amount": 1, "date": "2027-02-01"}));
    let failures = lines(&ada, &job, "failures").await;
    let message = "Line 3, column 3 (date): expected a date in the format DD/MM/YYYY, found \"12/31/2026\".";
    assert_eq!(failures[0]["error"]["message"], message);
    server.stop().await;
}

#[tokio::test]
async fn job_type_restricts_importing_roles() {
    let server = Server::start().await;
    let (user, support) = (server.person("Ada", "user").await, server.person("Sue", "support").await);
    invoices(&server, json!({"roles": ["support"]})).await;
    let stored = server.get("/api/v1/job-types/invoices").await.expect(200);
    assert_eq!(stored["import"], json!({"enabled": true, "roles": ["support"]}));
    let file = "customer,amount\nAda,1\n";
    let body = async |caller: &Api| json!({"type": "invoices", "upload": {"id": upload(caller, "a.csv", file).await}});

    let refused = user.post("/api/v1/jobs", body(&user).await).await.expect_problem(403, "forbidden");
    assert!(refused["detail"].as_str().is_some_and(|text| text.contains("support")), "{refused}");
    user.post("/api/v1/jobs", json!({"type": "invoices"})).await.expect(201);
    support.post("/api/v1/jobs", body(&support).await).await.expect(201);
    import(&server, "invoices", &upload(&server, "a.csv", file).await).await;
    assert!(!is_offered(&user).await && is_offered(&support).await);

    invoices(&server, json!({"enabled": false})).await;
    for caller in [&support, &*server] {
        let refused = caller.post("/api/v1/jobs", body(caller).await).await.expect_problem(422, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], "/upload");
    }
    assert!(!is_offered(&support).await);

    let bad = json!({"import": {"roles": ["boss"], "aliases": {"a": [""]}, "template": {"examples": [1]}}});
    let refused = server.patch("/api/v1/job-types/invoices", bad).await.expect_problem(422, "invalid_body");
    let pointers: Vec<&Value> =
        refused["errors"].as_array().into_iter().flatten().map(|error| &error["pointer"]).collect();
    assert_eq!(pointers, ["/import/roles/0", "/import/aliases/a/0", "/import/template/examples/0"]);
    server.patch("/api/v1/job-types/invoices", json!({"import": null})).await.expect(200);
    import(&user, "invoices", &upload(&user, "a.csv", file).await).await;
    server.stop().await;
}

#[tokio::test]
async fn column_mapping_form_is_remembered_for_the_next_import() {
    let server = Server::start().await;
    invoices(&server, json!({"aliases": {"date": ["Rechnungsdatum"]}})).await;
    let ada = server.person("Ada", "user").await;
    let january = upload(&ada, "january.csv", "Kunde;Betrag;Datum;Bemerkung\nAda;1.234,56;31.12.2026;x\n").await;
    let page = ada.get(&format!("/imports/new?upload_id={january}&type=invoices")).await.text;
    assert!(page.contains("Match columns") && page.contains("Choose a column for amount, customer."), "{page}");
    let columns = [
        ("from-0", "Kunde"),
        ("to-0", "customer"),
        ("as-0", "text"),
        ("from-1", "Betrag"),
        ("to-1", "amount"),
        ("as-1", "number 1.234,56"),
        ("from-2", "Datum"),
        ("to-2", "date"),
        ("as-2", "date DD.MM.YYYY"),
        ("from-3", "Bemerkung"),
        ("to-3", ""),
        ("as-3", "text"),
    ];
    let send = async |file: &str, columns: &[(&str, &str)]| {
        let fields = [("upload_id", file), ("type", "invoices"), ("header", "yes")];
        let form = fields.iter().chain(columns).fold(reqwest::multipart::Form::new(), |form, (name, value)| {
            form.text((*name).to_owned(), (*value).to_owned())
        });
        Answer::of(ada.request(reqwest::Method::POST, "/imports").multipart(form)).await
    };
    // Two columns for one property: nothing starts, and the choices stay.
    let mut twice = columns;
    twice[7].1 = "amount";
    let refused = send(&january, &twice).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains("<option value=\"number 1.234,56\" selected"), "{}", refused.text);

    let started = send(&january, &columns).await;
    assert_eq!(started.status, 303, "{}", started.text);
    let id = started.headers["location"].to_str().expect("text").trim_start_matches("/imports/").to_owned();
    let done = complete(&ada, &ada.get(&format!("/api/v1/jobs/{id}")).await.expect(200)).await;
    assert_eq!((&done["counts"]["succeeded"], &done["counts"]["dead"]), (&json!(1), &json!(0)), "{done}");
    let items = ada.get(&format!("/api/v1/items?job={id}")).await.expect(200);
    let item = ada.get(&format!("/api/v1/items/{}", items["data"][0]["id"].as_str().expect("an id"))).await.expect(200);
    assert_eq!(item["payload"], json!({"customer": "Ada", "amount": 1234.56, "date": "2026-12-31"}));

    // In February the columns have another order, and one has another name.
    let february = upload(&ada, "february.csv", "Rechnungsdatum;Betrag;Kunde\n31.01.2027;7,50;Bob\n").await;
    let page = ada.get(&format!("/imports/new?upload_id={february}&type=invoices")).await.text;
    for chosen in ["date", "amount", "customer", "number 1.234,56", "date DD.MM.YYYY"] {
        assert!(page.contains(&format!("<option value=\"{chosen}\" selected")), "{chosen}: {page}");
    }
    assert!(page.contains("as in your last import") && !page.contains("Choose a column for"), "{page}");
    assert!(page.contains("The only row is ready"), "{page}");
    server.stop().await;
}
