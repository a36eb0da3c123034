//! Accounts of people whom a proxy names: linked by the proxy's name, or by an email address set by an admin, and by
//! nothing that people choose themselves elsewhere.
//!
//! Separate from `proxy_header`, which tests when the header counts.

use serde_json::json;
use server::config::{Config, identity::Providers};

use crate::{
    factors::{PASSWORD, person},
    oidc::{provider::Idp, sign_in, signed_in},
    proxy_header::{named, session, settings},
    support::Server,
};

/// A server that trusts a provider and a proxy.
async fn start(idp: &Idp) -> Server {
    let provider = idp.settings("idp", &[]);
    Server::start_with(|config: &mut Config| {
        settings(config);
        config.identity.oidc_providers = Providers(vec![provider]);
    })
    .await
}

/// Name of the account that the proxy signs in.
async fn account(server: &Server, user: &str) -> String {
    let begun = named(server, "/sign-in", user, None).await;
    let me = named(server, "/api/v1/me", user, Some(&session(&begun))).await.expect(200);
    me["name"].as_str().expect("a name").to_owned()
}

#[tokio::test]
async fn proxy_user_is_not_matched_with_oidc_user_name() {
    let idp = Idp::start().await;
    let server = start(&idp).await;
    let claims = json!({"sub": "eve", "name": "ada", "email": "ada@example.com", "email_verified": true});
    let eve = signed_in(&server, &sign_in(&server, &idp, "/sign-in/oidc/idp", claims).await);
    assert_eq!(eve.get("/api/v1/me").await.expect(200)["name"], "ada");
    // The proxy's Ada gets an account of her own, again and again the same.
    assert_eq!(account(&server, "ada").await, "ada (2)");
    assert_eq!(account(&server, "ada").await, "ada (2)");
    // Nor does an address count that a provider only said was hers.
    let refused = named(&server, "/sign-in", "ada@example.com", None).await;
    assert!(refused.status == 401 && refused.text.contains("Ask an admin"), "{}", refused.text);
    assert!(!refused.headers.contains_key("set-cookie"), "{:?}", refused.headers);

    // The other way round: whoever the proxy named first is nobody's at the provider.
    assert_eq!(account(&server, "grace").await, "grace");
    let claims = json!({"sub": "mallory", "name": "grace"});
    let mallory = signed_in(&server, &sign_in(&server, &idp, "/sign-in/oidc/idp", claims).await);
    assert_eq!(mallory.get("/api/v1/me").await.expect(200)["name"], "grace (2)");
    assert_eq!(account(&server, "grace").await, "grace");
    server.stop().await;
}

#[tokio::test]
async fn admin_links_proxy_user_to_account() {
    let server = Server::start_with(settings).await;
    // A name alone says nothing, an address that an admin has set does.
    let by_name = person(&server, "bob", "support").await;
    assert_eq!(account(&server, "bob@example.com").await, "bob");
    let new = json!({"name": "Carol", "email": "carol@example.com", "password": PASSWORD, "proxy_user": "carol"});
    let carol = server.post("/api/v1/users", new).await.expect(201)["id"].as_str().expect("an id").to_owned();
    assert_eq!(account(&server, "carol").await, "Carol");
    let (bob, carol) = (format!("/api/v1/users/{by_name}"), format!("/api/v1/users/{carol}"));
    let taken = server.patch(&bob, json!({"proxy_user": "carol"})).await.expect_problem(409, "duplicate");
    assert!(carol.ends_with(taken["id"].as_str().expect("whose it is")), "{taken}");
    for invalid in ["bob, carol", "b\u{f6}b", " bob"] {
        let refused = server.patch(&bob, json!({"proxy_user": invalid})).await.expect_problem(422, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], "/proxy_user", "{invalid}");
    }
    // In place of every other name, and the sessions that those began end.
    let begun = session(&named(&server, "/sign-in", "carol", None).await);
    let changed = server.patch(&carol, json!({"proxy_user": "carol.2"})).await.expect(200);
    let listed = server.get("/api/v1/users?limit=1000").await.expect(200);
    let listed = listed["data"].as_array().expect("people").iter().find(|user| user["name"] == "Carol").expect("Carol");
    assert_eq!((&changed["proxy_user"], &listed["proxy_user"]), (&json!("carol.2"), &json!("carol.2")));
    named(&server, "/api/v1/me", "carol", Some(&begun)).await.expect_problem(401, "unauthenticated");
    assert_eq!(account(&server, "carol.2").await, "Carol");
    assert_eq!(account(&server, "carol").await, "carol");
    // An address that went to somebody else takes the proxy's name along.
    server.patch(&bob, json!({"email": "bob.old@example.com"})).await.expect(200);
    let new = json!({"name": "Bob the younger", "email": "bob@example.com", "password": PASSWORD});
    server.post("/api/v1/users", new).await.expect(201);
    assert_eq!(account(&server, "bob@example.com").await, "Bob the younger");
    let entries = server.get("/api/v1/audit?action=user.proxy_user").await.expect(200);
    assert_eq!(entries["data"][0]["detail"], "bob@example.com, by the email address", "{entries}");
    server.stop().await;
}

#[tokio::test]
async fn concurrent_first_proxy_sign_ins_create_one_account() {
    let server = Server::start_with(settings).await;
    let begun = futures::future::join_all((0..6).map(|_| named(&server, "/sign-in", "ada", None))).await;
    for begun in begun {
        assert_eq!(begun.status, 303, "{}", begun.text);
    }
    let people = "select count(*) from owner where kind = 'user'";
    let people: i64 = sqlx::query_scalar(people).fetch_one(&server.running.app.pool).await.expect("a number");
    assert_eq!(people, 1);
    server.stop().await;
}
