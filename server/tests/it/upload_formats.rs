//! Formats other than CSV: arrays, lines, workbooks, and whole files as single items.

use reqwest::{Method, header::CONTENT_TYPE};
use serde_json::{Value, json};

use crate::support::{
    Answer, Api, Server,
    imports::{complete, import, lines, upload},
    xlsx::{archive, workbook},
};

async fn preview(caller: &Api, upload: &str, query: &str) -> Value {
    caller.get(&format!("/api/v1/uploads/{upload}/preview?{query}")).await.expect(200)
}

/// Creates a job from an upload with reading options.
async fn import_as(caller: &Api, upload: Value) -> Answer {
    caller.post("/api/v1/jobs", json!({"type": "import", "upload": upload})).await
}

#[tokio::test]
async fn json_array_is_split_and_a_broken_one_is_one_dead_row() {
    let server = Server::start().await;
    let other = server.another().await;
    let mut elements: Vec<String> = (0..3_500).map(|id| format!("  {{\"id\": {id}, \"in\": [1e400, {{}}]}}")).collect();
    elements[1_700] = "  {\"id\": 1700, \"open".to_owned();
    let id = upload(&server, "orders.json", format!("[\n{}\n]\n", elements.join(",\n"))).await;
    assert_eq!(server.get(&format!("/api/v1/uploads/{id}")).await.expect(200)["format"], "json");
    let preview_page = server.get(&format!("/api/v1/uploads/{id}/preview")).await.text;
    assert!(
        preview_page.contains(r#"{"row":2,"cells":[],"payload":{"id": 0, "in": [1e400, {}]},"problem":null}"#),
        "{preview_page}"
    );

    let job = complete(&server, &import(&server, "import", &id).await).await;
    assert_eq!((&job["item_count"], &job["counts"]["succeeded"]), (&json!(3_500), &json!(3_499)));
    other.stop().await;
    let path = format!("/api/v1/jobs/{}/results", job["id"].as_str().expect("an id"));
    let text = server.get(&path).await.text;
    assert!(text.contains("\"payload\":{\"id\": 3499, \"in\": [1e400, {}]}"), "byte for byte");
    let failures = lines(&server, &job, "failures").await;
    assert_eq!((failures.len(), &failures[0]["row"]), (1, &json!(1_702)));
    assert_eq!(failures[0]["error"]["kind"], "invalid_json");

    // A file that ends too early loses nothing of what is there, and says that it did.
    let cut = upload(&server, "cut.json", "[{\"id\":1},\n{\"id\":2},\n{\"id\":").await;
    let job = complete(&server, &import(&server, "import", &cut).await).await;
    assert_eq!((&job["counts"]["succeeded"], &job["counts"]["dead"]), (&json!(2), &json!(1)));
    let message = lines(&server, &job, "failures").await[0]["error"]["message"].clone();
    assert!(message.as_str().is_some_and(|text| text.starts_with("Line 3")), "{message}");

    let object = upload(&server, "object.json", "{\n\"rows\": [1]}").await;
    let refused = import_as(&server, json!({"id": object})).await.expect_problem(422, "invalid_body");
    assert_eq!(refused["errors"][0]["pointer"], "/upload/format");
    import_as(&server, json!({"id": upload(&server, "none.json", "[ ]").await})).await.expect_problem(422, "no_rows");
    server.stop().await;
}

/// A table as Excel writes it in large parts of Europe: Windows-1252, semicolons, umlauts also in the header.
#[tokio::test]
async fn csv_encoding_is_detected() {
    let server = Server::start().await;
    let excel = b"Kunde;Stra\xDFe;Betrag\r\nM\xFCller;K\xF6nigsallee 1;12,50 \x80\r\nJ\xE4ger;Am Markt 2;7,00 \x80\r\n";
    let id = upload(&server, "kunden.csv", &excel[..]).await;
    let preview_page = preview(&server, &id, "").await;
    assert_eq!((&preview_page["encoding"], &preview_page["delimiter"]), (&json!("windows-1252"), &json!(";")));
    assert_eq!(preview_page["columns"], json!(["Kunde", "Stra\u{df}e", "Betrag"]));
    let job = complete(&server, &import(&server, "import", &id).await).await;
    assert_eq!(job["outcome"], "succeeded");
    let results = lines(&server, &job, "results").await;
    let first = json!({"Kunde": "M\u{fc}ller", "Stra\u{df}e": "K\u{f6}nigsallee 1", "Betrag": "12,50 \u{20ac}"});
    assert_eq!(results[0]["payload"], first);

    // Whoever knows better says so; as what it is not, the file is refused with the place.
    let upload_body = json!({"id": id, "encoding": "ISO-8859-15"});
    let job = complete(&server, &import_as(&server, upload_body).await.expect(201)).await;
    assert_eq!(lines(&server, &job, "results").await[1]["payload"]["Kunde"], "J\u{e4}ger");
    let refused = import_as(&server, json!({"id": id, "encoding": "utf-8"})).await.expect_problem(422, "bad_header");
    assert!(refused["detail"].as_str().is_some_and(|text| text.contains("column 2")), "{refused}");
    for query in ["preview?encoding=klingon", "preview?encoding=", "mapping?type=import&encoding=klingon"] {
        let path = format!("/api/v1/uploads/{id}/{query}");
        let refused = server.get(&path).await.expect_problem(400, "invalid_parameter");
        assert_eq!(refused["errors"][0]["pointer"], "?encoding");
    }
    let path = format!("/api/v1/uploads/{id}/preview?delimiter=long");
    server.get(&path).await.expect_problem(400, "invalid_parameter");
    let refused =
        import_as(&server, json!({"id": id, "encoding": "klingon"})).await.expect_problem(422, "invalid_body");
    assert_eq!(refused["errors"][0]["pointer"], "/upload/encoding");

    // The only sign stands far below the lines that were looked at: the page says what to do about it.
    let mut late: Vec<u8> = b"name\n".to_vec();
    (0..30_000).for_each(|n| late.extend(format!("Ada {n}\n").into_bytes()));
    late.extend(b"J\xE4ger\n");
    let id = upload(&server, "late.csv", late).await;
    let job = complete(&server, &import(&server, "import", &id).await).await;
    assert_eq!((&job["counts"]["succeeded"], &job["counts"]["dead"]), (&json!(30_000), &json!(1)));
    let page = server.get(&format!("/imports/{}", job["id"].as_str().expect("an id"))).await.text;
    assert!(page.contains("may be in another encoding") && page.contains(&format!("upload_id={id}")), "{page}");
    server.stop().await;
}

#[tokio::test]
async fn encoding_of_a_short_file_is_detected_from_one_umlaut() {
    let server = Server::start().await;
    let windows = b"name,sum\nM\xFCller,1\n".to_vec();
    let latin = b"name;sum\nM\xFCller;5 \xA4\n".to_vec();
    let utf16 = |unit: fn(u16) -> [u8; 2]| "name\tsum\r\nM\u{fc}ller\t1\r\n".encode_utf16().flat_map(unit).collect();
    let (little, big): (Vec<u8>, Vec<u8>) = (utf16(u16::to_le_bytes), utf16(u16::to_be_bytes));
    for (file, encoding, sum) in [
        (windows, "windows-1252", "1"),
        (latin, "iso-8859-15", "5 \u{20ac}"),
        (little, "utf-16le", "1"),
        (big, "utf-16be", "1"),
    ] {
        let id = upload(&server, "names.csv", file).await;
        let preview_page = preview(&server, &id, "").await;
        assert_eq!(preview_page["encoding"], encoding);
        assert_eq!(preview_page["rows"][0]["cells"], json!(["M\u{fc}ller", sum]), "{encoding}");
        let job = complete(&server, &import(&server, "import", &id).await).await;
        assert_eq!(job["outcome"], "succeeded", "{encoding}");
        let payload = lines(&server, &job, "results").await[0]["payload"].clone();
        assert_eq!(payload, json!({"name": "M\u{fc}ller", "sum": sum}), "{encoding}");
    }
    server.stop().await;
}

#[tokio::test]
async fn text_file_lines_become_items() {
    let server = Server::start().await;
    let id = upload(&server, "words.log", "one, \"two\"\r\n\n\u{e9}t\u{e9}\n").await;
    let job = complete(&server, &import(&server, "import", &id).await).await;
    let payloads: Vec<Value> =
        lines(&server, &job, "results").await.iter().map(|line| line["payload"].clone()).collect();
    assert_eq!(payloads, [json!("one, \"two\""), json!("\u{e9}t\u{e9}")]);
    server.stop().await;
}

#[tokio::test]
async fn workbook_import_keeps_types_and_row_numbers() {
    let server = Server::start().await;
    let people = "<row r=\"2\"><c r=\"A2\" t=\"s\"><v>0</v></c><c r=\"B2\" t=\"inlineStr\"><is><t>sum</t></is></c>\
        <c r=\"C2\" t=\"s\"><v>1</v></c><c r=\"D2\" t=\"s\"><v>2</v></c></row>\
        <row r=\"4\"><c r=\"A4\" t=\"s\"><v>3</v></c><c r=\"B4\"><v>12.50</v></c><c r=\"C4\" t=\"b\"><v>1</v></c>\
        <c r=\"D4\" s=\"1\"><v>45943</v></c></row>\
        <row r=\"5\"/>\
        <row r=\"6\"><c r=\"A6\" t=\"s\"><v>4</v></c><c r=\"D6\" s=\"2\"><v>45943.5</v></c></row>\
        <row r=\"7\"><c r=\"A7\"><v>7</v></c><c r=\"F7\"><v>1</v></c></row>";
    let cities = "<row><c t=\"inlineStr\"><is><t>city</t></is></c></row>\
        <row><c t=\"inlineStr\"><is><t>Oslo</t></is></c></row>";
    let file = workbook(&[("People", people), ("Cities", cities)], &["name", "ok", "born", "Ada &amp; Co", "=1+1"]);
    let id = upload(&server, "people.xlsx", file).await;
    let preview_page = preview(&server, &id, "").await;
    assert_eq!(
        (&preview_page["format"], &preview_page["columns"]),
        (&json!("xlsx"), &json!(["name", "sum", "ok", "born"]))
    );
    assert_eq!(preview_page["rows"][0]["cells"], json!(["Ada & Co", "12.5", "true", "2025-10-13"]));
    assert_eq!(preview(&server, &id, "sheet=Cities").await["rows"][0]["cells"], json!(["Oslo"]));

    let job = complete(&server, &import(&server, "import", &id).await).await;
    assert_eq!((&job["item_count"], &job["counts"]["dead"]), (&json!(3), &json!(1)));
    let results = lines(&server, &job, "results").await;
    assert_eq!(results[0]["payload"], json!({"name": "Ada & Co", "sum": 12.5, "ok": true, "born": "2025-10-13"}));
    assert_eq!(results[1]["payload"], json!({"name": "=1+1", "sum": null, "ok": null, "born": "2025-10-13T12:00:00"}));
    assert_eq!((&results[0]["row"], &results[1]["row"]), (&json!(4), &json!(6)));
    let failure = &lines(&server, &job, "failures").await[0];
    assert_eq!(failure["error"]["message"], "Line 7, column 5: expected 4 fields, found 6.");
    let path = format!("/api/v1/jobs/{}/results?format=csv", job["id"].as_str().expect("an id"));
    let csv = server.get(&path).await.text;
    assert_eq!(csv.lines().nth(2), Some("6,'=1+1,,,2025-10-13T12:00:00,"), "{csv}");

    let other = import_as(&server, json!({"id": id, "sheet": "Cities", "header": false})).await.expect(201);
    let other = complete(&server, &other).await;
    assert_eq!(lines(&server, &other, "results").await[1]["payload"], json!(["Oslo"]));
    let refused = import_as(&server, json!({"id": id, "sheet": "Towns"})).await.expect_problem(422, "invalid_body");
    assert_eq!(refused["errors"][0]["pointer"], "/upload/sheet");
    assert!(refused["detail"].as_str().is_some_and(|text| text.contains("\"People\", \"Cities\"")), "{refused}");
    server.stop().await;
}

#[tokio::test]
async fn zip_bombs_and_invalid_workbooks_are_refused() {
    let server = Server::start_with(|config| config.files.xlsx_limit = "100KiB".parse().expect("a size")).await;
    let row = "<row><c t=\"inlineStr\"><is><t>a</t></is></c></row>";
    let endless = format!("<row><c t=\"inlineStr\"><is><t>{}</t></is></c></row>", "x".repeat(3 << 19));
    let many = row.repeat(60_000);
    let types = "[Content_Types].xml".to_owned();
    let strings = "<sst uniqueCount=\"99999999999999\"/>".to_owned();
    for (what, file) in [
        ("one cell", workbook(&[("a", &endless)], &[])),
        ("many rows", workbook(&[("a", &many)], &[])),
        ("strings", workbook(&[("a", row)], &["x".repeat(1 << 19).as_str()])),
        ("announced", archive(&[(types.clone(), "<Types/>".to_owned()), ("xl/sharedStrings.xml".to_owned(), strings)])),
        // The reader would take the first one of any kind for the one that was checked.
        ("two sheets of one name", workbook(&[("a", row), ("a", row)], &[])),
        ("binary", archive(&[(types.clone(), "<Types/>".to_owned()), ("xl/workbook.bin".to_owned(), String::new())])),
        ("no sheets", archive(&[(types, "<Types/>".to_owned())])),
        ("half", workbook(&[("a", row)], &[])[..700].to_vec()),
    ] {
        let id = upload(&server, "small.xlsx", file).await;
        let refused = import_as(&server, json!({"id": id})).await.expect_problem(422, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], "/upload/id", "{what}: {refused}");
        let preview_page = preview(&server, &id, "").await;
        assert!(
            preview_page["problem"].as_str().is_some_and(|text| text.starts_with("invalid_body")),
            "{what}: {preview_page}"
        );
    }
    let id = upload(&server, "empty.xlsx", workbook(&[("a", row)], &[])).await;
    import_as(&server, json!({"id": id})).await.expect_problem(422, "no_rows");
    let upload_path = |name: &str| format!("/api/v1/uploads?filename={name}");
    let octets = "application/octet-stream";
    let zip = archive(&[("notes.txt".to_owned(), "x".to_owned())]);
    let open_document =
        [b"PK\x03\x04".as_slice(), &[0; 26], b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet"].concat();
    let hostile = [("a.xlsx", zip.clone()), ("a.csv", zip), ("a.xlsx", b"id\n1\n".to_vec()), ("a.ods", open_document)];
    for (name, file) in hostile {
        server.post_text(&upload_path(name), octets, file).await.expect_problem(415, "unsupported_media_type");
    }
    let large = vec![b'P'; 200 << 10];
    server.post_text(&upload_path("large.xlsx"), octets, large).await.expect_problem(413, "too_large");
    server.stop().await;
}

#[tokio::test]
async fn whole_file_import_is_one_item_readable_by_its_worker() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/scan", json!({})).await.expect(201);
    let mine = server.service("mine", &["jobs:read", "jobs:write"]).await;
    let worker = server.service("worker", &["work"]).await;
    let stranger = server.service("stranger", &["work"]).await;
    let image = b"\x89PNG\r\n\x1a\n\0\0".to_vec();
    let sent =
        mine.request(Method::POST, "/api/v1/uploads?filename=a.png&format=none").header(CONTENT_TYPE, "image/png");
    let stored = Answer::of(sent.body(image.clone())).await.expect(201);
    assert_eq!(stored["format"], "none");
    let id = stored["id"].as_str().expect("an id");
    let job = mine.post("/api/v1/jobs", json!({"type": "scan", "upload": {"id": id}})).await.expect(201);

    let content = format!("/api/v1/uploads/{id}/content");
    worker.get(&content).await.expect_problem(404, "not_found");
    let claim = json!({"worker_id": "w", "types": ["scan"], "wait_seconds": 10});
    let claimed = worker.post("/api/v1/assignments", claim).await.expect(200);
    let assignment = &claimed["assignments"][0];
    assert_eq!(assignment["item"]["payload"], json!({"upload_id": id}));
    let read = Answer::of(worker.request(Method::GET, &content)).await;
    assert_eq!((read.status.as_u16(), read.headers["content-length"].as_bytes()), (200, &b"10"[..]));
    stranger.get(&content).await.expect_problem(404, "not_found");
    let result = format!("/api/v1/assignments/{}/result", assignment["id"].as_str().expect("an id"));
    worker.post(&result, json!({"result": {"pages": 1}})).await.expect(200);
    worker.get(&content).await.expect_problem(404, "not_found");
    let job = complete(&mine, &job).await;
    assert_eq!((&job["item_count"], &job["outcome"]), (&json!(1), &json!("succeeded")));
    server.stop().await;
}

#[tokio::test]
async fn error_of_a_workbook_fails_its_row_until_it_is_edited() {
    let server = Server::start().await;
    let error = |place: &str| format!("<c r=\"{place}\" t=\"e\"><v>#N/A</v></c>");
    let text = |text: &str| format!("<c t=\"inlineStr\"><is><t>{text}</t></is></c>");
    let number = |place: &str, n: i64| format!("<c r=\"{place}\"><v>{n}</v></c>");
    let rows = [
        format!("<row r=\"1\">{}{}</row>", text("id"), text("iban")),
        format!("<row r=\"2\">{}{}</row>", number("A2", 1), error("B2")),
        format!("<row r=\"3\">{}{}</row>", number("A3", 2), error("B3")),
    ];
    // A hidden sheet is not the default one.
    let lists = format!("<row>{}</row><row>{}</row>", text("list"), text("x"));
    let file = workbook(&[("Lists\" state=\"hidden", &lists), ("Payments", &rows.concat())], &[]);
    let id = upload(&server, "payments.xlsx", file).await;
    assert_eq!(preview(&server, &id, "").await["sheets"], json!(["Payments", "Lists"]));
    let edits = json!([{"row": 3, "cells": {"iban": "CH93"}}]);
    let body = json!({"type": "import", "upload": {"id": id}, "edits": edits});
    let job = complete(&server, &server.post("/api/v1/jobs", body).await.expect(201)).await;
    assert_eq!(lines(&server, &job, "results").await[0]["payload"], json!({"id": 2, "iban": "CH93"}));
    let failures = lines(&server, &job, "failures").await;
    let message = "Line 2, column 2 (iban): expected a value, found the error #N/A.";
    assert_eq!((&failures[0]["error"]["message"], failures.len()), (&json!(message), 1));
    assert_eq!(failures[0]["payload"], json!({"id": 1, "iban": "#N/A"}));
    server.stop().await;
}
