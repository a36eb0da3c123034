//! Faults, on purpose.

mod proxy;

fn main() {}
