//! Inputs of the server besides its sources, which cargo cannot see through the macros: the migrations and, in release
//! builds, the embedded site and documentation. A new file in one of them triggers a rebuild. A release build without a
//! site builds it first, so that `cargo install --path server` gives a complete program.

use std::{path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=../migrations");
    if std::env::var("PROFILE").as_deref() == Ok("release") {
        if !Path::new("../site/hash").exists() {
            build_site();
        }
        // Created if missing: a missing path counts as changed, so every build would be a full one.
        if let Err(error) = std::fs::create_dir_all("../site") {
            println!("cargo::warning=there is no folder for the site: {error}");
        }
        println!("cargo::rerun-if-changed=../site");
        println!("cargo::rerun-if-changed=../docs");
    }
}

/// Builds the site. This cannot wait for the build that it is part of: they have different profiles, hence locks.
fn build_site() {
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["xtask", "build", "--release"]).current_dir("..");
    // These describe the server's build and would replace what the configuration says about the site's.
    for variable in ["CARGO_ENCODED_RUSTFLAGS", "TARGET", "RUSTC_WORKSPACE_WRAPPER"] {
        build.env_remove(variable);
    }
    match build.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            println!(
                "cargo::warning=the site was not built, so pages will have no styles: `cargo xtask build --release` failed:"
            );
            let said = [output.stdout, output.stderr].concat();
            for line in String::from_utf8_lossy(&said).lines().rev().take(5).collect::<Vec<_>>().into_iter().rev() {
                println!("cargo::warning={line}");
            }
        }
        Err(error) => println!("cargo::warning=the site was not built, so pages will have no styles: {error}"),
    }
}
