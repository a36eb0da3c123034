//! Review of a file before its import, by the form of the page alone: rows are checked, changed, and left out.

use serde_json::{Value, json};

use crate::support::{
    Answer, Api, Server,
    imports::{complete, upload},
    xlsx::workbook,
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

/// Attribute of a tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let value = tag.split_once(&format!(" {name}=\""))?.1.split('"').next()?;
    let plain = value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'");
    Some(plain.replace("&amp;", "&"))
}

/// Fields that a browser would send with the form of the second step.
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) fn of(page: &Answer) -> Self {
        let form = page.text.split("data-review").nth(1).and_then(|rest| rest.split("</form>").next()).expect("a form");
        let mut fields = Vec::new();
        for tag in form.split('<').filter(|tag| tag.starts_with("input ") || tag.starts_with("select ")) {
            let tag = tag.split('>').next().unwrap_or_default();
            let Some(name) = attribute(tag, "name") else { continue };
            let is_box = ["checkbox", "radio"].iter().any(|kind| tag.contains(&format!("type=\"{kind}\"")));
            if tag.starts_with("select ") {
                let select =
                    form.split(&format!("name=\"{name}\"")).nth(1).and_then(|rest| rest.split("</select>").next());
                let chosen = select
                    .into_iter()
                    .flat_map(|text| text.split("<option"))
                    .find(|one| one.split('>').next().is_some_and(|tag| tag.contains(" selected")));
                fields.push((name, chosen.and_then(|tag| attribute(tag, "value")).unwrap_or_default()));
            } else if !is_box || tag.contains(" checked") {
                fields.push((name, attribute(tag, "value").unwrap_or_default()));
            }
        }
        Self(fields)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(field, _)| field != name);
        self.0.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) async fn send(&self, caller: &Api, button: Option<(&str, &str)>) -> Answer {
        let own = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        caller.form("/imports", &own.chain(button).collect::<Vec<_>>()).await
    }
}

const CHECK: Option<(&str, &str)> = Some(("do", "check"));

fn text(page: &Answer) -> String {
    assert_eq!(page.status, 200, "{}", page.text);
    page.text.replace("<!>", "")
}

async fn ended(ada: &Api, started: &Answer) -> Value {
    assert_eq!(started.status, 303, "{}", started.text);
    let id = started.headers["location"].to_str().expect("text").trim_start_matches("/imports/").to_owned();
    complete(ada, &ada.get(&format!("/api/v1/jobs/{id}")).await.expect(200)).await
}

#[tokio::test]
async fn rows_are_fixed_and_left_out_by_a_form_below_a_title() {
    let server = Server::start().await;
    invoices(&server).await;
    let ada = server.person("Ada", "user").await;
    let file = "Invoices of March;\n;\nKunde;Betrag\nAda;1,5\nBen;2 \"CHF\"\nCy;3,5;\nDora\nTotal;\n";
    let file = upload(&ada, "march.csv", file).await;
    let page = ada.get(&format!("/imports/new?upload_id={file}&type=invoices")).await;
    let shown = text(&page);
    assert!(shown.contains("The column names seem to be in row 3."), "{shown}");
    let page = Fields::of(&page).send(&ada, Some(("use_header_row", "3"))).await;
    assert!(text(&page).contains("Choose a column for amount, customer."), "{}", page.text);
    let mut fields = Fields::of(&page);
    assert_eq!(fields.get("header_row"), Some("3"));
    for (name, value) in [("to-0", "customer"), ("to-1", "amount"), ("as-1", "number 1.234,56")] {
        fields.set(name, value);
    }

    let page = fields.send(&ada, CHECK).await;
    let shown = text(&page);
    assert!(shown.contains("1 row is ready, 4 need attention"), "{shown}");
    assert!(shown.contains("Expected a number such as 1.234,56, found \"2 \\\"CHF\\\"\"."), "{shown}");
    let mut fields = Fields::of(&page);
    assert_eq!((fields.get("cell-5-1"), fields.get("cell-4-1")), (Some("2 \"CHF\""), None), "{shown}");
    fields.set("cell-5-1", "2,5");
    fields.set("fill-6", "yes");
    fields.set("cell-7-1", "4,5");
    fields.set("out-8", "yes");
    let page = fields.send(&ada, CHECK).await;
    let shown = text(&page);
    assert!(shown.contains("4 rows are ready, 1 is left out"), "{shown}");
    assert!(
        shown.contains("Changed from “2 \"CHF\"”") || shown.contains("Changed from “2 &quot;CHF&quot;”"),
        "{shown}"
    );

    // Another notation of the column, and a refusal, keep what was changed.
    let mut fields = Fields::of(&page);
    fields.set("as-1", "number");
    let page = fields.send(&ada, CHECK).await;
    assert!(
        text(&page).contains("0 rows") || text(&page).contains("No row is ready, 4 need attention"),
        "{}",
        page.text
    );
    let mut fields = Fields::of(&page);
    assert_eq!(fields.get("cell-5-1"), Some("2,5"));
    fields.set("as-1", "number 1.234,56");
    fields.set("type", "nothing");
    let refused = fields.send(&ada, None).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    let mut fields = Fields::of(&refused);
    assert!(fields.get("edits").is_some_and(|edits| edits.contains("2,5")), "{}", refused.text);
    fields.set("type", "invoices");
    let page = fields.send(&ada, CHECK).await;
    let mut fields = Fields::of(&page);
    for (name, value) in [("to-0", "customer"), ("to-1", "amount"), ("as-1", "number 1.234,56")] {
        fields.set(name, value);
    }

    let job = ended(&ada, &fields.send(&ada, None).await).await;
    let counts = &job["counts"];
    assert_eq!((&counts["succeeded"], &counts["dead"]), (&json!(4), &json!(0)), "{job}");
    let items = ada.get(&format!("/api/v1/items?job={}", job["id"].as_str().expect("an id"))).await.expect(200);
    assert_eq!(items["data"].as_array().map(Vec::len), Some(4), "{items}");
    let mut payloads = Vec::new();
    for item in items["data"].as_array().expect("items") {
        let item = ada.get(&format!("/api/v1/items/{}", item["id"].as_str().expect("an id"))).await.expect(200);
        payloads.push(item["payload"].clone());
    }
    for (customer, amount) in [("Ada", 1.5), ("Ben", 2.5), ("Cy", 3.5), ("Dora", 4.5)] {
        assert!(payloads.contains(&json!({"customer": customer, "amount": amount})), "{payloads:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_large_file_is_shown_before_it_is_checked() {
    let server = Server::start().await;
    invoices(&server).await;
    let ada = server.person("Ada", "user").await;
    let row = |line: i64| {
        let bad = if line % 500 == 0 { " CHF" } else { "" };
        format!("Customer number {line} with a long name,{line}{bad}\n")
    };
    let file = format!("customer,amount\n{}", (2..=10_001).map(row).collect::<String>());
    let file = upload(&ada, "large.csv", file).await;
    let page = ada.get(&format!("/imports/new?upload_id={file}&type=invoices")).await;
    let shown = text(&page);
    assert!(shown.contains("Check the whole file") && !shown.contains("rows are ready"), "{shown}");
    let page = Fields::of(&page).send(&ada, CHECK).await;
    let shown = text(&page);
    assert!(shown.contains("9,980 rows are ready, 20 need attention"), "{shown}");
    let main = shown.split_once("<main").expect("a main part").1;
    assert!(!main.contains("Check the whole file"), "{main}");
    for line in [2, 201, 500, 10_000, 10_001] {
        assert!(shown.contains(&format!("data-key=\"line-{line}\"")), "{line}: {shown}");
    }
    assert!(!shown.contains("data-key=\"line-300\""), "{shown}");
    let mut fields = Fields::of(&page);
    assert_eq!(fields.get("rows"), Some("problems"));
    for place in 1..=20 {
        fields.set(&format!("cell-{}-1", place * 500), "7");
    }
    fields.set("rows", "all");
    let page = fields.send(&ada, CHECK).await;
    assert!(text(&page).contains("All 10,000 rows are ready"), "{}", page.text);
    let fields = Fields::of(&page);
    assert_eq!(fields.get("rows"), Some("all"));
    let job = ended(&ada, &fields.send(&ada, None).await).await;
    assert_eq!((&job["counts"]["succeeded"], &job["counts"]["dead"]), (&json!(10_000), &json!(0)), "{job}");
    server.stop().await;
}

#[tokio::test]
async fn the_number_of_edits_is_limited() {
    let server = Server::start().await;
    invoices(&server).await;
    let ada = server.person("Ada", "user").await;
    let file = upload(&ada, "a.csv", "customer,amount\nAda,1\n").await;
    let mut fields = Fields::of(&ada.get(&format!("/imports/new?upload_id={file}&type=invoices")).await);
    for line in 2..=1_002 {
        fields.set(&format!("out-{line}"), "yes");
    }
    let refused = fields.send(&ada, None).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains("at most 1,000 rows"), "{}", refused.text);
    // Edits that are no JSON, and fields of no row, are no edits.
    let mut fields = Fields::of(&ada.get(&format!("/imports/new?upload_id={file}&type=invoices")).await);
    for (name, value) in [("edits", "{"), ("row-x", "[]"), ("row--1", "[]"), ("cell-2", "x"), ("cell-9-9", "x")] {
        fields.set(name, value);
    }
    let job = ended(&ada, &fields.send(&ada, None).await).await;
    assert_eq!(job["counts"]["succeeded"], 1);
    server.stop().await;
}

#[tokio::test]
async fn a_sheet_of_a_workbook_is_chosen_and_its_rows_are_fixed() {
    let server = Server::start().await;
    invoices(&server).await;
    let ada = server.person("Ada", "user").await;
    let text = |text: &str| format!("<c t=\"inlineStr\"><is><t>{text}</t></is></c>");
    let row = |cells: &[String]| format!("<row>{}</row>", cells.concat());
    let number = |value: i64| format!("<c><v>{value}</v></c>");
    let head = row(&[text("customer"), text("amount")]);
    let march = format!("{head}{}", row(&[text("Ada"), text("one")]));
    let april = format!("{head}{}{}", row(&[text("Ben"), text("two")]), row(&[text("Cy"), number(3)]));
    let file = upload(&ada, "year.xlsx", workbook(&[("March", &march), ("April", &april)], &[])).await;
    let page = ada.get(&format!("/imports/new?upload_id={file}&type=invoices")).await;
    let shown = self::text(&page);
    assert!(shown.contains("<option value=\"April\"") && !shown.contains("name=\"delimiter\""), "{shown}");
    assert!(shown.contains("No row is ready, 1 needs attention"), "{shown}");
    // What was typed in one sheet is not meant for another.
    let mut fields = Fields::of(&page);
    fields.set("cell-2-1", "1");
    fields.set("sheet", "April");
    let page = fields.send(&ada, CHECK).await;
    let mut fields = Fields::of(&page);
    assert_eq!(fields.get("cell-2-1"), Some("two"), "{}", page.text);
    assert!(self::text(&page).contains("1 row is ready, 1 needs attention"), "{}", page.text);
    fields.set("cell-2-1", "2");
    let page = fields.send(&ada, CHECK).await;
    assert!(self::text(&page).contains("All 2 rows are ready"), "{}", page.text);
    assert!(self::text(&page).contains("Changed from “two”"), "{}", page.text);
    let job = ended(&ada, &Fields::of(&page).send(&ada, None).await).await;
    assert_eq!((&job["counts"]["succeeded"], &job["counts"]["dead"]), (&json!(2), &json!(0)), "{job}");
    server.stop().await;
}
