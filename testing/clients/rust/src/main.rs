//! The whole program of a service and of its worker, with the client that progenitor generates.
//!
//! `TREELINE_URL` and `TREELINE_TOKEN` name the server and a token that may do everything.

use std::{env, error::Error, num::NonZeroU32};

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::json;
use uuid::Uuid;

#[allow(clippy::all, dead_code, unused, mismatched_lifetime_syntaxes)]
mod client {
    include!(concat!(env!("OUT_DIR"), "/client.rs"));
}
use client::{Client, types};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {}", env::var("TREELINE_TOKEN")?))?);
    let http = reqwest::Client::builder().default_headers(headers).build()?;
    let client = Client::new_with_client(&env::var("TREELINE_URL")?, http);

    let job_type = format!("rust-{}", Uuid::new_v4());
    client.create_job_type().body_map(|body| body.name(&job_type)).send().await?;
    let items: Vec<types::NewItem> = (1..=3)
        .map(|n| types::NewItem::builder().payload(Some(json!({ "n": n }).into())).try_into())
        .collect::<Result<_, _>>()?;
    let job = client
        .create_job()
        .idempotency_key(Uuid::new_v4().to_string())
        .body_map(|body| body.type_(&job_type).sealed(Some(true)).items(items))
        .send()
        .await?
        .into_inner();
    assert_eq!(job.counts.available, 3);

    let patched = client.patch_job().id(job.id).body_map(|body| body.name(Some("March".to_owned()))).send().await?;
    assert_eq!(patched.name.as_deref(), Some("March"));

    let claimed = client
        .claim_items()
        .body_map(|body| body.worker_id("rust-1").types(vec![job_type.clone()]).max(NonZeroU32::new(3)))
        .send()
        .await?
        .into_inner();
    let [first, second, third] = claimed.assignments.as_slice() else { panic!("not three: {claimed:?}") };
    let beat = client.heartbeat_assignment().id(first.id).body_map(|body| body).send().await?;
    assert!(!beat.cancel);
    let ended = client.succeed_assignment().id(first.id).body_map(|body| body).send().await?;
    assert_eq!(ended.item_state, types::ItemState::Succeeded);
    let error = types::WorkError::builder().message("broken");
    client
        .fail_assignment()
        .id(second.id)
        .body_map(|body| body.error(error).retryable(Some(false)))
        .send()
        .await?;
    let ending = types::AssignmentEnding::builder().assignment_id(third.id).result(Some(json!(7).into()));
    let finished = client.finish_assignments().body_map(|body| body.endings(vec![ending.try_into().unwrap()])).send().await?;
    assert_eq!(finished.endings[0].status, 200);

    let mut states = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut list = client.list_items().job(job.id).limit(2);
        if let Some(cursor) = &cursor {
            list = list.cursor(cursor);
        }
        let page = list.send().await?.into_inner();
        states.extend(page.data.iter().map(|item| item.state.to_string()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    states.sort();
    assert_eq!(states, ["dead", "succeeded", "succeeded"]);

    match client.get_job().id(Uuid::nil()).send().await {
        Err(progenitor_client::Error::ErrorResponse(refused)) => {
            assert_eq!(refused.status().as_u16(), 404);
        }
        other => panic!("not refused: {other:?}"),
    }
    println!("the generated Rust client passes");
    Ok(())
}
