//! `/imports/{id}/correct`: the failed rows of an import as a table of fields, to submit corrected.

use std::collections::HashMap;

use app::pages::{
    self,
    correct::{Correct, CorrectRow},
};
use axum::{extract::State, http::StatusCode, response::Response};
use domain::{Code, Problem};
use uuid::Uuid;

use super::{
    Signed,
    form::{Cells, in_the_form},
    jobs::own,
    see_other,
};
use crate::{
    App,
    corrections::{self, Failed, FailedRow, Misfit, Outcome},
    error::Result,
    http::extract::Path,
};

/// `GET /imports/{id}/correct`
pub(super) async fn show(State(app): State<App>, signed: Signed, id: Result<Path<Uuid>>) -> Response {
    let found = async { corrections::find(&app, &signed.caller, id?.0).await };
    match found.await {
        Ok(failed) => {
            let others = !own(&signed.caller, &failed.job);
            let shown = drawn(&failed, others, |row, place| row.cells.get(place).cloned());
            signed.visit.page(StatusCode::OK, move || pages::correct::page(&failed.job, &shown))
        }
        Err(error) => signed.visit.trouble(error),
    }
}

/// `POST /imports/{id}/correct`
pub(super) async fn retry(
    State(app): State<App>,
    signed: Signed,
    id: Result<Path<Uuid>>,
    Cells(fields): Cells,
) -> Response {
    let found = async { corrections::find(&app, &signed.caller, id?.0).await };
    let failed = match found.await {
        Ok(failed) => failed,
        Err(error) => return signed.visit.trouble(error),
    };
    let cells: HashMap<&str, &str> = fields.pairs().filter(|(name, _)| name.starts_with("c.")).collect();
    let typed = |row: &FailedRow, place: usize| {
        cells.get(format!("c.{}.{place}", row.item_id).as_str()).map(|text| (*text).to_owned())
    };
    let others_too = fields.ticked("others");
    let done = failed.give_back(&app, &signed.caller, typed, others_too, fields.given("reason")).await;
    let (problem, faults) = match done {
        Ok(Outcome::Done(refused)) if refused.is_empty() => return see_other(&format!("/imports/{}", failed.job.id)),
        Ok(Outcome::Done(refused)) => {
            let misfit = |problem: Problem| Misfit { place: None, why: problem.detail };
            (None, refused.into_iter().map(|(id, problem)| (id, misfit(problem))).collect())
        }
        Ok(Outcome::Misfits(faults)) => (None, faults),
        Err(error) => match in_the_form(error) {
            Ok(problem) => (Some(problem), HashMap::new()),
            Err(error) => return signed.visit.trouble(error),
        },
    };
    let others = !own(&signed.caller, &failed.job);
    let mut shown = drawn(&failed, others, |row, place| typed(row, place).or_else(|| row.cells.get(place).cloned()));
    for row in &mut shown.rows {
        let fault = faults.get(&row.id);
        row.fault = fault.map(|misfit| misfit.why.clone());
        row.bad = fault.and_then(|misfit| misfit.place);
    }
    let told = |count: usize| {
        let rows = if count == 1 { "One row does".to_owned() } else { format!("{count} rows do") };
        Problem::new(Code::InvalidBody, format!("{rows} not fit yet; what is wrong is said at the row."))
    };
    shown.problem = problem.or_else(|| Some(told(faults.len())));
    shown.others_too = others_too;
    fields.text("reason").clone_into(&mut shown.reason);
    signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || pages::correct::page(&failed.job, &shown))
}

fn drawn(failed: &Failed, needs_reason: bool, cell: impl Fn(&FailedRow, usize) -> Option<String>) -> Correct {
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
