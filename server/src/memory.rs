//! How the process gives memory back.
//!
//! glibc's allocator asks the system for a large block by itself and returns it when it is freed, but it
//! learns: once a block of ten mebibytes was freed, the next ones are cut from the heap of whichever
//! thread asks, and every thread keeps what its largest request took. A fixed threshold ends that
//! (fault F31: 29 MiB of growth in place of 55 to 73, and the same on every run). The C library reads it
//! from the environment and before the program's first line, so the program starts itself once more.
//! Nothing else may depend on this: where it fails, the server is only larger.

use std::process::Command;

/// glibc's name for the size, in bytes, from which a block is a mapping of its own.
const THRESHOLD: &str = "MALLOC_MMAP_THRESHOLD_";
const ONE_MEBIBYTE: &str = "1048576";

/// Replaces the process by itself with the threshold set, unless somebody has chosen one. Same process
/// id, arguments, environment and open files. To be called first: what is already running is gone.
pub fn settle() {
    if cfg!(not(target_env = "gnu")) || std::env::var_os(THRESHOLD).is_some() {
        return;
    }
    #[cfg(unix)]
    if let Ok(program) = std::env::current_exe() {
        use std::os::unix::process::CommandExt as _;
        let mut line = std::env::args_os();
        let name = line.next().unwrap_or_else(|| program.clone().into_os_string());
        // Comes back only where it could not be done.
        let _ = Command::new(program).arg0(name).args(line).env(THRESHOLD, ONE_MEBIBYTE).exec();
    }
}
