//! Files as office programs save them (`examples/import`): each becomes the right items, or is refused with what to do.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{
    Api, Server,
    imports::{complete, lines, upload},
};

/// Rows of the large file.
const MANY: usize = 900_000;

fn sample(name: &str) -> Vec<u8> {
    let path = format!("{}/../examples/import/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).expect(&path)
}

/// Creates a type with these properties and the names that they have in files; all properties are required.
async fn define(server: &Server, name: &str, properties: Value, aliases: Value) {
    let required: Vec<&String> = properties.as_object().expect("properties").keys().collect();
    let schema =
        json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false});
    let spec = json!({
        "executor": {"kind": "builtin", "name": "validate"}, "max_failures": 1, "payload_schema": schema,
        "import": {"aliases": aliases},
    });
    server.put(&format!("/api/v1/job-types/{name}"), spec).await.expect(201);
}

/// A stored sample, and how it is read.
struct Sample<'a> {
    caller: &'a Api,
    id: String,
    job_type: &'a str,
    /// `header_row` and `sheet`, where chosen.
    reading: Value,
}

impl<'a> Sample<'a> {
    async fn of(caller: &'a Api, name: &str, job_type: &'a str) -> Self {
        Self { caller, id: upload(caller, name, sample(name)).await, job_type, reading: json!({}) }
    }

    async fn preview(&self) -> Value {
        let path = format!("/api/v1/uploads/{}/preview?type={}{}", self.id, self.job_type, self.query());
        self.caller.get(&path).await.expect(200)
    }

    fn query(&self) -> String {
        let chosen = self.reading.as_object().into_iter().flatten();
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        chosen.map(|(name, value)| format!("&{name}={}", text(value))).collect()
    }

    /// The suggested mapping.
    async fn suggestion(&self) -> Value {
        let path = format!("/api/v1/uploads/{}/mapping?type={}{}", self.id, self.job_type, self.query());
        self.caller.get(&path).await.expect(200)
    }

    async fn mapping(&self) -> Value {
        let suggestion = self.suggestion().await;
        assert_eq!(suggestion["missing"], json!([]), "{suggestion}");
        let columns = suggestion["columns"].as_array().expect("columns").iter().filter(|it| !it["to"].is_null());
        let column = |it: &Value| json!({"from": it["from"], "to": it["to"], "as": it["as"], "format": it["format"]});
        json!({"columns": columns.map(column).collect::<Vec<_>>()})
    }

    /// Body of the request for the check or the job, with the fields that say how the file is read.
    fn body(&self, upload: Option<&str>, mapping: Option<&Value>, edits: &Value) -> Value {
        let mut reading = self.reading.clone();
        if let Some(id) = upload {
            reading["id"] = json!(id);
            reading = json!({"upload": reading});
        }
        reading["type"] = json!(self.job_type);
        reading["edits"] = edits.clone();
        if let Some(mapping) = mapping {
            reading["mapping"] = mapping.clone();
        }
        reading
    }

    async fn check(&self, mapping: Option<&Value>) -> Value {
        let body = self.body(None, mapping, &json!([]));
        self.caller.post(&format!("/api/v1/uploads/{}/check", self.id), body).await.expect(200)
    }

    /// Imports the file; returns the job.
    async fn import(&self, mapping: Option<&Value>, edits: &Value) -> Value {
        let body = self.body(Some(&self.id), mapping, edits);
        complete(self.caller, &self.caller.post("/api/v1/jobs", body).await.expect(201)).await
    }

    /// Payloads of an import as it is suggested, without a row that fails.
    async fn payloads(&self) -> Vec<Value> {
        let mapping = self.mapping().await;
        let found = self.check(Some(&mapping)).await;
        assert_eq!(found["failed"], 0, "{found}");
        let job = self.import(Some(&mapping), &json!([])).await;
        assert_eq!((&job["outcome"], &job["item_count"]), (&json!("succeeded"), &found["rows"]), "{job}");
        lines(self.caller, &job, "results").await.into_iter().map(|mut line| line["payload"].take()).collect()
    }
}

#[tokio::test]
async fn excel_csv_in_windows_1252_with_decimal_commas_is_imported() {
    let server = Server::start().await;
    let properties = json!({"customer": {"type": "string"}, "street": {"type": "string"},
        "invoice": {"type": "string"}, "amount": {"type": "number"}});
    let aliases = json!({"customer": ["Kunde"], "street": ["Strasse"], "invoice": ["Rechnung"], "amount": ["Betrag"]});
    define(&server, "invoices", properties, aliases).await;
    let file = Sample::of(&server, "invoices-excel-windows-1252.csv", "invoices").await;
    let preview = file.preview().await;
    assert_eq!((&preview["encoding"], &preview["delimiter"]), (&json!("windows-1252"), &json!(";")));
    let payloads = file.payloads().await;
    let row = |customer: &str, street: &str, invoice: &str, amount: f64| json!({"customer": customer, "street": street, "invoice": invoice, "amount": amount});
    let expected = [
        row("Müller & Söhne", "Königsallee 1", "R-1001", 1234.5),
        row("Jäger GmbH", "Am Markt 2", "R-1002", 7.0),
        row("Groß – Handel", "Zürcherstr. 3", "R-1003", -89.9),
        row("Café Noël", "Rue de l’Été 4; 2. Stock", "R-1004", 12_000.0),
    ];
    for (payload, expected) in payloads.iter().zip(expected) {
        assert_eq!(payload["amount"].as_f64(), expected["amount"].as_f64(), "{payload}");
        assert_eq!((&payload["customer"], &payload["street"]), (&expected["customer"], &expected["street"]));
    }
    assert_eq!(payloads.len(), 4);
    server.stop().await;
}

#[tokio::test]
async fn excel_unicode_text_is_imported() {
    let server = Server::start().await;
    let properties = json!({"article": {"type": "string"}, "name": {"type": "string"},
        "stock": {"type": "integer"}, "price": {"type": "number"}});
    let aliases = json!({"article": ["Artikel"], "name": ["Bezeichnung"], "stock": ["Bestand"], "price": ["Preis"]});
    define(&server, "stock", properties, aliases).await;
    let file = Sample::of(&server, "stock-excel-unicode.txt", "stock").await;
    let preview = file.preview().await;
    assert_eq!((&preview["encoding"], &preview["delimiter"]), (&json!("utf-16le"), &json!("\t")));
    let payloads = file.payloads().await;
    assert_eq!(payloads[0], json!({"article": "A-1", "name": "Чай чёрный", "stock": 12, "price": 4.5}));
    assert_eq!((&payloads[1]["name"], &payloads[1]["stock"]), (&json!("日本茶"), &json!(0)));
    assert_eq!(payloads[2]["name"], "Kaffee, gemahlen");
    assert_eq!(payloads[3]["name"], "Tasse \"Alpen\"");
    server.stop().await;
}

#[tokio::test]
async fn excel_utf_8_with_byte_order_mark_is_imported() {
    let server = Server::start().await;
    let properties = json!({"id": {"type": "integer"}, "name": {"type": "string"}, "email": {"type": "string"}});
    define(&server, "contacts", properties, json!({})).await;
    let file = Sample::of(&server, "contacts-excel-utf-8.csv", "contacts").await;
    assert_eq!(file.preview().await["columns"], json!(["id", "name", "email"]), "the mark is in no name");
    let payloads = file.payloads().await;
    assert_eq!(payloads[0], json!({"id": 1, "name": "Zoë Brontë", "email": "zoe@example.com"}));
    assert_eq!((&payloads[1]["name"], &payloads[2]["name"]), (&json!("Łukasz Żak"), &json!("Smith, Ann")));
    server.stop().await;
}

#[tokio::test]
async fn libreoffice_csv_with_german_dates_is_imported() {
    let server = Server::start().await;
    let date = json!({"type": "string", "format": "date"});
    let properties = json!({"contract": {"type": "string"}, "customer": {"type": "string"}, "begin": date, "end": date,
        "amount": {"type": "number"}});
    let aliases = json!({"contract": ["Vertrag"], "customer": ["Kunde"], "begin": ["Beginn"], "end": ["Ende"],
        "amount": ["Betrag"]});
    define(&server, "contracts", properties, aliases).await;
    let payloads = Sample::of(&server, "contracts-libreoffice.csv", "contracts").await.payloads().await;
    let dates: Vec<(&Value, &Value)> = payloads.iter().map(|payload| (&payload["begin"], &payload["end"])).collect();
    let expected = [("2026-01-01", "2026-12-31"), ("2026-02-03", "2027-02-02"), ("2024-02-29", "2026-12-31")];
    for ((begin, end), expected) in dates.into_iter().zip(expected) {
        assert_eq!((begin, end), (&json!(expected.0), &json!(expected.1)));
    }
    assert_eq!(payloads[2]["amount"].as_f64(), Some(12_000.25));
    server.stop().await;
}

#[tokio::test]
async fn sap_list_of_60_columns_is_imported_and_its_other_columns_stay_left_out() {
    let server = Server::start().await;
    let properties = json!({"company": {"type": "string"}, "document": {"type": "string"},
        "posted": {"type": "string", "format": "date"}, "amount": {"type": "number"}});
    let aliases = json!({"company": ["BUKRS"], "document": ["BELNR"], "posted": ["BUDAT"], "amount": ["DMBTR"]});
    define(&server, "postings", properties, aliases).await;
    let mut file = Sample::of(&server, "postings-sap-list.txt", "postings").await;
    assert_eq!(file.preview().await["suggested_header_row"], 4);
    file.reading = json!({"header_row": 4});
    let preview = file.preview().await;
    assert_eq!(preview["columns"].as_array().map(Vec::len), Some(60), "{preview}");
    let payloads = file.payloads().await;
    assert_eq!((payloads.len(), &payloads[0]["document"]), (6, &json!("1900000001")));
    assert_eq!((&payloads[1]["posted"], payloads[1]["amount"].as_f64()), (&json!("2026-12-31"), Some(-82.0)));
    assert_eq!(payloads[0]["amount"].as_f64(), Some(1214.56));

    // The next list has the same columns: those that became nothing are left out again, not in question.
    let next =
        Sample { reading: json!({"header_row": 4}), ..Sample::of(&server, "postings-sap-list.txt", "postings").await };
    let suggestion = next.suggestion().await;
    let columns = suggestion["columns"].as_array().expect("columns");
    assert!(columns.iter().all(|column| column["matched"] == "remembered"), "{suggestion}");
    assert_eq!(columns.iter().filter(|column| column["to"].is_null()).count(), 56);
    server.stop().await;
}

#[tokio::test]
async fn second_sheet_of_a_libreoffice_workbook_is_imported() {
    let server = Server::start().await;
    let properties = json!({"order": {"type": "string"}, "customer": {"type": "string"}, "amount": {"type": "number"},
        "due": {"type": "string", "format": "date"}});
    define(&server, "orders", properties, json!({})).await;
    let mut file = Sample::of(&server, "two-sheets-libreoffice.xlsx", "orders").await;
    let preview = file.preview().await;
    assert_eq!(preview["sheets"], json!(["Read me", "Orders"]), "{preview}");
    let findings = preview["check"]["findings"].to_string();
    assert!(findings.contains("Column order is missing; every row needs it."), "{preview}");
    file.reading = json!({"sheet": "Orders"});
    let payloads = file.payloads().await;
    let expected = [
        json!({"order": "O-1", "customer": "Ada", "amount": 12.5, "due": "2026-04-30"}),
        json!({"order": "O-2", "customer": "Ben", "amount": 7, "due": "2026-05-15"}),
    ];
    assert_eq!(payloads, expected);
    server.stop().await;
}

#[tokio::test]
async fn header_below_merged_cells_of_a_libreoffice_workbook_is_suggested() {
    let server = Server::start().await;
    let properties = json!({"number": {"type": "string"}, "name": {"type": "string"}, "small": {"type": "number"},
        "medium": {"type": "number"}, "large": {"type": "number"}});
    define(&server, "prices", properties, json!({})).await;
    let mut file = Sample::of(&server, "merged-header-libreoffice.xlsx", "prices").await;
    assert_eq!(file.preview().await["suggested_header_row"], 2);
    file.reading = json!({"header_row": 2});
    let payloads = file.payloads().await;
    assert_eq!(payloads[2], json!({"number": "A-3", "name": "Cup", "small": 11, "medium": 10.5, "large": 9.75}));
    assert_eq!(payloads.len(), 3);
    server.stop().await;
}

#[tokio::test]
async fn row_with_the_total_of_a_libreoffice_workbook_is_found_and_left_out() {
    let server = Server::start().await;
    let properties =
        json!({"invoice": {"type": "string"}, "customer": {"type": "string"}, "amount": {"type": "number"}});
    define(&server, "invoices", properties, json!({})).await;
    let file = Sample::of(&server, "totals-row-libreoffice.xlsx", "invoices").await;
    let found = file.check(None).await;
    assert_eq!((&found["failed"], &found["listed"][0]["row"]), (&json!(1), &json!(5)), "{found}");
    assert_eq!(found["listed"][0]["problem"], "Line 5, column 1 (invoice): expected text, found null.");
    let job = file.import(None, &json!([{"row": 5, "leave_out": true}])).await;
    assert_eq!((&job["outcome"], &job["item_count"]), (&json!("succeeded"), &json!(3)), "{job}");
    let results = lines(&server, &job, "results").await;
    assert_eq!(results[2]["payload"], json!({"invoice": "R-3", "customer": "Cy", "amount": 49.5}));
    server.stop().await;
}

#[tokio::test]
async fn google_sheets_csv_with_line_breaks_in_cells_is_imported() {
    let server = Server::start().await;
    let properties = json!({"timestamp": {"type": "string"}, "customer": {"type": "string"},
        "comment": {"type": "string"}, "rating": {"type": "integer"}});
    define(&server, "feedback", properties, json!({})).await;
    let payloads = Sample::of(&server, "feedback-google-sheets.csv", "feedback").await.payloads().await;
    assert_eq!(payloads[0]["comment"], "First line\nSecond line, with a comma");
    assert_eq!(payloads[1]["comment"], "He said \"fine\"\n\n– and left");
    assert_eq!((&payloads[2]["comment"], &payloads[2]["rating"]), (&json!(""), &json!(4)));
    server.stop().await;
}

#[tokio::test]
async fn ndjson_with_mixed_keys_is_imported_but_for_rows_that_lack_one() {
    let server = Server::start().await;
    let spec = json!({"executor": {"kind": "builtin", "name": "validate"}, "max_failures": 1, "payload_schema": {
        "type": "object", "required": ["id", "kind"], "properties": {"id": {"type": "integer"}, "kind": {"type": "string"}}
    }});
    server.put("/api/v1/job-types/events", spec).await.expect(201);
    let file = Sample::of(&server, "events-mixed-keys.ndjson", "events").await;
    let found = file.check(None).await;
    assert_eq!((&found["rows"], &found["failed"]), (&json!(5), &json!(1)), "{found}");
    assert_eq!(found["listed"][0]["problem"], "Line 3, column 1 (/id): expected a value, found nothing.");
    let job = file.import(None, &json!([])).await;
    assert_eq!((&job["counts"]["succeeded"], &job["counts"]["dead"]), (&json!(4), &json!(1)), "{job}");
    let results = lines(&server, &job, "results").await;
    assert_eq!(results[2]["payload"]["parcel"], json!({"carrier": "Post", "weight_kg": 1.2}));
    assert_eq!(
        results[3]["payload"],
        json!({"at": "2026-03-02T08:00:00Z", "id": 5, "kind": "returned", "amount": null})
    );
    server.stop().await;
}

#[tokio::test]
async fn pdf_is_refused_with_what_to_do() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let sentence = "The file is a PDF, which has no rows to read. Save or export the table as CSV or Excel (XLSX) in \
                    the program that it comes from, and upload that.";
    for name in ["invoices.pdf", "invoices.csv", "invoices.xlsx"] {
        let path = format!("/api/v1/uploads?filename={name}");
        let sent = ada.post_text(&path, "application/octet-stream", sample("invoices-libreoffice.pdf")).await;
        assert_eq!(sent.expect_problem(415, "unsupported_media_type")["detail"], sentence);
        let part = reqwest::multipart::Part::bytes(sample("invoices-libreoffice.pdf")).file_name(name);
        let form = reqwest::multipart::Form::new().part("file", part);
        let page = ada.request(reqwest::Method::POST, "/imports/new").multipart(form).send().await.expect("a page");
        assert_eq!(page.status(), 422);
        let text = page.text().await.expect("text");
        assert!(text.contains("This file type is not supported") && text.contains(sentence), "{text}");
    }
    // Other files that people take for tables, each with its own advice.
    let old = [&[0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1][..], &[0; 500]].concat();
    for (name, content, advice) in [
        ("list.xls", old, "Open it in Excel, save it as XLSX without a password, and upload that."),
        (
            "list.csv",
            sample("totals-row-libreoffice.xlsx"),
            "Change its name so that it ends in .xlsx, and upload that.",
        ),
        ("list.csv.gz", vec![0x1F, 0x8B, 8, 0], "Unpack it, and upload that."),
    ] {
        let path = format!("/api/v1/uploads?filename={name}");
        let sent = ada.post_text(&path, "application/octet-stream", content).await;
        let problem = sent.expect_problem(415, "unsupported_media_type");
        assert!(problem["detail"].as_str().is_some_and(|text| text.ends_with(advice)), "{name}: {problem}");
    }
    server.stop().await;
}

fn large_file() -> String {
    let row = |n: usize| format!("{n},C{},{}.{}5\n", n % 9973, n % 1000, n % 10);
    std::iter::once("order,customer,amount\n".to_owned()).chain((1..=MANY).map(row)).collect()
}

/// Most memory of this process since [`reset_peak`], in bytes.
fn peak_memory() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|text| text.trim().trim_end_matches(" kB").parse::<i64>().ok()).unwrap_or(0) * 1_024
}

fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

async fn define_orders(server: &Server) {
    let properties =
        json!({"order": {"type": "integer"}, "customer": {"type": "string"}, "amount": {"type": "number"}});
    define(server, "orders", properties, json!({})).await;
}

#[tokio::test]
async fn file_of_900_000_rows_is_checked_in_bounded_time() {
    let server = Server::start().await;
    define_orders(&server).await;
    let id = upload(&server, "orders.csv", large_file().replace("\n450000,", "\nx450000,")).await;
    let started = Instant::now();
    let found = server.post(&format!("/api/v1/uploads/{id}/check"), json!({"type": "orders"})).await.expect(200);
    assert_eq!((&found["rows"], &found["failed"]), (&json!(MANY), &json!(1)), "{found}");
    let problem = "Line 450001, column 1 (order): expected a whole number, found \"x450000\".";
    assert_eq!(found["listed"][0]["problem"], problem);
    println!("checked {MANY} rows in {:?}", started.elapsed());
    server.stop().await;
}

/// Run by hand: it fills the database for minutes in a debug build.
#[tokio::test]
#[ignore = "takes minutes: cargo test -p server --test it -- --ignored --nocapture 900_000_rows_is_imported"]
async fn file_of_900_000_rows_is_imported_in_bounded_memory() {
    let server = Server::start().await;
    define_orders(&server).await;
    let file = large_file();
    let bytes = file.len();
    let id = upload(&server, "orders.csv", file).await;
    reset_peak();
    let (before, started) = (peak_memory(), Instant::now());
    let body = json!({"type": "orders", "upload": {"id": id}});
    let job = complete(&server, &server.post("/api/v1/jobs", body).await.expect(201)).await;
    let (time, memory) = (started.elapsed(), peak_memory() - before);
    println!("imported {MANY} rows ({bytes} bytes) in {time:?} with {memory} more bytes of memory");
    assert_eq!((&job["counts"]["succeeded"], &job["item_count"]), (&json!(MANY), &json!(MANY)), "{job}");
    assert!(memory < 512 << 20, "{memory} more bytes of memory");
    server.stop().await;
}
