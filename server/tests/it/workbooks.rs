//! Workbooks that are slow, broken, or expand inside: results are cached, and no owner's workbooks delay those of
//! others.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::json;

use crate::support::{
    Api, Server,
    imports::upload,
    xlsx::{archive, workbook},
};

/// Rows of a workbook that takes a while.
const MANY_ROWS: usize = 800_000;

/// The stored file of an upload.
fn stored(server: &Server, id: &str) -> PathBuf {
    fn find(folder: &Path, name: &str) -> Option<PathBuf> {
        std::fs::read_dir(folder).ok()?.filter_map(Result::ok).find_map(|entry| {
            let path = entry.path();
            if path.is_dir() { find(&path, name) } else { path.ends_with(name).then_some(path) }
        })
    }
    let folder = server.running.app.config.data_dir.clone().expect("a folder");
    find(&folder, id).expect("the file")
}

async fn preview(caller: &Api, id: &str, sheet: &str) -> serde_json::Value {
    let query = if sheet.is_empty() { String::new() } else { format!("?sheet={sheet}") };
    let path = format!("/api/v1/uploads/{id}/preview{query}");
    caller.get(&path).await.expect(200)["problem"].clone()
}

#[tokio::test]
async fn workbook_analysis_is_cached() {
    let server = Server::start().await;
    let rows = "<row r=\"1\"><c r=\"A1\"><v>1</v></c></row>";
    let good = upload(&server, "good.xlsx", workbook(&[("one", rows), ("two", rows)], &[])).await;
    let none = preview(&server, &good, "none").await;
    assert!(none.as_str().is_some_and(|text| text.contains("\"one\"") && text.contains("\"two\"")), "{none}");
    let parts = [("xl/workbook.xml".to_owned(), "<workbook".to_owned())];
    let broken = upload(&server, "broken.xlsx", archive(&parts)).await;
    let problem = preview(&server, &broken, "").await;
    // Without the files the same is said: they are not opened again.
    for id in [&good, &broken] {
        std::fs::remove_file(stored(&server, id)).expect("removed");
    }
    assert_eq!(preview(&server, &good, "none").await, none);
    assert_eq!(preview(&server, &good, "neither").await, none);
    assert_eq!(preview(&server, &broken, "").await, problem);
    server.get(&format!("/api/v1/uploads/{good}/preview?sheet=two")).await.expect_problem(404, "not_found");
    server.stop().await;
}

/// Number of stored errors about unreadable sheets.
async fn faults(server: &Server) -> i64 {
    let faults = "select count(*) from unreadable_sheet";
    sqlx::query_scalar(faults).fetch_one(&server.running.app.pool).await.expect("a number")
}

#[tokio::test]
async fn invalid_workbook_is_analyzed_once_for_all_sheets() {
    let server = Server::start().await;
    let parts = [("xl/workbook.xml".to_owned(), "<workbook".to_owned())];
    let broken = upload(&server, "broken.xlsx", archive(&parts)).await;
    let problem = preview(&server, &broken, "one").await;
    assert!(problem.as_str().is_some_and(|text| text.contains("it is damaged")), "{problem}");
    std::fs::remove_file(stored(&server, &broken)).expect("removed");
    for n in 0..20 {
        assert_eq!(preview(&server, &broken, &format!("sheet{n}")).await, problem);
    }
    assert_eq!(preview(&server, &broken, "").await, problem);
    assert_eq!(faults(&server).await, 1);
    // No sheet has such a name, and nothing is looked at for it.
    let long = format!("/api/v1/uploads/{broken}/preview?sheet={}", "s".repeat(32));
    let refused = server.get(&long).await.expect_problem(400, "invalid_parameter");
    assert_eq!(refused["errors"][0]["pointer"], "?sheet");
    server.stop().await;
}

#[tokio::test]
async fn unreadable_sheet_does_not_affect_other_sheets() {
    let server = Server::start().await;
    let rows = "<row r=\"1\"><c r=\"A1\"><v>1</v></c></row><row r=\"2\"><c r=\"A2\"><v>2</v></c></row>";
    let twice = "<row r=\"1\"><c r=\"B1\"><v>1</v></c><c r=\"A1\"><v>1</v></c></row>";
    let mixed = upload(&server, "mixed.xlsx", workbook(&[("bad", twice), ("good", rows)], &[])).await;
    let problem = preview(&server, &mixed, "").await;
    assert!(problem.as_str().is_some_and(|text| text.contains("not in order")), "{problem}");
    assert_eq!(preview(&server, &mixed, "good").await, json!(null));
    // The first sheet by its name or without, and others that there are not, are answered by what is known.
    std::fs::remove_file(stored(&server, &mixed)).expect("removed");
    assert_eq!(preview(&server, &mixed, "bad").await, problem);
    let none = preview(&server, &mixed, "none").await;
    assert!(none.as_str().is_some_and(|text| text.contains("\"bad\"")), "{none}");
    assert_eq!(faults(&server).await, 1);
    server.stop().await;
}

#[tokio::test]
async fn oversized_shared_strings_are_refused() {
    let server = Server::start_with(|config| config.files.xlsx_limit = "4MiB".parse().expect("a size")).await;
    let mut parts = Vec::new();
    for (name, content) in [
        ("[Content_Types].xml", "<Types/>".to_owned()),
        ("xl/workbook.xml", "<workbook/>".to_owned()),
        // Five bytes each in the file, and an entry of a list each in memory.
        ("xl/sharedStrings.xml", format!("<sst>{}</sst>", "<si/>".repeat(300_000))),
    ] {
        parts.push((name.to_owned(), content));
    }
    let id = upload(&server, "strings.xlsx", archive(&parts)).await;
    let problem = preview(&server, &id, "").await;
    assert!(problem.as_str().is_some_and(|text| text.contains("needs more memory than")), "{problem}");
    server.stop().await;
}

#[tokio::test]
async fn small_workbook_is_not_delayed_by_large_ones() {
    let server = Server::start().await;
    let slow = workbook(&[("s", &"<row><c><v>1</v></c></row>".repeat(MANY_ROWS))], &[]);
    let mut eves = Vec::new();
    for n in 0..3 {
        let eve = server.person(&format!("eve {n}"), "user").await;
        let id = upload(&eve, "slow.xlsx", slow.clone()).await;
        eves.push((eve, id));
    }
    let ada = server.person("ada", "user").await;
    let row = "<row r=\"1\"><c r=\"A1\"><v>1</v></c></row><row r=\"2\"><c r=\"A2\"><v>2</v></c></row>";
    let small = upload(&ada, "small.xlsx", workbook(&[("s", row)], &[])).await;
    let done = AtomicUsize::new(0);
    let large = eves.iter().map(|(eve, id)| async {
        preview(eve, id, "").await;
        done.fetch_add(1, Ordering::Relaxed)
    });
    let requests = async {
        // Those of the others have begun.
        while done.load(Ordering::Relaxed) == 0 {
            crate::support::moment().await;
        }
        assert_eq!(preview(&ada, &small, "").await, json!(null));
        assert!(done.load(Ordering::Relaxed) < eves.len(), "it had to wait for all of them");
    };
    futures::join!(futures::future::join_all(large), requests);
    server.stop().await;
}

#[tokio::test]
async fn workbook_whose_contents_multiply_in_memory_is_refused() {
    let server = Server::start().await;
    let part = |name: &str, content: String| (name.to_owned(), content);
    let kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let related =
        format!("<Relationships><Relationship Id=\"a\" Type=\"{kind}/officeDocument\" Target=\"xl/workbook.xml\"/>");
    // 200,000 styles, each with a copy of a name of a million characters: 200 GB out of a file of 8 KB.
    let font = format!("<fonts><font><name val=\"{}\"/></font></fonts>", "A".repeat(1_000_000));
    let styles = format!("<styleSheet>{font}<cellXfs>{}", "<xf fontId=\"0\"></xf>".repeat(200_000));
    // A table of strings that the check could overlook, and the reader not.
    let table = "<?a ' ?><sst uniqueCount=\"10000000000000\"><?a ' ?>";
    for (what, hostile) in [
        ("styles", part("xl/styles.xml", styles)),
        ("strings", part("xl/sharedStrings.xml", table.to_owned())),
        ("one string", part("xl/sharedStrings.xml", format!("<sst><si>{}", "<t>x</t><row/>".repeat(1 << 20)))),
    ] {
        let file =
            archive(&[part("[Content_Types].xml", "<Types/>".into()), part("_rels/.rels", related.clone()), hostile]);
        let id = upload(&server, "bomb.xlsx", file).await;
        let problem = preview(&server, &id, "").await;
        let problem = problem.as_str().expect("refused");
        let is_measured =
            ["needs more memory", "does not end", "larger inside"].iter().any(|why| problem.contains(why));
        assert!(is_measured, "{what}: {problem}");
    }
    server.get("/readyz").await.expect(200);
    server.stop().await;
}

#[tokio::test]
async fn small_workbook_may_have_many_rows() {
    let server = Server::start().await;
    // 18 MB of lines out of 4 MB of markup: a string is stored once and shown often.
    let row = format!("<row>{}</row>", "<c t=\"s\"><v>0</v></c>".repeat(60));
    let names: String = (0..60).map(|n| format!("<c t=\"inlineStr\"><is><t>c{n}</t></is></c>")).collect();
    let file = workbook(&[("a", &format!("<row>{names}</row>{}", row.repeat(3_000)))], &["x".repeat(100).as_str()]);
    assert!(file.len() < 1 << 20, "{}", file.len());
    let id = upload(&server, "many.xlsx", file).await;
    assert_eq!(preview(&server, &id, "").await, json!(null));
    server.stop().await;
}
