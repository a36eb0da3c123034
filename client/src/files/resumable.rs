//! Upload of a large file in pieces (tus 1.0). An interruption costs one piece at most.

use std::{
    io::SeekFrom,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use domain::{
    Code,
    id::Uuid,
    import::upload::{ResumableUpload, Upload, UploadFormat},
};
use futures::StreamExt as _;
use reqwest::{Body, Method, Response, header::HeaderValue};
use tokio::{
    fs::File,
    io::{AsyncReadExt as _, AsyncSeekExt as _},
    time::{Instant, timeout},
};

use crate::{
    api::idempotency_header,
    client::Client,
    error::{Error, Result},
    retry::{RetryPolicy, backoff},
};

/// Size of a piece in bytes.
pub(crate) const PIECE_BYTES: u64 = 8 * 1024 * 1024;
/// Size of the parts of a piece after which progress is reported, in bytes.
const PART_BYTES: usize = 64 * 1024;
/// Time within which a piece must be sent and answered. After the last one, the server assembles the whole file.
const PIECE_TIMEOUT: Duration = Duration::from_mins(15);
/// Time without progress after which an upload fails.
const STALL_TIMEOUT: Duration = Duration::from_mins(2);

/// A file that is uploaded in pieces.
struct Pieces<'a, P> {
    client: &'a Client,
    file: File,
    path: &'a Path,
    id: Uuid,
    bytes: u64,
    progress: Arc<P>,
}

impl Client {
    /// Stores an open file of a known size in pieces.
    pub(crate) async fn upload_in_pieces<P>(
        &self,
        (file, path, bytes): (File, &Path, u64),
        filename: &str,
        format: Option<UploadFormat>,
        progress: Arc<P>,
    ) -> Result<Upload>
    where
        P: Fn(u64) + Send + Sync + 'static,
    {
        let call = self.post(&["uploads", "resumable"]).query("filename", filename);
        let call = call.query_some("format", format.map(UploadFormat::as_str));
        let call = call.header("tus-resumable", HeaderValue::from_static("1.0.0"));
        let call = call.header("upload-length", HeaderValue::from(bytes));
        let call = call.header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        let created: ResumableUpload = self.fetch(call.retry(RetryPolicy::Always)).await?;
        let pieces = Pieces { client: self, file, path, id: created.id, bytes, progress };
        pieces.send_all().await?;
        self.stored_upload(created.id).await
    }
}

impl<P: Fn(u64) + Send + Sync + 'static> Pieces<'_, P> {
    async fn send_all(mut self) -> Result<()> {
        let (mut offset, mut failures, mut moved_at) = (0, 0, Instant::now());
        while offset < self.bytes {
            (self.progress)(offset);
            let piece = self.read(offset).await?;
            let end = match self.send(offset, piece).await {
                Ok(end) => end,
                Err(error) if may_resume(&error) && moved_at.elapsed() < STALL_TIMEOUT => {
                    tracing::debug!(%error, offset, "piece of an upload failed; continuing");
                    failures += 1;
                    tokio::time::sleep(backoff(failures)).await;
                    self.received(STALL_TIMEOUT.saturating_sub(moved_at.elapsed())).await?
                }
                Err(error) => return Err(error),
            };
            if end > offset {
                (failures, moved_at) = (0, Instant::now());
            }
            offset = end;
        }
        (self.progress)(offset);
        Ok(())
    }

    /// Reads the piece at an offset.
    async fn read(&mut self, offset: u64) -> Result<Bytes> {
        let unreadable = |cause| Error::File { path: self.path.to_owned(), cause };
        let mut piece = vec![0; (self.bytes - offset).min(PIECE_BYTES) as usize];
        self.file.seek(SeekFrom::Start(offset)).await.map_err(unreadable)?;
        self.file.read_exact(&mut piece).await.map_err(unreadable)?;
        Ok(piece.into())
    }

    /// Sends a piece and returns the offset behind it.
    async fn send(&self, offset: u64, piece: Bytes) -> Result<u64> {
        let call = self.client.call(Method::PATCH, &["uploads", "resumable", &self.id.to_string()]);
        let call = call.header("tus-resumable", HeaderValue::from_static("1.0.0"));
        let call = call.header("upload-offset", HeaderValue::from(offset));
        let call = call.header("content-type", HeaderValue::from_static("application/offset+octet-stream"));
        let (name, length) = (call.name(), piece.len() as u64);
        let (progress, sent) = (Arc::clone(&self.progress), AtomicU64::new(offset));
        let starts = (0..piece.len()).step_by(PART_BYTES);
        let parts: Vec<Bytes> = starts.map(|at| piece.slice(at..piece.len().min(at + PART_BYTES))).collect();
        let body = futures::stream::iter(parts).map(move |part| {
            progress(sent.fetch_add(part.len() as u64, Ordering::Relaxed) + part.len() as u64);
            Ok::<_, std::io::Error>(part)
        });
        match timeout(PIECE_TIMEOUT, self.client.send_once(call, Body::wrap_stream(body), length)).await {
            Ok(response) => offset_of(&name, &response?),
            Err(_) => Err(Error::IdleTimeout { call: name }),
        }
    }

    /// Number of bytes that the server has. It may still be storing some.
    async fn received(&self, retry_timeout: Duration) -> Result<u64> {
        let client = self.client.with_retry_timeout(retry_timeout);
        let call = client.get(&["uploads", "resumable", &self.id.to_string()]).timeout(PIECE_TIMEOUT);
        let upload: ResumableUpload = client.fetch(call).await?;
        Ok(upload.received.unsigned_abs())
    }
}

fn offset_of(call: &str, response: &Response) -> Result<u64> {
    let offset = response.headers().get("upload-offset").and_then(|value| value.to_str().ok()?.parse().ok());
    offset.ok_or_else(|| Error::Unexpected {
        call: call.to_owned(),
        status: response.status().as_u16(),
        body: "no Upload-Offset".to_owned(),
    })
}

/// True if the upload can continue after this error.
fn may_resume(error: &Error) -> bool {
    match error.code() {
        Some(code) => matches!(
            code,
            Code::WrongOffset | Code::TooManyRequests | Code::Busy | Code::DatabaseUnavailable | Code::ShuttingDown
        ),
        None => error.is_transient() || error.is_foreign(),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, sync::Mutex};

    use domain::{Problem, Time, problem::MEDIA_TYPE};
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// Method, offset, and body of the next request.
    async fn request(stream: &mut BufReader<TcpStream>) -> (String, u64, Vec<u8>) {
        let (mut method, mut offset, mut length) = (String::new(), 0, 0);
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.expect("a line");
            if method.is_empty() {
                line.split(' ').next().expect("a method").clone_into(&mut method);
            }
            let number = |name: &str| line.to_lowercase().strip_prefix(name).and_then(|rest| rest.trim().parse().ok());
            offset = number("upload-offset:").unwrap_or(offset);
            length = number("content-length:").unwrap_or(length);
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length as usize];
        stream.read_exact(&mut body).await.expect("a body");
        (method, offset, body)
    }

    fn refusal(code: Code) -> String {
        let body = serde_json::to_string(&Problem::new(code, "why")).expect("JSON");
        format!("{}|{MEDIA_TYPE}|{body}", code.status())
    }

    /// Answers the pieces with these faults first, and returns the bytes that it has stored.
    async fn serve(listener: TcpListener, mut faults: VecDeque<String>, whole: u64) -> Vec<u8> {
        let mut stored = Vec::new();
        loop {
            let mut stream = BufReader::new(listener.accept().await.expect("a connection").0);
            let (method, offset, body) = request(&mut stream).await;
            let upload = |received: usize| {
                let now = Time::parse("2026-11-20T14:03:07Z").expect("a time");
                let id = Uuid::nil();
                let upload = ResumableUpload {
                    id,
                    filename: "rows.csv".to_owned(),
                    bytes: whole as i64,
                    received: received as i64,
                    created_at: now,
                };
                format!("200|application/json|{}", serde_json::to_string(&upload).expect("JSON"))
            };
            let answer = if method != "PATCH" {
                upload(stored.len())
            } else if let Some(fault) = faults.pop_front() {
                fault
            } else {
                assert_eq!(offset, stored.len() as u64);
                stored.extend(body);
                "204||".to_owned()
            };
            let parts: Vec<&str> = answer.splitn(3, '|').collect();
            let (status, kind, body) = (parts[0], parts[1], parts[2]);
            let head = format!(
                "HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\nupload-offset: {}\r\nconnection: close\r\n",
                stored.len()
            );
            let length = if status == "204" { String::new() } else { format!("content-length: {}\r\n", body.len()) };
            stream.write_all(format!("{head}{length}\r\n{body}").as_bytes()).await.expect("written");
            stream.flush().await.expect("written");
            if stored.len() as u64 == whole {
                return stored;
            }
        }
    }

    #[tokio::test]
    async fn a_large_file_goes_on_where_it_was_interrupted() {
        let content: Vec<u8> = (0..PIECE_BYTES + 100_000).map(|n| (n % 251) as u8).collect();
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("rows.csv");
        std::fs::write(&path, &content).expect("written");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let faults = [
            "502|text/plain|".to_owned(),
            refusal(Code::DatabaseUnavailable),
            refusal(Code::WrongOffset),
            "404|text/plain|404 page not found".to_owned(),
        ];
        let serving = tokio::spawn(serve(listener, faults.into(), content.len() as u64));
        let client = Client::new(&url, None).expect("a client").with_retry_timeout(Duration::ZERO);
        let furthest = Arc::new(Mutex::new(0));
        let seen = Arc::clone(&furthest);
        // The server of the test ends with the last piece.
        let _ = client.upload(&path, move |sent| *seen.lock().expect("a lock") = sent).await;
        assert!(serving.await.expect("served") == content, "the bytes are those of the file");
        assert_eq!(*furthest.lock().expect("a lock"), content.len() as u64);
    }

    #[test]
    fn a_refusal_ends_an_upload() {
        let problem = |code| Error::Problem(Box::new(Problem::new(code, "why")));
        for code in [Code::QuotaExceeded, Code::InsufficientStorage, Code::NotFound, Code::TooLarge] {
            assert!(!may_resume(&problem(code)), "{code:?}");
        }
    }
}
