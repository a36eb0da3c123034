//! Where uploaded files live: an object store, which is a private folder of this machine or a bucket.
//!
//! Knows bytes and ids, not owners or the database. A file is visible whole or not at all. In a folder
//! it arrives in a place of this process and is renamed when it is complete and on the disk; what a
//! killed process has left there goes with the next start, and the lock beside it tells a dead process
//! from one that is still receiving. In a bucket it is sent in parts, which become an object when all
//! are there.

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

use crate::config::files::FileSettings;

/// Bytes that are on their way to or from the disk at once, about.
const PIECE: usize = 256 << 10;

/// The same of a part on its way to a bucket, where the least is 5 MiB and the most parts are 10,000.
const PART: usize = 8 << 20;

/// The object store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Files(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn ObjectStore>,
    piece: usize,
    /// Where this process receives. None in a bucket, where files are put into their places at once.
    incoming: Option<Incoming>,
    /// Bytes of a workbook, at most.
    workbook_limit: u64,
    /// The folder, where there is one, and the bytes that stay free beside it.
    disk: Option<PathBuf>,
    disk_reserve: u64,
}

#[derive(Debug)]
struct Incoming {
    folder: Key,
    /// Held as long as the process lives.
    _lock: File,
}

/// A file that has arrived whole, but is not in its place yet.
#[derive(Debug)]
pub struct Arrived {
    pub id: Uuid,
    /// Where it waits.
    at: Key,
    pub bytes: u64,
    /// Lower-case hexadecimal.
    pub sha256: String,
    /// Its first bytes, at most 8 KiB.
    pub start: Vec<u8>,
}

/// Why a file did not arrive.
#[derive(Debug)]
pub enum ReceiveError<E> {
    /// It is longer than the limit.
    TooLarge,
    /// The disk would be too full.
    NoRoom,
    /// The sender broke off.
    Sender(E),
    Store(object_store::Error),
}

impl<E> From<object_store::Error> for ReceiveError<E> {
    fn from(error: object_store::Error) -> Self {
        Self::Store(error)
    }
}

/// After so many bytes of a file the disk is looked at again.
const LOOK_EVERY: u64 = 16 << 20;

/// How much of the beginning of an arriving file is handed on.
const START: usize = 8 << 10;

impl Files {
    /// Opens the store that is asked for; by default one in `folder`.
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

    /// Bytes of a workbook, at most: it is not read in a stream.
    pub fn workbook_limit(&self) -> u64 {
        self.0.workbook_limit
    }

    /// Returns true if the disk keeps its reserve after so many more bytes. A bucket always has room.
    pub fn has_room(&self, bytes: u64) -> bool {
        let Some(folder) = &self.0.disk else { return true };
        // The file system may not tell; then a failed write does.
        rustix::fs::statvfs(folder)
            .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < self.0.disk_reserve.saturating_add(bytes))
            .not()
    }

    /// Bytes of an arriving file that are in memory at once: a piece that is gathered and one that is written.
    pub fn buffered(&self) -> usize {
        2 * self.0.piece
    }

    /// Whether the store answers.
    pub async fn check(&self) -> object_store::Result<()> {
        gone_is_fine(self.0.store.head(&place(Uuid::nil())).await.map(|_| ()))
    }

    /// Receives a stream of at most `limit` bytes. Until [`Files::keep`], nobody can see it; dropped
    /// half way, nothing remains.
    pub async fn receive<S, E>(&self, source: S, limit: u64) -> Result<Arrived, ReceiveError<E>>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
    {
        self.receive_as(Uuid::now_v7(), source, limit).await
    }

    /// The same for a file that has its id already; several may arrive for it at once.
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

    /// Puts a file that has arrived into its place.
    pub async fn keep(&self, arrived: &Arrived) -> object_store::Result<()> {
        match &self.0.incoming {
            Some(_) => self.0.store.rename(&arrived.at, &place(arrived.id)).await,
            None => Ok(()),
        }
    }

    /// Forgets a file that has arrived.
    pub async fn forget(&self, arrived: &Arrived) -> object_store::Result<()> {
        gone_is_fine(self.0.store.delete(&arrived.at).await)
    }

    /// The bytes of a file of `bytes` bytes, from `from` on.
    pub async fn read(&self, id: Uuid, from: u64, bytes: u64) -> object_store::Result<ByteStream> {
        if from >= bytes {
            return Ok(futures::stream::empty().boxed());
        }
        let options = GetOptions { range: Some(GetRange::Bounded(from..bytes)), ..GetOptions::default() };
        let found = self.0.store.get_opts(&place(id), options).await?;
        let range = found.range.clone();
        match found.payload {
            // Larger pieces than object_store's own stream cuts from a local file.
            GetResultPayload::File(file, _) => {
                let mut file = tokio::fs::File::from_std(file);
                file.seek(io::SeekFrom::Start(range.start)).await.map_err(broken)?;
                let part = file.take(range.end - range.start);
                Ok(ReaderStream::with_capacity(part, PIECE).map(|piece| piece.map_err(broken)).boxed())
            }
            GetResultPayload::Stream(stream) => Ok(stream),
        }
    }

    /// Files of so many bytes, one behind the other.
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

    /// Removes a file. One that is gone already is fine.
    pub async fn remove(&self, id: Uuid) -> object_store::Result<()> {
        gone_is_fine(self.0.store.delete(&place(id)).await)
    }

    /// The files in their places that are older than `age`, for the look-out for those that nobody
    /// knows of.
    pub fn list_older(&self, age: std::time::Duration) -> BoxStream<'static, object_store::Result<Uuid>> {
        let now = std::time::SystemTime::now();
        let is_old = move |meta: &object_store::ObjectMeta| {
            let modified = std::time::SystemTime::from(meta.last_modified);
            now.duration_since(modified).is_ok_and(|old| old >= age)
        };
        // What is arriving has a longer name.
        let id = |meta: &object_store::ObjectMeta| meta.location.as_ref().parse::<Uuid>().ok();
        let found = self.0.store.list(None);
        found.try_filter_map(move |meta| std::future::ready(Ok(id(&meta).filter(|_| is_old(&meta))))).boxed()
    }

    /// In a folder a place of its own; in a bucket, where half a file is not seen, the one where it stays.
    fn arrives_at(&self, id: Uuid) -> Key {
        match &self.0.incoming {
            Some(incoming) => incoming.folder.clone().join(Uuid::now_v7().to_string()),
            None => place(id),
        }
    }
}

/// A file on its way in. Dropped, it takes the parts away that have arrived.
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

/// Makes the folder, if need be, for this account only, clears what dead processes have left half
/// received, and opens a place to receive in.
fn open_folder(folder: &Path) -> anyhow::Result<Incoming> {
    let incoming = folder.join("incoming");
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&incoming)?;
    clear_dead(&incoming)?;

    // Locked before it has the name by which others look: they never find it unlocked and alive.
    let name = Uuid::now_v7().to_string();
    let unnamed = incoming.join(format!("{name}.new"));
    let lock = File::create(&unnamed)?;
    lock.lock()?;
    fs::rename(&unnamed, incoming.join(format!("{name}.lock")))?;
    builder.create(incoming.join(&name))?;
    Ok(Incoming { folder: Key::from_iter(["incoming", &name]), _lock: lock })
}

/// Pieces of a file as they are read.
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

/// Removes the folders of processes that do not hold their lock any more.
fn clear_dead(incoming: &Path) -> io::Result<()> {
    for entry in fs::read_dir(incoming)? {
        let lock = entry?.path();
        if lock.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        match File::open(&lock)?.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let folder = lock.with_extension("");
        let left = fs::read_dir(&folder).map_or(0, Iterator::count);
        if left > 0 {
            tracing::info!(left, "removing uploads that were never finished");
        }
        for gone in [fs::remove_dir_all(&folder), fs::remove_file(&lock)] {
            gone.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
        }
    }
    Ok(())
}
