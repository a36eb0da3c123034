//! Several files uploaded with one form: each is stored and reviewed by itself.

use reqwest::{
    Method,
    multipart::{Form, Part},
};

use crate::support::{Answer, Api, Server};

async fn send(caller: &Api, files: &[(&str, &[u8])]) -> Answer {
    let form = files.iter().fold(Form::new(), |form, (name, content)| {
        form.part("file", Part::bytes(content.to_vec()).file_name((*name).to_owned()))
    });
    Answer::of(caller.request(Method::POST, "/imports/new").multipart(form)).await
}

#[tokio::test]
async fn several_files_are_stored_and_each_is_reviewed_by_itself() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let page = ada.get("/imports/new").await.text;
    assert!(page.contains(" multiple"), "{page}");
    let sent = send(&ada, &[("march.csv", b"name\nann\n"), ("april.csv", b"name\nbob\ncy\n")]).await;
    assert_eq!(sent.status, 303, "{}", sent.text);
    let list = sent.headers["location"].to_str().expect("text");
    let page = ada.get(list).await;
    assert_eq!(page.status, 200);
    for name in ["march.csv", "april.csv"] {
        assert!(page.text.contains(name), "{name}: {}", page.text);
    }
    let links: Vec<&str> = page.text.split("href=\"/imports/new?upload_id=").skip(1).collect();
    assert_eq!(links.len(), 2, "{}", page.text);
    for link in links {
        let id = link.split('"').next().expect("an id");
        let review = ada.get(&format!("/imports/new?upload_id={id}")).await;
        assert!(review.text.contains("Review rows"), "{}", review.text);
    }
    // The files of somebody else do not exist.
    assert_eq!(server.person("eve", "user").await.get(list).await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn refused_file_among_several_is_named_with_the_reason() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let page =
        send(&ada, &[("march.csv", b"name\nann\n"), ("scan.pdf", b"%PDF-1.7\n"), ("may.csv", b"name\nbob\n")]).await;
    assert_eq!(page.status, 422, "{}", page.text);
    assert_eq!(page.text.matches("href=\"/imports/new?upload_id=").count(), 2, "{}", page.text);
    assert!(page.text.contains("scan.pdf") && page.text.contains("The file is a PDF"), "{}", page.text);
    // A single one is refused as ever.
    let page = send(&ada, &[("scan.pdf", b"%PDF-1.7\n")]).await;
    assert_eq!(page.status, 422);
    assert!(page.text.contains("This file type is not supported"), "{}", page.text);
    server.stop().await;
}
