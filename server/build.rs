//! Says what the server is made from besides its own source: the migrations it carries and, in
//! release builds, the site inside it. Without this a new file in either would go unnoticed.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../migrations");
    if std::env::var("PROFILE").as_deref() == Ok("release") {
        println!("cargo:rerun-if-changed=../site");
    }
}
