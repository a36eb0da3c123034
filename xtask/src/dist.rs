//! Files of a release, in `target/dist`: binaries, Debian package, container images, Helm chart, Compose file, bill of
//! materials, checksums.
//!
//! What they contain is declared in `packaging/`; this runs the tools. Times are those of the commit, so the same
//! binaries (and the same Debian packages, for the images) always give the same bytes. Whether they work is checked by
//! [`verify`], apart from the tests, because it needs the network, containers, and minutes.

mod oci;
mod verify;

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

use crate::{
    paths,
    setup::{self, Need},
    site,
    step::{self, OPTIMIZED, cargo},
    supply::{self, DebianPackage},
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The programs of a release.
const PROGRAMS: [&str; 2] = ["treeline-server", "treeline"];

/// Debian release whose packages the images consist of.
const SUITE: &str = "bookworm";

/// Packages of every image, and of the one with PostgreSQL in addition.
const PACKAGES: &str = "base-files,ca-certificates,libc6,libgcc-s1,netbase,tzdata";
/// Backups and their restoration use `tar`.
const POSTGRES_PACKAGES: &str = "coreutils,dash,libc-bin,postgresql-15,tar";

/// Makes the files of a release, and with `verify` also installs and uses them.
pub(crate) fn run(binaries: Option<&Path>, verify: bool) -> Result<()> {
    setup::packaging()?;
    let binaries = match binaries {
        Some(folder) => folder.to_owned(),
        None => programs()?,
    };
    let dist = Dist::new(paths::target()?.join("dist"), &binaries)?;
    dist.make()?;
    if verify { verify::all(&dist, &binaries) } else { Ok(()) }
}

/// Builds the site and the programs.
fn programs() -> Result<PathBuf> {
    setup::all(Need::Site)?;
    site::build(site::Kind::Release)?;
    let parts = ["build", "--profile", OPTIMIZED, "--locked", "--package", "server", "--package", "client", "--bins"];
    step::run("build the programs", cargo(parts))?;
    Ok(paths::target()?.join(OPTIMIZED))
}

struct Dist {
    /// Finished files.
    folder: PathBuf,
    /// Target folder of its own for cargo-deb; input of the images.
    stage: PathBuf,
    /// Time of the commit, in seconds since 1970.
    epoch: String,
    /// Debian's name of the processor.
    processor: String,
}

impl Dist {
    /// Prepares the stage: programs, stripped but for the names of functions, which CPU profiles show; and the changelog.
    fn new(folder: PathBuf, binaries: &Path) -> Result<Self> {
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(epoch) => epoch,
            Err(_) => output_of("git", &["log", "-1", "--format=%ct"])?,
        };
        let processor = output_of("dpkg", &["--print-architecture"])?;
        let stage = paths::target()?.join("dist-stage");
        for old in [&folder, &stage] {
            if old.exists() {
                fs::remove_dir_all(old).with_context(|| format!("removing {}", old.display()))?;
            }
        }
        fs::create_dir_all(&folder)?;
        fs::create_dir_all(stage.join("release"))?;
        let dist = Self { folder, stage, epoch, processor };
        for program in PROGRAMS {
            let mut strip = Command::new("strip");
            strip.arg("--strip-debug").arg(binaries.join(program)).arg("-o").arg(dist.program(program));
            step::run(&format!("strip {program}"), strip)?;
        }
        let date = output_of("date", &["--utc", "--rfc-email", "--date", &format!("@{}", dist.epoch)])?;
        let changelog = format!(
            "treeline ({VERSION}) stable; urgency=medium\n\n  * See CHANGELOG.md in the sources.\n\n -- The Treeline \
             authors <maintainers@treeline.example>  {date}\n"
        );
        let mut packed = flate2::GzBuilder::new().mtime(0).write(Vec::new(), flate2::Compression::best());
        packed.write_all(changelog.as_bytes())?;
        fs::write(dist.stage.join("release/changelog.gz"), packed.finish()?)?;
        Ok(dist)
    }

    fn make(&self) -> Result<()> {
        self.archive()?;
        self.deb()?;
        let mut packages = self.image("treeline", PACKAGES)?;
        packages.extend(self.image("treeline-standalone", &format!("{PACKAGES},{POSTGRES_PACKAGES}"))?);
        self.chart()?;
        fs::copy("packaging/compose.yaml", self.folder.join("compose.yaml"))?;
        supply::sbom(Some(self.folder.join(format!("treeline-{VERSION}.cdx.json"))), &packages)?;
        self.sums()
    }

    fn program(&self, name: &str) -> PathBuf {
        self.stage.join("release").join(name)
    }

    /// Command with the time of the commit, for tools that write times.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SOURCE_DATE_EPOCH", &self.epoch);
        command
    }

    /// Writes a `tar` whose bytes depend only on the contents of the files.
    fn tar(&self, to: &Path, from: &Path, names: &[&str]) -> Result<()> {
        let mut tar = self.command("tar");
        tar.args(["--create", "--auto-compress", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
        tar.args(["--mode=u+w,go-w,a+rX"]).arg(format!("--mtime=@{}", self.epoch)).env("GZIP", "-n9");
        tar.arg("--file").arg(to).arg("--directory").arg(from).args(names);
        step::run(&format!("pack {}", name_of(to)), tar)
    }

    fn archive(&self) -> Result<()> {
        for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
            fs::copy(license, self.stage.join("release").join(license))?;
        }
        let to = self.folder.join(format!("treeline-{VERSION}-linux-{}.tar.gz", self.processor));
        self.tar(&to, &self.stage.join("release"), &[&PROGRAMS[..], &["LICENSE-MIT", "LICENSE-APACHE"]].concat())
    }

    fn deb(&self) -> Result<()> {
        let mut deb = self.command("cargo");
        deb.args(["deb", "--no-build", "--no-strip", "--package", "server", "--output"]).arg(&self.folder);
        let tools = supply::cargo_deb()?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths(tools.parent().map(Path::to_owned).into_iter().chain(std::env::split_paths(&path)))?;
        deb.env("PATH", path).env("CARGO_TARGET_DIR", &self.stage);
        step::run("make the Debian package", deb)
    }

    /// Builds an image without a base image and without a daemon: the root folder is extracted from Debian packages.
    /// Returns those of which files remain.
    fn image(&self, name: &str, packages: &str) -> Result<Vec<DebianPackage>> {
        let root = self.stage.join(format!("{name}-root.tar"));
        let mut debian = self.command("mmdebstrap");
        debian.args(["--variant=extract", "--include", packages, "--extract-hook"]);
        debian.arg(paths::root().join("packaging/images/prepare-root.sh")).arg(SUITE).arg(&root);
        step::run(&format!("extract the root of {name}"), debian)?;
        let packages = oci::packages(&root, SUITE)?;

        let tag = format!("{name}:{VERSION}");
        let store = self.stage.join("containers");
        let buildah = |arguments: &[&str]| {
            let mut buildah = self.command("buildah");
            buildah.arg("--root").arg(&store).arg("--runroot").arg(self.stage.join("containers-run"));
            buildah.args(["--storage-driver", "vfs"]).args(arguments);
            buildah
        };
        let mut build = buildah(&["build", "--isolation", "chroot", "--no-cache", "--format", "oci"]);
        build.args(["--identity-label=false", "--timestamp", &self.epoch, "--tag", &tag]);
        build.args(["--build-arg", &format!("ROOT={}", name_of(&root)), "--ignorefile", "/dev/null"]);
        // Only these three are the context.
        let context = self.stage.join(name);
        fs::create_dir_all(&context)?;
        for program in PROGRAMS {
            fs::copy(self.program(program), context.join(program))?;
        }
        fs::rename(&root, context.join(name_of(&root)))?;
        build.arg("--file").arg(paths::root().join("packaging/images/Containerfile")).arg(&context);
        step::run(&format!("build the image {name}"), build)?;

        let layout = self.stage.join(format!("{name}-oci"));
        let to = format!("oci:{}:{tag}", layout.display());
        step::run(&format!("write the image {name}"), buildah(&["push", "--quiet", &tag, &to]))?;
        step::run("remove it from the store", buildah(&["rmi", "--force", &tag]))?;
        fs::remove_dir_all(&context)?;
        oci::add_docker_manifest(&layout, &tag)?;
        self.tar(&self.image_archive(name), &layout, &oci::FILES)?;
        Ok(packages)
    }

    fn image_archive(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}-{VERSION}-{}.oci.tar", self.processor))
    }

    fn chart(&self) -> Result<()> {
        let chart = fs::read_to_string("packaging/helm/treeline/Chart.yaml")?;
        ensure!(
            chart.contains(&format!("\nversion: {VERSION}\n")) && chart.contains(&format!("appVersion: \"{VERSION}\"")),
            "packaging/helm/treeline/Chart.yaml has another version than {VERSION}"
        );
        let compose = fs::read_to_string("packaging/compose.yaml")?;
        ensure!(compose.contains(&format!("treeline:{VERSION}\n")), "compose.yaml has another version than {VERSION}");
        let to = self.folder.join(format!("treeline-{VERSION}.tgz"));
        self.tar(&to, Path::new("packaging/helm"), &["treeline"])
    }

    /// Writes `SHA256SUMS`, as `sha256sum --check` reads it, and prints names and sizes.
    fn sums(&self) -> Result<()> {
        let mut sums = String::new();
        for file in paths::files_below(&self.folder) {
            let content = fs::read(&file)?;
            println!("    {:8.1} MB  {}", content.len() as f64 / 1e6, name_of(&file));
            let hash = supply::hex(&Sha256::digest(&content));
            sums.extend([hash.as_str(), "  ", &name_of(&file), "\n"]);
        }
        fs::write(self.folder.join("SHA256SUMS"), sums)?;
        println!("    in {}", self.folder.display());
        Ok(())
    }
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn output_of(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output().with_context(|| format!("running {program}"))?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
