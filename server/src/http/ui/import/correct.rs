//! `/imports/{id}/correct`: the failed rows of an import as a table of fields, to submit corrected.

use std::collections::HashMap;

use app::pages::{
    self,
    import::correct::{Correct, CorrectRow},
};
use axum::{extract::State, http::StatusCode, response::Response};
use domain::{Code, Problem};
use uuid::Uuid;

use crate::http::ui::{
    Signed,
    form::{Cells, in_the_form},
    jobs::is_own_job,
    see_other,
};
use crate::{
    App,
    corrections::{self, FailedRow, FailedRows, Outcome, RowFault},
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
    let cells: HashMap<&str, &str> = fields.pairs().filter(|(name, _)| name.starts_with("c.")).collect();
    let typed = |row: &FailedRow, place: usize| {
        cells.get(format!("c.{}.{place}", row.item_id).as_str()).map(|text| (*text).to_owned())
    };
    let others_too = fields.ticked("others");
    let done = failed.retry(&app, &signed.caller, typed, others_too, fields.given("reason")).await;
    let (problem, faults) = match done {
        Ok(Outcome::Done(refused)) if refused.is_empty() => return see_other(&format!("/imports/{}", failed.job.id)),
        Ok(Outcome::Done(refused)) => {
            let row_fault = |problem: Problem| RowFault { place: None, why: problem.detail };
            (None, refused.into_iter().map(|(id, problem)| (id, row_fault(problem))).collect())
        }
        Ok(Outcome::RowFaults(faults)) => (None, faults),
        Err(error) => match in_the_form(error) {
            Ok(problem) => (Some(problem), HashMap::new()),
            Err(error) => return signed.visit.error_page(error),
        },
    };
    let others = !is_own_job(&signed.caller, &failed.job);
    let mut page_data =
        correction_table(&failed, others, |row, place| typed(row, place).or_else(|| row.cells.get(place).cloned()));
    for row in &mut page_data.rows {
        let fault = faults.get(&row.id);
        row.fault = fault.map(|row_fault| row_fault.why.clone());
        row.bad = fault.and_then(|row_fault| row_fault.place);
    }
    let rows_problem = |count: usize| {
        let rows = if count == 1 { "One row does".to_owned() } else { format!("{count} rows do") };
        Problem::new(Code::InvalidBody, format!("{rows} not fit yet; what is wrong is said at the row."))
    };
    page_data.problem = problem.or_else(|| Some(rows_problem(faults.len())));
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
