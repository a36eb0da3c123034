//! Column mapping of imports: other names, decimal commas, and other dates become the payload that the type requires.

use serde_json::{Value, json};

use crate::support::{
    Answer, Api, Server,
    imports::{complete, lines, upload},
    xlsx::workbook,
};

const FILE: &str = "Kunde;Betrag;Datum;Notiz\nAda;1.234,56;31.12.2026;x\nBen;12,5 CHF;1.1.2027;y\nCy;-7;;z\n";

async fn invoices(server: &Server) {
    let schema = json!({
        "type": "object", "required": ["customer", "amount"], "additionalProperties": false,
        "properties": {"customer": {"type": "string"}, "amount": {"type": "number"}, "date": {"type": ["string", "null"]}},
    });
    let spec =
        json!({"executor": {"kind": "builtin", "name": "validate"}, "max_failures": 1, "payload_schema": schema});
    server.put("/api/v1/job-types/invoices", spec).await.expect(201);
}

fn column(from: &str, to: &str, kind: &str, format: Option<&str>) -> Value {
    json!({"from": from, "to": to, "as": kind, "format": format})
}

async fn start(caller: &Api, upload: &str, columns: Value) -> Answer {
    let body = json!({"type": "invoices", "upload": {"id": upload}, "mapping": {"columns": columns}});
    caller.post("/api/v1/jobs", body).await
}

#[tokio::test]
async fn mapping_renames_and_converts_columns() {
    let server = Server::start().await;
    invoices(&server).await;
    let id = upload(&server, "rechnungen.csv", FILE).await;
    let columns = json!([
        {"from": "Kunde", "to": "customer"},
        column("Betrag", "amount", "number", Some("1.234,56")),
        column("Datum", "date", "date", Some("DD.MM.YYYY")),
    ]);
    let job = complete(&server, &start(&server, &id, columns).await.expect(201)).await;
    assert_eq!((&job["counts"]["succeeded"], &job["counts"]["dead"]), (&json!(2), &json!(1)));

    let results = lines(&server, &job, "results").await;
    assert_eq!(results[0]["payload"], json!({"customer": "Ada", "amount": 1234.56, "date": "2026-12-31"}));
    assert_eq!(results[1]["payload"], json!({"customer": "Cy", "amount": -7, "date": null}), "an empty cell is null");

    let failures = lines(&server, &job, "failures").await;
    assert_eq!(failures[0]["error"]["kind"], "invalid_row");
    let message = "Line 3, column 2 (Betrag): expected a number such as 1.234,56, found \"12,5 CHF\".";
    assert_eq!(failures[0]["error"]["message"], message);
    assert_eq!(failures[0]["payload"], json!({"customer": "Ben", "amount": "12,5 CHF", "date": "2027-01-01"}));
    server.stop().await;
}

#[tokio::test]
async fn failures_of_a_mapped_file_fit_its_mapping_again() {
    let server = Server::start().await;
    invoices(&server).await;
    let id = upload(&server, "rechnungen.csv", format!("{FILE}Dee;12.5;2.1.2027;a point\n")).await;
    let columns = json!([
        column("Betrag", "amount", "number", Some("1.234,56")),
        {"from": "Kunde", "to": "customer"},
        column("Datum", "date", "date", Some("DD.MM.YYYY")),
    ]);
    let job = complete(&server, &start(&server, &id, columns.clone()).await.expect(201)).await;
    let path = format!("/api/v1/jobs/{}/failures", job["id"].as_str().expect("an id"));
    let list = server.get(&format!("{path}?format=csv")).await.text;
    let expected = "Betrag;Kunde;Datum;_line;_code;_problem\n12,5 CHF;Ben;01.01.2027;3;invalid_row;";
    assert!(list.starts_with(expected), "{list}");
    assert!(list.contains("\n12.5;Dee;02.01.2027;5;"), "a refused text is never guessed: {list}");

    let corrected = list.replace("12,5 CHF", "-12,5").replace("12.5;", "12,5;");
    let again = upload(&server, "corrected.csv", corrected).await;
    let job = complete(&server, &start(&server, &again, columns).await.expect(201)).await;
    assert_eq!(job["outcome"], "succeeded", "{job}");
    let results = lines(&server, &job, "results").await;
    assert_eq!(results[0]["payload"], json!({"amount": -12.5, "customer": "Ben", "date": "2027-01-01"}));
    assert_eq!(results[0]["row"], 3);

    let workbook = server.get(&format!("{path}?format=xlsx")).await;
    assert_eq!(workbook.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn invalid_mapping_is_refused_before_import() {
    let server = Server::start().await;
    invoices(&server).await;
    let id = upload(&server, "rechnungen.csv", FILE).await;

    let refused = start(&server, &id, json!([{"from": "Kunde", "to": "customer"}])).await;
    let refused = refused.expect_problem(422, "mapping_incomplete");
    assert!(refused["detail"].as_str().is_some_and(|text| text.contains("amount")), "{refused}");
    assert_eq!(refused["errors"][0]["pointer"], "/mapping/columns");

    for (columns, pointer) in [
        (json!([]), "/mapping/columns"),
        (json!([{"from": "Kunde", "to": "customer"}, {"from": "Total", "to": "amount"}]), "/mapping/columns/1/from"),
        (json!([{"from": "Kunde", "to": "amount"}, {"from": "Kunde", "to": "customer"}]), "/mapping/columns/1/from"),
        (json!([{"from": "Kunde", "to": "amount"}, {"from": "Notiz", "to": "amount"}]), "/mapping/columns/1/to"),
        (json!([column("Kunde", "customer", "date", Some("1.234,56"))]), "/mapping/columns/0/format"),
    ] {
        let refused = start(&server, &id, columns).await.expect_problem(422, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    // Without a mapping, the columns of the file have to be those of the type.
    let body = json!({"type": "invoices", "upload": {"id": id}});
    let refused = server.post("/api/v1/jobs", body).await.expect_problem(422, "mapping_incomplete");
    assert_eq!(refused["errors"].as_array().map(Vec::len), Some(2), "{refused}");
    assert_eq!(refused["errors"][0]["pointer"], "/upload", "{refused}");
    let whole = upload(&server, "invoices.csv", "customer,amount\nAda,5\n").await;
    let body = json!({"type": "invoices", "upload": {"id": whole}});
    let job = complete(&server, &server.post("/api/v1/jobs", body).await.expect(201)).await;
    assert_eq!(job["counts"]["succeeded"], 1);
    let body = json!({"type": "export", "upload": {"id": whole}});
    let refused = server.post("/api/v1/jobs", body).await.expect_problem(422, "invalid_body");
    assert_eq!(refused["errors"][0]["pointer"], "/upload", "{refused}");

    let mapping = json!({"columns": [{"from": "a", "to": "customer"}, {"from": "b", "to": "amount"}]});
    let body = json!({"type": "invoices", "mapping": mapping});
    let refused = server.post("/api/v1/jobs", body).await.expect_problem(422, "invalid_body");
    assert_eq!(refused["errors"][0]["pointer"], "/mapping");
    let body = json!({"type": "invoices", "upload": {"id": id, "header": false}, "mapping": mapping});
    let refused = server.post("/api/v1/jobs", body).await.expect_problem(422, "invalid_body");
    assert_eq!(refused["errors"][0]["pointer"], "/mapping");
    server.stop().await;
}

#[tokio::test]
async fn number_of_a_workbook_becomes_text_where_the_schema_requires_text() {
    let server = Server::start().await;
    let schema = json!({"properties": {"zip": {"type": "string"}, "note": {}}});
    let validate = json!({"kind": "builtin", "name": "validate"});
    server.put("/api/v1/job-types/towns", json!({"executor": validate, "payload_schema": schema})).await.expect(201);
    let text = |text: &str| format!("<c t=\"inlineStr\"><is><t>{text}</t></is></c>");
    let rows = format!("<row>{}{}</row><row><c><v>8001</v></c><c><v>7</v></c></row>", text("PLZ"), text("Notiz"));
    let file = upload(&server, "towns.xlsx", workbook(&[("a", &rows)], &[])).await;
    let columns = json!([{"from": "PLZ", "to": "zip"}, {"from": "Notiz", "to": "note"}]);
    let body = json!({"type": "towns", "upload": {"id": file}, "mapping": {"columns": columns}});
    let job = complete(&server, &server.post("/api/v1/jobs", body).await.expect(201)).await;
    let results = lines(&server, &job, "results").await;
    assert_eq!(results[0]["payload"], json!({"zip": "8001", "note": 7}));
    server.stop().await;
}

#[tokio::test]
async fn empty_cell_of_an_optional_property_is_left_out() {
    let server = Server::start().await;
    let schema = json!({
        "type": "object", "required": ["id", "sum"], "additionalProperties": false,
        "properties": {
            "id": {"type": "string"}, "sum": {"type": "number"}, "note": {"type": "string"}, "tax": {"type": "number"},
            "paid": {"type": ["boolean", "null"]}, "unit": {"enum": ["EUR", "CHF"]},
        },
    });
    let validate = json!({"kind": "builtin", "name": "validate"});
    let spec = json!({"executor": validate, "max_failures": 1, "payload_schema": schema});
    server.put("/api/v1/job-types/sums", spec).await.expect(201);
    let text = |text: &str| format!("<c t=\"inlineStr\"><is><t>{text}</t></is></c>");
    let header: String = ["id", "sum", "note", "tax", "paid", "unit"].map(text).concat();
    let rows = format!("<row>{header}</row><row>{}<c><v>5</v></c></row><row>{}</row>", text("a"), text("b"));
    let book = upload(&server, "sums.xlsx", workbook(&[("a", &rows)], &[])).await;
    let csv = upload(&server, "sums.csv", "id,sum,note,tax,paid,unit\na,5,,,,\nb,,,,,\n").await;
    let names = ["id", "note", "unit"].map(|name| json!({"from": name, "to": name}));
    let kinds = [("sum", "number"), ("tax", "number"), ("paid", "boolean")];
    let columns: Vec<Value> =
        names.into_iter().chain(kinds.map(|(name, kind)| json!({"from": name, "to": name, "as": kind}))).collect();

    // CSV has empty text, workbooks have `null`: each stays where the schema allows it.
    let without = json!({"type": "sums", "upload": {"id": csv}});
    let with = json!({"type": "sums", "upload": {"id": csv}, "mapping": {"columns": columns}});
    let of_book = json!({"type": "sums", "upload": {"id": book}});
    let of_book_with = json!({"type": "sums", "upload": {"id": book}, "mapping": {"columns": columns}});
    for (body, expected) in [
        (without, json!({"id": "a", "sum": 5, "note": ""})),
        (with, json!({"id": "a", "note": "", "sum": 5, "paid": null})),
        (of_book, json!({"id": "a", "sum": 5, "paid": null})),
        (of_book_with, json!({"id": "a", "sum": 5, "paid": null})),
    ] {
        let job = complete(&server, &server.post("/api/v1/jobs", body.clone()).await.expect(201)).await;
        let results = lines(&server, &job, "results").await;
        assert_eq!(results.iter().map(|line| &line["payload"]).collect::<Vec<_>>(), [&expected], "{body}");
        // A required property stays, and its row says what was expected.
        let failures = lines(&server, &job, "failures").await;
        let message = failures[0]["error"]["message"].as_str().expect("a message");
        assert!(failures.len() == 1 && message.contains("sum") && message.contains("a number"), "{message}");
    }
    server.stop().await;
}
