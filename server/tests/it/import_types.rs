//! Imports of a job type: who may start them, and the suggested column mapping of the next file.

use serde_json::{Value, json};

use crate::support::{
    Api, Server,
    imports::{complete, import, upload},
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
async fn the_file_of_the_next_month_gets_the_mapping_of_the_last_one() {
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
async fn a_suggestion_needs_a_header_and_a_type() {
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
    server.get(&format!("{path}?type=nothing")).await.expect_problem(422, "unknown_job_type");
    server.get(&path).await.expect_problem(400, "invalid_parameter");
    let lines = upload(&server, "invoices.ndjson", "{\"customer\":\"Ada\"}\n").await;
    let path = format!("/api/v1/uploads/{lines}/mapping?type=invoices");
    server.get(&path).await.expect_problem(422, "bad_header");
    server.stop().await;
}

#[tokio::test]
async fn a_type_says_who_may_import() {
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
