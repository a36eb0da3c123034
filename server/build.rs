//! Inputs of the server besides its sources, which cargo cannot see through the macros: the migrations and, in release
//! builds, the embedded site. A new file in either triggers a rebuild.

fn main() {
    println!("cargo::rerun-if-changed=../migrations");
    if std::env::var("PROFILE").as_deref() == Ok("release") {
        // Created if missing: a missing path counts as changed, so every build would be a full one.
        if let Err(error) = std::fs::create_dir_all("../site") {
            println!("cargo::warning=there is no folder for the site: {error}");
        }
        println!("cargo::rerun-if-changed=../site");
    }
}
