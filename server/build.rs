//! What the server is made from besides its own source, and cargo cannot see through the macros: the
//! migrations and, in release builds, the site inside the binary. A new file in either rebuilds it.

fn main() {
    println!("cargo::rerun-if-changed=../migrations");
    if std::env::var("PROFILE").as_deref() == Ok("release") {
        // Made where it is missing: what is not there counts as changed, and each build would be the first.
        if let Err(error) = std::fs::create_dir_all("../site") {
            println!("cargo::warning=there is no folder for the site: {error}");
        }
        println!("cargo::rerun-if-changed=../site");
    }
}
