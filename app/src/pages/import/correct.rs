//! `/imports/{id}/correct`: the failed rows of an import as a table of fields, the error below its cell, and one
//! button that retries the corrected rows.
//!
//! A plain form. On a phone each row is a card and each cell has a label.

use domain::{Job, Problem, id::Uuid};
use leptos::prelude::*;

use crate::pages::import::{progress, without_place};
use crate::{
    components::{
        action_form::{problem_notice, reason},
        breadcrumbs::breadcrumbs,
        panel::{empty, note, refusal},
        state::icon,
    },
    frame::{NavSection, Page},
    job_view::counted,
    speech::in_words,
    t, t_view,
};

/// Content of the page.
#[derive(Clone, Debug, Default)]
pub struct Correct {
    pub columns: Vec<String>,
    pub rows: Vec<CorrectRow>,
    /// True if there are more failed rows than fit on the page.
    pub is_cut: bool,
    /// True if unchanged rows are retried, too.
    pub others_too: bool,
    /// True if it is someone else's work.
    pub needs_reason: bool,
    pub reason: String,
    pub notice: Option<Notice>,
}

/// Reason why the page is shown again.
#[derive(Clone, Debug)]
pub enum Notice {
    /// Number of rows with a fault, and of those that were retried all the same.
    Rows {
        faulty: usize,
        retried: usize,
    },
    /// No row was changed.
    Unchanged,
    Problem(Box<Problem>),
}

/// Reason why a correction was refused.
#[derive(Clone, Debug)]
pub enum Fault {
    /// As a sentence.
    Sentence(String),
    /// Somebody else has changed the cell to this text since the page was shown.
    ChangedTo(String),
}

/// A failed row.
#[derive(Clone, Debug)]
pub struct CorrectRow {
    /// Id of the item.
    pub id: Uuid,
    pub row: Option<i64>,
    /// Reason of the failure.
    pub problem: String,
    /// As typed, or as imported.
    pub cells: Vec<String>,
    /// Fingerprints of the stored cells: the server tells by them what was typed, and what has changed meanwhile.
    pub fingerprints: String,
    pub fault: Option<Fault>,
    /// Index of the invalid cell.
    pub bad: Option<usize>,
}

impl CorrectRow {
    /// Index of the cell that the error is about; `None` if it is about the whole row.
    fn place(&self, columns: &[String]) -> Option<usize> {
        if self.fault.is_some() {
            // A row that is an array has its places in a single cell.
            return self.bad.filter(|&place| place < columns.len());
        }
        // `Line 51, column amount: expected …` or `Line 51, column 2 (amount): expected …`; the number counts the columns
        // of the file, which may have others.
        let (place, _) = self.problem.split_once(", column ")?.1.split_once(": expected ")?;
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let numbered = place.split_once(" (").filter(|(number, _)| is_number(number));
        let name = numbered.and_then(|(_, name)| name.strip_suffix(')'));
        let position = |name: &str| columns.iter().position(|column| column == name);
        position(place).or_else(|| position(name?))
    }
}

pub fn page(job: &Job, page_data: &Correct) -> Page {
    let name = progress::name(job);
    let content = if page_data.rows.is_empty() {
        let back = view! {
            <a class="btn" href=format!("/imports/{}", job.id)>
                {t!("correct-back")}
            </a>
        };
        empty(t!("correct-none"), t!("correct-none-text"), back.into_any())
    } else {
        form(job, page_data)
    };
    let heading = match page_data.rows.len() {
        0 => t!("correct-title").to_owned(),
        n => t!("progress-fix", rows = &counted(true, n as i64)),
    };
    breadcrumbs(&[("/imports", t!("nav-imports")), (&format!("/imports/{}", job.id), &name)], heading.clone());
    let content = view! {
        <div class="page-head">
            <h1>{heading}</h1>
            <p class="sub">{t!("correct-text")}</p>
        </div>
        {content}
    }
    .into_any();
    let title = match page_data.notice {
        None | Some(Notice::Rows { retried: 1.., .. }) => t!("correct-page", name = &name),
        Some(_) => t!("correct-page-refused", name = &name),
    };
    Page { title, nav_section: NavSection::Imports, content, is_live: false, is_translated: true }
}

fn form(job: &Job, page_data: &Correct) -> AnyView {
    let id = job.id;
    let cut = page_data.is_cut.then(|| {
        note(t_view!(
            "correct-cut",
            download = view! { <a href=format!("/api/v1/jobs/{id}/failures?format=csv")>{t!("correct-cut-download")}</a> },
            upload = view! { <a href=format!("/imports/new?again={id}")>{t!("correct-cut-upload")}</a> };
            shown = page_data.rows.len(), all = job.counts.dead
        ))
    });
    let names = page_data.columns.iter().map(|name| view! { <th scope="col">{name.clone()}</th> }).collect_view();
    let width = (page_data.columns.len() + 1).to_string();
    let rows = page_data.rows.iter().map(|row| one(row, &page_data.columns, &width)).collect_view();
    view! {
        {page_data.notice.as_ref().map(notice)}
        {cut}
        <form class="card correct-form" method="post" action=format!("/imports/{id}/correct")>
            <div class="table-wrap scroll" tabindex="0" role="region" aria-label=t!("downloads-failed", kind = "row")>
                <table class="table correct">
                    <thead>
                        <tr>
                            <th scope="col" class="num">
                                {t!("import-line")}
                            </th>
                            {names}
                        </tr>
                    </thead>
                    {rows}
                </table>
            </div>
            <div class="card-body">
                <div class="stack">
                    <label class="check">
                        <input type="checkbox" name="others" value="yes" checked=page_data.others_too />
                        <span>{t!("correct-others")}</span>
                    </label>
                    {page_data.needs_reason.then(|| reason("correct", &page_data.reason, true))}
                </div>
            </div>
            <div class="card-foot">
                <button class="btn btn-primary" type="submit">
                    {icon("rotate-cw")}
                    {t!("correct-retry")}
                </button>
                <a class="btn btn-quiet" href=format!("/imports/{id}")>{t!("correct-back")}</a>
            </div>
        </form>
    }
    .into_any()
}

fn notice(notice: &Notice) -> AnyView {
    match notice {
        Notice::Problem(problem) => problem_notice(problem),
        Notice::Unchanged => refusal(t!("form-nothing-saved"), t!("correct-unchanged")),
        Notice::Rows { faulty, retried: 0 } => refusal(t!("form-nothing-saved"), &t!("correct-misfits", n = *faulty)),
        Notice::Rows { faulty, retried } => {
            refusal(&t!("correct-retried", n = *retried), &t!("correct-misfits", n = *faulty))
        }
    }
}

/// One row: its cells, with the error below its cell, or below all if it is about the whole row.
fn one(row: &CorrectRow, columns: &[String], width: &str) -> impl IntoView + use<> {
    let line = row.row.map_or_else(|| "?".to_owned(), |row| row.to_string());
    let why = format!("why-{}", row.id);
    let bad = row.place(columns);
    let reason = |error: &str| in_words(&bad.and_then(|_| without_place(error)).unwrap_or_else(|| error.to_owned()));
    let message = match &row.fault {
        None => reason(&row.problem),
        Some(Fault::Sentence(sentence)) => reason(sentence),
        Some(Fault::ChangedTo(text)) => {
            let column = bad.and_then(|place| columns.get(place)).map_or("", String::as_str);
            t!("correct-changed", column = column, text = text)
        }
    };
    let message = || view! { {icon("dead")} " " {message.clone()} };
    let cells = columns
        .iter()
        .zip(&row.cells)
        .enumerate()
        .map(|(place, (name, cell))| {
            let is_bad = bad == Some(place);
            view! {
                <td class=is_bad.then_some("cell-bad")>
                    <span class="correct-name" aria-hidden="true">
                        {name.clone()}
                    </span>
                    <input
                        type="text"
                        name=format!("c.{}.{place}", row.id)
                        value=cell.clone()
                        size=cell.chars().count().clamp(6, 32).to_string()
                        autocomplete="off"
                        spellcheck="false"
                        aria-label=t!("import-cell-line", name = name, line = &line)
                        aria-describedby=(is_bad || bad.is_none()).then(|| why.clone())
                        aria-invalid=is_bad.then_some("true")
                    />
                    {is_bad.then(|| view! { <span class="why" id=why.clone()>{message()}</span> })}
                </td>
            }
        })
        .collect_view();
    let whole_row = bad.is_none().then(|| {
        view! {
            <tr class="row-bad">
                <td colspan=width.to_owned() class="cell-bad" id=why.clone()>
                    {message()}
                </td>
            </tr>
        }
    });
    view! {
        <tbody>
            <tr>
                <th scope="row" class="number sub">
                    <span class="correct-name" aria-hidden="true">
                        {t!("import-line")} " "
                    </span>
                    {line}
                    <input type="hidden" name=format!("shown.{}", row.id) value=row.fingerprints.clone() />
                </th>
                {cells}
            </tr>
            {whole_row}
        </tbody>
    }
}
