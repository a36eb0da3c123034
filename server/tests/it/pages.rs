//! Every page is a route of the router and is rendered by `leptos_axum`: the route list is compared with the server's
//! responses. The contents of pages are tested with their subjects.

use reqwest::{Method, header::HeaderValue};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::Server;

/// Path with ids of nonexistent objects.
fn filled(route: &str) -> String {
    let id = uuid::Uuid::now_v7().to_string();
    route.replace("{id}", &id).replace("{token}", "nobody").replace("{name}", "nothing").replace("{*page}", "no/page")
}

#[tokio::test]
async fn page_routes_match_the_list() {
    let server = Server::start().await;
    let admin = server.admin().await;
    let listed: Vec<&str> = server::http::ui::addresses().collect();
    for page in ["/", "/jobs", "/jobs/{id}", "/items/{id}", "/dead", "/imports/new", "/sign-in", "/s/{token}"] {
        assert!(listed.contains(&page), "{page} is not listed");
    }
    for route in listed {
        let answer = admin.get(&filled(route)).await;
        let status = answer.status.as_u16();
        let expected: &[u16] = if route.contains('{') { &[404, 409, 410, 422] } else { &[200, 303] };
        assert!(expected.contains(&status), "{route}: {status}");
        if status == 303 {
            continue;
        }
        assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8", "{route}");
        assert_eq!(answer.headers["content-length"], answer.text.len().to_string().as_str(), "{route}");
        assert!(answer.text.starts_with("<!DOCTYPE html><html"), "{route}: {:.200}", answer.text);
        assert_eq!(answer.text.matches("<html").count(), 1, "{route}");
        // Nothing suspends in the browser, so the renderer's data for that is left out.
        assert!(answer.text.ends_with("</html>"), "{route}: {}", &answer.text[answer.text.len() - 90..]);
        assert!(!answer.text.contains("__RESOLVED") && !answer.text.contains("__INCOMPLETE"), "{route}");
        let (_, nonce) =
            answer.headers["content-security-policy"].to_str().expect("text").split_once("'nonce-").expect("a nonce");
        let nonce = nonce.split('\'').next().expect("its end");
        assert_eq!(answer.text.matches("<script").count(), answer.text.matches(&format!("nonce=\"{nonce}\"")).count());
    }
    let nowhere = admin.get("/no/page").await;
    assert_eq!(nowhere.status, 404);
    assert!(nowhere.text.starts_with("<!DOCTYPE html>"), "{:?} {}", nowhere.headers, nowhere.text);
    assert!(nowhere.text.contains("Page not found"), "{}", nowhere.text);
    server.stop().await;
}

#[tokio::test]
async fn form_action_addresses_redirect_on_get() {
    let server = Server::start().await;
    let admin = server.admin().await;
    for (from, to) in [
        ("/imports/", "/imports"),
        ("/jobs/?q=type%3Aa", "/jobs?q=type%3Aa"),
        ("/account/password", "/account?open=password"),
        ("/services/tokens", "/services?open=tokens"),
        ("/tokens/x/revoke", "/"),
        ("/sign-out", "/"),
    ] {
        let answer = admin.get(from).await;
        assert!(answer.status.is_redirection(), "{from}: {}", answer.status);
        assert_eq!(answer.headers["location"], to, "{from}");
    }
    // Two slashes at the beginning would name another host.
    assert_eq!(admin.get("//example.com/").await.status, 404);
    let refused = admin.delete("/jobs").await;
    assert_eq!(refused.status, 405);
    assert!(refused.text.starts_with("<!DOCTYPE html>"), "{}", refused.text);
    server.stop().await;
}

#[tokio::test]
async fn request_without_path_is_answered() {
    let server = Server::start().await;
    let mut stream = tokio::net::TcpStream::connect(server.running.addr).await.expect("connects");
    stream
        .write_all(b"CONNECT example.com:1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    server.stop().await;
}

/// A URL is decoded in one way: the layers' decision applies to the rendered page.
#[tokio::test]
async fn ambiguous_paths_are_normalized() {
    let server = Server::start().await;
    let admin = server.admin().await;
    assert!(admin.get("/people").await.text.contains("<title>People"));
    for path in [
        r"/sign-in/..\people",
        "/sign-in/%2e%2e",
        "/sign-in/%2e%2e%2fpeople",
        r"/s/..\items",
        r"/jobs/..\audit",
        "/s/../people",
        r"/\example.com/",
    ] {
        let mut stream = tokio::net::TcpStream::connect(server.running.addr).await.expect("connects");
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nConnection: close\r\n\r\n",
            server.running.addr,
            admin.cookie()
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("an answer");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 4"), "{path}: {answer:.300}");
        for page in ["People", "Items", "Audit", "Overview"] {
            assert!(!answer.contains(&format!("<title>{page}")), "{path} shows {page}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn documentation_is_public_and_obeys_the_strict_policy() {
    let server = Server::start().await;
    let (admin, stranger) = (server.admin().await, server.stranger());
    for caller in [&admin, &stranger] {
        let first = caller.get("/docs").await;
        assert_eq!(first.status, 200, "{}", first.text);
        assert!(first.text.contains("<title>Documentation · Treeline</title>"), "{:.400}", first.text);
        assert!(first.text.contains("href=\"/docs/how-to/proxy\""), "{}", first.text);
        let page = caller.get("/docs/how-to/proxy").await;
        assert_eq!(page.status, 200);
        assert!(page.text.contains("href=\"/docs/how-to/proxy\" aria-current=\"page\""), "{}", page.text);
        let policy = page.headers["content-security-policy"].to_str().expect("text");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe-inline"), "{policy}");
        assert!(!page.text.contains(" style="), "{}", page.text);
        for nothing in ["/docs/none", "/docs/README.md", "/docs/gallery/README", "/docs/benchmarks/none.svg"] {
            assert_eq!(caller.get(nothing).await.status, 404, "{nothing}");
        }
    }
    let chart = stranger.get("/docs/benchmarks/depth.svg").await;
    assert_eq!(chart.headers["content-type"], "image/svg+xml");
    assert!(chart.text.contains("<svg"));
    server.stop().await;
}

#[tokio::test]
async fn compressed_pages_fit_into_the_first_segments_of_a_connection() {
    let server = Server::start().await;
    let admin = server.admin().await;
    for path in ["/", "/imports", "/imports/new", "/jobs", "/dead"] {
        let page = admin.request(Method::GET, path).header("accept-encoding", "br").send().await.expect("a page");
        assert_eq!(
            (page.status().as_u16(), &page.headers()["content-encoding"]),
            (200, &HeaderValue::from_static("br"))
        );
        let bytes = page.bytes().await.expect("its bytes").len();
        // A server sends 14.6 kB before it waits; headers take one of them, and rows need the rest.
        assert!(bytes < 13_000, "{path} has {bytes} bytes");
    }
    server.stop().await;
}
