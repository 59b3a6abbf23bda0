//! Waking up on time.

use std::io;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Which clock the load runs by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The machine's.
    Real,
    /// tokio's, paused: it leaps from timer to timer.
    Paused,
}

/// Wakes its caller at absolute deadlines, never before them.
///
/// tokio's timer counts whole milliseconds and is one late at the median, a visible part of a 15 ms TTFT. So on Linux the
/// runtime waits for a timer of the kernel's beside its sockets: no thread but its own has to wake. Elsewhere, or where the
/// system gives no such timer, a thread sleeps until the deadline and rings. Under tokio's paused clock its timer is exact.
/// What each design costs is told in `docs/timing.md`.
pub struct Pacer(Kind);

enum Kind {
    #[cfg(target_os = "linux")]
    Kernel(kernel::Timer),
    Thread(std::sync::mpsc::Sender<Alarm>),
    Clock,
}

struct Alarm {
    at: Instant,
    ring: oneshot::Sender<()>,
}

impl Pacer {
    /// For this clock. On the real one, call it on the runtime that will wait. Fails if the system gives neither timer nor
    /// thread.
    pub fn new(clock: Clock) -> io::Result<Self> {
        match clock {
            Clock::Paused => Ok(Self(Kind::Clock)),
            #[cfg(target_os = "linux")]
            Clock::Real => match kernel::Timer::new() {
                Ok(timer) => Ok(Self(Kind::Kernel(timer))),
                Err(_) => Self::thread(),
            },
            #[cfg(not(target_os = "linux"))]
            Clock::Real => Self::thread(),
        }
    }

    /// Starts a thread that sleeps, which ends with the pacer.
    fn thread() -> io::Result<Self> {
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

    /// Returns at `at`, or at once if that has passed. Fails if the kernel's timer does.
    ///
    /// Dropped before it returns, it leaves a pacer's thread asleep until `at`; later calls wait behind it.
    pub async fn until(&self, at: Instant) -> io::Result<()> {
        match &self.0 {
            Kind::Clock => tokio::time::sleep_until(at).await,
            #[cfg(target_os = "linux")]
            Kind::Kernel(timer) => timer.until(at).await?,
            Kind::Thread(alarms) => {
                if at <= Instant::now() {
                    return Ok(());
                }
                let (ring, rung) = oneshot::channel();
                if alarms.send(Alarm { at, ring }).is_ok() {
                    // The thread only drops an alarm when the process ends.
                    let _ = rung.await;
                }
            }
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use std::io::{self, ErrorKind};
    use tokio::net::unix::pipe::Receiver;
    use tokio::time::Instant;

    /// A timer that the kernel shows as a file: readable once it has expired. The runtime knows files of that kind as the
    /// reading end of a pipe, and treats them alike.
    pub(super) struct Timer(Receiver);

    impl Timer {
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            Ok(Self(Receiver::from_owned_fd_unchecked(fd)?))
        }

        pub(super) async fn until(&self, at: Instant) -> io::Result<()> {
            loop {
                let left = at.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Ok(());
                }
                // What does not fit into the kernel's seconds is waited for in pieces.
                let seconds = left.as_secs().min(u64::from(u32::MAX)) as i64;
                let value = Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() };
                let never = Timespec { tv_sec: 0, tv_nsec: 0 };
                let once = Itimerspec { it_interval: never, it_value: value };
                timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
                self.0.readable().await?;
                match self.0.try_read(&mut [0; 8]) {
                    Ok(_) => {}
                    // Nothing to read: what made it readable was an earlier deadline that was given up.
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                    Err(e) => return Err(e),
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
        for pacer in [Pacer::new(Clock::Real).unwrap(), Pacer::thread().unwrap()] {
            let start = Instant::now();
            for ms in [3, 1, 7] {
                let at = start + Duration::from_millis(ms);
                pacer.until(at).await.unwrap();
                assert!(Instant::now() >= at);
            }
        }
    }

    #[tokio::test]
    async fn a_deadline_that_was_given_up_does_not_ring_for_the_next() {
        let pacer = Pacer::new(Clock::Real).unwrap();
        let start = Instant::now();
        let soon = pacer.until(start + Duration::from_millis(500));
        tokio::select! { biased; _ = soon => panic!("too early"), () = std::future::ready(()) => {} }
        let at = start + Duration::from_millis(6);
        pacer.until(at).await.unwrap();
        assert!(Instant::now() >= at);
    }

    #[tokio::test(start_paused = true)]
    async fn is_exact_in_virtual_time() {
        let start = Instant::now();
        Pacer::new(Clock::Paused).unwrap().until(start + Duration::from_millis(250)).await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_millis(250));
    }
}
