//! Members of bulk operations, counted once.
//!
//! A retry and the cancelling of an item are marked in their own transaction: a crash leaves either both
//! or neither, and of two servers at one member the second rolls its deed back. So does a deed whose
//! operation was stopped meanwhile. The cancelling or deleting of a job is marked after it; done twice it
//! changes nothing more.

use std::sync::Arc;

use domain::{Code, Problem};
use uuid::Uuid;

use crate::{
    error::Result,
    store::{
        Tx,
        bulk::members::{self, Counted},
        settle as trees,
    },
};

use super::super::{Core, plan::Plan, settle};

/// A member that is being dealt with.
#[derive(Clone, Copy, Debug)]
pub(in crate::jobs) struct Mark {
    pub(super) bulk_id: Uuid,
    pub(super) member_id: Uuid,
}

impl Mark {
    /// Counts the member as dealt with, in the transaction of the deed; the gate of its tree's root is
    /// locked where the operation may hold it. `plan` is the tree. Refused where the member was counted or
    /// the operation stopped: the deed is to be rolled back.
    pub(in crate::jobs) async fn processed(self, tx: &mut Tx, plan: &Plan) -> Result<()> {
        self.write(tx, Counted::Processed, plan).await
    }

    async fn write(self, tx: &mut Tx, how: Counted<'_>, plan: &Plan) -> Result<()> {
        if !members::mark(tx, self.bulk_id, self.member_id).await? {
            return Err(over().into());
        }
        if members::hold_less(tx, self.bulk_id, plan.root_id).await? == Some(0) {
            members::drop_hold(tx, self.bulk_id, plan.root_id).await?;
            settle::release_hold(tx, plan, 1).await?;
        }
        if !members::count(tx, self.bulk_id, how).await? {
            return Err(over().into());
        }
        Ok(())
    }

    /// Counts the member in a transaction of its own.
    pub(super) async fn alone(self, core: &Arc<Core>, how: Counted<'_>, root_id: Uuid) -> Result<()> {
        let plan = core.plans.of(&core.pools.read, root_id).await?;
        let mut tx = core.pools.hot.begin().await?;
        // Gates come before members, here too: the hold may be given back.
        trees::lock(&mut tx, &[plan.root_gate()]).await?;
        self.write(&mut tx, how, &plan).await?;
        tx.commit().await?;
        core.hub.touch(&[root_id]);
        Ok(())
    }
}

/// Never an answer to anybody: whoever deals with the member goes on to the next.
fn over() -> Problem {
    Problem::new(Code::OperationOver, "The member was counted already, or the operation was stopped.")
}
