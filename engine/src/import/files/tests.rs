//! Files in a folder: visible complete or not at all, readable from any byte, and no remains of aborted uploads.

use super::*;

fn open(folder: &Path) -> Files {
    Files::open(&FileSettings::default(), folder).expect("open")
}

fn pieces(pieces: &[&'static str]) -> impl Stream<Item = Result<Bytes, &'static str>> + Unpin + use<> {
    let pieces: Vec<_> = pieces
        .iter()
        .map(|&piece| if piece == "broken" { Err("broken") } else { Ok(Bytes::from_static(piece.as_bytes())) })
        .collect();
    futures::stream::iter(pieces)
}

fn everything_in(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("folder") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            found.extend(everything_in(&path));
        } else if path.extension().is_none_or(|extension| extension != "lock") {
            found.push(path.display().to_string());
        }
    }
    found
}

async fn text(files: &Files, id: Uuid, from: u64, bytes: u64) -> String {
    let pieces: Vec<Bytes> = files.read(id, from, bytes).await.expect("read").try_collect().await.expect("bytes");
    String::from_utf8(pieces.concat()).expect("text")
}

#[tokio::test]
async fn a_file_comes_back_from_any_byte() {
    let folder = tempfile::tempdir().expect("folder");
    let files = open(folder.path());
    let arrived = files.receive(pieces(&["hello ", "world"]), 11).await.expect("arrives");
    assert_eq!(arrived.bytes, 11);
    assert_eq!(arrived.sha256, "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9");
    files.keep(&arrived).await.expect("keep");
    assert_eq!(text(&files, arrived.id, 0, 11).await, "hello world");
    assert_eq!(text(&files, arrived.id, 6, 11).await, "world");
    assert_eq!(text(&files, arrived.id, 11, 11).await, "");
    files.remove(arrived.id).await.expect("remove");
    files.remove(arrived.id).await.expect("again");
    assert_eq!(everything_in(folder.path()), [""; 0]);
}

#[tokio::test]
async fn half_an_upload_leaves_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let files = open(folder.path());
    let broken = files.receive(pieces(&["half", "broken"]), 100).await;
    assert!(matches!(broken, Err(ReceiveError::Sender("broken"))));
    let long = files.receive(pieces(&["more", "than", "ten bytes"]), 10).await;
    assert!(matches!(long, Err(ReceiveError::TooLarge)));
    assert_eq!(everything_in(folder.path()), [""; 0]);
}

#[tokio::test]
async fn files_of_a_dead_process_are_deleted_and_those_of_a_running_one_stay() {
    let folder = tempfile::tempdir().expect("folder");
    let dead = open(folder.path());
    dead.receive(pieces(&["never kept"]), 100).await.expect("arrives");
    drop(dead);
    let living = open(folder.path());
    assert_eq!(everything_in(folder.path()), [""; 0]);
    let arrived = living.receive(pieces(&["soon kept"]), 100).await.expect("arrives");
    let _third = open(folder.path());
    living.keep(&arrived).await.expect("keep");
    assert_eq!(text(&living, arrived.id, 0, 9).await, "soon kept");
}

#[test]
fn servers_that_start_at_once_delete_what_dead_ones_left() {
    let folder = tempfile::tempdir().expect("folder");
    let incoming = folder.path().join("incoming");
    fs::create_dir(&incoming).expect("folder");
    for _ in 0..300 {
        File::create(incoming.join(format!("{}.lock", Uuid::now_v7()))).expect("lock");
    }
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| open(folder.path()));
        }
    });
    let locks = fs::read_dir(&incoming).expect("folder").filter_map(Result::ok);
    let locks = locks.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "lock")).count();
    assert!(locks <= 8, "{locks} locks are left");
}
