//! Work on all cores.

use anyhow::{Result, anyhow};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does something for every number below `n`, on all cores; returns the results in order.
///
/// # Errors
/// The work for one of the numbers fails; which one, if several do, is not determined.
pub fn each<T: Send>(n: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let part = || {
        let own = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < n));
        own.map(|i| Ok((i, work(i)?))).collect::<Result<Vec<_>>>()
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut done = thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|_| scope.spawn(part)).collect();
        let mut done = Vec::new();
        for part in parts {
            done.extend(part.join().map_err(|_| anyhow!("a thread panicked"))??);
        }
        anyhow::Ok(done)
    })?;
    done.sort_by_key(|(i, _)| *i);
    Ok(done.into_iter().map(|(_, t)| t).collect())
}
