//! Closed assignments: a repeated ending gets the same answer as the first time, any other ending is refused
//! (`fencing`).

use std::collections::HashMap;

use domain::{
    Code, ItemState, Problem, Time, api::Ended, dispatch::assignment::AssignmentId, document::canonical::is_same_value,
    item::EndedAs,
};
use uuid::Uuid;

use crate::{
    Core,
    ending_batch::{EndCommand, EndingKind},
    error::Result,
    store::{
        Tx,
        dispatch::endings::{self, ClosedAssignmentRow},
    },
};

/// Answers the remaining commands from the recorded endings of their assignments.
pub(crate) async fn answer(
    core: &Core,
    tx: &mut Tx,
    commands: &[&EndCommand],
    answers: &mut [Option<Result<Ended, Problem>>],
) -> Result<()> {
    let left = commands.iter().zip(answers.iter()).filter(|(_, answer)| answer.is_none());
    let assignment_ids: Vec<Uuid> = left.map(|(command, _)| command.assignment_id).collect();
    if assignment_ids.is_empty() {
        return Ok(());
    }
    let rows = endings::closed_assignments(tx, &assignment_ids).await?;
    let ended: HashMap<Uuid, ClosedAssignmentRow> = rows.into_iter().map(|row| (row.lease_id, row)).collect();
    for (command, answer) in commands.iter().zip(answers) {
        if answer.is_none() {
            let id = AssignmentId { id: command.assignment_id, capability: command.capability };
            let closed_row = ended.get(&command.assignment_id);
            let closed_row = closed_row
                .filter(|closed_row| core.may_see_outcome(closed_row.pushed, id, command.holder.credential_id));
            *answer = Some(repeated_answer(command, closed_row));
        }
    }
    Ok(())
}

/// Applies `fencing` to an assignment that is not open: a repeated ending gets the same answer, any other is refused.
pub(crate) fn repeated_answer(
    command: &EndCommand,
    closed_row: Option<&ClosedAssignmentRow>,
) -> Result<Ended, Problem> {
    let Some(closed_row) = closed_row else { return Err(Problem::not_found("assignment")) };
    let (ended_as, item_state) = (ended_as(closed_row), first_state(closed_row));
    let same = match (&command.kind, ended_as) {
        (EndingKind::Result(_), EndedAs::Cancelled) => return Err(too_late()),
        (EndingKind::Result(document), EndedAs::Succeeded) => {
            closed_row.result.as_deref().is_some_and(|result| is_same_value(result, document.text()))
        }
        (EndingKind::Failure(body), EndedAs::Failed) => {
            closed_row.error_message.as_deref() == Some(&body.error.message)
                && (closed_row.error_kind == body.error.kind
                    || closed_row.error_kind.as_deref() == Some("outcome_unknown"))
        }
        (EndingKind::Wait(body), EndedAs::Waiting) => {
            closed_row.waited_for.as_ref().is_none_or(|name| *name == body.name)
        }
        (EndingKind::Failure(_) | EndingKind::Release(_) | EndingKind::Wait(_), EndedAs::Cancelled)
        | (EndingKind::Release(_), EndedAs::Released) => true,
        _ => false,
    };
    if same {
        return Ok(Ended {
            item_id: closed_row.item_id,
            item_state,
            ended_as,
            retry_at: closed_row.retry_at.map(Time),
        });
    }
    Err(assignment_closed(item_state, ended_as))
}

/// Way in which an assignment ended.
pub(crate) fn ended_as(closed_row: &ClosedAssignmentRow) -> EndedAs {
    EndedAs::from_code(closed_row.ended_as).unwrap_or(EndedAs::Cancelled)
}

/// State of an item directly after this assignment.
pub(crate) fn first_state(closed_row: &ClosedAssignmentRow) -> ItemState {
    let state = closed_row.state.and_then(ItemState::from_code);
    state.unwrap_or_else(|| state_after(ended_as(closed_row), closed_row.retry_at.is_some()))
}

/// State of an item directly after an attempt that did not make it final; `deferred`: it was due at a later time.
fn state_after(ended_as: EndedAs, deferred: bool) -> ItemState {
    match ended_as {
        EndedAs::Waiting => ItemState::WaitingForEvent,
        _ if deferred => ItemState::Retryable,
        _ => ItemState::Available,
    }
}

/// Refusal of a result of canceled work (`cancellation`): the state does not change; the attempt stores the result.
pub(crate) fn too_late() -> Problem {
    Problem {
        item_state: Some(ItemState::Cancelled),
        ended_as: Some(EndedAs::Cancelled),
        ..Problem::new(
            Code::JobCancelled,
            "The work was canceled. The result is kept in the attempt and goes no further.",
        )
    }
}

/// Problem `assignment_closed` with the item's state and the way in which the assignment ended.
pub(crate) fn assignment_closed(item_state: ItemState, ended_as: EndedAs) -> Problem {
    Problem {
        item_state: Some(item_state),
        ended_as: Some(ended_as),
        ..Problem::new(
            Code::AssignmentClosed,
            format!(
                "The assignment ended as {}; the item is {}. Nothing was changed.",
                ended_as.as_str(),
                item_state.as_str()
            ),
        )
    }
}
