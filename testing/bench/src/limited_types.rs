//! Claims of types with limits, next to few and next to many items that a limit holds back or that other keys precede.

use anyhow::{Result, ensure};
use domain::{
    Document,
    api::NewItem,
    dispatch::type_limits::{ConcurrencyBy, RateLimit},
    job_type::JobTypeSpec,
};

use crate::{
    Bench,
    claims::{AT_ONCE, CLAIMS, SOME, claim_times, row},
    report::{Table, Threshold},
    statistics::times::Times,
    transport::{self, Transport},
};

/// Payload of the items that wait.
const LARGE: &str = r#"{"customer":"large"}"#;
/// Numbers of items that wait.
const FEW: u64 = 1_000;

/// Ways in which the waiting items of a type are held back.
#[derive(Clone, Copy)]
enum Restriction {
    /// One item of their key runs, which is as many as may.
    Key,
    /// Other keys take turns with theirs.
    Turns,
    /// No more may start in the hour.
    Rate,
}

impl Restriction {
    const ALL: [Self; 3] = [Self::Key, Self::Turns, Self::Rate];

    const fn what(self) -> &'static str {
        match self {
            Self::Key => "held by the limit of their key",
            Self::Turns => "in turns with 40 other keys",
            Self::Rate => "held by a rate limit, nothing to claim",
        }
    }

    fn restrict(self, spec: &mut JobTypeSpec) {
        // Nobody extends the lease that fills the limit.
        spec.heartbeat_seconds = 86_400.0;
        match self {
            Self::Key => spec.concurrency_by = Some(ConcurrencyBy { key: "/customer".to_owned(), limit: 1 }),
            Self::Turns => spec.fair_by = Some("/customer".to_owned()),
            Self::Rate => {
                spec.rate_limit = Some(RateLimit { count: AT_ONCE.into(), per_seconds: 3_600, burst: None, key: None });
            }
        }
    }
}

impl Bench {
    /// Compares claims with many held items with claims with few; claims of both alternate.
    pub(crate) async fn limited_types(&mut self) -> Result<()> {
        let engine = self.engine.clone();
        let most = self.sizes.backlog;
        let mut rows = Vec::new();
        for restriction in Restriction::ALL {
            let types = [
                self.limited_type(&engine, restriction, FEW).await?,
                self.limited_type(&engine, restriction, most).await?,
            ];
            let mut taken = [Vec::new(), Vec::new()];
            for _ in 0..CLAIMS / SOME {
                for (name, taken) in types.iter().zip(&mut taken) {
                    taken.extend(match restriction {
                        Restriction::Rate => empty_claim_times(&engine, name).await?,
                        Restriction::Key | Restriction::Turns => claim_times(&engine, name, SOME).await?,
                    });
                }
            }
            let [few, many] = taken.map(Times::new);
            let what = restriction.what();
            let measured = format!("claim of 10, {most} {what}, p50 {:.0} µs", many.median() * 1e3);
            let against = format!("with {FEW}, p50 {:.0} µs", few.median() * 1e3);
            self.report.compare(measured, against, many.median() / few.median(), Some(Threshold::AtMost(1.2)));
            rows.extend([row(format!("{FEW} {what}"), &few), row(format!("{most} {what}"), &many)]);
        }
        self.report.table(Table {
            title: "Claims of types with limits",
            about: "Claims of ten items in process, one after another.",
            columns: vec!["what", "claims", "p50 ms", "p99 ms", "longest ms"],
            rows,
        });
        Ok(())
    }

    /// Creates a type with `waiting` items that are held, and enough others for all claims.
    async fn limited_type(&mut self, engine: &Transport, restriction: Restriction, waiting: u64) -> Result<String> {
        self.types += 1;
        let mut spec = JobTypeSpec::named(&format!("bench-{}", self.types));
        restriction.restrict(&mut spec);
        self.client.put_job_type(&spec).await?;
        let job = engine.create(&spec.name, Vec::new(), false).await?;
        engine.add(job, waiting, LARGE).await?;
        if let Restriction::Key | Restriction::Rate = restriction {
            let first = engine.claim(transport::claim_of("holder", &spec.name, AT_ONCE)).await?;
            ensure!(!first.is_empty(), "nothing was claimed");
        }
        if !matches!(restriction, Restriction::Rate) {
            let keys = if matches!(restriction, Restriction::Turns) { 40 } else { u64::MAX };
            let others = (0..CLAIMS as u64 * u64::from(AT_ONCE)).map(|n| NewItem {
                payload: Some(Document::trusted(format!(r#"{{"customer":"c{}"}}"#, n % keys))),
                ..NewItem::default()
            });
            engine.add_once(job, others.collect()).await?;
        }
        Ok(spec.name)
    }
}

/// Durations of consecutive claims that find nothing, in milliseconds.
async fn empty_claim_times(transport: &Transport, job_type: &str) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(SOME);
    for _ in 0..SOME {
        let began = std::time::Instant::now();
        let assignments = transport.claim(transport::claim_of("w", job_type, AT_ONCE)).await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        ensure!(assignments.is_empty(), "a claim over the rate limit returned {}", assignments.len());
    }
    Ok(times)
}
