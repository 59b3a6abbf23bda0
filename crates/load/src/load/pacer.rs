//! Timers that wake the sending loop on time.

use std::io;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The clock of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The machine's clock.
    Real,
    /// Tokio's paused clock, which jumps from timer to timer.
    Paused,
}

/// A timer that wakes its caller at absolute deadlines, never early.
///
/// Tokio's timer counts whole milliseconds and is 1 ms late at the median, a visible part of a 15 ms TTFT. On Linux,
/// the runtime therefore waits for a kernel timer (timerfd) together with its sockets, which wakes no other thread. On
/// other systems, or if the system refuses such a timer, a thread sleeps until the deadline and notifies the caller.
/// Under tokio's paused clock, tokio's timer is exact. `docs/timing.md` compares the cost of these designs.
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
    /// Makes a pacer for this clock. On the real clock, call it on the runtime that will wait. Fails if the system
    /// refuses both a timer and a thread.
    pub fn new(clock: Clock) -> io::Result<Self> {
        match clock {
            Clock::Paused => Ok(Self::of_runtime()),
            #[cfg(target_os = "linux")]
            Clock::Real => match kernel::Timer::new() {
                Ok(timer) => Ok(Self(Kind::Kernel(timer))),
                Err(_) => Self::thread(),
            },
            #[cfg(not(target_os = "linux"))]
            Clock::Real => Self::thread(),
        }
    }

    /// Makes a pacer of the runtime's own timer.
    pub const fn of_runtime() -> Self {
        Self(Kind::Clock)
    }

    /// Starts a thread that sleeps until each deadline. It ends when the pacer is dropped.
    fn thread() -> io::Result<Self> {
        let (send, alarms) = std::sync::mpsc::channel::<Alarm>();
        std::thread::Builder::new().name("pacer".into()).spawn(move || {
            for alarm in alarms {
                // The loop guards against a sleep that ends early.
                while let Some(left) =
                    alarm.at.checked_duration_since(Instant::now()).filter(|d| *d > Duration::ZERO)
                {
                    std::thread::sleep(left);
                }
                // The receiver is gone if the step was stopped.
                let _ = alarm.ring.send(());
            }
        })?;
        Ok(Self(Kind::Thread(send)))
    }

    /// Waits until `at`; returns at once if that has passed. Fails if the kernel's timer does.
    ///
    /// If the future is dropped before it returns, a pacer with a thread stays asleep until `at`, and later calls wait
    /// for that.
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
                    // The thread drops an alarm without ringing only when the process ends.
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

    /// A timer file descriptor (timerfd), which becomes readable when the timer expires. Tokio has no type for it; the
    /// reading end of a pipe behaves alike.
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
                // Longer waits than the kernel's seconds can hold are split.
                let seconds = left.as_secs().min(u64::from(u32::MAX)) as i64;
                let value = Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() };
                let never = Timespec { tv_sec: 0, tv_nsec: 0 };
                let once = Itimerspec { it_interval: never, it_value: value };
                timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
                self.0.readable().await?;
                match self.0.try_read(&mut [0; 8]) {
                    Ok(_) => {}
                    // Nothing to read: an earlier, abandoned deadline made it readable.
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
