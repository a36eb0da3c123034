//! `/imports/{id}/correct`: the failed rows of an import as a table of fields, to submit corrected.

use std::collections::{HashMap, HashSet};

use app::pages::{
    self,
    import::correct::{Correct, CorrectRow, Fault, Notice},
};
use axum::{extract::State, http::StatusCode, response::Response};
use uuid::Uuid;

use crate::http::ui::{
    Signed,
    form::{Cells, in_the_form},
    jobs::is_own_job,
    see_other,
};
use crate::{
    App,
    corrections::{self, FINGERPRINT, FailedRow, FailedRows, Outcome, RowFault, SubmittedCell, Why},
    http::extract::TriedPath,
};

/// `GET /imports/{id}/correct`
pub(crate) async fn show(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    let found = async { corrections::find(&app, &signed.caller, id?.0).await };
    match found.await {
        Ok(failed) => {
            let others = !is_own_job(&signed.caller, &failed.job);
            let page_data = correction_table(&failed, others, |row, place| row.cells.get(place).cloned());
            signed.visit.page(StatusCode::OK, move || pages::import::correct::page(&failed.job, &page_data))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// `POST /imports/{id}/correct`
pub(crate) async fn retry(
    State(app): State<App>,
    signed: Signed,
    id: TriedPath<Uuid>,
    Cells(fields): Cells,
) -> Response {
    let found = async { corrections::find(&app, &signed.caller, id?.0).await };
    let failed = match found.await {
        Ok(failed) => failed,
        Err(error) => return signed.visit.error_page(error),
    };
    let cells: HashMap<&str, &str> =
        fields.pairs().filter(|(name, _)| name.starts_with("c.") || name.starts_with("shown.")).collect();
    let submitted = |row: &FailedRow, place: usize| {
        let text = (*cells.get(format!("c.{}.{place}", row.item_id).as_str())?).to_owned();
        let shown = cells.get(format!("shown.{}", row.item_id).as_str());
        let shown = shown.and_then(|shown| shown.get(place * FINGERPRINT..(place + 1) * FINGERPRINT));
        Some(SubmittedCell { text, shown: shown.map(str::to_owned) })
    };
    let others_too = fields.ticked("others");
    let done = failed.retry(&app, &signed.caller, submitted, others_too, fields.given("reason")).await;
    let (notice, retried, faults) = match done {
        Ok(Outcome::Done { refused, .. }) if refused.is_empty() => {
            return see_other(&format!("/imports/{}", failed.job.id));
        }
        Ok(Outcome::Done { retried, refused }) => {
            let fault = |detail: String| RowFault { place: None, why: Why::Sentence(detail) };
            let faults: HashMap<_, _> = refused.into_iter().map(|(id, problem)| (id, fault(problem.detail))).collect();
            (Notice::Rows { faulty: faults.len(), retried: retried.len() }, retried, faults)
        }
        Ok(Outcome::RowFaults(faults)) => (Notice::Rows { faulty: faults.len(), retried: 0 }, HashSet::new(), faults),
        Ok(Outcome::Unchanged) => (Notice::Unchanged, HashSet::new(), HashMap::new()),
        Err(error) => match in_the_form(error) {
            Ok(problem) => (Notice::Problem(Box::new(problem)), HashSet::new(), HashMap::new()),
            Err(error) => return signed.visit.error_page(error),
        },
    };
    let others = !is_own_job(&signed.caller, &failed.job);
    let typed = |row: &FailedRow, place: usize| submitted(row, place).filter(SubmittedCell::is_typed);
    let mut page_data = correction_table(&failed, others, |row, place| {
        typed(row, place).map(|cell| cell.text).or_else(|| row.cells.get(place).cloned())
    });
    page_data.rows.retain(|row| !retried.contains(&row.id));
    for row in &mut page_data.rows {
        let fault = faults.get(&row.id);
        row.fault = fault.map(|row_fault| match &row_fault.why {
            Why::Sentence(sentence) => Fault::Sentence(sentence.clone()),
            Why::ChangedTo(text) => Fault::ChangedTo(text.clone()),
        });
        row.bad = fault.and_then(|row_fault| row_fault.place);
    }
    page_data.notice = Some(notice);
    page_data.others_too = others_too;
    fields.text("reason").clone_into(&mut page_data.reason);
    signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || pages::import::correct::page(&failed.job, &page_data))
}

fn correction_table(
    failed: &FailedRows,
    needs_reason: bool,
    cell: impl Fn(&FailedRow, usize) -> Option<String>,
) -> Correct {
    let row = |row: &FailedRow| CorrectRow {
        id: row.item_id,
        row: row.row,
        problem: row.problem.clone(),
        cells: (0..failed.names.len()).map(|place| cell(row, place).unwrap_or_default()).collect(),
        fingerprints: failed.fingerprints(row),
        fault: None,
        bad: None,
    };
    Correct {
        columns: failed.names.clone(),
        rows: failed.rows.iter().map(row).collect(),
        is_cut: failed.is_cut,
        needs_reason,
        ..Correct::default()
    }
}
