//! Claims with a long backlog, with many dead rows before vacuum, with delayed items, and with an open transaction.

use anyhow::{Result, ensure};
use domain::{
    Document,
    api::{FinishBody, NewItem},
};
use sqlx::Connection as _;
use uuid::Uuid;

use crate::{
    Bench, PAYLOAD,
    drains::hundred,
    pages::TypedJob,
    report::{Table, Threshold},
    statistics::{
        plot::{Line, Plot},
        times::{Times, short},
    },
    transport::{self, Transport},
};

/// Claims of one measurement, and items of each.
pub(crate) const CLAIMS: usize = 150;
pub(crate) const AT_ONCE: u32 = 10;
/// Number of claims after which the claimed items are replaced.
pub(crate) const SOME: usize = 10;

impl Bench {
    pub(crate) async fn backlog(&mut self) -> Result<()> {
        let engine = self.engine.clone();
        let (mut rows, mut points) = (Vec::new(), Vec::new());
        let most = self.sizes.backlog;
        let mut types: Vec<(u64, String, Uuid)> = Vec::new();
        for waiting in [1_000, 10_000, 100_000, most] {
            let (name, job) = self.job(&engine).await?;
            let cost = self.meter.measure(engine.add(job, waiting, PAYLOAD)).await?;
            if waiting == most {
                self.report.add("add in process, 1,000,000 items", cost);
            }
            types.push((waiting, name, job));
        }
        let mut taken = vec![Vec::new(); types.len()];
        for _ in 0..self.sizes.rounds {
            for ((_, name, job), taken) in types.iter().zip(&mut taken) {
                for _ in 0..CLAIMS / SOME {
                    taken.extend(claim_times(&engine, name, SOME).await?);
                    // Keep the backlog constant.
                    engine.add(*job, SOME as u64 * u64::from(AT_ONCE), PAYLOAD).await?;
                }
            }
        }
        let taken: Vec<Times> = taken.into_iter().map(Times::new).collect();
        let few = taken[0].clone();
        for ((waiting, ..), times) in types.iter().zip(&taken) {
            rows.push(row(format!("{waiting} waiting"), times));
            points.push((*waiting as f64, times.median() * 1e3));
        }
        let many = &taken[3];
        self.compare_claims(&format!("claim of 10 with {most} waiting"), many.median(), few.median(), Some(1.2), "p50");
        self.compare_claims(
            &format!("claim of 10 with {most} waiting"),
            many.within(99.0),
            few.within(99.0),
            None,
            "p99",
        );

        let times = self.behind_delayed(&engine, most).await?;
        self.compare_claims(
            &format!("claim of 10 behind {most} delayed"),
            times.median(),
            few.median(),
            Some(1.2),
            "p50",
        );
        rows.push(row(format!("1,000 waiting, {most} of the same type delayed"), &times));
        let dead = most.min(self.sizes.items * 6).min(300_000);
        let times = self.unswept(&engine, dead, false).await?;
        self.compare_claims(
            &format!("claim of 10 after {dead} without vacuum"),
            times.median(),
            few.median(),
            Some(2.0),
            "p50",
        );
        rows.push(row(format!("after {dead} were claimed, without vacuum"), &times));
        let times = self.unswept(&engine, dead / 3, true).await?;
        self.compare_claims(
            &format!("claim of 10 after {}, a transaction open meanwhile", dead / 3),
            times.median(),
            few.median(),
            None,
            "p50",
        );
        rows.push(row(format!("after {} were claimed while a transaction stays open", dead / 3), &times));

        self.report.table(Table {
            title: "Claims beside many other items",
            about: "Claims of ten items in process, one after another.",
            columns: vec!["what", "claims", "p50 ms", "p99 ms", "longest ms"],
            rows,
        });
        let lines = vec![Line { name: "p50", points }];
        let title = "A claim of ten, with more and more waiting";
        self.report.plot(Plot { name: "backlog", title, x_axis: "items waiting", y_axis: "microseconds", lines });
        let (_, job_type, job) = types.swap_remove(3);
        let jobs = types.into_iter().map(|(waiting, _, job)| (waiting, job)).chain([(most, job)]).collect();
        self.growth(jobs).await?;
        self.pages(TypedJob { job, job_type }).await
    }

    fn compare_claims(&mut self, what: &str, ours: f64, few: f64, threshold: Option<f64>, share: &str) {
        let what = format!("{what}, {share} {:.0} µs", ours * 1e3);
        let against = format!("with 1,000, {share} {:.0} µs", few * 1e3);
        self.report.compare(what, against, ours / few, threshold.map(Threshold::AtMost));
    }

    /// Measures claims with many delayed items of the same type.
    async fn behind_delayed(&mut self, engine: &Transport, delayed: u64) -> Result<Times> {
        let (name, job) = self.job(engine).await?;
        let tomorrow = domain::Time::parse("2999-01-01T00:00:00Z");
        let payload = Some(Document::trusted(PAYLOAD.to_owned()));
        let item = NewItem { payload, run_after: tomorrow, ..NewItem::default() };
        for _ in 0..delayed / 5_000 {
            engine.add_once(job, vec![item.clone(); 5_000]).await?;
        }
        engine.add(job, (CLAIMS as u64 + 10) * u64::from(AT_ONCE), PAYLOAD).await?;
        Ok(Times::new(claim_times(engine, &name, CLAIMS).await?))
    }

    /// Measures claims after `n` items have ended without vacuum: because it is off, or because an open snapshot
    /// prevents it.
    async fn unswept(&mut self, engine: &Transport, n: u64, snapshot_open: bool) -> Result<Times> {
        let pool = self.meter.pool().clone();
        let mut reader = sqlx::PgConnection::connect_with(&pool.connect_options()).await?;
        if snapshot_open {
            sqlx::raw_sql("begin isolation level repeatable read; select count(*) from job_type")
                .execute(&mut reader)
                .await?;
        }
        sqlx::raw_sql(
            "alter table ready set (autovacuum_enabled = off); alter table lease set (autovacuum_enabled = off)",
        )
        .execute(&pool)
        .await?;
        let (name, job) = self.job(engine).await?;
        // When the last of them has ended, each worker may have ended a hundred more and hold another hundred.
        let over = 8 * 2 * 100;
        engine.add(job, n + over + CLAIMS as u64 * u64::from(AT_ONCE), PAYLOAD).await?;
        engine.drain(&name, n, hundred(8, true)).await?;
        let times = Times::new(claim_times(engine, &name, CLAIMS / 2).await?);
        if snapshot_open {
            sqlx::raw_sql("rollback").execute(&mut reader).await?;
        }
        reader.close().await?;
        sqlx::raw_sql("alter table ready reset (autovacuum_enabled); alter table lease reset (autovacuum_enabled)")
            .execute(&pool)
            .await?;
        Ok(times)
    }
}

pub(crate) fn row(what: String, times: &Times) -> Vec<String> {
    vec![what, times.len().to_string(), short(times.median()), short(times.within(99.0)), short(times.longest())]
}

/// Durations of consecutive claims of ten, in milliseconds. The endings are not included.
pub(crate) async fn claim_times(transport: &Transport, job_type: &str, claims: usize) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(claims);
    for _ in 0..claims {
        let claim = transport::claim_of("w", job_type, AT_ONCE);
        let began = std::time::Instant::now();
        let assignments = transport.claim(claim).await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        ensure!(assignments.len() == AT_ONCE as usize, "a claim of ten returned {}", assignments.len());
        let endings = assignments.into_iter().map(|assignment| transport::ending(assignment.id)).collect();
        transport.finish(FinishBody { endings, claim: None }).await?;
    }
    Ok(times)
}
