//! Uploads in progress: schema errors and corrections.

use app::pages::{
    self,
    identity::share::{SharePanel, panel},
    import::{
        correct::{Correct, CorrectRow, Fault, Notice},
        new_import::{Corrects, ImportForm},
        progress::{Actions, ImportContext},
    },
};
use domain::{
    api::ErrorGroup,
    id::Uuid,
    import::{
        file_check::{CheckedRow, FileCheck},
        mapping::ValueKind,
        row_edit::RowEdit,
        settings::{ImportProperty, MappingSuggestion, MatchKind, SuggestedColumn},
        upload::{ColumnCheck, ColumnFinding, FindingKind, Preview, PreviewRow, Upload, UploadFormat},
    },
};

use crate::{
    Draw,
    fixtures::{at, cancelled, complete, counts, form, groups, job, partial, running},
};

pub(crate) fn all(add: &mut impl FnMut(&'static str, Draw)) {
    add("new-check", Box::new(|| pages::import::new_import::page(&checked(), None)));
    add("new-review", Box::new(|| pages::import::new_import::page(&reviewed(), None)));
    add("new-match", Box::new(|| pages::import::new_import::page(&matched(), None)));
    add("new-wide", Box::new(|| pages::import::new_import::page(&wide(), None)));
    add("new-unreadable", Box::new(|| pages::import::new_import::page(&unreadable(), None)));
    let again = ImportForm { corrects: Some(first()), ..form() };
    add("new-again", Box::new(move || pages::import::new_import::page(&again, None)));
    add("correct", Box::new(|| pages::import::correct::page(&partial(), &rows(false))));
    add("correct-refused", Box::new(|| pages::import::correct::page(&partial(), &rows(true))));
    add("correct-empty", Box::new(|| pages::import::correct::page(&complete(), &Correct::default())));
    add(
        "import-corrected",
        Box::new(|| {
            let context = ImportContext { corrects: Some(first()), corrected_by: vec![first()], ..mine() };
            pages::import::progress::page_with(&partial(), &groups(), false, context)
        }),
    );
    add(
        "import-mine",
        Box::new(|| {
            let links = panel(&running(), &SharePanel::default());
            let context = ImportContext { panel: Some(links), ..mine() };
            pages::import::progress::page_with(&running(), &groups()[..1], false, context)
        }),
    );
    add(
        "import-ten-thousand",
        Box::new(|| {
            let mut shown = job(40, "bird-strikes.csv", "import", counts(6_412, 24, 8, 2, 3_554), None, Vec::new());
            shown.started_at = Some(at("2026-11-20T14:01:52Z"));
            pages::import::progress::page_with(&shown, &bird_strikes(), false, mine())
        }),
    );
    add(
        "import-others",
        Box::new(|| {
            let share_panel = SharePanel { needs_reason: true, ..SharePanel::default() };
            let actions = Actions { needs_reason: true, open: Some("cancel".to_owned()), ..Actions::default() };
            let links = panel(&running(), &share_panel);
            let context = ImportContext { own: false, panel: Some(links), actions, ..mine() };
            pages::import::progress::page_with(&running(), &groups()[..1], true, context)
        }),
    );
    add(
        "import-canceled",
        Box::new(|| {
            let actions = Actions { may_delete: true, flash: Some("canceled".to_owned()), ..Actions::default() };
            pages::import::progress::page_with(&cancelled(), &[], false, ImportContext { actions, ..mine() })
        }),
    );
}

/// Errors of a real file.
fn bird_strikes() -> Vec<ErrorGroup> {
    let messages = [
        ("Line 2, column 15: expected 14 fields, found 15.", 9),
        ("Line 3, column 14 (Speed IAS in knots): expected a number, found \u{201c}n/a\u{201d}.", 7),
        ("Line 57, column 1 (Airport Name): expected text, found bytes that are not UTF-8.", 5),
        ("Line 101, column 2 (Aircraft Make Model): expected at least 1 character, found nothing.", 3),
    ];
    let group = |(message, count): (&str, i64)| ErrorGroup {
        fingerprint: message.to_owned(),
        message: message.to_owned(),
        count,
        last_seen_at: at("2026-11-20T14:02:48Z"),
        ..groups().remove(0)
    };
    messages.map(group).to_vec()
}

/// Context of an import for its owner.
pub(crate) fn mine() -> ImportContext {
    ImportContext { own: true, may_change: true, ..ImportContext::default() }
}

/// File with German column names, three of which differ from those of the type.
pub(crate) fn matched() -> ImportForm {
    let column = |from: &str, to: Option<&str>, kind, format: Option<&str>, matched, confidence| SuggestedColumn {
        from: from.to_owned(),
        to: to.map(str::to_owned),
        kind,
        format: format.map(str::to_owned),
        matched,
        confidence,
    };
    let property = |name: &str, required, kind: &str| ImportProperty {
        name: name.to_owned(),
        required,
        json_type: Some(kind.to_owned()),
    };
    let suggestion = MappingSuggestion {
        columns: vec![
            column("Rechnung", Some("id"), ValueKind::Text, None, Some(MatchKind::Remembered), 1.0),
            column("Custommer", Some("customer"), ValueKind::Text, None, Some(MatchKind::Fuzzy), 0.8),
            column("Betrag", Some("amount"), ValueKind::Number, Some("1.234,56"), Some(MatchKind::Alias), 0.9),
            column("Sachbearbeiter", None, ValueKind::Text, None, None, 0.0),
        ],
        missing: vec!["due".to_owned()],
        properties: vec![
            property("id", true, "string"),
            property("customer", true, "string"),
            property("amount", true, "number"),
            property("due", true, "string"),
        ],
    };
    let mut form = checked();
    if let Some(preview) = &mut form.preview {
        preview.columns = suggestion.columns.iter().map(|column| column.from.clone()).collect();
        preview.delimiter = Some(";".to_owned());
        "windows-1252".clone_into(&mut preview.encoding);
        preview.check = None;
        for (row, cells) in preview.rows.iter_mut().zip([
            ["2026-118", "Muster AG", "1.250,00", "Frau Weber"],
            ["2026-119", "Example Ltd", "12,50", "Herr Aydın"],
        ]) {
            row.cells = cells.map(str::to_owned).to_vec();
        }
    }
    ImportForm { suggestion: Some(suggestion), ..form }
}

/// File with sixty columns and one line that is too long.
fn wide() -> ImportForm {
    let mut form = checked();
    if let Some(preview) = &mut form.preview {
        preview.check = None;
        preview.columns = (1..=60).map(|n| format!("column_{n}")).collect();
        preview.rows = (2..=21)
            .map(|row| {
                let width = if row == 5 { 62 } else { 60 };
                PreviewRow {
                    row,
                    cells: (1..=width).map(|n| format!("cell {row}/{n}")).collect(),
                    payload: None,
                    problem: (row == 5).then(|| "Line 5: expected 60 fields, found 62.".to_owned()),
                }
            })
            .collect();
    }
    form
}

/// A checked file: one row is fixed, one is left out, and two have problems.
pub(crate) fn reviewed() -> ImportForm {
    let row = |row, cells: [&str; 3], bad: Option<(i64, &str)>| CheckedRow {
        row,
        cells: cells.map(str::to_owned).to_vec(),
        cells_in_file: None,
        suggestion: (row == 7).then(|| "12.50".to_owned()),
        problem: bad.map(|(column, words)| format!("Line {row}, column {column}: {words}")),
        column: bad.map(|(column, _)| column),
        needs_file: false,
        edited: false,
        left_out: false,
    };
    let fixed = CheckedRow {
        edited: true,
        cells_in_file: Some(["31", "Grano e Sale Srl", "9.500,00 EUR"].map(str::to_owned).to_vec()),
        ..row(31, ["31", "Grano e Sale Srl", "9500"], None)
    };
    let total = CheckedRow { left_out: true, ..row(501, ["", "Total", "1250000"], None) };
    let listed = vec![
        row(2, ["1", "Muster AG", "12.50"], None),
        row(7, ["6", "Dovetail GmbH", "12.50 CHF"], Some((3, "expected a number, found \"12.50 CHF\"."))),
        row(19, ["18", "", "12000"], Some((2, "expected at least 1 character, found \"\"."))),
        fixed,
        total,
    ];
    let columns = ["id", "customer", "amount"].map(str::to_owned).to_vec();
    let check = FileCheck { rows: 500, failed: 2, left_out: 1, columns, listed, is_cut: false };
    let edits = vec![
        RowEdit { row: 31, cells: [("amount".to_owned(), "9500".to_owned())].into(), leave_out: false },
        RowEdit { row: 501, leave_out: true, ..RowEdit::default() },
    ];
    let mut form = checked();
    if let Some(preview) = &mut form.preview {
        preview.check = None;
    }
    ImportForm { check: Some(check), edits, ..form }
}

fn unreadable() -> ImportForm {
    let mut form = checked();
    if let Some(preview) = &mut form.preview {
        preview.check = None;
        preview.rows.clear();
        preview.problem = Some("bad_header: Line 1, column 3: expected a name, found nothing.".to_owned());
    }
    form
}

fn first() -> Corrects {
    Corrects { id: Uuid::from_u128(8), name: "invoices-march.csv".to_owned() }
}

pub(crate) fn checked() -> ImportForm {
    let upload = Upload {
        id: Uuid::from_u128(9),
        filename: "invoices.csv".to_owned(),
        bytes: 210_436,
        sha256: String::new(),
        format: UploadFormat::Csv,
        created_at: at("2026-11-20T14:00:00Z"),
    };
    let finding = |column: &str, kind, message: &str, row| ColumnFinding {
        column: Some(column.to_owned()),
        kind,
        message: message.to_owned(),
        row,
    };
    let findings = vec![
        finding("customer", FindingKind::Missing, "Column customer is missing; every row needs it.", None),
        finding("custommer", FindingKind::Unknown, "Column custommer is not among those that are expected.", None),
        finding(
            "amount",
            FindingKind::Mismatch,
            "Column amount: expected a number, found \"12 CHF\" in line 3, and 4 more like it in the first 200 rows.",
            Some(3),
        ),
    ];
    let row = |row, cells: [&str; 3]| PreviewRow {
        row,
        cells: cells.map(str::to_owned).to_vec(),
        payload: None,
        problem: None,
    };
    let preview = Preview {
        format: UploadFormat::Csv,
        delimiter: Some(",".to_owned()),
        encoding: "utf-8".to_owned(),
        suggested_header_row: None,
        sheets: Vec::new(),
        columns: ["id", "custommer", "amount"].map(str::to_owned).to_vec(),
        rows: vec![row(2, ["1", "Muster AG", "12.50"]), row(3, ["2", "Example Ltd", "12 CHF"])],
        problem: None,
        check: Some(ColumnCheck {
            job_type: "invoices".to_owned(),
            expected: ["amount", "customer", "id"].map(str::to_owned).to_vec(),
            rows: 200,
            findings,
        }),
    };
    ImportForm { upload: Some(upload), preview: Some(preview), ..form() }
}

fn rows(refused: bool) -> Correct {
    let row = |id, line, cells: [&str; 4], problem: &str, fault: Option<&str>| CorrectRow {
        id: Uuid::from_u128(id),
        row: Some(line),
        problem: problem.to_owned(),
        cells: cells.map(str::to_owned).to_vec(),
        fingerprints: String::new(),
        fault: fault.map(|sentence| Fault::Sentence(sentence.to_owned())),
        bad: fault.map(|_| 2),
    };
    let fault = refused.then_some("Column amount: expected a number, found \"twelve\".");
    Correct {
        columns: ["id", "customer", "amount", "note"].map(str::to_owned).to_vec(),
        rows: vec![
            row(
                1,
                3,
                ["2", "Example Ltd", if refused { "twelve" } else { "12 CHF" }, ""],
                "Line 3, column amount: expected a number, found \"12 CHF\".",
                fault,
            ),
            row(
                2,
                17,
                ["16", "<script>alert(1)</script>", "7", "a long note that goes on and on for quite a while"],
                "Line 17, column customer: expected text of at most 20 characters, found \"<script>alert(1)</script>\".",
                None,
            ),
        ],
        is_cut: !refused,
        notice: refused.then_some(Notice::Rows { faulty: 1, retried: 0 }),
        ..Correct::default()
    }
}
