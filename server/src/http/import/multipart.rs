//! Forms with a file, as `multipart/form-data`: the file is streamed, and everything else is bounded.
//!
//! The form parser buffers everything that has arrived, and has no limit for bytes outside field data. Here it gets a
//! body that pauses after some bytes, and that fails when too many bytes are not the file's. The file's own size is
//! limited by the code that stores it.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream},
    extract::{DefaultBodyLimit, FromRequest as _, Multipart, Request, multipart::Field, multipart::MultipartError},
};
use bytes::Bytes;
use domain::{Code, Problem};
use futures::{Stream, StreamExt as _};

use crate::http::error::{Error, Result};
use crate::http::extract::BodyTimeout;

/// Maximum number of bytes of a form outside its file: headers, boundaries and all other fields.
const BESIDE_FILE: u64 = 256 << 10;

/// Maximum number of bytes passed to the form parser at once.
const BURST: usize = 64 << 10;

/// State that the body and the reader of the file share.
#[derive(Debug, Default)]
struct Progress {
    /// Number of bytes read of the file.
    of_file: AtomicU64,
}

/// Form being read.
pub(crate) struct Form {
    fields: Multipart,
    progress: Arc<Progress>,
    timeout: Duration,
}

/// Field of a form.
pub(crate) struct Part<'a> {
    field: Field<'a>,
    progress: Arc<Progress>,
    timeout: Duration,
}

impl Form {
    /// Begins to read. 415 if the request is no form.
    pub(crate) async fn open(request: Request) -> Result<Self> {
        let timeout = request.extensions().get::<BodyTimeout>().copied().unwrap_or_default().0;
        let progress = Arc::new(Progress::default());
        let bounded = |body: Body| {
            let source = body.into_data_stream();
            Body::from_stream(Bounded { source, progress: Arc::clone(&progress), received: 0, burst: 0 })
        };
        let mut request = request.map(bounded);
        // The file store limits the file's own bytes.
        DefaultBodyLimit::disable().apply(&mut request);
        let no_form = |_| Error::refuse(Code::UnsupportedMediaType, "Expected a form that names its boundary.");
        let fields = Multipart::from_request(request, &()).await.map_err(no_form)?;
        Ok(Self { fields, progress, timeout })
    }

    /// Next field; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Part<'_>>> {
        let found = tokio::time::timeout(self.timeout, self.fields.next_field()).await.map_err(|_| too_slow())?;
        let part = |field| Part { field, progress: Arc::clone(&self.progress), timeout: self.timeout };
        Ok(found.map_err(|error| broken(&error))?.map(part))
    }
}

impl<'a> Part<'a> {
    pub(crate) fn name(&self) -> &str {
        self.field.name().unwrap_or_default()
    }

    /// Name of the file, if the field is one.
    pub(crate) fn file_name(&self) -> Option<&str> {
        self.field.file_name()
    }

    /// Bytes of the field, counted as the form's file.
    pub(crate) fn into_file(self) -> impl Stream<Item = Result<Bytes, MultipartError>> + Send + use<'a> {
        let Self { field, progress, .. } = self;
        field.inspect(move |piece| {
            let bytes = piece.as_ref().map_or(0, |piece| piece.len() as u64);
            progress.of_file.fetch_add(bytes, Ordering::Relaxed);
        })
    }

    /// Text of a short field; 422 if it is longer than `most` bytes.
    pub(crate) async fn into_text(mut self, most: usize) -> Result<String> {
        let mut value = Vec::new();
        let reading = async {
            while let Some(piece) = self.field.chunk().await.map_err(|error| broken(&error))? {
                if value.len() + piece.len() > most {
                    return Err(invalid_form("a field of the form is longer than a field can be"));
                }
                value.extend_from_slice(&piece);
            }
            Ok(())
        };
        tokio::time::timeout(self.timeout, reading).await.map_err(|_| too_slow())??;
        Ok(String::from_utf8_lossy(&value).into_owned())
    }
}

/// Request body with pauses and limits, see the head of this file.
struct Bounded {
    source: BodyDataStream,
    progress: Arc<Progress>,
    received: u64,
    burst: usize,
}

impl Stream for Bounded {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.burst >= BURST {
            self.burst = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = self.source.poll_next_unpin(cx);
        if let Poll::Ready(Some(Ok(piece))) = &polled {
            self.received += piece.len() as u64;
            self.burst += piece.len();
            let beside = self.received.saturating_sub(self.progress.of_file.load(Ordering::Relaxed));
            if beside > BESIDE_FILE + (BURST + piece.len()) as u64 {
                return Poll::Ready(Some(Err(axum::Error::new(TooMuchBeside))));
            }
        } else {
            self.burst = 0;
        }
        polled
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a form may have at most {BESIDE_FILE} bytes beside its file")]
struct TooMuchBeside;

fn broken(error: &MultipartError) -> Error {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(inner) = cause {
        if inner.is::<TooMuchBeside>() {
            return Error::refuse(
                Code::TooLarge,
                format!("The form has more than {BESIDE_FILE} bytes beside its file."),
            );
        }
        cause = inner.source();
    }
    invalid_form(&format!("expected a whole form: {}", error.body_text()))
}

fn too_slow() -> Error {
    invalid_form("a field of the form took too long to arrive")
}

fn invalid_form(detail: &str) -> Error {
    Problem::invalid_body([(String::new(), detail.to_owned())]).into()
}
