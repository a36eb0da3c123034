//! Statistics for `/stats`: small stored rows, with the age of the sums.

use std::collections::HashMap;

use domain::{
    Time,
    api::{DayTotal, Rate, Stats, TypeStats},
};

use crate::{
    auth::{Caller, Scope},
    error::Result,
    store::{
        figures::{self, SPANS},
        workers,
    },
};

use super::super::Engine;

impl Engine {
    /// Requires a caller that may read the statistics, which are over all owners' work. Returns 403 `forbidden`.
    pub(super) fn require_statistics(caller: &Caller) -> Result<()> {
        caller.require(Scope::JobsRead)?;
        if caller.sees_all() {
            return Ok(());
        }
        let detail = "Statistics are over everybody's work: this needs the role support or the scope admin.";
        Err(domain::Problem::new(domain::Code::Forbidden, detail).into())
    }

    /// Statistics of every job type, by name. Only for callers that see all owners' work.
    pub async fn stats(&self, caller: &Caller) -> Result<Stats> {
        Self::require_statistics(caller)?;
        self.keep_figures().await?;
        self.keep_seen().await?;
        let pool = &self.0.core.pools.read;
        let work = figures::open_work(pool).await?;
        let names: Vec<String> = work.iter().map(|it| it.job_type.clone()).collect();
        let open: HashMap<String, i64> = figures::open_assignments(pool).await?.into_iter().collect();
        let oldest: HashMap<String, f64> = figures::oldest_available(pool).await?.into_iter().collect();
        let asked: HashMap<String, Time> =
            workers::asked(pool, &names).await?.into_iter().map(|row| (row.type_name, Time(row.asked_at))).collect();
        let mut rates: HashMap<String, Vec<Rate>> = figures::rates(pool)
            .await?
            .into_iter()
            .map(|row| {
                let spans = SPANS.iter().zip(row.n_in.iter().zip(&row.n_out));
                let rates = spans.map(|(&seconds, (&came, &went))| rate(seconds, came, went)).collect();
                (row.type_name, rates)
            })
            .collect();
        let mut days: HashMap<String, Vec<DayTotal>> = HashMap::new();
        for row in figures::days(pool).await? {
            days.entry(row.type_name).or_default().push(DayTotal {
                day: row.day,
                added: row.added,
                succeeded: row.succeeded,
                dead: row.dead,
                cancelled: row.cancelled,
                expired: row.expired,
            });
        }
        let data = work
            .into_iter()
            .map(|it| TypeStats {
                counts: it.counts,
                open: open.get(&it.job_type).copied().unwrap_or(0),
                oldest_waiting_seconds: oldest.get(&it.job_type).copied(),
                last_asked_at: asked.get(&it.job_type).copied(),
                rates: rates
                    .remove(&it.job_type)
                    .unwrap_or_else(|| SPANS.iter().map(|&seconds| rate(seconds, 0, 0)).collect()),
                days: days.remove(&it.job_type).unwrap_or_default(),
                job_type: it.job_type,
            })
            .collect();
        let counted = figures::counted_at(pool).await?;
        Ok(Stats {
            data,
            counted_at: counted.map(|(at, _)| Time(at)),
            age_seconds: counted.map(|(_, age)| age),
            broker: None,
        })
    }
}

fn rate(seconds: i64, came: i64, went: i64) -> Rate {
    Rate { seconds, in_per_second: came as f64 / seconds as f64, out_per_second: went as f64 / seconds as f64 }
}
