//! Storage and lifetime of files, and bounded memory.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use serde_json::json;
use sqlx::Executor as _;

use crate::{
    retention::until,
    support::{
        Answer, Server,
        imports::{complete, import, upload},
        program::peak_kib,
        s3::Bucket,
        xlsx::workbook,
    },
};

#[tokio::test]
async fn unreferenced_files_are_deleted() {
    let server = Server::start_with(|config| config.files.upload_ttl_seconds = 1).await;
    let app = &server.running.app;
    let unused = format!("/api/v1/uploads/{}", upload(&server, "unused.csv", "id\n1\n").await);
    let row = "<row><c><v>1</v></c></row>";
    let used = upload(&server, "used.xlsx", workbook(&[("a", &row.repeat(2))], &[])).await;
    let job = complete(&server, &import(&server, "import", &used).await).await;
    while server.get(&unused).await.status == 200 {}
    server.get(&unused).await.expect_problem(404, "not_found");
    let used = format!("/api/v1/uploads/{used}");
    server.delete(&used).await.expect_problem(409, "upload_in_use");

    // Something that a crash has left: not yet old, it stays; then it goes, and nothing else does.
    let lost =
        app.files.receive(futures::stream::iter([Ok::<_, String>(Bytes::from("x"))]), 10).await.expect("arrives");
    app.files.keep(&lost).await.expect("kept");
    let sweep = async |age| server::uploads::sweep_orphans(&app.pool, &app.files, age).await.expect("swept");
    assert_eq!(sweep(Duration::from_hours(1)).await, 0);
    until(async || sweep(Duration::ZERO).await == 1).await;
    assert_eq!(server.get(&format!("{used}/preview")).await.expect(200)["rows"][0]["cells"], json!(["1"]));

    // With its last job the file goes, and what was made of it.
    assert_eq!(job["outcome"], "succeeded");
    app.pool.execute("delete from import_cursor; delete from job").await.expect("retention");
    while server.get(&used).await.status == 200 {}
    let folder = app.config.data_dir().expect("a folder").join("files");
    // The owner, and the folder where files arrive.
    until(async || std::fs::read_dir(&folder).expect("files").count() == 2).await;
    assert_eq!(sweep(Duration::ZERO).await, 0);
    server.stop().await;
}

#[tokio::test]
async fn files_of_another_database_stay() {
    let server = Server::start().await;
    let folder = server.running.app.config.data_dir().expect("a folder");
    let owner = folder.join("files/deployment");
    until(async || owner.exists()).await;
    let file = upload(&server, "a.csv", "id\n1\n").await;
    // A typo in DATABASE_URL, or an empty database. Only this test looks for files that it does not know.
    let foreign = Server::start_with(|config| {
        config.data_dir = Some(folder.clone());
        config.roles = "web".parse().expect("a role");
    })
    .await;
    // Databases of tests are copies of one, and so are their ids.
    let other = "update deployment set id = gen_random_uuid()";
    foreign.running.app.pool.execute(other).await.expect("another id");
    let sweep = async |server: &Server| {
        let app = &server.running.app;
        server::uploads::sweep_orphans(&app.pool, &app.files, Duration::ZERO).await.expect("swept")
    };
    assert_eq!(sweep(&foreign).await, 0);
    // A store of an earlier version has no owner; one with unknown files does not get it from another database.
    std::fs::remove_file(&owner).expect("removed");
    assert_eq!(sweep(&foreign).await, 0);
    assert!(!owner.exists());
    // Not even if most files are its own: two databases may share a store.
    let others = [upload(&foreign, "b.csv", "id\n1\n").await, upload(&foreign, "c.csv", "id\n1\n").await];
    assert_eq!(sweep(&foreign).await, 0);
    assert!(!owner.exists());
    for other in others {
        foreign.delete(&format!("/api/v1/uploads/{other}")).await.expect(204);
    }
    assert_eq!(sweep(&server).await, 0);
    assert!(owner.exists());
    // One file in a hundred that a crash has left does not make the store another's. It goes later, not when the store gets
    // its owner.
    std::fs::remove_file(&owner).expect("removed");
    let known = futures::future::join_all((1..100).map(|_| upload(&server, "a.csv", "id\n1\n"))).await;
    assert_eq!(known.len(), 99);
    let files = &server.running.app.files;
    let lost = files.receive(futures::stream::iter([Ok::<_, String>(Bytes::from("x"))]), 10).await.expect("arrives");
    files.keep(&lost).await.expect("kept");
    assert_eq!(sweep(&server).await, 0);
    assert!(owner.exists());
    until(async || sweep(&server).await == 1).await;
    assert_eq!(server.get(&format!("/api/v1/uploads/{file}/content")).await.text, "id\n1\n");
    foreign.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn s3_bucket_stores_files_like_a_folder() {
    let bucket = Bucket::start().await;
    let server = Server::start_with(|config| bucket.configure(&mut config.files)).await;
    let other = server.another_with(|config| bucket.configure(&mut config.files)).await;
    let rows: String = (0..100_000).map(|row| format!("{row},{}\n", "x".repeat(200))).collect();
    let file = format!("id,text\n{rows}");
    let large = upload(&server, "large.csv", file.clone()).await;
    assert_eq!(bucket.objects(), [format!("a/prefix/{large}")], "in parts, and whole");
    assert!(bucket.parts() > 1);
    let content = other.get(&format!("/api/v1/uploads/{large}/content")).await.text;
    assert!(content == file, "the same bytes from the other server");
    let small = upload(&server, "small.csv", "id\n1\n2\n").await;
    let job = complete(&other, &import(&server, "import", &small).await).await;
    assert_eq!(job["counts"]["succeeded"], 2);

    // Half a file is none.
    let half = futures::stream::iter([Ok(Bytes::from(vec![b'x'; 20 << 20])), Err("broken off")]);
    let files = &server.running.app.files;
    files.receive(half, u64::MAX).await.expect_err("broken off");
    assert_eq!((bucket.objects().len(), bucket.unfinished()), (2, 0));
    server.delete(&format!("/api/v1/uploads/{large}")).await.expect(204);
    let found = server::uploads::sweep_orphans(&other.running.app.pool, files, Duration::ZERO).await;
    assert_eq!(found.expect("swept"), 0);
    assert_eq!(bucket.objects(), [format!("a/prefix/{small}")]);
    server.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn large_file_uses_bounded_memory() {
    const MIB: usize = 60;
    let server = Server::start().await;
    // Another process, as this one runs other stories too. Only it cuts: ours is away.
    let own = server.spawn_program().await;
    let api = own.api.clone();
    server.running.app.shutdown.cancel();
    let before = peak_kib(own.process) >> 10;
    for (name, begin, row, end) in [("long.csv", "text\n", "", "\n"), ("long.json", "[0\n", ",\n\"", "\"\n")] {
        // Lines of 10 MiB: too long to be rows, so that the file is long and the database is not.
        let pieces = (0..MIB).map(move |at| {
            let mut piece = vec![b'x'; 1 << 20];
            if at % 10 == 0 {
                piece.splice(..0, row.bytes());
            } else if at % 10 == 9 {
                piece.extend(end.bytes());
            }
            Ok::<_, std::io::Error>(piece)
        });
        let first = std::iter::once(Ok(begin.as_bytes().to_vec()));
        let last = (name == "long.json").then(|| Ok(b"]".to_vec()));
        let body = reqwest::Body::wrap_stream(futures::stream::iter(first.chain(pieces).chain(last)));
        let id = upload(&api, name, body).await;
        let job = complete(&api, &import(&api, "import", &id).await).await;
        let good = i64::from(name != "long.csv");
        assert_eq!((&job["counts"]["dead"], &job["counts"]["succeeded"]), (&json!(MIB / 10), &json!(good)), "{name}");
        let answer = Answer::of(api.request(reqwest::Method::GET, &format!("/api/v1/uploads/{id}/content"))).await;
        assert!(answer.text.len() > MIB << 20, "{name} comes back whole");
    }
    let after = peak_kib(own.process) >> 10;
    assert!(after < before + 35, "from {before} MiB to {after} MiB with files of {MIB} MiB");
    drop(own);
    server.stop().await;
}

#[tokio::test]
async fn interrupted_download_resumes_from_folder_and_bucket() {
    let bucket = Bucket::start().await;
    for in_bucket in [false, true] {
        let server = if in_bucket {
            Server::start_with(|config| bucket.configure(&mut config.files)).await
        } else {
            Server::start().await
        };
        let id = upload(&server, "a.csv", "0123456789").await;
        let path = format!("/api/v1/uploads/{id}/content");
        let whole = server.get(&path).await;
        let tag = whole.headers["etag"].to_str().expect("text").to_owned();
        assert_eq!((whole.status.as_u16(), whole.text.as_str()), (200, "0123456789"));
        assert_eq!((whole.headers["accept-ranges"].as_bytes(), tag.len()), (&b"bytes"[..], 66));
        let download = |range: &'static str, tag: Option<&str>| {
            let mut request = server.request(Method::GET, &path).header("range", range);
            if let Some(tag) = tag {
                request = request.header("if-range", tag);
            }
            Answer::of(request)
        };
        for (range, text, content_range) in [
            ("bytes=4-", "456789", "bytes 4-9/10"),
            ("bytes=2-3", "23", "bytes 2-3/10"),
            ("bytes=-1", "9", "bytes 9-9/10"),
        ] {
            let part = download(range, Some(&tag)).await;
            assert_eq!((part.status.as_u16(), part.text.as_str()), (206, text), "{range}");
            assert_eq!(part.headers["content-range"], content_range);
            assert_eq!(part.headers["content-length"], text.len().to_string().as_str());
        }
        let known = server.request(Method::GET, &path).header("if-none-match", format!("\"other\", {tag}"));
        Answer::of(known).await.expect(304);
        let head = server.request(Method::HEAD, &path).header("range", "bytes=4-");
        let head = Answer::of(head).await;
        assert_eq!((head.status.as_u16(), head.headers["content-length"].as_bytes()), (200, &b"10"[..]));
        // Another file, and several ranges: all of it.
        assert_eq!(download("bytes=4-", Some("\"other\"")).await.text, "0123456789");
        assert_eq!(download("bytes=0-1,4-5", None).await.status, 200);
        let outside = download("bytes=10-", None).await;
        outside.expect_problem(416, "range_not_satisfiable");
        assert_eq!(outside.headers["content-range"], "bytes */10");
        server.stop().await;
    }
}

#[tokio::test]
async fn files_of_deleted_tree_are_deleted() {
    let server = Server::start().await;
    let row = "<row><c><v>1</v></c></row>";
    let used = upload(&server, "used.xlsx", workbook(&[("a", &row.repeat(2))], &[])).await;
    let job = complete(&server, &import(&server, "import", &used).await).await;
    let second = complete(&server, &import(&server, "import", &used).await).await;
    let path = |job: &serde_json::Value| format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"));
    let order = json!({"job_id": second["id"], "what": "results", "format": "csv"});
    let export = json!({"type": "export", "sealed": true, "items": [{"payload": order}]});
    let export = server.post("/api/v1/jobs", export).await.expect(201);
    let export = complete(&server, &export).await;
    let folder = server.running.app.config.data_dir().expect("a folder").join("files");
    // The workbook, its lines, the export, the owner of the store, and the folder where files arrive.
    let files = || std::fs::read_dir(&folder).expect("files").count();
    assert_eq!(files(), 5);
    server.delete(&path(&job)).await.expect(204);
    server.delete(&path(&export)).await.expect(204);
    until(async || files() == 4).await;
    server.get(&format!("/api/v1/uploads/{used}")).await.expect(200);
    server.delete(&path(&second)).await.expect(204);
    until(async || files() == 2).await;
    server.get(&format!("/api/v1/uploads/{used}")).await.expect_problem(404, "not_found");
    server.stop().await;
}

#[tokio::test]
async fn sheets_of_a_deleted_workbook_are_deleted_with_it() {
    let server = Server::start().await;
    let row = "<row><c><v>1</v></c></row>";
    let folder = server.running.app.config.data_dir().expect("a folder").join("files");
    // Without the mark of the owner, which a background task writes.
    let names = || std::fs::read_dir(&folder).expect("files").map(|entry| entry.expect("an entry").file_name());
    let files = || names().filter(|name| name != "deployment").count();
    let id = upload(&server, "unused.xlsx", workbook(&[("a", row), ("b", row)], &[])).await;
    let uploaded = files();
    for sheet in ["a", "b"] {
        server.get(&format!("/api/v1/uploads/{id}/preview?sheet={sheet}")).await.expect(200);
    }
    assert_eq!(files(), uploaded + 2, "the lines of two sheets");
    server.delete(&format!("/api/v1/uploads/{id}")).await.expect(204);
    assert_eq!(files(), uploaded - 1);
    server.stop().await;
}
