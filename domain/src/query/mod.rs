//! Questions about what is stored: filters, live topics, histograms.

pub mod filter;
pub mod histogram;
pub mod topic;
