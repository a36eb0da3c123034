//! Lists of failed rows that come back: what a row had is in the list, and a row comes back as what it was.

use serde_json::{Value, json};

use crate::support::{
    Api, Server,
    imports::{complete, import, lines, upload},
    xlsx::workbook,
};

fn text(place: &str, text: &str) -> String {
    format!("<c r=\"{place}\" t=\"inlineStr\"><is><t>{text}</t></is></c>")
}

async fn import_with(caller: &Api, file: &str, mapping: &Value) -> Value {
    let body = json!({"type": "import", "upload": {"id": file}, "mapping": mapping});
    complete(caller, &caller.post("/api/v1/jobs", body).await.expect(201)).await
}

/// The list of a job's failures as a table.
async fn list(caller: &Api, job: &Value) -> String {
    let path = format!("/api/v1/jobs/{}/failures?format=csv", job["id"].as_str().expect("an id"));
    caller.get(&path).await.text
}

/// The list of a job's failures as a workbook: its upload.
async fn workbook_of(caller: &Api, job: &Value) -> String {
    let item = json!({"job_id": job["id"], "what": "failures", "format": "xlsx"});
    let export = json!({"type": "export", "items": [{"payload": item}], "sealed": true});
    let export = complete(caller, &caller.post("/api/v1/jobs", export).await.expect(201)).await;
    let items = caller.get(&format!("/api/v1/items?job={}", export["id"].as_str().expect("an id"))).await.expect(200);
    let item = caller.get(&format!("/api/v1/items/{}", items["data"][0]["id"].as_str().expect("an id"))).await;
    item.expect(200)["result"]["upload_id"].as_str().expect("an upload").to_owned()
}

/// Payloads of the rows that failed or succeeded, by their rows.
async fn payloads(caller: &Api, job: &Value, what: &str) -> Vec<(Value, Value)> {
    let lines = lines(caller, job, what).await;
    lines.into_iter().map(|line| (line["row"].clone(), line["payload"].clone())).collect()
}

#[tokio::test]
async fn failed_row_keeps_its_cells_whole_and_typed() {
    let server = Server::start().await;
    let note = "n".repeat(20_000);
    let header = ["A1", "B1", "C1"].iter().zip(["Betrag", "Datum", "Notiz"]).map(|(at, name)| text(at, name));
    let rows = format!(
        "<row r=\"1\">{}</row><row r=\"2\"><c r=\"A2\"><v>1.234</v></c>{}{}</row>",
        header.collect::<String>(),
        text("B2", "soon"),
        text("C2", &note)
    );
    let mapping = json!({"columns": [
        {"from": "Betrag", "to": "amount", "as": "number", "format": "1.234,56"},
        {"from": "Datum", "to": "due", "as": "date", "format": "DD.MM.YYYY"},
        {"from": "Notiz", "to": "note"},
    ]});
    let file = upload(&server, "a.xlsx", workbook(&[("a", &rows)], &[])).await;
    let job = import_with(&server, &file, &mapping).await;
    let failed = json!({"amount": 1.234, "due": "soon", "note": note});
    assert_eq!(payloads(&server, &job, "failures").await, [(json!(2), failed)]);

    // Both lists of what fails are read by the same mapping.
    let check = json!({"type": "import", "mapping": mapping});
    let problems = server.post(&format!("/api/v1/uploads/{file}/check?format=csv"), check).await.text;
    for (name, list) in [("problems.csv", problems), ("failed.csv", list(&server, &job).await)] {
        assert!(list.contains("\"1,234\",soon,"), "{name}: {list:.200}");
        let again = upload(&server, name, list.replace("soon", "31.12.2026")).await;
        let job = import_with(&server, &again, &mapping).await;
        let mended = json!({"amount": 1.234, "due": "2026-12-31", "note": note});
        assert_eq!(payloads(&server, &job, "results").await, [(json!(2), mended)], "{name}");
    }

    // Also without a mapping, and of a table.
    let rows = format!(
        "<row r=\"1\">{}</row><row r=\"2\"><c r=\"A2\"><v>5</v></c><c r=\"B2\"><v>6</v></c></row>",
        text("A1", "a")
    );
    let file = upload(&server, "b.xlsx", workbook(&[("a", &rows)], &[])).await;
    let job = complete(&server, &import(&server, "import", &file).await).await;
    assert_eq!(payloads(&server, &job, "failures").await, [(json!(2), json!({"a": 5}))]);
    let file = upload(&server, "c.csv", format!("a,b,c\n{note},{note}\n")).await;
    let job = complete(&server, &import(&server, "import", &file).await).await;
    assert_eq!(payloads(&server, &job, "failures").await, [(json!(2), json!({"a": note, "b": note}))]);
    server.stop().await;
}

#[tokio::test]
async fn incomplete_row_of_a_returned_list_stays_failed() {
    let server = Server::start().await;
    let large = "x".repeat(300 << 10);
    let mut file = format!("id,name\n1,a,surplus\n2,{large}\n3,\"open\n4,d\n").into_bytes();
    file.extend(b"5,caf\xC3\n");
    let id = upload(&server, "a.csv", file).await;
    let body = json!({"type": "import", "upload": {"id": id, "encoding": "utf-8"}});
    let job = complete(&server, &server.post("/api/v1/jobs", body.clone()).await.expect(201)).await;
    assert_eq!(job["counts"]["dead"], 4, "{job}");
    let list = list(&server, &job).await;
    assert!(list.contains("\n1,a,2,too_many_fields,") && list.contains("found 3.\",surplus\n"), "{list:.300}");
    let check = json!({"type": "import", "encoding": "utf-8"});
    let problems = server.post(&format!("/api/v1/uploads/{id}/check?format=csv"), check).await.text;
    assert!(problems.contains("found 3.\",surplus\n") && problems.contains(&large), "{problems:.300}");

    // Uploaded as it is, nothing passes.
    let again = upload(&server, "failed.csv", list.clone()).await;
    let same = complete(&server, &import(&server, "import", &again).await).await;
    assert_eq!(same["counts"]["dead"], 4, "{same}");
    let messages: Vec<String> =
        lines(&server, &same, "failures").await.iter().map(|line| line["error"]["message"].to_string()).collect();
    assert!(messages[0].contains("Line 2, column 6: expected 5 fields, found 6."), "{messages:?}");
    assert!(messages[1].contains("expected 5 fields, found 6.") && messages[2].contains("found 6."), "{messages:?}");
    assert!(messages[3].contains("column 2 (name): expected text"), "{messages:?}");
    let workbook = workbook_of(&server, &job).await;
    let same = complete(&server, &import(&server, "import", &workbook).await).await;
    assert_eq!(same["counts"]["dead"], 4, "{same}");

    // Completed in a spreadsheet, which fills up all rows where one had surplus cells.
    let problem = |line: usize| {
        let row = list.lines().nth(line).expect("a row");
        // Behind the quote of the problem are the surplus cells.
        format!("{}\"", row.split("\"Line ").nth(1).and_then(|rest| rest.split('"').next()).expect("a problem"))
    };
    let rows = [
        format!("1,\"a,surplus\",2,too_many_fields,\"Line {},", problem(1)),
        format!("2,short,3,too_large,\"Line {},", problem(2)),
        format!("3,open,4,open_quote,\"Line {},", problem(3)),
        format!("5,café,6,bad_encoding,\"Line {},", problem(4)),
    ];
    let mended = format!("id,name,_line,_code,_problem,\n{}\n", rows.join("\n"));
    let again = upload(&server, "mended.csv", mended).await;
    let job = complete(&server, &import(&server, "import", &again).await).await;
    assert_eq!(job["outcome"], "succeeded", "{job}");
    let payloads = payloads(&server, &job, "results").await;
    assert_eq!(payloads[0], (json!(2), json!({"id": "1", "name": "a,surplus"})));
    server.stop().await;
}

#[tokio::test]
async fn failed_value_or_array_comes_back_as_what_it_was() {
    let server = Server::start().await;
    let schema =
        json!({"type": ["object", "array", "string"], "not": {"enum": [{"n": 1}, ["x", "=1+1"], "bad", {"n": 2}]}});
    let validate = json!({"kind": "builtin", "name": "validate"});
    server.put("/api/v1/job-types/strict", json!({"executor": validate, "payload_schema": schema})).await.expect(201);
    for (name, content, header, failed, list_has) in [
        (
            "a.ndjson",
            "{\"n\":1}\n{\"n\":3}\n{\"n\":2,\n",
            true,
            json!([{"n": 1}, "{\"n\":2,"]),
            "_payload,_line,_code,_problem\n\"{\"\"n\"\":1}\",1,",
        ),
        ("b.json", "[{\"n\":1},\n{\"n\":2}]", true, json!([{"n": 1}, {"n": 2}]), "_payload,_line,"),
        ("c.lines", "bad\ngood\n", true, json!(["bad"]), "_payload,_line,_code,_problem\n\"\"\"bad\"\"\",1,"),
        ("d.csv", "x,=1+1\ny,z\n", false, json!([["x", "=1+1"]]), "_1,_2,_line,_code,_problem\nx,'=1+1,1,"),
    ] {
        let file = upload(&server, name, content).await;
        let body = json!({"type": "strict", "upload": {"id": file, "header": header}});
        let job = complete(&server, &server.post("/api/v1/jobs", body).await.expect(201)).await;
        let before = payloads(&server, &job, "failures").await;
        let values: Vec<&Value> = before.iter().map(|(_, payload)| payload).collect();
        assert_eq!(json!(values), failed, "{name}");
        let csv = list(&server, &job).await;
        assert!(csv.starts_with(list_has), "{csv}");
        let csv = upload(&server, "failed.csv", csv).await;
        // A list of failures of a list of failures is alike.
        let again = complete(&server, &import(&server, "strict", &csv).await).await;
        for returned in [&csv, &workbook_of(&server, &job).await, &workbook_of(&server, &again).await] {
            let again = complete(&server, &import(&server, "strict", returned).await).await;
            assert_eq!(payloads(&server, &again, "failures").await, before, "{name}");
        }
        let good = list(&server, &again).await.replace("\"\"n\"\":2,", "\"\"n\"\":4}").replace(":1}", ":5}");
        let good = good.replace("bad", "better").replace("'=1+1", "'=2").replace(":2}", ":7}");
        let good = upload(&server, "mended.csv", good).await;
        let job = complete(&server, &import(&server, "strict", &good).await).await;
        assert_eq!(job["outcome"], "succeeded", "{name}: {job}");
        assert!(
            payloads(&server, &job, "results")
                .await
                .iter()
                .all(|(_, payload)| payload.is_string() == (name == "c.lines"))
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn apostrophes_come_back_from_a_workbook() {
    let server = Server::start().await;
    let file = "'=name,b,c\n'=1+1,\"a,'-b\"\n=2,\"a,-b\"\n'x,'5\n";
    let id = upload(&server, "a.csv", file).await;
    let job = complete(&server, &import(&server, "import", &id).await).await;
    let before = payloads(&server, &job, "failures").await;
    assert_eq!(before.len(), 3);
    for returned in [upload(&server, "a.csv", list(&server, &job).await).await, workbook_of(&server, &job).await] {
        let again = complete(&server, &import(&server, "import", &returned).await).await;
        let after = payloads(&server, &again, "results").await;
        for ((_, before), (_, after)) in before.iter().zip(&after) {
            for (name, value) in before.as_object().expect("an object") {
                assert_eq!(&after[name], value, "{after}");
            }
        }
    }
    server.stop().await;
}
