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
    sync::Notify,
    time::{Instant, timeout},
};

use crate::{
    api::idempotency_header,
    client::Client,
    error::{Error, Result},
    retry::{RetryPolicy, pause_after},
};

/// Size of a piece in bytes.
pub(crate) const PIECE_BYTES: u64 = 8 * 1024 * 1024;
/// Size of the parts of a piece after which progress is reported, in bytes.
const PART_BYTES: usize = 64 * 1024;
/// Time after the first failed attempt without progress after which an upload fails, and idle timeout of a request.
const STALL_TIMEOUT: Duration = Duration::from_mins(2);
/// Time within which the server must say the offset after the last piece: it assembles the whole file first.
const ASSEMBLY_TIMEOUT: Duration = Duration::from_mins(5);
/// Shortest `Retry-After` of a quota that waiting does not free.
const LASTING_QUOTA: Duration = Duration::from_mins(1);

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
        let (mut offset, mut is_known, mut stall) = (0, true, Stall::default());
        while offset < self.bytes {
            (self.progress)(offset);
            let is_piece = is_known;
            let answered = if is_piece { self.send(offset).await } else { self.received(offset).await };
            is_known = answered.is_ok();
            match answered {
                Ok(end) => {
                    stall = if end > offset { Stall::default() } else { stall.without_progress(Instant::now())? };
                    offset = end;
                }
                Err(error) => tokio::time::sleep(stall.pause_after(error, is_piece, Instant::now())?).await,
            }
        }
        (self.progress)(offset);
        Ok(())
    }

    /// Offset behind the piece that begins at `offset`.
    const fn end_of_piece(&self, offset: u64) -> u64 {
        if self.bytes - offset > PIECE_BYTES { offset + PIECE_BYTES } else { self.bytes }
    }

    /// Reads the piece at an offset.
    async fn read(&mut self, offset: u64) -> Result<Bytes> {
        let unreadable = |cause| Error::File { path: self.path.to_owned(), cause };
        let mut piece = vec![0; (self.end_of_piece(offset) - offset) as usize];
        self.file.seek(SeekFrom::Start(offset)).await.map_err(unreadable)?;
        self.file.read_exact(&mut piece).await.map_err(unreadable)?;
        Ok(piece.into())
    }

    /// Sends the piece at an offset and returns the offset behind it.
    async fn send(&mut self, offset: u64) -> Result<u64> {
        let piece = self.read(offset).await?;
        let call = self.client.call(Method::PATCH, &["uploads", "resumable", &self.id.to_string()]);
        let call = call.header("tus-resumable", HeaderValue::from_static("1.0.0"));
        let call = call.header("upload-offset", HeaderValue::from(offset));
        let call = call.header("content-type", HeaderValue::from_static("application/offset+octet-stream"));
        let (name, length) = (call.name(), piece.len() as u64);
        let moved = Arc::new(Notify::new());
        let body = self.body(offset, &piece, Arc::clone(&moved));
        let response = unless_idle(STALL_TIMEOUT, &moved, self.client.send_once(call, body, length)).await;
        let response = response.ok_or_else(|| Error::IdleTimeout { call: name.clone() })??;
        offset_of(&name, &response, offset)
    }

    /// Body of a piece. Each part that is sent is reported, and notifies `moved`.
    fn body(&self, offset: u64, piece: &Bytes, moved: Arc<Notify>) -> Body {
        let (progress, sent) = (Arc::clone(&self.progress), AtomicU64::new(offset));
        let starts = (0..piece.len()).step_by(PART_BYTES);
        let parts: Vec<Bytes> = starts.map(|at| piece.slice(at..piece.len().min(at + PART_BYTES))).collect();
        Body::wrap_stream(futures::stream::iter(parts).map(move |part| {
            moved.notify_one();
            progress(sent.fetch_add(part.len() as u64, Ordering::Relaxed) + part.len() as u64);
            Ok::<_, std::io::Error>(part)
        }))
    }

    /// Number of bytes that the server has, asked after the piece at `offset`. It may still be storing some.
    async fn received(&self, offset: u64) -> Result<u64> {
        let is_last = self.end_of_piece(offset) == self.bytes;
        let limit = if is_last { ASSEMBLY_TIMEOUT } else { STALL_TIMEOUT };
        let client = self.client.with_retry_timeout(Duration::ZERO);
        let call = client.get(&["uploads", "resumable", &self.id.to_string()]).timeout(limit);
        let upload: ResumableUpload = client.fetch(call).await?;
        Ok(upload.received.unsigned_abs())
    }
}

/// Runs a request until nothing has moved for the idle timeout.
async fn unless_idle<T>(idle_timeout: Duration, moved: &Notify, request: impl Future<Output = T>) -> Option<T> {
    let idle = async { while timeout(idle_timeout, moved.notified()).await.is_ok() {} };
    tokio::select! {
        answer = request => Some(answer),
        () = idle => None,
    }
}

/// Failed attempts since the offset last grew.
#[derive(Default)]
struct Stall {
    failures: u32,
    /// Time of the first one.
    since: Option<Instant>,
    last_error: Option<Error>,
}

impl Stall {
    /// Pause after an attempt that failed now. Returns the error if it is final, or if nothing has moved for the stall
    /// timeout. After a piece, only the server knows that: some of it may have arrived.
    fn pause_after(&mut self, error: Error, is_piece: bool, now: Instant) -> Result<Duration> {
        self.since.get_or_insert(now);
        if !may_resume(&error) || !is_piece && self.is_over(now) {
            return Err(error);
        }
        self.failures += 1;
        tracing::debug!(%error, "piece of an upload failed; continuing");
        let pause = pause_after(&error, self.failures);
        self.last_error = Some(error);
        Ok(pause)
    }

    /// Continues after the server has said that nothing arrived. Returns the last error if the stall timeout is over.
    fn without_progress(self, now: Instant) -> Result<Self> {
        if self.is_over(now) { self.last_error.map_or_else(|| Ok(Self::default()), Err) } else { Ok(self) }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now - since >= STALL_TIMEOUT)
    }
}

/// The new offset of a response to a piece, which is beyond the one of the piece.
fn offset_of(call: &str, response: &Response, before: u64) -> Result<u64> {
    let offset = response.headers().get("upload-offset").and_then(|value| value.to_str().ok()?.parse().ok());
    offset.filter(|&offset| offset > before).ok_or_else(|| Error::Unexpected {
        call: call.to_owned(),
        status: response.status().as_u16(),
        body: "no new Upload-Offset".to_owned(),
        retry_after: None,
    })
}

/// True if the upload can continue after this error.
fn may_resume(error: &Error) -> bool {
    match error.code() {
        // The body of the piece paused for too long; the server has what came before.
        Some(Code::WrongOffset | Code::InvalidBody) => true,
        Some(Code::QuotaExceeded) => error.retry_after().is_some_and(|pause| pause < LASTING_QUOTA),
        Some(Code::InsufficientStorage) => false,
        _ => error.is_transient() || error.is_foreign(),
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

    /// Answers the requests with these faults first, and returns the bytes that it has stored. Of a piece with the fault
    /// `invalid_body`, the first half is stored. An empty fault is the usual answer.
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
            let fault = if method == "POST" { None } else { faults.pop_front() };
            let answer = if let Some(fault) = fault.filter(|fault| !fault.is_empty()) {
                if fault.contains(Code::InvalidBody.as_str()) {
                    stored.extend(&body[..body.len() / 2]);
                }
                fault
            } else if method != "PATCH" {
                upload(stored.len())
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
        let reloading = "404|text/plain|404 page not found".to_owned();
        // Of pieces and of the questions for the offset after them.
        let faults = [
            refusal(Code::InvalidBody),
            "200|text/html|<html>".to_owned(),
            String::new(),
            "502|text/plain|".to_owned(),
            refusal(Code::DatabaseUnavailable),
            reloading.clone(),
            String::new(),
            reloading,
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

    fn problem(code: Code, retry_after_seconds: Option<u32>) -> Error {
        Error::Problem(Box::new(Problem { retry_after_seconds, ..Problem::new(code, "why") }))
    }

    #[test]
    fn a_refusal_ends_an_upload() {
        for code in [Code::QuotaExceeded, Code::InsufficientStorage, Code::NotFound, Code::TooLarge] {
            assert!(!may_resume(&problem(code, None)), "{code:?}");
        }
        assert!(!may_resume(&problem(Code::QuotaExceeded, Some(60))), "only a deletion makes room");
        assert!(may_resume(&problem(Code::QuotaExceeded, Some(1))), "requests that are under way end");
        for code in [Code::WrongOffset, Code::InvalidBody, Code::Internal, Code::ShuttingDown] {
            assert!(may_resume(&problem(code, None)), "{code:?}");
        }
    }

    #[test]
    fn a_stall_begins_with_the_first_failed_attempt() {
        let (first, mut stall) = (Instant::now(), Stall::default());
        let mut fail = |code, retry_after, later| stall.pause_after(problem(code, retry_after), false, first + later);
        assert!(fail(Code::Busy, None, Duration::ZERO).expect("a pause") <= Duration::from_millis(100));
        let pause = fail(Code::QuotaExceeded, Some(7), STALL_TIMEOUT / 2).expect("a pause");
        assert_eq!(pause, Duration::from_secs(7));
        let error = fail(Code::ShuttingDown, None, STALL_TIMEOUT).expect_err("nothing has moved");
        assert_eq!(error.code(), Some(Code::ShuttingDown), "the last error");
        Stall::default().pause_after(problem(Code::NotFound, None), true, first).expect_err("a refusal");
    }

    // A slow piece after a failed attempt ended the upload, although a part of it had arrived.
    #[test]
    fn a_slow_piece_ends_an_upload_only_if_nothing_of_it_has_arrived() {
        let first = Instant::now();
        let mut stall = Stall::default();
        stall.pause_after(problem(Code::Busy, None), true, first).expect("a pause");
        let mut stall = stall.without_progress(first + STALL_TIMEOUT / 2).expect("a second attempt");
        let late = first + STALL_TIMEOUT * 2;
        stall.pause_after(problem(Code::Internal, None), true, late).expect("the server is asked");
        let error = stall.without_progress(late).err().expect("nothing has arrived");
        assert_eq!(error.code(), Some(Code::Internal), "the last error");
    }

    #[tokio::test]
    async fn a_request_that_does_not_move_is_idle() {
        let moved = Notify::new();
        moved.notify_one();
        assert!(unless_idle(Duration::ZERO, &moved, std::future::pending::<()>()).await.is_none());
        assert!(unless_idle(Duration::MAX, &moved, std::future::ready(())).await.is_some());
    }
}
