//! Pages of alert channels: admins create, change, test and delete by form, support reads, others see nothing.

use serde_json::json;

use crate::{
    callbacks::quick,
    support::{Server, receiver::Receiver},
};

fn fields<'a>(name: &'a str, url: &'a str, from: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("kind", "webhook"),
        ("name", name),
        ("url", url),
        ("secret", "h1dd3n-secret"),
        ("kinds", "worker"),
        ("kinds", "stalled"),
        ("types", "a, b"),
        ("min_count", "2"),
        ("after_seconds", "60"),
        ("send_cleared", "yes"),
        ("quiet", "yes"),
        ("time_zone", "Europe/Berlin"),
        ("from", from),
        ("until", "07:00"),
        ("days", "sunday"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alert_channel_pages_create_edit_test_and_delete() {
    let server = Server::start_with(quick).await;
    let mut receiver = Receiver::start().await;
    let (admin, support) = (server.admin().await, server.person("sam", "support").await);
    assert!(admin.get("/alert-channels").await.text.contains("No alert channels yet"));
    assert!(admin.get("/").await.text.contains("href=\"/alert-channels\""));
    for kind in ["email", "slack", "pagerduty", "webhook"] {
        let form = admin.get(&format!("/alert-channels/new?kind={kind}")).await;
        assert!(form.status == 200 && form.text.contains(&format!("value=\"{kind}\"")), "{}", form.text);
    }
    let url = receiver.url("/?key=h1dd3n");
    for (fields, message) in [
        (fields("Night <b>", "http://10.0.0.1/", "22:00"), "url-fault"),
        (fields("Night <b>", "https://hooks.example/", "25:00"), "from-fault"),
    ] {
        let refused = admin.form("/alert-channels", &fields).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert!(
            refused.text.contains(message) && refused.text.contains("value=\"Night &lt;b&gt;\""),
            "{}",
            refused.text
        );
        let typed_url = fields.iter().find(|(name, _)| *name == "url").expect("a URL").1;
        assert!(refused.text.contains(&format!("value=\"{typed_url}\"")), "{}", refused.text);
        assert!(!refused.text.contains("h1dd3n") && refused.text.contains("enter them again"), "{}", refused.text);
    }
    // A URL that may contain a secret is not written into the page.
    for (kind, url) in [("webhook", "https://hooks.example/?key=h1dd3n"), ("slack", "https://hooks.example/T0/h1dd3n")]
    {
        let secret_url = [("kind", kind), ("name", "x"), ("url", url), ("min_count", "none")];
        let refused = admin.form("/alert-channels", &secret_url).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert!(!refused.text.contains("h1dd3n") && refused.text.contains("enter them again"), "{}", refused.text);
    }
    let made = admin.form("/alert-channels", &fields("Night <b>", &url, "22:00")).await;
    assert_eq!(made.status, 303, "{}", made.text);
    let page = made.headers["location"].to_str().expect("text").split('?').next().expect("a path").to_owned();
    let shown = admin.get(&page).await.text;
    assert!(shown.contains("22:00 to 07:00, Sunday (Europe/Berlin)") && shown.contains("Stalled"), "{shown}");
    assert!(!shown.contains("h1dd3n"), "{shown}");
    let api = format!("/api/v1{page}");
    let stored = server.get(&api).await.expect(200);
    assert_eq!(
        (&stored["kinds"], &stored["types"], &stored["min_count"], &stored["after_seconds"]),
        (&json!(["worker", "stalled"]), &json!(["a", "b"]), &json!(2), &json!(60))
    );

    // Empty fields of secrets change nothing.
    let edited = [("kind", "webhook"), ("name", "Day"), ("min_count", "1"), ("after_seconds", "0")];
    assert_eq!(admin.form(&page, &edited).await.status, 303);
    let stored = server.get(&api).await.expect(200);
    assert_eq!((&stored["name"], &stored["quiet_hours"], &stored["kinds"]), (&json!("Day"), &json!(null), &json!([])));
    let tested = admin.form(&format!("{page}/test"), &[]).await;
    let to = tested.headers["location"].to_str().expect("text").to_owned();
    assert!(tested.status == 303 && to.starts_with("/deliveries/"), "{to}");
    let post = receiver.next().await;
    assert!(post.path == "/?key=h1dd3n" && post.is_signed_by(b"h1dd3n-secret"));
    post.status(204);
    let delivery = admin.get(&to).await.text;
    assert!(delivery.contains("The test is being sent") && delivery.contains("Alert channel"), "{delivery}");
    let list = admin.get("/deliveries").await.text;
    assert!(list.contains(">Day<!></a>, test"), "{list}");

    let read = support.get(&page).await.text;
    assert!(read.contains("Smallest count") && !read.contains("channel-form"), "{read}");
    assert_eq!(support.get("/alert-channels/new").await.status, 403);
    assert_eq!(support.form(&page, &edited).await.status, 403);
    assert_eq!(server.person("ann", "user").await.get("/alert-channels").await.status, 403);
    assert_eq!(admin.form(&format!("{page}/delete"), &[]).await.status, 303);
    assert_eq!(admin.get(&page).await.status, 404);
    server.stop().await;
}
