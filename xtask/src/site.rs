//! Site: the frontend as a folder of files, each also compressed.
//!
//! `frontend` → wasm32 → wasm-bindgen → wasm-opt, the combined scripts and style sheets, the fonts; then `.br` and `.gz`
//! of each, and `hash`, the fingerprint of all files. The server embeds the folder in its binary, so it is replaced only
//! if something has changed.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{
    paths,
    step::{self, cargo},
};

/// Maximum size of the WASM file with brotli, in bytes.
const WASM_LIMIT: usize = 200_000;

/// Maximum size of a style sheet or of the script of every page with brotli, in bytes: with its headers it fits into the
/// first ten segments that a server sends, so a new connection gets it in one round trip.
const FIRST_LOAD_LIMIT: usize = 14_000;

/// Style sheets: their names in `style`, and in the site.
const STYLES: [(&str, &str); 3] =
    [("main.css", "treeline.css"), ("imports.css", "imports.css"), ("documentation.css", "documentation.css")];

/// Oldest browsers that pages are written for, new enough for `light-dark()`, nesting, and `@layer` to stay as they are.
const BROWSERS: &str = "chrome123,firefox121,safari17.5";

/// WASM features in rustc's output (since LLVM 20), which wasm-opt must be told.
const WASM_FEATURES: [&str; 6] = [
    "--enable-bulk-memory",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
    "--enable-mutable-globals",
    "--enable-multivalue",
];

/// Names in the site, and their npm paths. The extended Latin letters are separate files, which browsers fetch only for
/// text with such letters.
const FONTS: [(&str, &str); 4] = [
    ("sans.woff2", "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2"),
    ("sans-ext.woff2", "@fontsource-variable/inter/files/inter-latin-ext-wght-normal.woff2"),
    ("mono.woff2", "@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2"),
    ("mono-ext.woff2", "@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-ext-wght-normal.woff2"),
];

/// Scripts of every page, in `app/src/scripts`, in the order in which they are joined into `page.js`.
const PAGE_SCRIPTS: [&str; 10] = [
    "page.js",
    "live.js",
    "topics.js",
    "keys.js",
    "palette.js",
    "select.js",
    "filter.js",
    "review.js",
    "passkeys.js",
    "notices.js",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Unoptimized, in seconds.
    Quick,
    /// Optimized for size, with a size check.
    Release,
}

/// Builds the site if any of its inputs has changed.
pub(crate) fn build(kind: Kind) -> Result<()> {
    let (profile, folder) = match kind {
        Kind::Quick => ("dev", "debug"),
        Kind::Release => ("wasm-release", "wasm-release"),
    };
    step::run(
        "compile for the browser",
        cargo(["build", "--package", "frontend", "--target", "wasm32-unknown-unknown", "--profile", profile]),
    )?;
    let wasm = paths::target()?.join("wasm32-unknown-unknown").join(folder).join("frontend.wasm");

    let mut inputs =
        vec![wasm.clone(), paths::end2end().join("package-lock.json"), paths::end2end().join("bundle-css.mjs")];
    inputs.push(paths::root().join("xtask/src/site.rs"));
    inputs.extend(paths::files_below(&paths::root().join("style")));
    inputs.extend(PAGE_SCRIPTS.iter().map(|name| script(name)));
    let inputs = format!("{kind:?} {}", paths::fingerprint(&inputs, paths::root())?);

    let site = paths::root().join("site");
    let mark = paths::target()?.join("site-inputs");
    let built = std::fs::read_to_string(site.join("hash")).ok();
    if let Some(hash) = &built
        && std::fs::read_to_string(&mark).is_ok_and(|text| text == format!("{inputs} {hash}"))
    {
        return Ok(());
    }

    let new = paths::root().join("target").join("site-new");
    let _ = std::fs::remove_dir_all(&new);
    std::fs::create_dir_all(new.join("fonts"))?;
    step::time("bind to JavaScript", || bind(&wasm, &new))?;
    if kind == Kind::Release {
        step::run("shrink", shrink(&new.join("treeline_bg.wasm")))?;
    }
    for (source, name) in STYLES {
        step::run("bundle styles", bundle(source, &new.join(name)))?;
    }
    let scripts: Vec<String> =
        PAGE_SCRIPTS.iter().map(|name| std::fs::read_to_string(script(name))).collect::<Result<_, _>>()?;
    std::fs::write(new.join("page.js"), scripts.concat())?;
    for name in ["page.js", "treeline.js"] {
        step::run("minify scripts", minify(&new.join(name)))?;
    }
    for (name, source) in FONTS {
        let source = paths::end2end().join("node_modules").join(source);
        std::fs::copy(&source, new.join("fonts").join(name))
            .with_context(|| format!("copying {}", source.display()))?;
    }
    step::time("pack", || pack(&new, kind))?;
    let hash = paths::fingerprint(&paths::files_below(&new), &new)?;
    std::fs::write(new.join("hash"), &hash)?;
    if kind == Kind::Release {
        weigh(&new.join("treeline_bg.wasm"), WASM_LIMIT)?;
        for name in STYLES.map(|(_, name)| name).into_iter().chain(["page.js"]) {
            weigh(&new.join(name), FIRST_LOAD_LIMIT)?;
        }
    }
    if built.as_ref() != Some(&hash) {
        let _ = std::fs::remove_dir_all(&site);
        std::fs::rename(&new, &site).context("putting the site in its place")?;
    }
    Ok(std::fs::write(mark, format!("{inputs} {hash}"))?)
}

fn script(name: &str) -> PathBuf {
    paths::root().join("app/src/scripts").join(name)
}

fn bind(wasm: &Path, folder: &Path) -> Result<()> {
    wasm_bindgen_cli_support::Bindgen::new()
        .input_path(wasm)
        .out_name("treeline")
        .web(true)?
        .typescript(false)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate(folder)
}

fn shrink(wasm: &Path) -> Command {
    let mut command = Command::new(paths::npm_program("wasm-opt"));
    command.args(["-Oz", "--converge"]).args(WASM_FEATURES).arg(wasm).arg("-o").arg(wasm);
    command
}

fn bundle(source: &str, to: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(paths::end2end().join("bundle-css.mjs")).arg(paths::root().join("style").join(source)).arg(to);
    command.arg(BROWSERS);
    command
}

fn minify(script: &Path) -> Command {
    let mut command = Command::new(paths::npm_program("esbuild"));
    command.arg(script).args(["--minify", "--allow-overwrite", "--log-level=warning"]);
    command.args([format!("--target={BROWSERS}"), format!("--outfile={}", script.display())]);
    command
}

/// Writes `.br` and `.gz` next to every file that becomes smaller.
fn pack(folder: &Path, kind: Kind) -> Result<()> {
    for file in paths::files_below(folder) {
        if file.extension().is_some_and(|extension| extension == "woff2") {
            continue;
        }
        let plain = std::fs::read(&file)?;
        if kind == Kind::Release {
            std::fs::write(with_suffix(&file, "br"), brotli(&plain)?)?;
        }
        std::fs::write(with_suffix(&file, "gz"), gzip(&plain, kind)?)?;
    }
    Ok(())
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

fn brotli(plain: &[u8]) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    let strongest =
        brotli::enc::BrotliEncoderParams { quality: 11, lgwin: 22, size_hint: plain.len(), ..Default::default() };
    brotli::BrotliCompress(&mut &*plain, &mut packed, &strongest)?;
    Ok(packed)
}

fn gzip(plain: &[u8], kind: Kind) -> Result<Vec<u8>> {
    let level = if kind == Kind::Release { flate2::Compression::best() } else { flate2::Compression::fast() };
    let mut encoder = flate2::GzBuilder::new().mtime(0).write(Vec::new(), level);
    encoder.write_all(plain)?;
    Ok(encoder.finish()?)
}

fn weigh(file: &Path, limit: usize) -> Result<()> {
    let name = file.file_name().unwrap_or_default().display();
    let size = |suffix: &str| -> Result<usize> {
        let file = if suffix.is_empty() { file.to_owned() } else { with_suffix(file, suffix) };
        Ok(std::fs::metadata(file)?.len() as usize)
    };
    let (raw, gzip, brotli) = (size("")?, size("gz")?, size("br")?);
    let kilobytes = |bytes: usize| format!("{:.1} kB", bytes as f64 / 1000.0);
    println!("    {name} {}, gzip {}, brotli {}", kilobytes(raw), kilobytes(gzip), kilobytes(brotli));
    ensure!(brotli <= limit, "{name} weighs {brotli} bytes with brotli; the limit is {limit}");
    Ok(())
}
