//! Endings without a lease check, only in builds with the cargo feature `failpoints`: endings behave as if they named
//! their item. The checker of `cargo xtask faults` must detect this.

use std::collections::HashMap;

use uuid::Uuid;

use crate::{
    ending_batch::EndCommand,
    error::Result,
    failpoints,
    store::{Tx, dispatch::unguarded_statements},
};

/// Commands as they would be if an ending named its item instead of its assignment.
pub(crate) async fn without_lease_check(tx: &mut Tx, commands: &[&EndCommand]) -> Result<Vec<EndCommand>> {
    let mut commands: Vec<EndCommand> = commands.iter().map(|&command| command.clone()).collect();
    if failpoints::broken("no_fence", file!()) {
        let assignment_ids: Vec<Uuid> = commands.iter().map(|command| command.assignment_id).collect();
        let open_assignments_of: HashMap<Uuid, Uuid> =
            unguarded_statements::open_assignments_of(tx, &assignment_ids).await?.into_iter().collect();
        for command in &mut commands {
            command.assignment_id =
                open_assignments_of.get(&command.assignment_id).copied().unwrap_or(command.assignment_id);
        }
    }
    Ok(commands)
}
