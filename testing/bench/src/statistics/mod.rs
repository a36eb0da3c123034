//! How measurements are taken and compared: times, cost, statements, ratios, plots, and the machine.

pub(super) mod machine; // the machine and its settings
pub(super) mod meter; // cost of work
pub(super) mod plot; // plots
pub(super) mod ratios; // pairs of figures to compare
pub(super) mod sizes; // amounts of work
pub(super) mod statements; // slowest statements
pub(super) mod times; // percentiles
