//! Profiles: for admins, one at a time, of a process under load.

use futures::future::join_all;
use serde_json::json;

use crate::support::Server;

/// A process of its own, because profiles concern the whole process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admin_takes_cpu_and_heap_profiles_one_at_a_time() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let program =
        server.spawn_program_with(&[("_RJEM_MALLOC_CONF", "prof:true,prof_active:true,lg_prof_sample:12")]).await;
    let load = async {
        loop {
            let job = json!({"type": "a", "items": vec![json!({"payload": "x".repeat(100)}); 500]});
            // Some are over the rate limit, which is load too.
            drop(program.api.post("/api/v1/jobs", job).await);
        }
    };
    let (first, second) = ("/debug/pprof/profile?seconds=3", "/debug/pprof/profile?seconds=2");
    let answers = tokio::select! {
        answers = join_all([first, second].map(|path| program.api.get(path))) => answers,
        () = load => unreachable!("the load lasts until the profiles are there"),
    };
    let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 429], "{answers:?}");
    let profile = &answers.iter().find(|answer| answer.status == 200).expect("a profile").text;
    assert!(
        profile.lines().all(|line| line.rsplit_once(' ').is_some_and(|(_, n)| n.parse::<u32>().is_ok())),
        "{profile}"
    );
    assert!(profile.contains("tokio") && profile.contains("server::"), "{profile:.2000}");

    let heap = program.api.request(reqwest::Method::GET, "/debug/pprof/heap").send().await.expect("an answer");
    assert_eq!(heap.status(), 200);
    let heap = heap.bytes().await.expect("a file");
    assert!(heap.starts_with(&[0x1f, 0x8b]) && heap.len() > 500, "{} bytes", heap.len());
    program.terminate().await;
    server.stop().await;
}

#[tokio::test]
async fn profile_is_refused_without_samples_and_for_wrong_durations() {
    let server = Server::start().await;
    server.get("/debug/pprof/heap").await.expect_problem(409, "profiling_off");
    for wrong in ["0", "61", "-1", "x"] {
        let answer = server.get(&format!("/debug/pprof/profile?seconds={wrong}")).await;
        assert!(answer.status.is_client_error(), "{wrong}: {}", answer.status);
    }
    server.stop().await;
}
