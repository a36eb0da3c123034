//! Problems of a file before its import: proposed fixes, by a form without scripts, and the list of problems as CSV.

use serde_json::{Value, json};

use crate::{
    import_review::Fields,
    support::{
        Api, Server,
        imports::{complete, import, lines, upload},
    },
};

const FILE: &str =
    "customer;amount;state\nAda;1.5;open\nBen;2 CHF;open\nCy;3 CHF;paid\nDora;four;open\nEve;5.5;PAID\nFay;six;open\n";

async fn invoices(server: &Server) {
    let schema = json!({
        "type": "object", "required": ["customer", "amount"], "additionalProperties": false,
        "properties": {"customer": {"type": "string", "minLength": 1}, "amount": {"type": "number"},
            "state": {"enum": ["open", "paid"]}},
    });
    let spec =
        json!({"executor": {"kind": "builtin", "name": "validate"}, "max_failures": 1, "payload_schema": schema});
    server.put("/api/v1/job-types/invoices", spec).await.expect(201);
}

async fn payloads(caller: &Api, job: &Value) -> Vec<Value> {
    lines(caller, job, "results").await.into_iter().map(|mut line| line["payload"].take()).collect()
}

#[tokio::test]
async fn cells_are_fixed_as_proposed_one_by_one_and_all_of_a_column() {
    let server = Server::start().await;
    invoices(&server).await;
    let ada = server.person("Ada", "user").await;
    let id = upload(&ada, "march.csv", FILE).await;
    let page = ada.get(&format!("/imports/new?upload_id={id}&type=invoices")).await;
    assert_eq!(page.status, 200, "{}", page.text);
    let shown = page.text.replace("<!>", "");
    for proposal in ["Use “2”", "Use “3”", "Use “paid”", "Fix 2 as proposed", "Leave out 2 rows"] {
        assert!(shown.contains(proposal), "{proposal}: {shown}");
    }
    assert!(!shown.contains("Use “4"), "{shown}");
    let page = Fields::of(&page).send(&ada, Some(("fix", "all-1"))).await;
    let shown = page.text.replace("<!>", "");
    assert!(shown.contains("3 rows are ready, 3 need attention"), "{shown}");
    assert!(shown.contains("Changed from “2 CHF”"), "{shown}");
    let page = Fields::of(&page).send(&ada, Some(("fix", "6-2"))).await;
    let page = Fields::of(&page).send(&ada, Some(("fix", "out-1"))).await;
    let shown = page.text.replace("<!>", "");
    assert!(shown.contains("4 rows are ready, 2 are left out"), "{shown}");
    let started = Fields::of(&page).send(&ada, None).await;
    assert_eq!(started.status, 303, "{}", started.text);
    let id = started.headers["location"].to_str().expect("text").trim_start_matches("/imports/").to_owned();
    let job = complete(&ada, &ada.get(&format!("/api/v1/jobs/{id}")).await.expect(200)).await;
    let amounts: Vec<Value> = payloads(&ada, &job).await.iter().map(|payload| payload["amount"].clone()).collect();
    assert_eq!(amounts, [json!(1.5), json!(2), json!(3), json!(5.5)]);
    server.stop().await;
}

#[tokio::test]
async fn problems_are_downloaded_corrected_and_imported_by_themselves() {
    let server = Server::start().await;
    invoices(&server).await;
    let ada = server.person("Ada", "user").await;
    let id = upload(&ada, "march.csv", FILE).await;
    let body = json!({"type": "invoices"});
    let list = ada.post(&format!("/api/v1/uploads/{id}/check?format=csv"), body.clone()).await;
    assert_eq!((list.status.as_u16(), list.headers["content-type"].as_bytes()), (200, &b"text/csv; charset=utf-8"[..]));
    let disposition = list.headers["content-disposition"].to_str().expect("text");
    assert!(disposition.contains("march-problems.csv"), "{disposition}");
    let rows: Vec<&str> = list.text.trim_start_matches('\u{FEFF}').lines().collect();
    assert_eq!(rows[0], "customer;amount;state;_line;_code;_problem");
    assert_eq!(rows.len(), 6, "{}", list.text);
    assert!(
        rows[1].starts_with("Ben;2 CHF;open;3;invalid_row;") && rows[1].contains("expected a number"),
        "{}",
        rows[1]
    );

    // The page has the same list, without scripts.
    let page = ada.get(&format!("/imports/new?upload_id={id}&type=invoices")).await;
    assert!(page.text.contains("value=\"problems\""), "{}", page.text);
    let file = Fields::of(&page).send(&ada, Some(("do", "problems"))).await;
    assert_eq!((file.status.as_u16(), file.text.as_str()), (200, list.text.as_str()));

    let corrected = list.text.replace("2 CHF", "2").replace("3 CHF", "3").replace("four", "4").replace("PAID", "paid");
    let corrected = corrected.replace("six", "6");
    let id = upload(&ada, "march-problems.csv", corrected).await;
    let job = complete(&ada, &import(&ada, "invoices", &id).await).await;
    assert_eq!(job["outcome"], "succeeded", "{job}");
    let rows: Vec<Value> = lines(&ada, &job, "results").await.iter().map(|line| line["row"].clone()).collect();
    assert_eq!(rows, [json!(3), json!(4), json!(5), json!(6), json!(7)], "each keeps its line");
    ada.post(&format!("/api/v1/uploads/{id}/check?format=pdf"), body).await.expect_problem(400, "invalid_parameter");
    server.stop().await;
}
