//! Template files of job types: they are filled in and imported.

use std::io::{Cursor, Read as _, Write as _};

use serde_json::{Value, json};
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use crate::support::{
    Answer, Server,
    imports::{complete, lines, upload},
};

/// Creates the type; as text, because its properties have an order.
async fn orders(server: &Server) {
    let countries: Vec<String> = (0..80).map(|n| format!("\"Country, number {n}\"")).collect();
    let schema = format!(
        r#"{{"type": "object", "required": ["order", "state"], "additionalProperties": false, "properties": {{
            "order": {{"type": "string", "minLength": 1}}, "state": {{"enum": ["open", "paid"]}},
            "amount": {{"type": "number"}}, "due": {{"type": ["string", "null"], "format": "date"}},
            "gift": {{"type": ["boolean", "null"]}},
            "country": {{"type": ["string", "null"], "enum": [{}, null]}}}}}}"#,
        countries.join(",")
    );
    let example = r#"{"order": "0001", "state": "paid", "amount": 12.5, "due": "2026-12-31", "gift": true,
        "country": "Country, number 7"}"#;
    let spec = format!(
        r#"{{"executor": {{"kind": "builtin", "name": "validate"}}, "max_failures": 1, "payload_schema": {schema},
            "import": {{"template": {{"examples": [{example}]}}}}}}"#
    );
    let request = server.request(reqwest::Method::PUT, "/api/v1/job-types/orders");
    Answer::of(request.header("content-type", "application/json").body(spec)).await.expect(201);
}

async fn template(server: &Server, format: &str) -> Answer {
    let answer = server.get(&format!("/api/v1/job-types/orders/template{format}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer
}

/// Bytes of a template.
async fn bytes(server: &Server, format: &str) -> Vec<u8> {
    let request = server.request(reqwest::Method::GET, &format!("/api/v1/job-types/orders/template{format}"));
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    answer.bytes().await.expect("bytes").to_vec()
}

fn part(workbook: &[u8], name: &str) -> String {
    let mut archive = ZipArchive::new(Cursor::new(workbook)).expect("an archive");
    let mut text = String::new();
    archive.by_name(name).expect(name).read_to_string(&mut text).expect("text");
    text
}

/// The workbook with another first sheet.
fn with_sheet(workbook: &[u8], sheet: &str) -> Vec<u8> {
    let mut archive = ZipArchive::new(Cursor::new(workbook)).expect("an archive");
    let mut changed = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for place in 0..archive.len() {
        let mut part = archive.by_index(place).expect("a part");
        let mut content = Vec::new();
        part.read_to_end(&mut content).expect("its content");
        let name = part.name().expect("a name").into_owned();
        if name == "xl/worksheets/sheet1.xml" {
            content = sheet.as_bytes().to_vec();
        }
        changed.start_file(name, options).expect("a part");
        changed.write_all(&content).expect("its content");
    }
    changed.finish().expect("an archive").into_inner()
}

async fn imported(server: &Server, name: &str, file: Vec<u8>) -> Vec<Value> {
    let id = upload(server, name, file).await;
    let suggestion = server.get(&format!("/api/v1/uploads/{id}/mapping?type=orders")).await.expect(200);
    assert_eq!(suggestion["missing"], json!([]), "{suggestion}");
    let matched = |column: &Value| column["matched"] == "exact";
    assert!(suggestion["columns"].as_array().is_some_and(|columns| columns.iter().all(matched)), "{suggestion}");
    let job = server.post("/api/v1/jobs", json!({"type": "orders", "upload": {"id": id}})).await.expect(201);
    let job = complete(server, &job).await;
    assert_eq!(job["outcome"], "succeeded", "{job}");
    lines(server, &job, "results").await.into_iter().map(|mut line| line["payload"].take()).collect()
}

#[tokio::test]
async fn a_filled_csv_template_is_imported() {
    let server = Server::start().await;
    orders(&server).await;
    let file = template(&server, "").await;
    assert_eq!(file.headers["content-type"], "text/csv; charset=utf-8");
    let disposition = file.headers["content-disposition"].to_str().expect("text");
    assert!(disposition.contains("orders-template.csv"), "{disposition}");
    let bytes = bytes(&server, "").await;
    assert!(bytes.starts_with("\u{FEFF}order,state,amount,due,gift,country\r\n".as_bytes()), "{}", file.text);
    let filled = format!("{}0002,open,7,2027-01-31,false,\"Country, number 9\"\r\n", file.text);
    let payloads = imported(&server, "orders.csv", filled.into_bytes()).await;
    let expected = json!({"order": "0001", "state": "paid", "amount": 12.5, "due": "2026-12-31", "gift": true,
        "country": "Country, number 7"});
    assert_eq!(payloads[0], expected);
    assert_eq!((&payloads[1]["order"], &payloads[1]["gift"]), (&json!("0002"), &json!(false)));
    server.stop().await;
}

#[tokio::test]
async fn a_filled_workbook_template_is_imported_and_has_drop_downs() {
    let server = Server::start().await;
    orders(&server).await;
    let file = bytes(&server, "?format=xlsx").await;
    let sheet = part(&file, "xl/worksheets/sheet1.xml");
    assert!(sheet.contains("<formula1>\"open,paid\"</formula1>"), "{sheet}");
    assert!(sheet.contains("<formula1>Values!$F$1:$F$80</formula1>"), "values with commas: {sheet}");
    assert!(part(&file, "xl/workbook.xml").contains("state=\"hidden\""));
    let expected = json!({"order": "0001", "state": "paid", "amount": 12.5, "due": "2026-12-31", "gift": true,
        "country": "Country, number 7"});
    assert_eq!(imported(&server, "orders.xlsx", file.clone()).await, std::slice::from_ref(&expected));

    // One more row, as a clerk types it below the example.
    let text = |place: &str, text: &str| format!("<c r=\"{place}\" t=\"inlineStr\"><is><t>{text}</t></is></c>");
    let row =
        format!("<row r=\"3\">{}{}<c r=\"C3\"><v>7</v></c></row></sheetData>", text("A3", "0002"), text("B3", "open"));
    let filled = with_sheet(&file, &sheet.replace("</sheetData>", &row));
    let typed = json!({"order": "0002", "state": "open", "amount": 7, "due": null, "gift": null, "country": null});
    assert_eq!(imported(&server, "filled.xlsx", filled).await, [expected, typed]);
    server.stop().await;
}

#[tokio::test]
async fn pages_link_the_templates_of_types_that_have_one() {
    let server = Server::start().await;
    orders(&server).await;
    server.put("/api/v1/job-types/free", json!({})).await.expect(201);
    server.get("/api/v1/job-types/free/template").await.expect_problem(404, "not_found");
    server.get("/api/v1/job-types/nothing/template").await.expect_problem(404, "not_found");
    server.get("/api/v1/job-types/orders/template?format=pdf").await.expect_problem(400, "invalid_parameter");
    let page = server.person("ada", "user").await.get("/imports/new").await;
    let link = "href=\"/api/v1/job-types/orders/template?format=xlsx\"";
    assert!(page.text.contains(link), "{}", page.text);
    assert!(!page.text.contains("/api/v1/job-types/free/template"), "{}", page.text);
    let admin = server.admin().await;
    assert!(admin.get("/types/orders").await.text.contains(link));
    assert!(!admin.get("/types/free").await.text.contains("/template"));
    server.stop().await;
}
