//! Generates the client from the document that `cargo xtask clients` has written.

use std::{env, error::Error, fs, path::Path};

use progenitor_impl::{GenerationSettings, Generator, InterfaceStyle};

fn main() -> Result<(), Box<dyn Error>> {
    let document = "../generated/openapi-3.0.json";
    println!("cargo::rerun-if-changed={document}");
    println!("cargo::rerun-if-changed=build.rs");
    let document: openapiv3::OpenAPI = serde_json::from_str(&fs::read_to_string(document)?)?;
    let mut settings = GenerationSettings::default();
    settings.with_interface(InterfaceStyle::Builder);
    let tokens = Generator::new(&settings).generate_tokens(&document)?;
    let code = prettyplease::unparse(&syn::parse2(tokens)?);
    fs::write(Path::new(&env::var("OUT_DIR")?).join("client.rs"), code)?;
    Ok(())
}
