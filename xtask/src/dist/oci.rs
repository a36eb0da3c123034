//! Layouts of container images: names and the manifest that Docker reads, and the Debian packages in an image.
//!
//! Up to version 28, Docker does not read a layout of OCI alone. With `manifest.json` beside it, the same blobs are also
//! what `docker save` writes.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::supply::DebianPackage;

/// Files of a layout, as they are packed.
pub(super) const FILES: [&str; 4] = ["blobs", "index.json", "manifest.json", "oci-layout"];

/// Annotation of a manifest with the full name of the image, which containerd and podman read.
const IMAGE_NAME: &str = "io.containerd.image.name";

/// Adds `manifest.json` to a layout with one image, and the full name of the image to its index.
pub(super) fn add_docker_manifest(layout: &Path, tag: &str) -> Result<()> {
    let mut index = read(&layout.join("index.json"))?;
    let manifest = read(&layout.join(blob(&index["manifests"][0])?))?;
    let layers = manifest["layers"].as_array().context("an image without layers")?;
    let layers: Vec<String> = layers.iter().map(blob).collect::<Result<_>>()?;
    let docker = json!([{"Config": blob(&manifest["config"])?, "RepoTags": [tag], "Layers": layers}]);
    fs::write(layout.join("manifest.json"), docker.to_string())?;
    index["manifests"][0]["annotations"][IMAGE_NAME] = format!("docker.io/library/{tag}").into();
    fs::write(layout.join("index.json"), index.to_string())?;
    Ok(())
}

/// Checks that Docker finds in an archive what its `manifest.json` names: the configuration, and one layer for each hash.
pub(super) fn check_archive(archive: &Path, tag: &str) -> Result<()> {
    let listed = tar(archive, &["--list"])?;
    let manifest: Value = serde_json::from_str(&tar(archive, &["--extract", "--to-stdout", "manifest.json"])?)?;
    let image = &manifest[0];
    ensure!(image["RepoTags"] == json!([tag]), "manifest.json names {} instead of {tag}", image["RepoTags"]);
    let layers = image["Layers"].as_array().context("manifest.json names no layers")?;
    for path in layers.iter().chain([&image["Config"]]) {
        let path = path.as_str().context("manifest.json has something else than a path")?;
        ensure!(listed.lines().any(|line| line == path), "manifest.json names {path}, which is not in the archive");
    }
    let config = image["Config"].as_str().unwrap_or_default();
    let config: Value = serde_json::from_str(&tar(archive, &["--extract", "--to-stdout", config])?)?;
    let hashes = config["rootfs"]["diff_ids"].as_array().map_or(0, Vec::len);
    ensure!(hashes == layers.len(), "the image has {hashes} layers, and manifest.json names {}", layers.len());
    let index: Value = serde_json::from_str(&tar(archive, &["--extract", "--to-stdout", "index.json"])?)?;
    let name = &index["manifests"][0]["annotations"][IMAGE_NAME];
    ensure!(*name == format!("docker.io/library/{tag}"), "index.json names {name}");
    Ok(())
}

/// Reads the Debian packages of a root folder from its archive, as `prepare-root.sh` lists them.
pub(super) fn packages(root: &Path, suite: &str) -> Result<Vec<DebianPackage>> {
    let controls = tar(root, &["--extract", "--to-stdout", "--wildcards", "./var/lib/dpkg/status.d/*"])?;
    Ok(parse_packages(&controls, suite))
}

/// Reads control paragraphs, each of which begins with the name of its package.
fn parse_packages(controls: &str, suite: &str) -> Vec<DebianPackage> {
    let mut packages: Vec<DebianPackage> = Vec::new();
    for line in controls.lines() {
        if let Some(name) = line.strip_prefix("Package: ") {
            packages.push(DebianPackage { name: name.into(), suite: suite.into(), ..DebianPackage::default() });
        } else if let Some(package) = packages.last_mut() {
            if let Some(version) = line.strip_prefix("Version: ") {
                package.version = version.into();
            } else if let Some(processor) = line.strip_prefix("Architecture: ") {
                package.processor = processor.into();
            }
        }
    }
    packages
}

/// Path of a blob in its layout.
fn blob(descriptor: &Value) -> Result<String> {
    let digest = descriptor["digest"].as_str().context("a blob without a digest")?;
    Ok(format!("blobs/{}", digest.replace(':', "/")))
}

fn read(file: &Path) -> Result<Value> {
    let text = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("reading {}", file.display()))
}

/// Output of `tar` for an archive.
fn tar(archive: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("tar").arg("--file").arg(archive).args(arguments).output().context("running tar")?;
    ensure!(output.status.success(), "{}: {}", archive.display(), String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Layout of one image with one layer, as buildah writes it.
    fn layout(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("treeline-{name}-{}", std::process::id()));
        let blobs = folder.join("blobs/sha256");
        fs::create_dir_all(&blobs).expect("a folder");
        let files = [
            (folder.join("oci-layout"), json!({"imageLayoutVersion": "1.0.0"})),
            (
                folder.join("index.json"),
                json!({"manifests": [{"digest": "sha256:a", "annotations": {"other": "stays"}}]}),
            ),
            (blobs.join("a"), json!({"config": {"digest": "sha256:b"}, "layers": [{"digest": "sha256:c"}]})),
            (blobs.join("b"), json!({"rootfs": {"diff_ids": ["sha256:d"]}})),
            (blobs.join("c"), json!("a layer")),
        ];
        for (path, content) in files {
            fs::write(path, content.to_string()).expect("a file");
        }
        folder
    }

    fn pack(layout: &Path) -> std::path::PathBuf {
        let archive = layout.with_extension("tar");
        let packed = Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(layout).args(FILES).status();
        assert!(packed.expect("tar").success());
        archive
    }

    #[test]
    fn docker_finds_configuration_and_layers() {
        let layout = layout("image");
        add_docker_manifest(&layout, "treeline:1.2.3").expect("a manifest");
        let index = read(&layout.join("index.json")).expect("an index");
        assert_eq!(index["manifests"][0]["annotations"]["other"], "stays");
        let archive = pack(&layout);
        check_archive(&archive, "treeline:1.2.3").expect("a good archive");
        assert!(check_archive(&archive, "treeline:1.2.4").is_err(), "another tag");
        fs::remove_file(layout.join("blobs/sha256/c")).expect("the layer was there");
        let error = check_archive(&pack(&layout), "treeline:1.2.3").expect_err("an archive without its layer");
        assert!(error.to_string().contains("blobs/sha256/c"), "{error}");
        fs::remove_dir_all(&layout).expect("the layout was there");
        fs::remove_file(&archive).expect("the archive was there");
    }

    #[test]
    fn packages_are_read_from_their_control_paragraphs() {
        let controls = "Package: libc6\nArchitecture: amd64\nVersion: 2.36-9\nDescription: a\n Package: no\n\
                        Package: tzdata\nVersion: 1:2026a\nArchitecture: all\n";
        let found = parse_packages(controls, "bookworm");
        let urls: Vec<String> = found.iter().map(DebianPackage::url).collect();
        assert_eq!(
            urls,
            [
                "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=bookworm",
                "pkg:deb/debian/tzdata@1%3A2026a?arch=all&distro=bookworm"
            ]
        );
    }
}
