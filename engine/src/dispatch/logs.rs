//! Log lines of attempts: written by the worker that holds the assignment, read with the item (`attempt-logs`).
//!
//! Of an attempt, the last `limits::LARGEST_LOG` bytes are kept: `trim` in `store/dispatch/logs.rs` deletes older lines.

use std::{collections::VecDeque, sync::Arc};

use domain::{
    Code, Document, Problem, Time,
    api::{LogLevel, LogLine, LogTail, LogsAdded, LogsBody, NewLogLine},
    dispatch::assignment::AssignmentId,
    limits,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Core, Engine,
    access::{
        assignment_holder::{Holder, PUSH},
        caller::{Caller, Scope},
    },
    error::{Error, Result},
    store::dispatch::logs::{self, LinesRow},
    task::in_task,
};

/// Number of lines in a tail, and of attempts beside it.
const TAIL: i64 = 100;
/// End of a message that was cut.
const CUT: &str = "… [cut]";

/// A line as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    at: Time,
    level: LogLevel,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fields: Option<Document>,
}

impl Engine {
    /// Adds lines to the log of an open assignment, all or none. Does not extend the lease.
    pub async fn add_logs(&self, caller: &Caller, id: AssignmentId, body: LogsBody) -> Result<LogsAdded> {
        caller.require(Scope::Work)?;
        check(&body.lines)?;
        let core = Arc::clone(&self.0.core);
        let holder = Holder::of(caller);
        let run = async move {
            let added = add(&core, id.id, holder.credential_id, &body.lines).await?;
            if added.is_none() && !core.open_push_assignments(&core.pools.read, [((), id, &holder)]).await?.is_empty() {
                return add(&core, id.id, PUSH, &body.lines).await;
            }
            Ok(added)
        };
        // In its own task: a client that disconnects cannot leave a transaction open.
        match in_task("adding log lines", run).await? {
            Some(added) => Ok(added),
            None => Err(self.why_closed(caller, id).await?.into()),
        }
    }

    /// Lines of an attempt of an item behind a given line, oldest or newest first; of the newest attempt with a log if
    /// `attempt` is `None`.
    pub async fn logs_behind(
        &self,
        caller: &Caller,
        id: Uuid,
        attempt: Option<i32>,
        newest_first: bool,
        behind: Option<i64>,
        limit: i64,
    ) -> Result<Vec<LogLine>> {
        self.item(caller, id).await?;
        self.log_of(id, attempt, newest_first, behind, limit).await
    }

    /// Last lines of an attempt, without a visibility check; of the newest attempt with a log if there is none of the given
    /// one. `None` if the item has no log.
    pub async fn log_tail(&self, id: Uuid, attempt: Option<i32>) -> Result<Option<LogTail>> {
        let mut known = logs::attempts(self.0.core.pools.reads().await, id, TAIL).await?;
        let Some(&newest) = known.first() else { return Ok(None) };
        let (attempt, dropped) = known.iter().find(|(n, _)| Some(*n) == attempt).copied().unwrap_or(newest);
        let mut lines = self.log_of(id, Some(attempt), true, None, TAIL).await?;
        lines.reverse();
        known.reverse();
        Ok(Some(LogTail { attempt, attempts: known.into_iter().map(|(n, _)| n).collect(), dropped, lines }))
    }

    async fn log_of(
        &self,
        id: Uuid,
        attempt: Option<i32>,
        newest_first: bool,
        behind: Option<i64>,
        limit: i64,
    ) -> Result<Vec<LogLine>> {
        let rows = logs::rows(self.0.core.pools.reads().await, id, attempt, newest_first, behind, limit).await?;
        let mut lines = Vec::new();
        for row in rows {
            let mut of_row = to_lines(&row)?;
            while let Some(line) = if newest_first { of_row.pop_back() } else { of_row.pop_front() } {
                let is_behind = behind.is_none_or(|behind| (line.line < behind) == newest_first && line.line != behind);
                if is_behind && (lines.len() as i64) < limit {
                    lines.push(line);
                }
            }
        }
        Ok(lines)
    }
}

async fn add(core: &Core, assignment_id: Uuid, credential_id: Uuid, lines: &[NewLogLine]) -> Result<Option<LogsAdded>> {
    let mut tx = crate::store::begin(&core.pools.read).await?;
    let Some(open) = logs::open(&mut tx, assignment_id, credential_id).await? else { return Ok(None) };
    let n = lines.len() as i32;
    let size = logs::add(&mut tx, open, n, &stored(lines, Time(open.now))?).await?;
    let dropped = if size.n_bytes > limits::LARGEST_LOG {
        logs::trim(&mut tx, open, limits::LARGEST_LOG).await?
    } else {
        size.n_dropped
    };
    crate::store::commit(tx).await?;
    core.touch_jobs([open.job_key]).await;
    Ok(Some(LogsAdded { added: i64::from(n), last_line: size.n_lines, dropped }))
}

fn check(lines: &[NewLogLine]) -> Result<(), Problem> {
    let fault = |pointer: String, detail: String| Err(Problem::invalid_body([(pointer, detail)]));
    if lines.is_empty() || lines.len() > limits::MOST_LOG_LINES {
        return fault("/lines".to_owned(), format!("expected 1 to {} lines", limits::MOST_LOG_LINES));
    }
    for (at, line) in lines.iter().enumerate() {
        let Some(fields) = &line.fields else { continue };
        if !fields.text().starts_with('{') {
            return fault(format!("/lines/{at}/fields"), "expected an object".to_owned());
        }
        if fields.text().len() > limits::LONGEST_LOG_FIELDS {
            return fault(
                format!("/lines/{at}/fields"),
                format!("expected at most {} bytes", limits::LONGEST_LOG_FIELDS),
            );
        }
    }
    Ok(())
}

/// Text of the lines as it is stored. Problem `too_large` if they alone are more than an attempt keeps.
fn stored(lines: &[NewLogLine], now: Time) -> Result<String> {
    let lines: Vec<Stored> = lines
        .iter()
        .map(|line| Stored {
            at: line.at.unwrap_or(now),
            level: line.level,
            message: truncated(line.message.clone()),
            fields: line.fields.clone(),
        })
        .collect();
    let text = serde_json::to_string(&lines).map_err(|e| Error::Broken(e.to_string()))?;
    if text.len() as i64 > limits::LARGEST_LOG {
        let detail = format!("The lines of one request have at most {} bytes.", limits::LARGEST_LOG);
        return Err(Error::refuse(Code::TooLarge, detail));
    }
    Ok(text)
}

fn truncated(mut message: String) -> String {
    if message.len() > limits::LONGEST_LOG_MESSAGE {
        message.truncate(message.floor_char_boundary(limits::LONGEST_LOG_MESSAGE));
        message.push_str(CUT);
    }
    message
}

fn to_lines(row: &LinesRow) -> Result<VecDeque<LogLine>> {
    let lines: Vec<Stored> = serde_json::from_str(&row.lines).map_err(|e| Error::Broken(e.to_string()))?;
    let to_lines = lines.into_iter().zip(row.first_line..).map(|(line, number)| LogLine {
        attempt: row.attempt,
        line: number,
        at: line.at,
        level: line.level,
        message: line.message,
        fields: line.fields,
    });
    Ok(to_lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let message = "ä".repeat(limits::LONGEST_LOG_MESSAGE);
        let truncated = truncated(message);
        assert!(truncated.ends_with(CUT));
        assert_eq!(truncated.len(), limits::LONGEST_LOG_MESSAGE + CUT.len());
    }
}
