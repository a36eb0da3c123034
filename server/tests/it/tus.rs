//! Protocol requirements of tus 1.0 besides receiving bytes: discovery, headers on every response, refusals that
//! clients understand.
//!
//! Separate from `resumable.rs`, which covers the bytes. Interoperability is tested with tus-js-client
//! (`testing/clients`).

use reqwest::Method;

use crate::support::{Answer, Server};

const COLLECTION: &str = "/api/v1/uploads/resumable";

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).unwrap_or_else(|| panic!("{name} is missing")).to_str().expect("text")
}

#[tokio::test]
async fn tus_options_need_no_credential() {
    let server = Server::start_with(|config| config.upload_limit = "1MiB".parse().expect("a size")).await;
    let stranger = server.stranger();
    let id = format!("{COLLECTION}/0190a5e0-0000-7000-8000-000000000000");
    for location in [COLLECTION, id.as_str()] {
        let answer = Answer::of(stranger.request(Method::OPTIONS, location)).await;
        assert_eq!(answer.status, 204, "{location}");
        assert_eq!(header(&answer, "tus-version"), "1.0.0");
        assert_eq!(header(&answer, "tus-resumable"), "1.0.0");
        assert_eq!(header(&answer, "tus-extension"), "creation,termination,expiration");
        assert_eq!(header(&answer, "tus-max-size"), "1048576");
    }
    server.stop().await;
}

#[tokio::test]
async fn tus_version_header_on_every_response() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let missing = format!("{COLLECTION}/0190a5e0-0000-7000-8000-000000000000");
    let unknown = Answer::of(ada.request(Method::HEAD, &missing)).await;
    let stranger = Answer::of(server.stranger().request(Method::POST, COLLECTION)).await;
    let unsaid = Answer::of(ada.request(Method::POST, COLLECTION)).await;
    let untaken = Answer::of(ada.request(Method::PUT, &missing)).await;
    let posted = Answer::of(ada.request(Method::POST, &missing)).await;
    let answers = [(&unknown, 404), (&stranger, 401), (&unsaid, 400), (&untaken, 405), (&posted, 405)];
    for (answer, status) in answers {
        assert_eq!(answer.status, status);
        assert_eq!(header(answer, "tus-resumable"), "1.0.0", "{status}");
    }
    let other = ada.request(Method::POST, COLLECTION).header("upload-length", 3).header("tus-resumable", "0.2.2");
    let other = Answer::of(other).await;
    other.expect_problem(412, "precondition_failed");
    assert_eq!(header(&other, "tus-version"), "1.0.0");
    // Uploads that come at once speak no tus.
    assert!(
        ada.get("/api/v1/uploads/0190a5e0-0000-7000-8000-000000000000").await.headers.get("tus-resumable").is_none()
    );
    server.stop().await;
}

#[tokio::test]
async fn tus_upload_metadata_is_returned() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let metadata = "filetype dGV4dC9jc3Y=,filename YS5jc3Y=, is_confidential";
    let begun = ada.request(Method::POST, COLLECTION).header("upload-length", 6).header("upload-metadata", metadata);
    let begun = Answer::of(begun).await;
    assert_eq!(begun.expect(201)["filename"], "a.csv");
    let expires = httpdate::parse_http_date(header(&begun, "upload-expires")).expect("a date");
    assert!(expires > std::time::SystemTime::now());
    let location = header(&begun, "location").to_owned();
    let head = Answer::of(ada.request(Method::HEAD, &location)).await;
    assert_eq!(header(&head, "upload-metadata"), metadata);
    assert!(head.headers.contains_key("upload-expires"));

    for (name, value) in [("upload-metadata", "filename %%%"), ("upload-concat", "partial")] {
        let refused = ada.request(Method::POST, COLLECTION).header("upload-length", 6).header(name, value);
        Answer::of(refused).await.expect_problem(400, "invalid_parameter");
    }
    server.stop().await;
}

#[tokio::test]
async fn tus_method_override_header() {
    let server = Server::start().await;
    let ada = server.person("ada", "user").await;
    let begun =
        Answer::of(ada.request(Method::POST, &format!("{COLLECTION}?filename=a.csv")).header("upload-length", 5)).await;
    let location = header(&begun, "location").to_owned();
    let piece =
        ada.request(Method::POST, &location).header("x-http-method-override", "PATCH").header("upload-offset", 0);
    let piece = Answer::of(piece.header("content-type", "application/offset+octet-stream").body("id\n")).await;
    assert_eq!(piece.status, 204);
    assert_eq!(header(&piece, "upload-offset"), "3");
    let gone = Answer::of(ada.request(Method::POST, &location).header("x-http-method-override", "DELETE")).await;
    assert_eq!(gone.status, 204);
    ada.get(&location).await.expect_problem(404, "not_found");
    server.stop().await;
}
