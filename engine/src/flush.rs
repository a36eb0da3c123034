//! Group commit: requests that arrive together share one transaction.
//!
//! Commands queue; a flusher takes the queued commands and runs them as one batch; later arrivals form the next batch.
//! There is no timer: an idle server adds no delay, a busy one fills its batches. Commands are answered after their
//! commit while the next batch is already running. A failed batch is run again in halves, so that only the poisoned
//! command is refused. Flushers are tasks of their own: a client that disconnects cannot cancel a transaction. A batch
//! that panics is one that failed.
//!
//! While no batch finishes, queued commands are refused and may be sent again: none of their work was begun.

mod stall_detector; // stall detector

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use tokio::{
    sync::{Mutex, Semaphore, mpsc, oneshot},
    time::{Instant, timeout, timeout_at},
};

use stall_detector::StallDetector;

use crate::{
    error::{Error, Result},
    task::{conflict_retries::CONFLICT_RETRIES, unless_silent},
};

/// Family of commands that can run together.
pub trait Batch: Send + Sync + 'static {
    type Command: Send + Sync + 'static;
    type Answer: Send + 'static;
    /// Result of a commit, needed for the answers and follow-up work.
    type Done: Send + 'static;

    /// True if queued commands are refused when batches stall.
    const REFUSES_WHEN_STALLED: bool = true;

    /// Time after which a batch is dropped, even in the middle of a statement, so that one that hangs does not block its
    /// flusher. Only for batches whose connections come from a pool that tests them (`Pools`).
    const TIME_LIMIT: Option<Duration> = None;

    /// Approximate number of rows of a command.
    fn weight(command: &Self::Command) -> usize;

    /// Runs commands in one transaction. `Err` means that nothing was changed.
    fn run(&self, commands: &[&Self::Command]) -> impl Future<Output = Result<Self::Done>> + Send;

    /// Does the work after the commit and returns one answer for each command, in order.
    fn answer(
        &self,
        commands: &[Self::Command],
        done: Self::Done,
    ) -> impl Future<Output = Vec<Result<Self::Answer>>> + Send;
}

/// Maximum number of rows in one flush; the rest waits for the next.
const MAX_ROWS: usize = 1_000;

/// If the last batch got no connection and none has finished since, commands older than this are refused: they would only
/// time out, too.
const TOO_OLD: Duration = Duration::from_millis(500);

/// Number of committed but unanswered batches per flusher above which flushers wait.
const UNANSWERED: usize = 4;

struct Queued<B: Batch> {
    command: B::Command,
    answer: oneshot::Sender<Result<B::Answer>>,
    since: Instant,
    /// Set once, by the flusher that takes the command or by the caller that stops waiting.
    decided: Arc<AtomicBool>,
}

impl<B: Batch> Queued<B> {
    /// Returns true if the command is to be run. A command without a waiting caller is skipped: a claim would only
    /// strand its items until their lease ends.
    fn take(&self) -> bool {
        !self.answer.is_closed() && !self.decided.swap(true, Ordering::AcqRel)
    }
}

/// Queue of one family.
pub struct Coalescer<B: Batch> {
    queue: mpsc::UnboundedSender<Queued<B>>,
    stall_detector: Arc<StallDetector>,
}

impl<B: Batch> Clone for Coalescer<B> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), stall_detector: Arc::clone(&self.stall_detector) }
    }
}

impl<B: Batch> Coalescer<B> {
    /// Starts `flushers` tasks; one per core is best.
    pub fn start(batch: B, flushers: usize) -> Self {
        let batch = Arc::new(batch);
        let (queue, commands) = mpsc::unbounded_channel();
        let commands = Arc::new(Mutex::new(CommandQueue { commands, overflow: None }));
        let unanswered = Arc::new(Semaphore::new(flushers.max(1) * UNANSWERED));
        let stall_detector = Arc::new(StallDetector::default());
        for _ in 0..flushers.max(1) {
            let (batch, commands) = (Arc::clone(&batch), Arc::clone(&commands));
            tokio::spawn(flush(batch, commands, Arc::clone(&stall_detector), Arc::clone(&unanswered)));
        }
        Self { queue, stall_detector }
    }

    /// Runs a command together with the other queued commands; returns after its commit.
    pub async fn run(&self, command: B::Command) -> Result<B::Answer> {
        let (answer, mut answered) = oneshot::channel();
        let gone = || Error::Broken("a flusher has stopped".to_owned());
        let (decided, queued_at) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let queued = Queued { command, answer, since: queued_at, decided: Arc::clone(&decided) };
        self.queue.send(queued).map_err(|_| gone())?;
        if B::REFUSES_WHEN_STALLED {
            loop {
                match timeout_at(self.stall_detector.deadline(queued_at), &mut answered).await {
                    Ok(answer) => return answer.map_err(|_| gone())?,
                    Err(_) if self.stall_detector.deadline(queued_at) > Instant::now() => {}
                    Err(_) if decided.swap(true, Ordering::AcqRel) => break,
                    Err(_) => return Err(Error::Database(sqlx::Error::PoolTimedOut)),
                }
            }
        }
        answered.await.map_err(|_| gone())?
    }
}

struct CommandQueue<B: Batch> {
    commands: mpsc::UnboundedReceiver<Queued<B>>,
    /// Command that did not fit into the previous batch.
    overflow: Option<Queued<B>>,
}

impl<B: Batch> CommandQueue<B> {
    /// Waits for a command, then takes queued commands until the batch is full. Empty when the queue is closed. Refuses old
    /// ones if the batch before got no connection.
    async fn take(&mut self, is_busy: bool) -> Vec<Queued<B>> {
        let mut batch = Vec::new();
        let mut rows = 0;
        while rows < MAX_ROWS {
            let next = match self.overflow.take() {
                Some(overflow) => Some(overflow),
                None if batch.is_empty() => self.commands.recv().await,
                None => self.commands.try_recv().ok(),
            };
            let Some(next) = next else { break };
            if is_busy && B::REFUSES_WHEN_STALLED && next.since.elapsed() >= TOO_OLD {
                if next.take() {
                    let _ = next.answer.send(Err(Error::Database(sqlx::Error::PoolTimedOut)));
                }
                continue;
            }
            let weight = B::weight(&next.command);
            if !batch.is_empty() && rows + weight > MAX_ROWS {
                self.overflow = Some(next);
                break;
            }
            if next.take() {
                rows += weight;
                batch.push(next);
            }
        }
        batch
    }
}

async fn flush<B: Batch>(
    batch: Arc<B>,
    command_queue: Arc<Mutex<CommandQueue<B>>>,
    stall_detector: Arc<StallDetector>,
    unanswered: Arc<Semaphore>,
) {
    let mut is_busy = false;
    loop {
        let Ok(permit) = Arc::clone(&unanswered).acquire_owned().await else { return };
        let taken = command_queue.lock().await.take(is_busy).await;
        if taken.is_empty() {
            return;
        }
        let (commands, answers): (Vec<_>, Vec<_>) = taken.into_iter().map(|q| (q.command, q.answer)).unzip();
        let timer = stall_detector.begin(commands.iter().map(|command| B::weight(command)).sum());
        let parts = run_in_halves(&*batch, &commands.iter().collect::<Vec<_>>()).await;
        // The last part has the error of the whole batch.
        let error = parts.last().and_then(|part| part.result.as_ref().err());
        is_busy = matches!(error, Some(Error::Database(sqlx::Error::PoolTimedOut)))
            && !stall_detector.has_finished_since(&timer);
        stall_detector.end(&timer, parts.iter().any(|part| !part.result.as_ref().is_err_and(Error::is_database_away)));
        let batch = Arc::clone(&batch);
        tokio::spawn(async move {
            let _permit = permit;
            let mut answers = answers.into_iter();
            let mut at = 0;
            for Part { n, result } in parts {
                let of_part = &commands[at..at + n];
                at += n;
                let results = match result {
                    Ok(done) => match unless_silent(batch.answer(of_part, done)).await {
                        Ok(results) => results,
                        Err(_) => of_part.iter().map(|_| Err(Error::Database(sqlx::Error::PoolTimedOut))).collect(),
                    },
                    Err(error) => vec![Err(error)],
                };
                for (result, answer) in results.into_iter().zip(answers.by_ref().take(n)) {
                    // If the receiver is gone, the client has disconnected; its work is done nevertheless.
                    let _ = answer.send(result);
                }
            }
        });
    }
}

/// Commands that ran together, or a single command that failed.
struct Part<D> {
    n: usize,
    result: Result<D>,
}

async fn run_once<B: Batch>(batch: &B, commands: &[&B::Command]) -> Result<B::Done> {
    let run = AssertUnwindSafe(unless_silent(batch.run(commands))).catch_unwind();
    let done = match B::TIME_LIMIT {
        Some(limit) => timeout(limit, run).await.map_err(|_| Error::Database(sqlx::Error::PoolTimedOut))?,
        None => run.await,
    };
    // The panic itself is in the log.
    done.map_err(|_| Error::Broken("a batch panicked".to_owned()))?.flatten()
}

async fn run_in_halves<B: Batch>(batch: &B, commands: &[&B::Command]) -> Vec<Part<B::Done>> {
    let mut parts = Vec::with_capacity(1);
    let mut open = vec![commands];
    while let Some(part) = open.pop() {
        let mut conflicts = 0;
        let error = loop {
            match run_once(batch, part).await {
                Ok(done) => {
                    parts.push(Part { n: part.len(), result: Ok(done) });
                    break None;
                }
                Err(e) if e.is_conflict() && conflicts < CONFLICT_RETRIES => conflicts += 1,
                Err(e) => break Some(e),
            }
        };
        match error {
            None => {}
            Some(e) if part.len() == 1 => parts.push(Part { n: 1, result: Err(e) }),
            Some(e) if e.is_database_away() => {
                // Every half would only wait for the same unavailable database.
                let unavailable = || Error::Database(sqlx::Error::PoolTimedOut);
                parts.extend(part.iter().skip(1).map(|_| Part { n: 1, result: Err(unavailable()) }));
                parts.push(Part { n: 1, result: Err(e) });
            }
            Some(_) => {
                let (front, back) = part.split_at(part.len() / 2);
                open.push(back);
                open.push(front);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Poisonable;

    impl Batch for Poisonable {
        type Command = i32;
        type Answer = i32;
        type Done = ();

        fn weight(_: &i32) -> usize {
            1
        }

        async fn run(&self, commands: &[&i32]) -> Result<()> {
            assert!(!commands.contains(&&31), "a bug");
            if commands.contains(&&13) {
                return Err(Error::Broken("poisoned".into()));
            }
            Ok(())
        }

        async fn answer(&self, commands: &[i32], (): ()) -> Vec<Result<i32>> {
            commands.iter().map(|&n| Ok(n * 2)).collect()
        }
    }

    #[tokio::test]
    async fn commands_that_fail_or_panic_are_refused_alone() {
        let queue = Coalescer::start(Poisonable, 1);
        let all = futures::future::join_all((0..100).map(|n| queue.run(n))).await;
        for (n, result) in (0..100).zip(all) {
            match result {
                Ok(doubled) => assert_eq!(doubled, n * 2),
                Err(_) => assert!([13, 31].contains(&n)),
            }
        }
        assert_eq!(queue.run(1).await.expect("the flusher still runs"), 2);
    }

    /// Its first batch hangs.
    struct Hanging(AtomicBool);

    impl Batch for Hanging {
        type Command = ();
        type Answer = ();
        type Done = ();

        const REFUSES_WHEN_STALLED: bool = false;
        const TIME_LIMIT: Option<Duration> = Some(Duration::from_millis(20));

        fn weight((): &()) -> usize {
            1
        }

        async fn run(&self, _: &[&()]) -> Result<()> {
            if self.0.swap(false, Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            Ok(())
        }

        async fn answer(&self, commands: &[()], (): ()) -> Vec<Result<()>> {
            commands.iter().map(|()| Ok(())).collect()
        }
    }

    #[tokio::test]
    async fn batch_that_hangs_ends_after_its_time_limit() {
        let queue = Coalescer::start(Hanging(AtomicBool::new(true)), 1);
        assert!(queue.run(()).await.expect_err("it hung").is_database_away());
        queue.run(()).await.expect("the next one runs");
    }

    /// Blocks while its semaphore is closed; counts the commands it ran.
    struct Stuck(Arc<tokio::sync::Semaphore>, Arc<std::sync::atomic::AtomicUsize>);

    impl Batch for Stuck {
        type Command = ();
        type Answer = ();
        type Done = ();

        fn weight((): &()) -> usize {
            1
        }

        async fn run(&self, commands: &[&()]) -> Result<()> {
            self.1.fetch_add(commands.len(), Ordering::Relaxed);
            let _open = self.0.acquire().await;
            Ok(())
        }

        async fn answer(&self, commands: &[()], (): ()) -> Vec<Result<()>> {
            commands.iter().map(|()| Ok(())).collect()
        }
    }

    /// Runs at once, signals the second semaphore, and does not answer until the first one opens.
    struct Silent(Arc<tokio::sync::Semaphore>, Arc<tokio::sync::Semaphore>);

    impl Batch for Silent {
        type Command = ();
        type Answer = ();
        type Done = ();

        fn weight((): &()) -> usize {
            1
        }

        async fn run(&self, _: &[&()]) -> Result<()> {
            self.1.add_permits(1);
            Ok(())
        }

        async fn answer(&self, commands: &[()], (): ()) -> Vec<Result<()>> {
            let _open = self.0.acquire().await;
            commands.iter().map(|()| Ok(())).collect()
        }
    }

    #[tokio::test]
    async fn commands_are_refused_while_no_answer_arrives() {
        let closed = || Arc::new(tokio::sync::Semaphore::new(0));
        let (semaphore, begun) = (closed(), closed());
        let queue = Coalescer::start(Silent(Arc::clone(&semaphore), Arc::clone(&begun)), 1);
        let mut run = Vec::new();
        for _ in 0..UNANSWERED {
            let queue = queue.clone();
            run.push(tokio::spawn(async move { queue.run(()).await }));
            begun.acquire().await.expect("open").forget();
        }
        let refused = queue.run(()).await.expect_err("nothing is answered");
        assert!(refused.is_database_away());
        semaphore.add_permits(1);
        for one in run {
            one.await.expect("a task").expect("what was run is answered");
        }
        queue.run(()).await.expect("it goes on");
    }

    /// Gets no connection once its semaphore opens; counts the commands that it ran.
    struct Busy(Arc<tokio::sync::Semaphore>, Arc<std::sync::atomic::AtomicUsize>);

    impl Batch for Busy {
        type Command = ();
        type Answer = ();
        type Done = ();

        fn weight((): &()) -> usize {
            1
        }

        async fn run(&self, commands: &[&()]) -> Result<()> {
            self.1.fetch_add(commands.len(), Ordering::Relaxed);
            let _open = self.0.acquire().await;
            Err(Error::Database(sqlx::Error::PoolTimedOut))
        }

        async fn answer(&self, _: &[()], (): ()) -> Vec<Result<()>> {
            Vec::new()
        }
    }

    #[tokio::test]
    async fn commands_that_waited_behind_a_batch_without_a_connection_do_not_wait_again() {
        let (semaphore, run) = (Arc::new(tokio::sync::Semaphore::new(0)), Arc::default());
        let queue = Coalescer::start(Busy(Arc::clone(&semaphore), Arc::clone(&run)), 1);
        let send = || {
            let queue = queue.clone();
            tokio::spawn(async move { queue.run(()).await })
        };
        let first = send();
        while run.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        let old = send();
        tokio::task::yield_now().await;
        tokio::time::sleep(TOO_OLD).await;
        let new = send();
        tokio::task::yield_now().await;
        semaphore.add_permits(1);
        for refused in [first, old, new] {
            assert!(refused.await.expect("a task").expect_err("no connection").is_database_away());
        }
        assert_eq!(run.load(Ordering::Relaxed), 2, "only the new one was tried after the first");
    }

    #[tokio::test]
    async fn commands_refused_while_batches_stall_were_not_begun() {
        let (semaphore, run) = (Arc::new(tokio::sync::Semaphore::new(0)), Arc::default());
        let queue = Coalescer::start(Stuck(Arc::clone(&semaphore), Arc::clone(&run)), 1);
        let first = tokio::spawn({
            let queue = queue.clone();
            async move { queue.run(()).await }
        });
        tokio::task::yield_now().await;
        let queued_at = Instant::now();
        let refused = queue.run(()).await.expect_err("nothing comes to its end");
        assert!(refused.is_database_away() && queued_at.elapsed() < std::time::Duration::from_secs(4));
        semaphore.add_permits(1);
        first.await.expect("a task").expect("what was begun is answered however long it takes");
        queue.run(()).await.expect("it goes on");
        assert_eq!(run.load(Ordering::Relaxed), 2, "who was refused was not begun");
    }
}
