//! Check of all rows of a file before the import, and rows that are edited before they become items.

use serde_json::{Value, json};

use crate::support::{
    Api, Server,
    imports::{complete, lines, upload},
};

async fn invoices(server: &Server) {
    let schema = json!({
        "type": "object", "required": ["customer", "amount"], "additionalProperties": false,
        "properties": {"customer": {"type": "string", "minLength": 1}, "amount": {"type": "number"}},
    });
    let spec =
        json!({"executor": {"kind": "builtin", "name": "validate"}, "max_failures": 1, "payload_schema": schema});
    server.put("/api/v1/job-types/invoices", spec).await.expect(201);
}

fn mapping() -> Value {
    json!({"columns": [
        {"from": "Kunde", "to": "customer"},
        {"from": "Betrag", "to": "amount", "as": "number", "format": "1.234,56"},
    ]})
}

/// A file with 1,000 rows, of which 20 have an amount that is none.
fn thousand() -> String {
    let row = |line: i64| match line % 50 {
        1 => format!("Kunde {line};{line} CHF\n"),
        _ => format!("Kunde {line};{line},5\n"),
    };
    format!("Kunde;Betrag\n{}", (2..=1_001).map(row).collect::<String>())
}

async fn check(caller: &Api, upload: &str, edits: Value) -> Value {
    let body = json!({"type": "invoices", "mapping": mapping(), "edits": edits});
    caller.post(&format!("/api/v1/uploads/{upload}/check"), body).await.expect(200)
}

#[tokio::test]
async fn file_check_finds_bad_rows_to_correct_before_import() {
    let server = Server::start().await;
    invoices(&server).await;
    let id = upload(&server, "rechnungen.csv", thousand()).await;
    let first = check(&server, &id, json!([])).await;
    assert_eq!((&first["rows"], &first["failed"], &first["left_out"]), (&json!(1_000), &json!(20), &json!(0)));
    assert_eq!(first["columns"], json!(["Kunde", "Betrag"]));
    let listed = first["listed"].as_array().expect("rows");
    let expected = json!({
        "row": 51, "cells": ["Kunde 51", "51 CHF"], "column": 2, "needs_file": false, "edited": false, "left_out": false,
        "problem": "Line 51, column 2 (Betrag): expected a number such as 1.234,56, found \"51 CHF\".",
    });
    assert_eq!((listed.len(), &listed[0], &first["is_cut"]), (20, &expected, &json!(false)));

    // All but one are corrected, one of them wrongly, and one is left out.
    let edit = |row: &Value| json!({"row": row["row"], "cells": {"Betrag": "7,25"}});
    let mut edits: Vec<Value> = listed.iter().map(edit).collect();
    edits[1]["cells"]["Betrag"] = json!("8.25");
    edits[2] = json!({"row": listed[2]["row"], "leave_out": true});
    let second = check(&server, &id, json!(edits)).await;
    assert_eq!((&second["failed"], &second["left_out"]), (&json!(1), &json!(1)));
    let rows = second["listed"].as_array().expect("rows");
    assert_eq!(
        (&rows[0]["edited"], &rows[0]["cells"][1], &rows[0]["problem"]),
        (&json!(true), &json!("7,25"), &Value::Null)
    );
    assert!(rows[1]["problem"].as_str().is_some_and(|text| text.contains("8.25")), "{}", rows[1]);
    assert_eq!(rows[2]["left_out"], true);

    edits[1]["cells"]["Betrag"] = json!("8,25");
    assert_eq!(check(&server, &id, json!(edits)).await["failed"], 0);
    let body = json!({"type": "invoices", "upload": {"id": id}, "mapping": mapping(), "edits": edits});
    let job = complete(&server, &server.post("/api/v1/jobs", body).await.expect(201)).await;
    assert_eq!((&job["counts"]["succeeded"], &job["counts"]["dead"]), (&json!(999), &json!(0)), "{job}");
    assert_eq!(job["item_count"], 999, "{job}");
    let results = lines(&server, &job, "results").await;
    let of = |row: i64| results.iter().find(|result| result["row"] == row).map(|result| &result["payload"]);
    assert_eq!(of(51), Some(&json!({"customer": "Kunde 51", "amount": 7.25})));
    assert_eq!((of(151), of(52).is_some()), (None, true), "a row that is left out is no item");
    server.stop().await;
}

#[tokio::test]
async fn file_check_refuses_like_job_creation() {
    let server = Server::start().await;
    invoices(&server).await;
    let id = upload(&server, "rechnungen.csv", "Kunde;Betrag\nAda;1\n").await;
    let path = format!("/api/v1/uploads/{id}/check");
    let send_check = async |body: Value| server.post(&path, body).await;
    send_check(json!({"type": "nothing"})).await.expect_problem(422, "unknown_job_type");
    let partial = json!({"columns": [{"from": "Kunde", "to": "customer"}]});
    send_check(json!({"type": "invoices", "mapping": partial})).await.expect_problem(422, "mapping_incomplete");
    send_check(json!({"type": "invoices", "header_row": 7})).await.expect_problem(422, "bad_header");
    for (edits, pointer) in [
        (json!([{"row": 2, "cells": {"Preis": "1"}}]), "/edits/0/cells/Preis"),
        (json!([{"row": 2, "leave_out": true}, {"row": 2, "leave_out": true}]), "/edits/1/row"),
        (json!([{"row": 2, "cells": {"Betrag": "x".repeat(10_001)}}]), "/edits/0/cells/Betrag"),
    ] {
        let refused = send_check(json!({"type": "invoices", "edits": edits})).await.expect_problem(422, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
        let body = json!({"type": "invoices", "upload": {"id": id}, "edits": edits});
        let refused = server.post("/api/v1/jobs", body).await.expect_problem(422, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    let alone = json!({"type": "invoices", "edits": [{"row": 2, "leave_out": true}]});
    server.post("/api/v1/jobs", alone).await.expect_problem(422, "invalid_body");
    // The file of someone else does not exist.
    let other = server.person("Ben", "user").await;
    other.post(&path, json!({"type": "invoices"})).await.expect_problem(404, "not_found");
    server.stop().await;
}

#[tokio::test]
async fn header_row_below_a_title_is_suggested() {
    let server = Server::start().await;
    invoices(&server).await;
    let file = "Invoices of March;\n;\ncustomer;amount\nAda;1\nBen;2\nTotal;\n";
    let id = upload(&server, "march.csv", file).await;
    let path = format!("/api/v1/uploads/{id}/preview?type=invoices");
    let preview = server.get(&path).await.expect(200);
    assert!(preview["problem"].as_str().is_some_and(|text| text.starts_with("bad_header")), "{preview}");
    assert_eq!(preview["suggested_header_row"], 3);
    let preview = server.get(&format!("{path}&header_row=3")).await.expect(200);
    assert_eq!((&preview["columns"], &preview["rows"][0]["row"]), (&json!(["customer", "amount"]), &json!(4)));
    assert_eq!(preview["suggested_header_row"], Value::Null);
    server.get(&format!("{path}&header_row=0")).await.expect_problem(400, "invalid_parameter");

    // The line with the total is found, and left out.
    let body = json!({"type": "invoices", "header_row": 3});
    let found = server.post(&format!("/api/v1/uploads/{id}/check"), body).await.expect(200);
    assert_eq!((&found["failed"], &found["listed"][0]["row"]), (&json!(1), &json!(6)));
    let edits = json!([{"row": 6, "leave_out": true}]);
    let body = json!({"type": "invoices", "upload": {"id": id, "header_row": 3}, "edits": edits});
    let job = complete(&server, &server.post("/api/v1/jobs", body).await.expect(201)).await;
    assert_eq!((&job["counts"]["succeeded"], &job["item_count"]), (&json!(2), &json!(2)));
    server.stop().await;
}
