//! Supply chain: `cargo deny` with the rules of `deny.toml`, and the bill of materials.
//!
//! `cargo-deny` and `cargo-deb` are installed from crates.io in the target folder, once per version. The bill is CycloneDX 1.6 as JSON,
//! made from `cargo metadata`, `Cargo.lock`, npm's lock file, and the Debian packages of the images: the same sources always
//! give the same bytes, without data of the machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::{paths, step};

/// Crates whose code the release files contain; `frontend` is the part of the site that runs in browsers.
const SHIPPED: [&str; 3] = ["client", "frontend", "server"];

/// Version that matches the format of `deny.toml`.
const CARGO_DENY: &str = "0.20.2";

/// Version that understands `package.metadata.deb` in `server/Cargo.toml`.
const CARGO_DEB: &str = "3.8.0";

/// Version of the program that makes the book of docs/.
const MDBOOK: &str = "0.5.4";

/// Installs `mdbook` if it is missing.
pub(crate) fn mdbook() -> Result<PathBuf> {
    tool("mdbook", MDBOOK)
}

/// Installs `cargo-deny` if it is missing.
pub(crate) fn install() -> Result<PathBuf> {
    tool("cargo-deny", CARGO_DENY)
}

/// Installs `cargo-deb` if it is missing.
pub(crate) fn cargo_deb() -> Result<PathBuf> {
    tool("cargo-deb", CARGO_DEB)
}

/// Installs a program from crates.io if it is missing. Not optimized: it builds in half the time and runs for seconds.
fn tool(name: &str, version: &str) -> Result<PathBuf> {
    let root = paths::target()?.join("tools").join(format!("{name}-{version}"));
    let program = root.join("bin").join(name);
    if !program.is_file() {
        let mut command = Command::new("cargo");
        command.args(["install", "--debug", "--locked", "--quiet", name, "--version", version, "--root"]);
        command.arg(&root).env("CARGO_TARGET_DIR", paths::target()?.join("tools").join("build"));
        step::run(&format!("install {name}"), command)?;
        ensure!(program.is_file(), "{name} was installed but is not to be found");
    }
    Ok(program)
}

/// Checks licenses, banned crates and sources always; advisories if the database can be fetched.
pub(crate) fn check() -> Result<()> {
    let program = install()?;
    let deny = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["--all-features", "check", "--hide-inclusion-graph"]).args(arguments);
        command
    };
    step::run("check licenses, bans and sources", deny(&["licenses", "bans", "sources"]))?;
    let output = deny(&["advisories"]).output().context("running cargo-deny")?;
    if output.status.success() {
        println!("    no advisory against any crate");
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("failed to fetch advisory database") || errors.contains("failed to load advisory database") {
        println!("    SKIPPED: the database of advisories cannot be reached from here; nothing was checked against it");
        return Ok(());
    }
    anyhow::bail!("an advisory stands against a crate:\n{errors}")
}

/// Debian package in a container image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DebianPackage {
    pub name: String,
    pub version: String,
    /// Debian's name of the processor, or `all`.
    pub processor: String,
    /// Debian release.
    pub suite: String,
}

impl DebianPackage {
    /// Package URL, such as `pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=bookworm`.
    pub(crate) fn url(&self) -> String {
        let escaped = |text: &str| text.replace('%', "%25").replace('+', "%2B").replace(':', "%3A");
        let (name, version) = (escaped(&self.name), escaped(&self.version));
        format!("pkg:deb/debian/{name}@{version}?arch={}&distro={}", self.processor, self.suite)
    }
}

/// Writes the bill of materials with the Debian packages of the images, and prints its SHA-256.
pub(crate) fn sbom(output: Option<PathBuf>, packages: &[DebianPackage]) -> Result<()> {
    let text = bill(packages)?;
    ensure!(text == bill(packages)?, "two bills of the same sources differ");
    let home = paths::root().display().to_string();
    ensure!(!text.contains(&home) && !text.contains("file://"), "a path of this machine is in the bill of materials");
    let path = match output {
        Some(path) => path,
        None => paths::target()?.join("treeline.cdx.json"),
    };
    std::fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
    println!("    {} {}", hex(&Sha256::digest(&text)), path.display());
    Ok(())
}

fn bill(packages: &[DebianPackage]) -> Result<String> {
    let mut command = Command::new("cargo");
    command.args(["metadata", "--locked", "--format-version", "1", "--all-features"]);
    let output = command.output().context("running cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let checksums = checksums(&std::fs::read_to_string("Cargo.lock")?);
    let members: BTreeSet<&str> = list(&metadata["workspace_members"]).iter().filter_map(Value::as_str).collect();
    let shipped = shipped(&metadata);

    let mut components = BTreeMap::new();
    let mut references = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let reference = format!("pkg:cargo/{name}@{version}");
        references.insert(text(&package["id"]), reference.clone());
        let own = members.contains(text(&package["id"]));
        let mut component = json!({
            "type": if own { "application" } else { "library" }, "bom-ref": reference, "name": name,
            "version": version, "purl": reference,
            "scope": if shipped.contains(text(&package["id"])) { "required" } else { "excluded" },
        });
        if let Some(license) = package["license"].as_str() {
            component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
        }
        if let Some(hash) = checksums.get(&(name.to_owned(), version.to_owned())) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": hash}]);
        }
        components.insert(reference, component);
    }
    let mut dependencies: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let Some(reference) = references.get(text(&node["id"])) else { continue };
        let needs = list(&node["deps"]).iter().filter_map(|dep| references.get(text(&dep["pkg"])).cloned());
        dependencies.entry(reference.clone()).or_default().extend(needs);
    }
    let lock: Value = serde_json::from_str(&std::fs::read_to_string(paths::end2end().join("package-lock.json"))?)?;
    for (path, package) in lock["packages"].as_object().unwrap_or(&Map::new()) {
        let Some((_, name)) = path.rsplit_once("node_modules/") else { continue };
        let version = text(&package["version"]);
        let reference = format!("pkg:npm/{}@{version}", name.replace('@', "%40"));
        let mut component = json!({
            "type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference,
            // Builds and tests the site; not part of the server.
            "scope": "excluded",
        });
        if let Some(license) = package["license"].as_str() {
            component["licenses"] = json!([{"expression": license}]);
        }
        let hash = package["integrity"].as_str().and_then(|hash| hash.strip_prefix("sha512-"));
        if let Some(hash) = hash.and_then(|hash| STANDARD.decode(hash).ok()) {
            component["hashes"] = json!([{"alg": "SHA-512", "content": hex(&hash)}]);
        }
        components.insert(reference, component);
    }
    for package in packages {
        let reference = package.url();
        let component = json!({
            "type": "library", "bom-ref": reference, "name": package.name, "version": package.version, "purl": reference,
            "scope": "required",
        });
        components.insert(reference, component);
    }
    let version = list(&metadata["packages"]).iter().find(|package| package["name"] == "server");
    let version = version.map_or("0.0.0", |package| text(&package["version"]));
    let components: Vec<Value> = components.into_values().collect();
    let serial = serial(&serde_json::to_vec(&components)?);
    let dependencies: Vec<Value> =
        dependencies.into_iter().map(|(of, needs)| json!({"ref": of, "dependsOn": needs})).collect();
    let bill = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": serial,
        "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": "treeline", "name": "treeline", "version": version,
            "licenses": [{"expression": "MIT OR Apache-2.0"}],
        }},
        "components": components,
        "dependencies": dependencies,
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

/// Ids of the crates whose code the release files contain: those of [`SHIPPED`] and what they use, but for tests and
/// builds.
fn shipped(metadata: &Value) -> BTreeSet<&str> {
    let is_root = |package: &&Value| SHIPPED.contains(&text(&package["name"])) && package["source"].is_null();
    let roots = list(&metadata["packages"]).iter().filter(is_root).map(|package| text(&package["id"]));
    let nodes = list(&metadata["resolve"]["nodes"]).iter();
    let nodes: BTreeMap<&str, &Value> = nodes.map(|node| (text(&node["id"]), node)).collect();
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = roots.collect();
    while let Some(id) = next.pop() {
        if found.insert(id) {
            let used = nodes.get(id).map_or(&[][..], |node| list(&node["deps"]));
            // `kind` is null for the code itself.
            let used = used.iter().filter(|used| list(&used["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()));
            next.extend(used.map(|used| text(&used["pkg"])));
        }
    }
    found
}

/// Serial number derived from the content, so that the same content has the same number.
fn serial(content: &[u8]) -> String {
    let mut bytes: Vec<u8> = Sha256::digest(content)[..16].to_vec();
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let text = hex(&bytes);
    format!("urn:uuid:{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

/// SHA-256 of every crate in the lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let value = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
            value.map(|value| value.trim_end_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(checksum)) = (field("name"), field("version"), field("checksum")) {
            found.insert((name, version), checksum);
        }
    }
    found
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_for_tests_and_builds_are_not_shipped() {
        let uses = |id: &str, kind: Option<&str>| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let package = |name: &str, source: Option<&str>| json!({"id": name, "name": name, "source": source});
        let metadata = json!({
            "packages": [
                package("server", None), package("faults", None), package("a", Some("registry")),
                package("client", Some("registry")),
            ],
            "resolve": {"nodes": [
                {"id": "server", "deps": [uses("a", None), uses("proptest", Some("dev")), uses("cc", Some("build"))]},
                {"id": "a", "deps": [uses("b", None), uses("server", None)]},
                {"id": "faults", "deps": [uses("server", None), uses("c", None)]},
            ]},
        });
        assert_eq!(shipped(&metadata).into_iter().collect::<Vec<_>>(), ["a", "b", "server"]);
    }
}
