//! Files: uploads streamed from disk, results and failures streamed back.
//!
//! Nothing here holds a whole file in memory. A download that breaks off is an error, never an end of file: the server
//! aborts a stream that it cannot finish, and `after` resumes it.

mod resumable; // uploads in pieces

use std::{
    marker::PhantomData,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::{Buf, Bytes, BytesMut};
use domain::{
    Code,
    api::{FailureLine, ResultLine},
    id::Uuid,
    import::upload::{Preview, Upload, UploadFormat},
};
use futures::TryStreamExt;
use reqwest::{Body, Method, Response, header::HeaderValue};
use serde::de::DeserializeOwned;
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use crate::{
    client::{Call, Client, read},
    error::{Error, Result},
    retry::backoff,
};
use resumable::PIECE_BYTES;

/// Number of times that an upload is restarted if the server did not accept it.
const UPLOAD_TRIES: u32 = 4;
/// Maximum size of one line of a download in bytes.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// Format of returned rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    Ndjson,
    Csv,
}

impl RowFormat {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
        }
    }
}

impl Client {
    /// Stores a file under its own name. Calls `progress` with the number of bytes sent so far, which falls if some of
    /// them did not arrive.
    ///
    /// A file of more than 8 MiB is sent in pieces, so that an interruption costs one piece at most; without progress for
    /// two minutes, the upload fails. A smaller one is sent again if the server did not accept it, or its database was
    /// away. That or a lost response leaves at most an unused upload, which the server removes after a day.
    pub async fn upload(&self, path: &Path, progress: impl Fn(u64) + Send + Sync + 'static) -> Result<Upload> {
        self.upload_as(path, None, progress).await
    }

    /// Stores a file whose format cannot be detected from its name or content.
    ///
    /// # Errors
    /// As [`Client::upload`].
    pub async fn upload_as(
        &self,
        path: &Path,
        format: Option<UploadFormat>,
        progress: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<Upload> {
        let filename = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let unreadable = |cause| Error::File { path: path.to_owned(), cause };
        let progress = Arc::new(progress);
        let mut tries = 0;
        loop {
            tries += 1;
            let file = File::open(path).await.map_err(unreadable)?;
            let metadata = file.metadata().await.map_err(unreadable)?;
            if !metadata.is_file() {
                return Err(unreadable(std::io::Error::other("not a regular file")));
            }
            if metadata.len() > PIECE_BYTES {
                let file = (file, path, metadata.len());
                return self.upload_in_pieces(file, &filename, format, progress).await;
            }
            let sent = AtomicU64::new(0);
            let on_progress = Arc::clone(&progress);
            on_progress(0);
            let stream = ReaderStream::with_capacity(file, 64 * 1024).inspect_ok(move |chunk| {
                let chunk = chunk.len() as u64;
                on_progress(sent.fetch_add(chunk, Ordering::Relaxed) + chunk);
            });
            let call = self.call(Method::POST, &["uploads"]).query("filename", &filename);
            let call = call.query_some("format", format.map(UploadFormat::as_str));
            let call = call.header("content-type", HeaderValue::from_static("application/octet-stream"));
            let name = call.name();
            match self.send_once(call, Body::wrap_stream(stream), metadata.len()).await {
                Ok(response) => return read(&name, response).await,
                Err(error) if tries < UPLOAD_TRIES && was_not_accepted(&error) => {
                    tracing::debug!(%error, "upload failed; retrying");
                    tokio::time::sleep(backoff(tries + 3)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns a stored file.
    pub async fn stored_upload(&self, upload: Uuid) -> Result<Upload> {
        self.fetch(self.get(&["uploads", &upload.to_string()])).await
    }

    /// The first rows of a stored file as a job of `job_type` would get them, and their errors.
    pub async fn preview(&self, upload: Uuid, job_type: Option<&str>) -> Result<Preview> {
        self.fetch(self.get(&["uploads", &upload.to_string(), "preview"]).query_some("type", job_type)).await
    }

    /// The original bytes of a stored file.
    pub async fn content(&self, upload: Uuid) -> Result<Download> {
        self.download(self.get(&["uploads", &upload.to_string(), "content"])).await
    }

    /// Deletes a file that no job uses.
    ///
    /// # Errors
    /// 409 `upload_in_use`.
    pub async fn delete_upload(&self, upload: Uuid) -> Result<()> {
        self.send(self.call(Method::DELETE, &["uploads", &upload.to_string()])).await.map(drop)
    }

    /// The results of a tree, one line each, in order; `after` resumes behind that item.
    pub async fn results(&self, job: Uuid, after: Option<Uuid>) -> Result<Lines<ResultLine>> {
        Ok(Lines::of(self.rows(job, "results", RowFormat::Ndjson, after).await?))
    }

    /// The items of a tree that did not succeed, one line each, in order.
    pub async fn failures(&self, job: Uuid, after: Option<Uuid>) -> Result<Lines<FailureLine>> {
        Ok(Lines::of(self.rows(job, "failures", RowFormat::Ndjson, after).await?))
    }

    /// The results as the bytes of a file.
    pub async fn results_file(&self, job: Uuid, format: RowFormat) -> Result<Download> {
        self.rows(job, "results", format, None).await
    }

    /// The failures as the bytes of a file; CSV has the original columns plus `_line,_code,_problem`.
    pub async fn failures_file(&self, job: Uuid, format: RowFormat) -> Result<Download> {
        self.rows(job, "failures", format, None).await
    }

    async fn rows(&self, job: Uuid, what: &str, format: RowFormat, after: Option<Uuid>) -> Result<Download> {
        let after = after.map(|id| id.to_string());
        let call = self.call(Method::GET, &["jobs", &job.to_string(), what]).query("format", format.as_str());
        self.download(call.query_some("after", after.as_deref())).await
    }

    async fn download(&self, call: Call) -> Result<Download> {
        let call = call.streaming();
        Ok(Download { call: call.name(), response: self.send(call).await? })
    }
}

fn was_not_accepted(error: &Error) -> bool {
    match error {
        Error::Transport { cause, .. } => cause.is_connect(),
        _ => matches!(
            error.code(),
            Some(Code::TooManyRequests | Code::Busy | Code::DatabaseUnavailable | Code::ShuttingDown)
        ),
    }
}

/// A running download.
#[derive(Debug)]
pub struct Download {
    call: String,
    response: Response,
}

impl Download {
    /// The next bytes; `None` at the end of the complete file.
    ///
    /// # Errors
    /// [`Error::Transport`] when the stream was cut off.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        let chunk = self.response.chunk().await;
        chunk.map_err(|cause| Error::Transport { call: self.call.clone(), tries: 1, cause: cause.without_url() })
    }
}

/// A download read line by line as JSON.
#[derive(Debug)]
pub struct Lines<T> {
    download: Download,
    rest: BytesMut,
    ended: bool,
    line: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Lines<T> {
    fn of(download: Download) -> Self {
        Self { download, rest: BytesMut::new(), ended: false, line: PhantomData }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Transport`] when the stream was cut off; the lines before are valid.
    pub async fn next(&mut self) -> Result<Option<T>> {
        let mut scanned = 0;
        loop {
            if let Some(found) = self.rest[scanned..].iter().position(|&byte| byte == b'\n') {
                let line = self.rest.split_to(scanned + found);
                self.rest.advance(1);
                scanned = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return self.read(&line).map(Some);
            }
            scanned = self.rest.len();
            if self.ended {
                let line = self.rest.split();
                return if line.is_empty() { Ok(None) } else { self.read(&line).map(Some) };
            }
            if scanned > MAX_LINE {
                return Err(Error::Stream { call: self.download.call.clone(), what: "a line is larger than 64 MiB" });
            }
            match self.download.chunk().await? {
                Some(chunk) => self.rest.extend_from_slice(&chunk),
                None => self.ended = true,
            }
        }
    }

    fn read(&self, line: &[u8]) -> Result<T> {
        serde_json::from_slice(line).map_err(|cause| Error::InvalidResponse { call: self.download.call.clone(), cause })
    }
}
