//! Idle connections to one URL.

use super::IDLE;
use super::direct::Connection;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Idle connections to one URL.
#[derive(Default)]
pub(super) struct IdleConnections {
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Default)]
struct State {
    /// The connections with the times since which they are idle, in that order.
    connections: VecDeque<(Instant, Connection)>,
    /// True while a task waits to close connections that are idle for too long.
    is_swept: bool,
}

impl IdleConnections {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the connection that was used last, of those that can be sent on.
    pub(super) fn take(&self) -> Option<Connection> {
        let mut state = self.state();
        let mut unready = Vec::new();
        let mut ready = None;
        while let Some((since, connection)) = state.connections.pop_back() {
            if since.elapsed() >= IDLE {
                // The others are idle for even longer.
                state.connections.clear();
            } else if connection.requests.is_ready() {
                ready = Some(connection);
                break;
            } else if !connection.requests.is_closed() {
                // Its last request has not been sent to the end, or the task that drives it has not seen the end of the answer yet.
                unready.push((since, connection));
            }
        }
        state.connections.extend(unready.into_iter().rev());
        ready
    }

    /// Keeps a connection until it is taken, or idle for too long.
    pub(super) fn put(self: &Arc<Self>, connection: Connection) {
        if connection.requests.is_closed() {
            return;
        }
        let mut state = self.state();
        state.connections.push_back((Instant::now(), connection));
        if !std::mem::replace(&mut state.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        drop(state);
        self.freed.notify_one();
    }

    /// Completes once a connection has been put; perhaps at once, for one that was put earlier.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Returns the number of connections.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.state().connections.len()
    }
}

/// Closes connections that are idle for too long, until none is idle.
async fn sweep(idle: Weak<IdleConnections>) {
    loop {
        let next = {
            let Some(idle) = idle.upgrade() else { return };
            let mut state = idle.state();
            while state.connections.front().is_some_and(|(since, _)| since.elapsed() >= IDLE) {
                state.connections.pop_front();
            }
            let Some((since, _)) = state.connections.front() else {
                state.is_swept = false;
                return;
            };
            *since + IDLE
        };
        sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::direct::open;
    use super::*;
    use std::time::Duration;
    use tokio::io::DuplexStream;
    use tokio::time::advance;

    /// Returns a connection that is ready to be sent on, and its far end.
    async fn connection() -> (Connection, DuplexStream) {
        let (near, far) = tokio::io::duplex(4096);
        let mut connection = open(near).await.unwrap();
        connection.requests.ready().await.unwrap();
        (connection, far)
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_was_used_last_is_taken_first() {
        let idle = Arc::new(IdleConnections::default());
        let (mut far_ends, mut times) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (connection, far) = connection().await;
            times.push(connection.last_read.opened());
            far_ends.push(far);
            idle.put(connection);
            advance(Duration::from_millis(10)).await;
        }
        assert_eq!(idle.take().map(|c| c.last_read.opened()), Some(times[2]));
        // The far end of the next one closes.
        far_ends.remove(1);
        tokio::task::yield_now().await;
        assert_eq!(idle.take().map(|c| c.last_read.opened()), Some(times[0]));
        assert!(idle.take().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_closed_after_some_seconds_without_use() {
        let idle = Arc::new(IdleConnections::default());
        let (old, _far) = connection().await;
        idle.put(old);
        advance(IDLE - Duration::from_millis(2)).await;
        let (new, _far) = connection().await;
        let opened = new.last_read.opened();
        idle.put(new);
        assert_eq!(idle.len(), 2);
        tokio::time::sleep(Duration::from_millis(4)).await;
        assert_eq!(idle.len(), 1, "nobody asked for one");
        assert_eq!(idle.take().map(|c| c.last_read.opened()), Some(opened));
        let (last, _far) = connection().await;
        idle.put(last);
        tokio::time::sleep(2 * IDLE).await;
        assert_eq!((idle.len(), idle.state().is_swept), (0, false));
    }
}
