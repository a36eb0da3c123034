//! `treeline upload`: uploads a file, creates a job from it, and optionally watches the job.

use client::{Client, Result};
use domain::{
    Job,
    api::{JobUpload, NewJob},
    import::upload::Upload,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::{Exit, UploadOptions, show};

/// Output of `--json` for an uploaded file.
#[derive(Serialize)]
struct UploadOutput<'a> {
    upload: &'a Upload,
    job: &'a Job,
    page: &'a str,
}

pub(super) async fn upload(client: &Client, options: UploadOptions, json: bool) -> anyhow::Result<Exit> {
    let upload = send(client, &options).await?;
    let job = create(client, &options, &upload).await?;
    let id = job.id.to_string();
    let page = client.page(&["imports", &id]);
    if json {
        show::json(&UploadOutput { upload: &upload, job: &job, page: &page });
    } else {
        show::print_line(&format!("job   {id}\npage  {page}"));
    }
    if options.watch { show::bar(client, job.id, json).await } else { Ok(Exit::Done) }
}

/// Uploads the file with a progress bar.
async fn send(client: &Client, options: &UploadOptions) -> Result<Upload> {
    let bytes = std::fs::metadata(&options.file).map_or(0, |metadata| metadata.len());
    let bar = ProgressBar::new(bytes);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}") {
        bar.set_style(style);
    }
    let shown_bar = bar.clone();
    let upload = client.upload_as(&options.file, options.format, move |sent| shown_bar.set_position(sent)).await;
    bar.finish_and_clear();
    upload
}

async fn create(client: &Client, options: &UploadOptions, upload: &Upload) -> Result<Job> {
    let filename = || options.file.file_name().map(|name| name.to_string_lossy().into_owned());
    let source = JobUpload {
        id: upload.id,
        format: options.format,
        header: options.no_header.then_some(false),
        header_row: options.header_row,
        delimiter: options.delimiter.clone(),
        encoding: options.encoding.clone(),
        sheet: options.sheet.clone(),
    };
    let new =
        NewJob { name: options.name.clone().or_else(filename), upload: Some(source), ..NewJob::of(&options.job_type) };
    client.create_job(&new).await
}
