//! Languages of the pages: by the browser, by choice, and from files.

use std::fs;

use reqwest::Method;
use serde_json::json;

use crate::support::{
    Answer, Api, Server,
    imports::{complete, import, upload},
};

/// A page for a browser that asks for these languages. Without hydration markers and the texts that scripts carry.
async fn page(caller: &Api, path: &str, accepted: &str) -> String {
    let answer = Answer::of(caller.request(Method::GET, path).header("accept-language", accepted)).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    assert_eq!(answer.headers["vary"], "cookie, accept-language", "{path}");
    without_data(&answer.text)
}

fn without_data(html: &str) -> String {
    let html = html.replace("<!>", "");
    let (before, rest) = html.split_once(" data-words=\"").expect("texts of the scripts");
    let (_, after) = rest.split_once('"').expect("their end");
    format!("{before}{after}")
}

/// Plain texts of the English catalog of more than one word.
fn english_phrases() -> Vec<String> {
    let catalog = include_str!("../../../app/languages/en.ftl");
    let german = include_str!("../../../app/languages/de.ftl");
    let plain = |line: &&str| line.contains(" = ") && !line.contains('{');
    let phrases =
        catalog.lines().filter(plain).filter(|line| !german.contains(*line)).filter_map(|line| line.split_once(" = "));
    let phrases: Vec<String> =
        phrases.map(|(_, text)| text).filter(|text| is_telling(text)).map(ToString::to_string).collect();
    assert!(phrases.len() > 150, "{}", phrases.len());
    phrases
}

/// Long enough, or a sentence: short ones are also within other words.
fn is_telling(text: &str) -> bool {
    text.contains(' ') && (text.len() > 13 || text.starts_with(char::is_uppercase))
}

fn assert_german(path: &str, html: &str) {
    assert!(html.contains("<html lang=\"de"), "{path}: {html}");
    let left: Vec<String> = english_phrases().into_iter().filter(|text| html.contains(text.as_str())).collect();
    assert_eq!(left, Vec::<String>::new(), "{path}");
    for word in [
        ">Imports<",
        ">Jobs<",
        ">Sign out<",
        ">Search<",
        " rows<",
        " rows ",
        " rows.",
        " failed<",
        ">Line<",
        ">Results<",
        " done<",
        "Uploaded",
        " ago<",
        ">Waiting<",
    ] {
        assert!(!html.contains(word), "{path}: {word} in {html}");
    }
}

/// Walks from sign-in to the page of an import with failed rows.
async fn walk(server: &Server, ada: &Api, accepted: &str) {
    let schema = json!({"type": "object", "properties": {"amount": {"type": "integer"}}});
    let spec =
        json!({"executor": {"kind": "builtin", "name": "validate"}, "max_failures": 1, "payload_schema": schema});
    let made = server.put("/api/v1/job-types/numbers", spec).await;
    assert!(made.status.is_success(), "{}", made.text);
    let file = upload(ada, "marz.csv", "amount\n1\nx\n3\n").await;
    let job = complete(ada, &import(ada, "numbers", &file).await).await;
    let id = job["id"].as_str().expect("an id");
    let review = format!("/imports/new?upload_id={file}&type=numbers");
    let (own, correct) = (format!("/imports/{id}"), format!("/imports/{id}/correct"));
    for (path, text) in [
        ("/imports", "Letzte Importe"),
        ("/imports/new", "Dateien zum Importieren hier ablegen"),
        (&review, "2 Zeilen sind bereit, 1 ist zu prüfen"),
        (&own, "2 von 3 Zeilen sind importiert. 1 Zeile müssen Sie prüfen."),
        (&correct, "1 Zeile korrigieren"),
    ] {
        let html = page(ada, path, accepted).await;
        assert!(html.contains(text), "{path}: {text} in {html}");
        assert_german(path, &html);
    }
    let reason = page(ada, &own, accepted).await;
    assert!(reason.contains("erwartet: eine ganze Zahl"), "{reason}");
}

#[tokio::test]
async fn an_import_is_german_by_accept_language_and_by_choice() {
    let server = Server::start().await;
    let stranger = server.stranger();
    let sign_in = page(&stranger, "/sign-in", "de-AT,de;q=0.9,en;q=0.5").await;
    assert!(
        sign_in.contains("<html lang=\"de-AT\"") && sign_in.contains("Kein Konto oder Passwort vergessen?"),
        "{sign_in}"
    );
    assert_german("/sign-in", &sign_in);
    let ada = server.person("ada", "user").await;
    walk(&server, &ada, "fr, de;q=0.7").await;
    // By choice, whatever the browser asks for; it holds for a new session, too.
    let eve = server.person("eve", "user").await;
    assert!(page(&eve, "/imports", "en-US").await.contains("Recent imports"));
    let chosen = eve.form("/language", &[("language", "de"), ("back", "/account?done=language")]).await;
    assert_eq!(
        (chosen.status.as_u16(), &chosen.headers["location"].to_str().expect("text")),
        (303, &"/account?done=language")
    );
    let account = page(&eve, "/account?done=language", "en-US").await;
    assert!(account.contains("Ihre Sprache ist gespeichert."), "{account}");
    walk(&server, &eve, "en-US").await;
    // An unknown language removes the choice.
    eve.form("/language", &[("language", "xx"), ("back", "https://evil.example")]).await;
    assert!(page(&eve, "/imports", "en-US").await.contains("Recent imports"));
    server.stop().await;
}

#[tokio::test]
async fn the_sign_in_page_remembers_its_language_in_the_browser() {
    let server = Server::start().await;
    let stranger = server.stranger();
    assert!(page(&stranger, "/sign-in", "en").await.contains("action=\"/language\""));
    let chosen = stranger.form("/language", &[("language", "de"), ("back", "/sign-in")]).await;
    let cookie = chosen.headers["set-cookie"].to_str().expect("text").split(';').next().expect("a cookie").to_owned();
    assert_eq!(cookie, "treeline_language=de");
    assert_german("/sign-in", &page(&server.with_cookie(&cookie), "/sign-in", "en").await);
    server.stop().await;
}

#[tokio::test]
async fn a_language_is_added_by_file_and_a_bad_file_is_refused() {
    let server = Server::start().await;
    let folder = tempfile::TempDir::new().expect("a folder");
    fs::write(folder.path().join("fr.ftl"), "language-name = Français\nsignin-title = Connexion\n").expect("a file");
    let french = server.another_with(|config| config.languages_dir = Some(folder.path().to_owned())).await;
    let html = page(&french.stranger(), "/sign-in", "fr-CA, en;q=0.2").await;
    assert!(html.contains("<html lang=\"fr-CA\"") && html.contains("<h1>Connexion</h1>"), "{html}");
    // Texts that the file lacks are English.
    assert!(html.contains("Email address") && html.contains("Français"), "{html}");
    french.stop().await;
    fs::write(folder.path().join("fr.ftl"), "signin-title = Connexion\nsignin-with = Par { $qui }\n").expect("a file");
    let refused = server.try_another_with(|config| config.languages_dir = Some(folder.path().to_owned())).await;
    let why = format!("{:#}", refused.expect_err("refused"));
    assert!(why.contains("fr.ftl, line 2: expected these placeholders in signin-with: $provider; found $qui"), "{why}");
    server.stop().await;
}
