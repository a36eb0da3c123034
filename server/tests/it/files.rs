//! Where files are kept and for how long, and how little memory they take.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use sqlx::Executor as _;

use crate::support::{
    Answer, Server,
    imports::{complete, import, upload},
    program::peak_kib,
    s3::Bucket,
    xlsx::workbook,
};

#[tokio::test]
async fn files_that_nobody_needs_go() {
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
    let hour = Duration::from_hours(1);
    assert_eq!(server::uploads::sweep_orphans(&app.pool, &app.files, hour).await.expect("swept"), 0);
    assert_eq!(server::uploads::sweep_orphans(&app.pool, &app.files, Duration::ZERO).await.expect("swept"), 1);
    assert_eq!(server.get(&format!("{used}/preview")).await.expect(200)["rows"][0]["cells"], json!(["1"]));

    // With its last job the file goes, and what was made of it.
    assert_eq!(job["outcome"], "succeeded");
    app.pool.execute("delete from split; delete from job").await.expect("retention");
    while server.get(&used).await.status == 200 {}
    assert_eq!(server::uploads::sweep_orphans(&app.pool, &app.files, Duration::ZERO).await.expect("swept"), 1);
    let folder = app.config.data_dir().expect("a folder").join("files");
    assert_eq!(std::fs::read_dir(folder).expect("files").count(), 1, "the folder where files arrive");
    server.stop().await;
}

#[tokio::test]
async fn a_bucket_keeps_files_as_a_folder_does() {
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
async fn a_long_file_takes_little_memory() {
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
