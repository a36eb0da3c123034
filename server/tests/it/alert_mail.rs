//! Mail of alert channels, through a real SMTP server: one message for each receiver, retried, over TLS.

use domain::notify::alert::AlertKind;
use serde_json::{Value, json};
use server::config::Config;

use crate::{
    alert_channels::{CHANNELS, channel, clear, deliveries, raise},
    bulk::id,
    callbacks::quick,
    retention::until,
    support::{
        Api, Server,
        smtp::{SmtpServer, head, header},
    },
};

const FROM: &str = "Treeline <treeline@sender.example>";

fn mails_to(port: u16) -> impl Fn(&mut Config) {
    move |config| {
        quick(config);
        config.mail.smtp_url = Some(format!("smtp://127.0.0.1:{port}").parse().expect("a secret"));
        config.mail.smtp_from = Some(FROM.to_owned());
    }
}

async fn until_tried(api: &Api, channel: &Value, state: &str) -> Vec<Value> {
    let tried = |one: &Value| one["state"] == state && !one["tries"].as_array().expect("tries").is_empty();
    until(async || {
        let all = deliveries(api, channel).await;
        !all.is_empty() && all.iter().all(tried)
    })
    .await;
    deliveries(api, channel).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alert_mail_reaches_every_address_once() {
    let mut smtp = SmtpServer::stopped();
    let server = Server::start_with(mails_to(smtp.port)).await;
    let to = json!(["ann@example.com", "bob@example.com"]);
    let channel = channel(&server, json!({"name": "On call", "kind": "email", "to": to})).await;
    assert_eq!((&channel["to"], &channel["url"]), (&to, &Value::Null));
    raise(&server, AlertKind::Worker, "paper\r\nBcc: eve@example.com", Some("a")).await;
    let waiting = until_tried(&server, &channel, "pending").await;
    assert_eq!(waiting.len(), 2, "the mail server is away");
    smtp.start(&[]).await;
    let raised = smtp.wait_for(2).await;
    let delivered = until_tried(&server, &channel, "delivered").await;
    let urls: Vec<&Value> = delivered.iter().map(|one| &one["url"]).collect();
    assert_eq!(urls, [&json!("mailto:ann@example.com"), &json!("mailto:bob@example.com")]);
    let message = raised.iter().find(|mail| header(mail, "To") == "ann@example.com").expect("mail to ann");
    assert_eq!(header(message, "From"), FROM);
    assert_eq!(header(message, "X-MailFrom"), "treeline@sender.example");
    assert_eq!(header(message, "X-RcptTo"), "ann@example.com");
    assert_eq!(header(message, "Auto-Submitted"), "auto-generated");
    let subject = header(message, "Subject");
    assert!(subject.starts_with("[Treeline] Reported by a worker: w-1: paper"), "{subject}");
    assert!(!head(message).contains("\nBcc:"), "{message}");
    let id_of_raised = header(message, "Message-ID");
    assert!(id_of_raised.ends_with("@sender.example>"), "{id_of_raised}");
    assert!(message.contains("Job type: a") && message.contains("/types/a"), "{message}");

    clear(&server, AlertKind::Worker, "paper\r\nBcc: eve@example.com").await;
    let all = smtp.wait_for(4).await;
    let over = |mail: &&String| {
        header(mail, "Subject").starts_with("[Treeline] Cleared: ") && header(mail, "To") == "ann@example.com"
    };
    let over: Vec<&String> = all.iter().filter(over).collect();
    assert_eq!((over.len(), header(over[0], "In-Reply-To")), (1, id_of_raised), "{over:?}");
    let delivered = until_tried(&server, &channel, "delivered").await;
    let of_ann = |one: &&Value| one["alert"]["event"] == "cleared" && one["url"] == "mailto:ann@example.com";
    let delivery = delivered.iter().find(of_ann).expect("a message");

    // An address that was taken away gets nothing more.
    server.patch(&format!("{CHANNELS}/{}", id(&channel)), json!({"to": ["bob@example.com"]})).await.expect(200);
    let sent = server.post(&format!("{CHANNELS}/{}/test", id(&channel)), json!(null)).await.expect(202);
    assert_eq!(sent["data"].as_array().expect("a list").len(), 1);
    let all = smtp.wait_for(5).await;
    let tests = all.iter().filter(|mail| header(mail, "Subject").starts_with("[Treeline] Test: "));
    assert_eq!(tests.map(|mail| header(mail, "To")).collect::<Vec<_>>(), ["bob@example.com"]);
    let resend = format!("/api/v1/deliveries/{}/resend", id(delivery));
    server.post(&resend, json!({"reason": "asked"})).await.expect(200);
    let is_abandoned = |one: &Value| one["id"] == delivery["id"] && one["state"] == "abandoned";
    until(async || deliveries(&server, &channel).await.iter().any(is_abandoned)).await;
    assert_eq!(smtp.messages().len(), 5);
    for bad in [json!(["nobody"]), json!(["a@example.com", "a@example.com"]), json!(["a@b\r\nBcc: c@d"]), json!([])] {
        server
            .patch(&format!("{CHANNELS}/{}", id(&channel)), json!({"to": bad}))
            .await
            .expect_problem(422, "invalid_body");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alert_mail_goes_over_tls_to_a_trusted_server_only() {
    // The messages are sent by programs with other settings.
    let without_push = |config: &mut Config| config.roles = "web,maintenance".parse().expect("roles");
    let server = Server::start_with(without_push).await;
    for (scheme, query, certificate, key) in
        [("smtp", "?tls=required", "--tlscert", "--tlskey"), ("smtps", "", "--smtpscert", "--smtpskey")]
    {
        let mut smtp = SmtpServer::stopped();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let (cert, private) = (smtp.folder().join("cert.pem"), smtp.folder().join("key.pem"));
        std::fs::write(&cert, made.cert.pem()).expect("written");
        std::fs::write(&private, made.signing_key.serialize_pem()).expect("written");
        let (cert, private) = (cert.to_str().expect("text").to_owned(), private.to_str().expect("text").to_owned());
        smtp.start(&[certificate, &cert, key, &private]).await;
        let url = format!("{scheme}://localhost:{}{query}", smtp.port);
        let mut environment = vec![
            ("TREELINE_SMTP_URL", url.as_str()),
            ("TREELINE_SMTP_FROM", "treeline@sender.example"),
            ("TREELINE_CALLBACK_RETRY_SECONDS", "0.1"),
            ("TREELINE_ROLES", "web,push"),
        ];
        let stranger = server.spawn_program_with(&environment).await;
        let to = json!({"name": scheme, "kind": "email", "to": ["ann@example.com"]});
        let refused = channel(&stranger.api, to.clone()).await;
        let test = |channel: &Value| format!("{CHANNELS}/{}/test", id(channel));
        stranger.api.post(&test(&refused), json!(null)).await.expect(202);
        until(async || {
            let tries = deliveries(&server, &refused).await[0]["tries"].clone();
            tries
                .as_array()
                .expect("tries")
                .iter()
                .any(|one| one["error"].as_str().expect("text").contains("certificate"))
        })
        .await;
        assert_eq!(smtp.messages(), [] as [String; 0], "an unknown certificate");
        server.delete(&format!("{CHANNELS}/{}", id(&refused))).await.expect(204);
        stranger.terminate().await;
        environment.push(("SSL_CERT_FILE", &cert));
        let program = server.spawn_program_with(&environment).await;
        let trusted = channel(&program.api, to).await;
        program.api.post(&test(&trusted), json!(null)).await.expect(202);
        assert_eq!(smtp.wait_for(1).await.len(), 1, "{scheme}");
        program.terminate().await;
    }
    server.stop().await;
}
