//! A process that ends when it is dropped. The benchmark of the fleet includes this file too.

use rustix::process::{Pid, Signal, kill_process};
use std::process::Child;

/// A process that ends when it is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}
