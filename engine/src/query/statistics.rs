//! Statistics for `/stats`: small stored rows, with the age of the sums.

use std::collections::HashMap;

use domain::{
    Time,
    api::{DayTotal, Rate, Stats, TypeStats},
};

use crate::{
    access::caller::{Caller, Scope},
    error::Result,
    store::{
        dispatch::workers,
        query::statistics::{self, SPANS},
    },
};

use super::super::Engine;

impl Engine {
    /// Requires a caller that may read the statistics, which are over all owners' work. Returns 403 `forbidden`.
    pub(crate) fn require_statistics(caller: &Caller) -> Result<()> {
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
        self.write_activity_counters().await?;
        self.write_seen_workers().await?;
        let pool = &self.0.core.pools.read;
        let work = statistics::open_work(pool).await?;
        let names: Vec<String> = work.iter().map(|it| it.job_type.clone()).collect();
        let open: HashMap<String, i64> = statistics::open_assignments(pool).await?.into_iter().collect();
        let oldest: HashMap<String, f64> = statistics::oldest_available(pool).await?.into_iter().collect();
        let last_claims: HashMap<String, Time> = workers::last_claims(pool, &names)
            .await?
            .into_iter()
            .map(|row| (row.type_name, Time(row.claimed_at)))
            .collect();
        let mut rates: HashMap<String, Vec<Rate>> = statistics::rates(pool)
            .await?
            .into_iter()
            .map(|row| {
                let spans = SPANS.iter().zip(row.n_in.iter().zip(&row.n_out));
                let rates =
                    spans.map(|(&seconds, (&items_in, &items_out))| rate(seconds, items_in, items_out)).collect();
                (row.type_name, rates)
            })
            .collect();
        let mut days: HashMap<String, Vec<DayTotal>> = HashMap::new();
        for row in statistics::days(pool).await? {
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
                last_asked_at: last_claims.get(&it.job_type).copied(),
                rates: rates
                    .remove(&it.job_type)
                    .unwrap_or_else(|| SPANS.iter().map(|&seconds| rate(seconds, 0, 0)).collect()),
                days: days.remove(&it.job_type).unwrap_or_default(),
                job_type: it.job_type,
            })
            .collect();
        let counted = statistics::counted_at(pool).await?;
        Ok(Stats {
            data,
            counted_at: counted.map(|(at, _)| Time(at)),
            age_seconds: counted.map(|(_, age)| age),
            broker: None,
        })
    }
}

fn rate(seconds: i64, items_in: i64, items_out: i64) -> Rate {
    Rate { seconds, in_per_second: items_in as f64 / seconds as f64, out_per_second: items_out as f64 / seconds as f64 }
}
