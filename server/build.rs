//! What the server is made from besides its own source, and cargo cannot see through the macros: the
//! migrations and, in release builds, the site inside the binary. A new file in either rebuilds it.

fn main() {
    println!("cargo::rerun-if-changed=../migrations");
    if std::env::var("PROFILE").as_deref() == Ok("release") {
        println!("cargo::rerun-if-changed=../site");
    }
}
