//! Uploads on their way: what does not fit, what is corrected.

use app::{
    pages::{
        self,
        correct::{Correct, CorrectRow},
        import::Around,
    },
    upload::{Corrects, ImportForm},
};
use domain::{
    Code, Problem,
    id::Uuid,
    upload::{ColumnCheck, ColumnFinding, FindingKind, Preview, PreviewRow, Upload, UploadFormat},
};

use crate::{
    Draw,
    made::{at, complete, form, groups, partial},
};

pub(crate) fn all(add: &mut impl FnMut(&'static str, Draw)) {
    add("new-check", Box::new(|| pages::new_import::page(checked(), None)));
    let again = ImportForm { corrects: Some(first()), ..form() };
    add("new-again", Box::new(move || pages::new_import::page(again, None)));
    add("correct", Box::new(|| pages::correct::page(&partial(), &rows(false))));
    add("correct-refused", Box::new(|| pages::correct::page(&partial(), &rows(true))));
    add("correct-empty", Box::new(|| pages::correct::page(&complete(), &Correct::default())));
    add(
        "import-corrected",
        Box::new(|| {
            let around =
                Around { may_correct: true, corrects: Some(first()), corrected_by: vec![first()], ..Around::default() };
            pages::import::page_with(&partial(), &groups(), false, around)
        }),
    );
}

fn first() -> Corrects {
    Corrects { id: Uuid::from_u128(8), name: "invoices-march.csv".to_owned() }
}

fn checked() -> ImportForm {
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
        fault: fault.map(str::to_owned),
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
        problem: refused
            .then(|| Problem::new(Code::InvalidBody, "One row does not fit yet; what is wrong is said at the row.")),
        ..Correct::default()
    }
}
