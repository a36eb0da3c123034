//! Watch over the machine itself: a machine that stands still for longer than a lease ends leases, and no server can help it.
//! What a standstill excuses is decided in `runs`.

use std::{
    fs::File,
    io::{Seek as _, Write as _},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Shortest standstill that is recorded. Leases of the faults are longer or are renewed more often than this.
const STANDSTILL: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(200);

/// Standstills of the machine since the program started: when each ended, and its length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine(Arc<Mutex<Vec<(Instant, Duration)>>>);

impl Machine {
    /// Starts two threads that last as long as the program. One measures how late it wakes up, the other how long a
    /// write to the disk of the databases takes. Returns an error if the file for these writes cannot be made.
    pub(crate) fn watch() -> std::io::Result<Self> {
        let machine = Self::default();
        let processors = machine.clone();
        thread::spawn(move || {
            loop {
                let from = Instant::now();
                thread::sleep(PAUSE);
                processors.record(from.elapsed().saturating_sub(PAUSE));
            }
        });
        let mut file = tempfile::tempfile()?;
        let disk = machine.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(PAUSE);
                let from = Instant::now();
                if write(&mut file).is_ok() {
                    disk.record(from.elapsed());
                }
            }
        });
        Ok(machine)
    }

    /// A machine that stood still during everything that ends within the next minute.
    #[cfg(test)]
    pub(crate) fn with_standstill() -> Self {
        let machine = Self::default();
        let later = Instant::now() + Duration::from_mins(1);
        machine.0.lock().unwrap_or_else(PoisonError::into_inner).push((later, STANDSTILL));
        machine
    }

    fn record(&self, length: Duration) {
        if length >= STANDSTILL {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), length));
        }
    }

    /// Longest standstill that ended after `begun`; `None` if there was none.
    pub(crate) fn longest_since(&self, begun: Instant) -> Option<Duration> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|(ended, _)| *ended >= begun).map(|(_, length)| *length).max()
    }
}

fn write(file: &mut File) -> std::io::Result<()> {
    file.rewind()?;
    file.write_all(&[0; 4096])?;
    file.sync_data()
}
