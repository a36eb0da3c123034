//! The form of a new import, as received: with the file in its first step, with rows of the file in its second.

use app::pages::import::new_import::{Choice, ImportForm, MOST_COLUMNS, RowFilter};
use axum::extract::Request;
use domain::{
    Problem,
    id::is_key,
    import::{row_edit::MOST_ROW_EDITS, upload::Upload},
};

use super::{MOST_FILES, first_import, quick_fix::QuickFix, stored, typed_rows::TypedRows};
use crate::http::ui::form;
use crate::{
    App,
    http::{
        extract::media_type,
        import::{
            multipart::Form,
            uploads::{hold_piece, with_idle_timeout},
        },
    },
    uploads,
};
use engine::{
    access::caller::Caller,
    error::{Error, Result},
};

/// Maximum size of a field other than the file, in bytes.
const FIELD: usize = 1_000;

/// Maximum size of a field of the rows, in bytes.
const ROW_FIELD: usize = 64 << 10;

/// What the form is sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Start,
    /// To show the rows as they are read and matched now.
    Show,
    /// To check all rows.
    Check,
    /// To change cells as proposed, or to leave out rows, and to check all rows.
    Fix(QuickFix),
    /// To download the rows with a problem.
    Problems,
}

/// Reads the request into `form` and stores its file.
pub(super) async fn receive(app: &App, caller: &Caller, request: Request, form: &mut ImportForm) -> Result<Wish> {
    let mut received = Received { wish: Wish::Start, rows: TypedRows::default() };
    // An unchecked checkbox is not sent.
    form.header = false;
    if media_type(request.headers()).as_deref() == Some("application/x-www-form-urlencoded") {
        for (name, value) in form::cells(request, app).await?.into_pairs() {
            received.take(app, caller, form, &name, value).await?;
        }
        return received.end(form);
    }
    hold_piece(app, &request)?;
    let mut body = Form::open(request).await?;
    let mut files = Files::default();
    loop {
        let field = match body.next().await {
            Ok(Some(field)) => field,
            Ok(None) => break,
            // Behind a file that was too large the form is not read on.
            Err(_) if files.refusal.is_some() => break,
            Err(error) => return Err(error.into()),
        };
        let name = field.name().to_owned();
        if name == "file" {
            // Browsers send the field with an empty file name if no file was chosen.
            if let Some(filename) = field.file_name().filter(|name| !name.is_empty()).map(str::to_owned) {
                let source = Box::pin(with_idle_timeout(field.into_file()));
                let stored = uploads::store(app, caller, &filename, None, source).await;
                files.take(form, filename, stored)?;
            }
            continue;
        }
        let is_of_row = ["row-", "cell-", "edits"].iter().any(|start| name.starts_with(start));
        let value = field.into_text(if is_of_row { ROW_FIELD } else { FIELD }).await?;
        received.take(app, caller, form, &name, value).await?;
    }
    files.end(form)?;
    received.end(form)
}

/// Files of the form.
#[derive(Default)]
struct Files {
    count: usize,
    /// The first refusal.
    refusal: Option<Error>,
}

impl Files {
    /// Takes a stored or refused file; errors of the server end the form.
    fn take(&mut self, form: &mut ImportForm, filename: String, stored: Result<Upload>) -> Result<()> {
        self.count += 1;
        if self.count > MOST_FILES {
            let expected = format!("expected at most {MOST_FILES} files at once; upload the others afterwards");
            return Err(Problem::invalid_body([("/file".to_owned(), expected)]).into());
        }
        match stored {
            Ok(upload) => {
                // A file that comes with the form replaces one that was stored before.
                if form.uploads.is_empty() {
                    form.upload = Some(upload.clone());
                }
                form.uploads.push(upload);
            }
            Err(Error::Problem(problem)) if problem.status < 500 => {
                form.refused_files.push((filename, problem.detail.clone()));
                self.refusal.get_or_insert(Error::Problem(problem));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A single file that was refused refuses the form.
    fn end(self, form: &mut ImportForm) -> Result<()> {
        match self.refusal {
            Some(refusal) if self.count == 1 => {
                form.refused_files.clear();
                Err(refusal)
            }
            _ => Ok(()),
        }
    }
}

/// Fields received so far, besides those of the form itself.
struct Received {
    wish: Wish,
    rows: TypedRows,
}

impl Received {
    /// Takes a field other than the file.
    async fn take(
        &mut self,
        app: &App,
        caller: &Caller,
        form: &mut ImportForm,
        name: &str,
        value: String,
    ) -> Result<()> {
        let Some(value) = self.rows.take(name, value) else { return Ok(()) };
        match name {
            // A fix is sent along with a check.
            "do" if matches!(self.wish, Wish::Fix(_)) => {}
            "do" => {
                self.wish = match value.as_str() {
                    "check" => Wish::Check,
                    "problems" => Wish::Problems,
                    _ => Wish::Show,
                }
            }
            "fix" => {
                if let Some(fix) = QuickFix::parse(&value) {
                    self.wish = Wish::Fix(fix);
                }
            }
            "use_header_row" => {
                form.header_row = value;
                form.header = true;
                self.wish = Wish::Show;
            }
            "header_row" => form.header_row = value,
            "sheet" => form.sheet = value,
            "rows" => form.rows = RowFilter::parse(&value),
            "type" => form.job_type = value,
            "delimiter" => form.delimiter = value,
            "encoding" => form.encoding = value,
            "header" => form.header = value == "yes",
            "checked" => form.checked = value,
            "key" if is_key(&value) => form.key = value,
            "matched" => form.matched = value,
            "name" => form.name = value,
            "corrects" => form.corrects = Some(first_import(app, caller, &value).await?.0),
            "upload_id" => form.upload = Some(stored(app, caller, &value).await?),
            other => choose(&mut form.choices, other, value),
        }
        Ok(())
    }

    fn end(self, form: &mut ImportForm) -> Result<Wish> {
        form.edits = self.rows.edits(&form.sheet);
        if form.edits.len() > MOST_ROW_EDITS {
            form.edits.truncate(MOST_ROW_EDITS);
            let expected = "at most 1,000 rows can be changed or left out here; correct the file and upload it again";
            return Err(Problem::invalid_body([("/edits".to_owned(), expected.to_owned())]).into());
        }
        Ok(self.wish)
    }
}

/// Puts in a field of one column: `from-0`, `to-0`, or `as-0`.
pub(super) fn choose(choices: &mut Vec<Choice>, field: &str, value: String) {
    let Some((part, place)) = field.split_once('-') else { return };
    let Some(place) = place.parse().ok().filter(|&place: &usize| place < MOST_COLUMNS) else { return };
    if !matches!(part, "from" | "to" | "as") {
        return;
    }
    if choices.len() <= place {
        choices.resize_with(place + 1, Choice::default);
    }
    match part {
        "from" => choices[place].from = value,
        "to" => choices[place].to = value,
        _ => choices[place].kind = value,
    }
}
