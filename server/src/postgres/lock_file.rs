//! Lock file of the cluster, `postmaster.pid`, after its postmaster was killed.
//!
//! PostgreSQL refuses to start while a process of its account has the id in that file. In a container, this can be the
//! killed postmaster itself, which nobody reaps, or, after a restart of the container, another process or thread that
//! got the same id. The file stays, because it also names the shared memory that orphaned backends may still use, which
//! PostgreSQL checks; only the id is replaced. Does nothing on systems without /proc.

use std::path::Path;

use rustix::process::{Pid, WaitOptions, waitpid};

use super::programs::{Programs, Result, read};

/// Process id that no process has: above the limits of all systems.
const NO_PROCESS: i32 = i32::MAX;

/// Replaces the process id in a lock file if it is that of a program other than PostgreSQL or of a dead process. A dead
/// postmaster that is a child of this process is reaped.
pub(super) fn replace_stale_id(programs: &Programs, lock_file: &Path) -> Result<()> {
    let text = read(lock_file).unwrap_or_default();
    let Some((first_line, rest)) = text.split_once('\n') else { return Ok(()) };
    let id = first_line.trim().parse::<i32>().ok().filter(|id| *id > 0).and_then(Pid::from_raw);
    let Some(id) = id else { return Ok(()) };
    // Without such a process, PostgreSQL itself replaces the file.
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let Some(process) = Process::parse(&stat) else { return Ok(()) };
    if process.is_postgres && !process.is_dead {
        return Ok(());
    }
    if process.is_postgres && process.leads_session {
        // An error says that it is not a child of this process.
        let _ = waitpid(Some(id), WaitOptions::NOHANG);
    }
    programs.write_within(lock_file, &format!("{NO_PROCESS}\n{rest}"))
}

/// Process or thread in /proc.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    /// True if its name may be that of a postmaster or a backend.
    is_postgres: bool,
    /// Ended, and perhaps not reaped yet.
    is_dead: bool,
    /// Leads a session of its own, like a postmaster, and unlike every program that this process waits for.
    leads_session: bool,
}

impl Process {
    /// Parses the line in `/proc/<id>/stat`: id, name in parentheses, state, parent, process group, session, and more.
    fn parse(stat: &str) -> Option<Self> {
        // The name can contain spaces and parentheses.
        let (start, rest) = stat.rsplit_once(") ")?;
        let (id, name) = start.split_once(" (")?;
        let mut fields = rest.split(' ');
        let (state, session) = (fields.next()?, fields.nth(2)?);
        Some(Self {
            is_postgres: ["postgres", "postmaster"].iter().any(|program| name.contains(program)),
            is_dead: matches!(state, "Z" | "X"),
            leads_session: session == id,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether PostgreSQL, dead, and the leader of a session.
    fn parsed(stat: &str) -> Option<(bool, bool, bool)> {
        Process::parse(stat).map(|process| (process.is_postgres, process.is_dead, process.leads_session))
    }

    #[test]
    fn running_postgres_differs_from_dead_ones_and_other_programs() {
        assert_eq!(parsed("30 (postgres) S 1 30 30 0 -1 4194560 7"), Some((true, false, true)), "a postmaster");
        assert_eq!(parsed("31 (.postgres-wrapp) R 30 31 31 0"), Some((true, false, true)), "under another name");
        assert_eq!(parsed("30 (postgres) Z 1 30 30 0"), Some((true, true, true)), "a killed one");
        assert_eq!(parsed("30 (postgres) Z 1 1 1 0"), Some((true, true, false)), "a program that is waited for");
        assert_eq!(parsed("12 (tokio-rt-worker) S 0 1 1 0"), Some((false, false, false)), "a thread of the server");
        assert_eq!(parsed("40 (a) Z (b c) S 1 40 40 0"), Some((false, false, true)), "parentheses in the name");
        for unknown in ["", "30", "30 (postgres)", "30 (postgres) S 1"] {
            assert_eq!(parsed(unknown), None, "{unknown}");
        }
    }
}
