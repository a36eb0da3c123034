//! Servers and workers that die, stop and come back.

use std::time::Duration;

use anyhow::Result;
use futures::{FutureExt as _, future::BoxFuture};
use rand::RngExt as _;

use super::{Played, end};
use crate::{
    load::Load,
    stage::{House, Setting, Stage},
};

type Story = for<'a> fn(&'a House) -> BoxFuture<'a, Result<Played>>;

pub(super) const FAULTS: &[(&str, Story)] = &[("F05", |house| killed_workers(house).boxed())];

/// F05: workers are killed where they stand, and others take their place.
async fn killed_workers(house: &House) -> Result<Played> {
    let mut stage = Stage::set(house, Setting::default()).await?;
    let mut load = stage.load(Load::of(house.items, house.seed))?;
    let least = if house.full { 60 } else { 12 };
    let kills = stage
        .disturb(&mut load, least, Duration::from_millis(700), |stage, _| {
            async move {
                let at = rand::rng().random_range(0..stage.workers.len());
                stage.workers[at].kill().await?;
                stage.workers[at].start()
            }
            .boxed()
        })
        .await?;
    end(house, stage, load, format!("a worker process killed and replaced, {kills} times")).await
}
