//! Endings without a lease check, only in builds with the cargo feature `failpoints`: endings behave as if they named
//! their item. The checker of `cargo xtask faults` must detect this.

use std::collections::HashMap;

use uuid::Uuid;

use crate::{
    error::Result,
    failpoints,
    store::{Tx, broken},
};

use super::ending::EndCommand;

/// Commands as they would be if an ending named its item instead of its assignment.
pub(super) async fn unfenced(tx: &mut Tx, commands: &[&EndCommand]) -> Result<Vec<EndCommand>> {
    let mut commands: Vec<EndCommand> = commands.iter().map(|&command| command.clone()).collect();
    if failpoints::broken("no_fence", file!()) {
        let fences: Vec<Uuid> = commands.iter().map(|command| command.fence).collect();
        let heirs: HashMap<Uuid, Uuid> = broken::heirs(tx, &fences).await?.into_iter().collect();
        for command in &mut commands {
            command.fence = heirs.get(&command.fence).copied().unwrap_or(command.fence);
        }
    }
    Ok(commands)
}
