//! The documentation as a book: docs/ by mdBook, into target/book.

use std::process::Command;

use anyhow::Result;

use crate::{paths, step, supply};

pub(crate) fn build() -> Result<()> {
    let mut command = Command::new(supply::mdbook()?);
    command.arg("build").arg(paths::root().join("docs")).arg("--dest-dir").arg(paths::target()?.join("book"));
    step::run("build the book", command)?;
    println!("    {}", paths::target()?.join("book").join("index.html").display());
    Ok(())
}
