//! Storage of uploaded files: an object store in a private folder or a bucket.
//!
//! It handles bytes and ids, not owners or the database. A file becomes visible complete or not at all. In a folder, a
//! file is received in a directory of this process and renamed once it is complete and synced; the next start deletes
//! what a killed process left behind, and a lock file tells a dead process from one that is still receiving. In a
//! bucket, a file is sent as a multipart upload.

mod bucket; // S3-compatible stores
#[cfg(test)]
mod tests;

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io,
    ops::Not as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream::BoxStream};
use object_store::{
    GetOptions, GetRange, GetResultPayload, ObjectStore, ObjectStoreExt, WriteMultipart, local::LocalFileSystem,
    path::Path as Key,
};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;
use uuid::Uuid;

use crate::settings::files::FileSettings;

/// Approximate size of a buffer to or from the disk, in bytes.
const PIECE: usize = 256 << 10;

/// Size of a part of a multipart upload, in bytes; buckets require at least 5 MiB and at most 10,000 parts.
const PART: usize = 8 << 20;

/// Name of the object with the id of the database that the store belongs to.
pub const OWNER: &str = "deployment";

/// Object store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Files(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn ObjectStore>,
    piece: usize,
    /// Receiving directory of this process. `None` for a bucket, where files are put into place directly.
    incoming: Option<Incoming>,
    /// Maximum bytes of a workbook.
    workbook_limit: u64,
    /// Folder, if there is one, and the bytes to keep free on its disk.
    disk: Option<PathBuf>,
    disk_reserve: u64,
}

#[derive(Debug)]
struct Incoming {
    folder: Key,
    /// Held for the lifetime of the process.
    _lock: File,
}

/// Received file that is not yet in its final place.
#[derive(Debug)]
pub struct Arrived {
    pub id: Uuid,
    /// Temporary location.
    at: Key,
    pub bytes: u64,
    /// Lower-case hexadecimal.
    pub sha256: String,
    /// First bytes, at most 8 KiB.
    pub start: Vec<u8>,
}

/// Reason why a file was not received.
#[derive(Debug)]
pub enum ReceiveError<E> {
    /// Longer than the limit.
    TooLarge,
    /// Disk reserve exhausted.
    NoRoom,
    /// The sender aborted.
    Sender(E),
    Store(object_store::Error),
}

impl<E> From<object_store::Error> for ReceiveError<E> {
    fn from(error: object_store::Error) -> Self {
        Self::Store(error)
    }
}

/// Bytes between two checks of the free disk space.
const LOOK_EVERY: u64 = 16 << 20;

/// Bytes of the start of a file that are passed on.
const START: usize = 8 << 10;

impl Files {
    /// Opens the configured store; by default one in `folder`.
    pub fn open(settings: &FileSettings, folder: &Path) -> anyhow::Result<Self> {
        let (store, piece, incoming): (Arc<dyn ObjectStore>, _, _) = if let Some(url) = &settings.store_url {
            (bucket::open(url, settings)?, PART, None)
        } else {
            let incoming = open_folder(folder)?;
            (Arc::new(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true)), PIECE, Some(incoming))
        };
        let workbook_limit = settings.xlsx_limit.0;
        let disk = incoming.is_some().then(|| folder.to_owned());
        let disk_reserve = settings.disk_reserve.0;
        Ok(Self(Arc::new(Inner { store, piece, incoming, workbook_limit, disk, disk_reserve })))
    }

    /// Maximum bytes of a workbook, which is not read as a stream.
    pub fn workbook_limit(&self) -> u64 {
        self.0.workbook_limit
    }

    /// Returns true if the disk keeps its reserve after `bytes` more. A bucket always has room.
    pub fn has_room(&self, bytes: u64) -> bool {
        let Some(folder) = &self.0.disk else { return true };
        // If the file system does not report it, a write will fail.
        rustix::fs::statvfs(folder)
            .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < self.0.disk_reserve.saturating_add(bytes))
            .not()
    }

    /// Bytes of a file in memory while it is received: one buffer being filled and one being written.
    pub fn buffered(&self) -> usize {
        2 * self.0.piece
    }

    /// Checks that the store responds.
    pub async fn check(&self) -> object_store::Result<()> {
        gone_is_fine(self.0.store.head(&place(Uuid::nil())).await.map(|_| ()))
    }

    /// Receives a stream of at most `limit` bytes. Invisible until [`Files::keep`]; if dropped before the end, nothing
    /// remains.
    pub async fn receive<S, E>(&self, source: S, limit: u64) -> Result<Arrived, ReceiveError<E>>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
    {
        self.receive_as(Uuid::now_v7(), source, limit).await
    }

    /// Receives a file with a given id; several uploads of one id may be received concurrently.
    pub async fn receive_as<S, E>(&self, id: Uuid, mut source: S, limit: u64) -> Result<Arrived, ReceiveError<E>>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
    {
        if !self.has_room(0) {
            return Err(ReceiveError::NoRoom);
        }
        let at = self.arrives_at(id);
        let upload = self.0.store.put_multipart(&at).await?;
        let mut unfinished = Unfinished(Some(WriteMultipart::new_with_chunk_size(upload, self.0.piece)));
        let Some(writer) = &mut unfinished.0 else { return Err(ReceiveError::Store(nothing_open())) };
        let mut hash = Sha256::new();
        let mut bytes = 0;
        let mut look_at = LOOK_EVERY;
        let mut start = Vec::new();
        while let Some(piece) = source.next().await {
            let failed = match piece {
                Ok(piece) => {
                    bytes += piece.len() as u64;
                    hash.update(&piece);
                    start.extend_from_slice(&piece[..piece.len().min(START - start.len())]);
                    writer.wait_for_capacity(1).await?;
                    writer.put(piece);
                    if bytes > limit {
                        Some(ReceiveError::TooLarge)
                    } else if bytes >= look_at {
                        look_at = bytes + LOOK_EVERY;
                        (!self.has_room(0)).then_some(ReceiveError::NoRoom)
                    } else {
                        None
                    }
                }
                Err(error) => Some(ReceiveError::Sender(error)),
            };
            if let Some(failed) = failed {
                if let Some(writer) = unfinished.0.take() {
                    writer.abort().await?;
                }
                return Err(failed);
            }
        }
        if let Some(writer) = unfinished.0.take() {
            writer.finish().await?;
        }
        Ok(Arrived { id, at, bytes, sha256: hex(&hash.finalize()), start })
    }

    /// Moves a received file to its final place.
    pub async fn keep(&self, arrived: &Arrived) -> object_store::Result<()> {
        match &self.0.incoming {
            Some(_) => self.0.store.rename(&arrived.at, &place(arrived.id)).await,
            None => Ok(()),
        }
    }

    /// Discards a received file.
    pub async fn forget(&self, arrived: &Arrived) -> object_store::Result<()> {
        gone_is_fine(self.0.store.delete(&arrived.at).await)
    }

    /// Reads a file of `bytes` bytes from offset `from`.
    pub async fn read(&self, id: Uuid, from: u64, bytes: u64) -> object_store::Result<ByteStream> {
        if from >= bytes {
            return Ok(futures::stream::empty().boxed());
        }
        let options = GetOptions { range: Some(GetRange::Bounded(from..bytes)), ..GetOptions::default() };
        let found = self.0.store.get_opts(&place(id), options).await?;
        let range = found.range.clone();
        match found.payload {
            // Reads larger chunks of a local file than the stream of object_store.
            GetResultPayload::File(file, _) => {
                let mut file = tokio::fs::File::from_std(file);
                file.seek(io::SeekFrom::Start(range.start)).await.map_err(broken)?;
                let part = file.take(range.end - range.start);
                Ok(ReaderStream::with_capacity(part, PIECE).map(|piece| piece.map_err(broken)).boxed())
            }
            GetResultPayload::Stream(stream) => Ok(stream),
        }
    }

    /// Reads files of the given lengths, concatenated.
    pub fn read_all(&self, files: Vec<(Uuid, i64)>) -> ByteStream {
        let begin = (self.clone(), files.into_iter(), None::<ByteStream>);
        let pieces = futures::stream::try_unfold(begin, |(store, mut files, mut open)| async move {
            loop {
                if let Some(stream) = &mut open
                    && let Some(piece) = stream.try_next().await?
                {
                    return Ok(Some((piece, (store, files, open))));
                }
                let Some((id, bytes)) = files.next() else { return Ok(None) };
                open = Some(store.read(id, 0, bytes as u64).await?);
            }
        });
        pieces.boxed()
    }

    /// Deletes a file; idempotent.
    pub async fn remove(&self, id: Uuid) -> object_store::Result<()> {
        gone_is_fine(self.0.store.delete(&place(id)).await)
    }

    /// Lists stored files older than `age`, for the search for orphaned objects.
    pub fn list_older(&self, age: std::time::Duration) -> BoxStream<'static, object_store::Result<Uuid>> {
        let now = std::time::SystemTime::now();
        let is_old = move |meta: &object_store::ObjectMeta| {
            let modified = std::time::SystemTime::from(meta.last_modified);
            now.duration_since(modified).is_ok_and(|old| old >= age)
        };
        // Files that are being received have longer names.
        let id = |meta: &object_store::ObjectMeta| meta.location.as_ref().parse::<Uuid>().ok();
        let found = self.0.store.list(None);
        found.try_filter_map(move |meta| std::future::ready(Ok(id(&meta).filter(|_| is_old(&meta))))).boxed()
    }

    /// Text of the object that names the owner of the store; `None` if there is none.
    pub async fn owner(&self) -> object_store::Result<Option<String>> {
        match self.0.store.get(&Key::from(OWNER)).await {
            Ok(found) => Ok(Some(String::from_utf8_lossy(&found.bytes().await?).trim().to_owned())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the object that names the owner of the store.
    pub async fn set_owner(&self, id: Uuid) -> object_store::Result<()> {
        self.0.store.put(&Key::from(OWNER), format!("{id}\n").into()).await.map(drop)
    }

    /// Key to receive at: in a folder a temporary one; in a bucket, where partial files are invisible, the final one.
    fn arrives_at(&self, id: Uuid) -> Key {
        match &self.0.incoming {
            Some(incoming) => incoming.folder.clone().join(Uuid::now_v7().to_string()),
            None => place(id),
        }
    }
}

/// Upload in progress. Dropping it discards the parts that were sent.
struct Unfinished(Option<WriteMultipart>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let (Some(writer), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(writer.abort());
        }
    }
}

fn nothing_open() -> object_store::Error {
    broken(io::Error::other("nothing is open to be written"))
}

/// Creates the folder if needed, accessible only to this account, deletes partial files of dead processes, and opens a
/// directory to receive in.
fn open_folder(folder: &Path) -> anyhow::Result<Incoming> {
    let incoming = folder.join("incoming");
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&incoming)?;
    clear_dead(&incoming)?;

    // Locked before it gets its final name: other processes never find it unlocked while this process lives.
    let name = Uuid::now_v7().to_string();
    let unnamed = incoming.join(format!("{name}.new"));
    let lock = File::create(&unnamed)?;
    lock.lock()?;
    fs::rename(&unnamed, incoming.join(format!("{name}.lock")))?;
    builder.create(incoming.join(&name))?;
    Ok(Incoming { folder: Key::from_iter(["incoming", &name]), _lock: lock })
}

/// Chunks of a file.
pub type ByteStream = BoxStream<'static, object_store::Result<Bytes>>;

fn place(id: Uuid) -> Key {
    Key::from(id.to_string())
}

fn broken(error: io::Error) -> object_store::Error {
    object_store::Error::Generic { store: "files", source: Box::new(error) }
}

fn gone_is_fine(result: object_store::Result<()>) -> object_store::Result<()> {
    match result {
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        other => other,
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Deletes the directories of processes that no longer hold their lock.
fn clear_dead(incoming: &Path) -> io::Result<()> {
    for entry in fs::read_dir(incoming)? {
        let lock = entry?.path();
        if lock.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        // Another server that starts may delete it at the same time.
        let file = match File::open(&lock) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let folder = lock.with_extension("");
        let left = fs::read_dir(&folder).map_or(0, Iterator::count);
        if left > 0 {
            tracing::info!(left, "deleting unfinished uploads");
        }
        for gone in [fs::remove_dir_all(&folder), fs::remove_file(&lock)] {
            gone.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
        }
    }
    Ok(())
}
