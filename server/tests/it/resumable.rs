//! Resumable uploads over broken connections and killed servers.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use reqwest::Method;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use crate::support::{
    Answer, Api, Server,
    imports::{complete, import},
    s3::Bucket,
};

const COLLECTION: &str = "/api/v1/uploads/resumable";

/// Creates a resumable upload; returns its URL.
async fn begin(caller: &Api, name: &str, bytes: usize) -> String {
    let request = caller.request(Method::POST, &format!("{COLLECTION}?filename={name}"));
    let answer = Answer::of(request.header("upload-length", bytes).header("tus-resumable", "1.0.0")).await;
    let created = answer.expect(201);
    assert_eq!((&created["bytes"], &created["received"]), (&json!(bytes), &json!(0)));
    assert_eq!(answer.headers["tus-resumable"], "1.0.0");
    let location = answer.headers["location"].to_str().expect("text").to_owned();
    assert_eq!(location, format!("{COLLECTION}/{}", created["id"].as_str().expect("an id")));
    location
}

fn piece(caller: &Api, location: &str, offset: usize, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
    let request = caller.request(Method::PATCH, location).header("upload-offset", offset);
    request.header("content-type", "application/offset+octet-stream").body(body)
}

async fn send(caller: &Api, location: &str, offset: usize, body: impl Into<reqwest::Body>) -> Answer {
    Answer::of(piece(caller, location, offset, body)).await
}

/// Current end of the file.
async fn offset(caller: &Api, location: &str) -> usize {
    let answer = Answer::of(caller.request(Method::HEAD, location)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["cache-control"], "no-store");
    number(&answer)
}

fn number(answer: &Answer) -> usize {
    answer.headers["upload-offset"].to_str().expect("text").parse().expect("a number")
}

fn table(rows: usize) -> Vec<u8> {
    let rows: String = (0..rows).map(|row| format!("{row},{}\n", "x".repeat(950))).collect();
    format!("id,text\n{rows}").into_bytes()
}

/// Checks that the resulting upload equals the file.
async fn assert_complete(caller: &Api, location: &str, file: &[u8]) -> String {
    let id = location.rsplit('/').next().expect("an id").to_owned();
    let upload = caller.get(&format!("/api/v1/uploads/{id}")).await.expect(200);
    let hash: String = Sha256::digest(file).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((&upload["bytes"], &upload["sha256"]), (&json!(file.len()), &json!(hash)));
    let content = caller.get(&format!("/api/v1/uploads/{id}/content")).await;
    assert!(content.text.as_bytes() == file, "the same bytes");
    id
}

#[tokio::test]
async fn resumable_upload_continues_after_disconnect() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let file = table(20_000);
    let location = begin(&ada, "large.csv", file.len()).await;
    assert_eq!(offset(&ada, &location).await, 0);
    assert_eq!(number(&send(&ada, &location, 0, file[..1_000].to_vec()).await), 1_000);
    ada.get(&location.replace("/resumable", "")).await.expect_problem(404, "not_found");

    // Twelve megabytes, and then the wire is cut: more than a part is on the way.
    let (sender, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let body = reqwest::Body::wrap_stream(tokio_stream::wrappers::ReceiverStream::new(receiver));
    let sending = tokio::spawn(piece(&ada, &location, 1_000, body).send());
    for chunk in file[1_000..12 << 20].chunks(64 << 10) {
        sender.send(Ok(Bytes::copy_from_slice(chunk))).await.expect("it is taken");
    }
    let broken = std::io::Error::other("cut");
    sender.send(Err(broken)).await.expect("it is taken");
    sending.await.expect("the task").expect_err("the connection broke");

    // A whole part is there for certain. What else came is kept when the server has noticed the break,
    // perhaps only after it was asked: then it says so.
    let mut at = offset(&ada, &location).await;
    while at < 8 << 20 {
        at = offset(&ada, &location).await;
    }
    assert!(at <= 12 << 20, "not more than was sent: {at}");
    let found = ada.get(&location).await.expect(200);
    assert_eq!((&found["filename"], &found["bytes"]), (&json!("large.csv"), &json!(file.len())));
    let mut answer = send(&ada, &location, at, file[at..].to_vec()).await;
    while answer.status == 409 {
        at = number(&answer);
        answer = send(&ada, &location, at, file[at..].to_vec()).await;
    }
    answer.expect(204);
    assert_eq!(number(&answer), file.len());
    let id = assert_complete(&ada, &location, &file).await;
    assert_eq!(offset(&ada, &location).await, file.len(), "whoever missed the answer learns it");
    let done = complete(&ada, &import(&ada, "import", &id).await).await;
    assert_eq!(done["counts"]["succeeded"], 20_000);
    ada.delete(&location).await.expect_problem(409, "upload_in_use");
    // Of the parts nothing is left.
    let app = &server.running.app;
    let folder = app.config.data_dir().expect("a folder").join("files");
    assert_eq!(
        std::fs::read_dir(folder).expect("files").count(),
        3,
        "the file, the owner, and the folder where files arrive"
    );
    server.stop().await;
}

#[tokio::test]
async fn resumable_upload_checks_offset_and_checksum() {
    let server = Server::start_with(|config| config.upload_limit = "1MiB".parse().expect("a size")).await;
    let ada = server.person("ada", "user").await;
    let location = begin(&ada, "a.csv", 8).await;
    send(&ada, &location, 0, "id\n").await.expect(204);
    for wrong_offset in [0, 2, 4, 8] {
        let answer = send(&ada, &location, wrong_offset, "1\n").await;
        answer.expect_problem(409, "wrong_offset");
        assert_eq!(number(&answer), 3);
    }
    send(&ada, &location, 3, "1\n2\n3\n").await.expect_problem(413, "too_large");
    let unsaid = reqwest::Body::wrap_stream(futures::stream::iter(["1\n", "2\n", "3\n"]).map(Ok::<_, std::io::Error>));
    send(&ada, &location, 3, unsaid).await.expect_problem(413, "too_large");
    let typed = piece(&ada, &location, 3, "1\n2\n\n");
    Answer::of(typed.header("tus-resumable", "0.2.2")).await.expect_problem(412, "precondition_failed");
    let overridden = ada.request(Method::POST, &location).header("x-http-method-override", "DELETE");
    for delete in [ada.request(Method::DELETE, &location), overridden] {
        let delete = delete.header("tus-resumable", "0.2.2");
        Answer::of(delete).await.expect_problem(412, "precondition_failed");
    }
    let other = ada.request(Method::PATCH, &location).header("upload-offset", 3).header("content-type", "text/csv");
    Answer::of(other.body("1\n2\n\n")).await.expect_problem(415, "unsupported_media_type");
    let unplaced = ada.request(Method::PATCH, &location).header("content-type", "application/offset+octet-stream");
    Answer::of(unplaced.body("1\n2\n\n")).await.expect_problem(400, "invalid_parameter");
    assert_eq!(offset(&ada, &location).await, 3, "nothing of all that was taken");
    send(&ada, &location, 3, "1\n2\n\n").await.expect(204);
    assert_complete(&ada, &location, b"id\n1\n2\n\n").await;
    send(&ada, &location, 8, "").await.expect(204);
    send(&ada, &location, 8, "x").await.expect_problem(413, "too_large");

    // What cannot become an upload does not begin, or ends at its first piece.
    let unsaid = ada.request(Method::POST, COLLECTION);
    Answer::of(unsaid).await.expect_problem(400, "invalid_parameter");
    let long = ada.request(Method::POST, COLLECTION).header("upload-length", (1 << 20) + 1);
    Answer::of(long).await.expect_problem(413, "too_large");
    let mut image = b"\x89PNG".to_vec();
    image.resize(500_000, 0);
    let location = begin(&ada, "a.csv", 1 << 20).await;
    send(&ada, &location, 0, image).await.expect_problem(415, "unsupported_media_type");
    Answer::of(ada.request(Method::HEAD, &location)).await.status.is_client_error().then_some(()).expect("it is gone");
    let location = begin(&ada, "b.csv", 5).await;
    send(&ada, &location, 0, "%PDF-").await.expect_problem(415, "unsupported_media_type");
    ada.get(&location).await.expect_problem(404, "not_found");
    server.stop().await;
}

#[tokio::test]
async fn concurrent_senders_at_one_offset_are_serialized() {
    let server = Server::start().await;
    let other = server.another().await;
    let ada = server.person("ada", "user").await;
    let there = other.with_cookie(ada.cookie());
    let file = table(100);
    let location = begin(&ada, "a.csv", file.len()).await;
    let mut at = 0;
    let mut refused = 0;
    while at < file.len() {
        let next = (at + 7_000).min(file.len());
        let both =
            [send(&ada, &location, at, file[at..next].to_vec()), send(&there, &location, at, file[at..next].to_vec())];
        let mut won = 0;
        for answer in futures::future::join_all(both).await {
            match answer.status.as_u16() {
                204 => won += 1,
                409 => refused += 1,
                status => panic!("{status} {}", answer.text),
            }
        }
        // At the end, both may find that there is nothing left to be done.
        assert!(won == 1, "{won} were first at {at}");
        at = next;
    }
    assert!(refused > 0);
    assert_complete(&there, &location, &file).await;
    server.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn acknowledged_upload_bytes_survive_server_crash() {
    let server = Server::start().await;
    let app = server.running.app.clone();
    let file = table(15_000);
    let own = server.spawn_program().await;
    let location = begin(&own.api, "a.csv", file.len()).await;
    send(&own.api, &location, 0, file[..100_000].to_vec()).await.expect(204);
    // It is killed in the middle of a piece of which a part has been counted.
    let (sender, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let body = reqwest::Body::wrap_stream(tokio_stream::wrappers::ReceiverStream::new(receiver));
    let sending = tokio::spawn(piece(&own.api, &location, 100_000, body).send());
    for chunk in file[100_000..10 << 20].chunks(64 << 10) {
        sender.send(Ok(Bytes::copy_from_slice(chunk))).await.expect("it is taken");
    }
    let counted = 100_000 + (8 << 20);
    while offset(&server, &location).await < counted {}
    drop(own);
    drop(sender);
    sending.await.expect("the task").expect_err("the server is gone");
    assert_eq!(offset(&server, &location).await, counted);

    // Killed again when the last byte is in and the file is not yet put together: whoever asks has it done.
    let id = location.rsplit('/').next().expect("an id");
    send(&server, &location, counted, file[counted..file.len() - 10].to_vec()).await.expect(204);
    let last = app
        .files
        .receive(futures::stream::iter([Ok::<_, String>(Bytes::copy_from_slice(&file[file.len() - 10..]))]), 10);
    let last = last.await.expect("arrives");
    app.files.keep(&last).await.expect("kept");
    sqlx::query(
        "with moved as (update upload_partial set received = bytes where id::text = $1 returning id, bytes)
         insert into upload_part select id, bytes - 10, 10, $2::uuid from moved",
    )
    .bind(id)
    .bind(last.id.to_string())
    .execute(&app.pool)
    .await
    .expect("as a killed server leaves it");
    server.get(&format!("/api/v1/uploads/{id}")).await.expect_problem(404, "not_found");
    assert_eq!(offset(&server, &location).await, file.len());
    assert_complete(&server, &location, &file).await;
    server.stop().await;
}

#[tokio::test]
async fn resumable_upload_is_private_and_expires() {
    let server = Server::start_with(|config| config.files.upload_ttl_seconds = 2).await;
    let (ada, eve) = (server.person("ada", "user").await, server.person("eve", "user").await);
    let (support, reader) = (server.person("sue", "support").await, server.service("r", &["jobs:read"]).await);
    let app = &server.running.app;
    let location = begin(&ada, "a.csv", 8).await;
    send(&ada, &location, 0, "id\n1").await.expect(204);
    for nobody in [&eve, &support] {
        nobody.get(&location).await.expect_problem(404, "not_found");
        send(nobody, &location, 4, "\n2\n").await.expect_problem(404, "not_found");
        nobody.delete(&location).await.expect_problem(404, "not_found");
    }
    reader.get(&location).await.expect_problem(403, "forbidden");
    Answer::of(reader.request(Method::POST, COLLECTION).header("upload-length", 5))
        .await
        .expect_problem(403, "forbidden");
    // A part is no orphan.
    assert_eq!(server::uploads::sweep_orphans(&app.pool, &app.files, Duration::ZERO).await.expect("swept"), 0);

    let taken_back = begin(&ada, "b.csv", 8).await;
    send(&ada, &taken_back, 0, "id\n1").await.expect(204);
    ada.delete(&taken_back).await.expect(204);
    ada.get(&taken_back).await.expect_problem(404, "not_found");

    while ada.get(&location).await.status == 200 {}
    send(&ada, &location, 4, "\n2\n").await.expect_problem(404, "not_found");
    assert_eq!(server::uploads::sweep_orphans(&app.pool, &app.files, Duration::ZERO).await.expect("swept"), 0);
    let folder = app.config.data_dir().expect("a folder").join("files");
    while std::fs::read_dir(&folder).expect("files").count() > 2 {}
    server.stop().await;
}

#[tokio::test]
async fn resumable_upload_to_s3_bucket() {
    let bucket = Bucket::start().await;
    let server = Server::start_with(|config| bucket.configure(&mut config.files)).await;
    let other = server.another_with(|config| bucket.configure(&mut config.files)).await;
    let file = table(12_000);
    let key = server.request(Method::POST, &format!("{COLLECTION}?filename=a.csv")).header("idempotency-key", "k");
    let location = Answer::of(key.header("upload-length", file.len())).await.headers["location"].clone();
    let location = location.to_str().expect("text").to_owned();
    let again = server.request(Method::POST, &format!("{COLLECTION}?filename=a.csv")).header("idempotency-key", "k");
    let again = Answer::of(again.header("upload-length", file.len())).await;
    assert_eq!(again.headers["location"], location.as_str(), "the same key is the same file");
    let mut at = 0;
    for (turn, next) in [3, 9 << 20, 10 << 20, file.len()].into_iter().enumerate() {
        let api: &Api = if turn % 2 == 0 { &server } else { &other };
        assert_eq!(offset(api, &location).await, at);
        send(api, &location, at, file[at..next].to_vec()).await.expect(204);
        at = next;
    }
    let id = assert_complete(&other, &location, &file).await;
    assert_eq!((bucket.objects(), bucket.unfinished()), (vec![format!("a/prefix/{id}")], 0));
    other.delete(&location).await.expect(204);
    assert_eq!(bucket.objects(), [""; 0]);
    server.stop().await;
    other.stop().await;
}
