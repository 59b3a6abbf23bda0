//! Waking up on time.

use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Wakes its caller at absolute deadlines.
///
/// tokio's timer is more than a millisecond late at the median, a visible part of a 15 ms TTFT. So on the real clock a thread
/// of its own sleeps until the deadline and rings; under tokio's paused clock the timer is exact.
pub struct Pacer(Kind);

enum Kind {
    Thread(std::sync::mpsc::Sender<Alarm>),
    Clock,
}

struct Alarm {
    at: Instant,
    ring: oneshot::Sender<()>,
}

impl Pacer {
    /// For the real clock: starts the thread, which ends with the pacer. Fails if the system gives no thread.
    pub fn thread() -> std::io::Result<Self> {
        let (send, alarms) = std::sync::mpsc::channel::<Alarm>();
        std::thread::Builder::new().name("pacer".into()).spawn(move || {
            for alarm in alarms {
                // A sleep may end early on a signal, never its deadline.
                while let Some(left) =
                    alarm.at.checked_duration_since(Instant::now()).filter(|d| *d > Duration::ZERO)
                {
                    std::thread::sleep(left);
                }
                // Nobody listens any more when the step was stopped.
                let _ = alarm.ring.send(());
            }
        })?;
        Ok(Self(Kind::Thread(send)))
    }

    /// For tokio's paused clock.
    pub fn clock() -> Self {
        Self(Kind::Clock)
    }

    /// Returns at `at`, or at once if that has passed.
    ///
    /// Dropped before it returns, it leaves the thread asleep until `at`; later calls wait behind it.
    pub async fn until(&self, at: Instant) {
        match &self.0 {
            Kind::Clock => tokio::time::sleep_until(at).await,
            Kind::Thread(alarms) => {
                if at <= Instant::now() {
                    return;
                }
                let (ring, rung) = oneshot::channel();
                if alarms.send(Alarm { at, ring }).is_ok() {
                    // The thread only drops an alarm when the process ends.
                    let _ = rung.await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rings_no_earlier_than_asked() {
        let pacer = Pacer::thread().unwrap();
        let start = Instant::now();
        for ms in [3, 1, 7] {
            let at = start + Duration::from_millis(ms);
            pacer.until(at).await;
            assert!(Instant::now() >= at);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn is_exact_in_virtual_time() {
        let start = Instant::now();
        Pacer::clock().until(start + Duration::from_millis(250)).await;
        assert_eq!(start.elapsed(), Duration::from_millis(250));
    }
}
