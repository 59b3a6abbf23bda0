//! The messages between a leader and its workers.

use bytes::{BufMut, Bytes, BytesMut};
use goodput_core::endpoint::BaseUrl;
use goodput_load::client::consent::Allowed;
use goodput_load::load::lag::OwnDelay;
use goodput_load::load::local::Outline;
use goodput_load::load::spec::{Spec, Status};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Version of the messages and of the rows of records. Leader and workers have the same.
pub const PROTOCOL: u32 = 2;

/// The name of a worker, which is a part of its subject on the bus.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkerId(String);

impl WorkerId {
    /// The longest name, in bytes.
    const LONGEST: usize = 64;

    /// Makes a name from any text: other characters than letters, digits, `-` and `_` become `-`.
    pub fn from_text(text: &str) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
        let name: String = text.chars().map(plain).take(Self::LONGEST).collect();
        Self(if name.is_empty() { "worker".into() } else { name })
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for WorkerId {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if Self::from_text(&name).0 == name {
            return Ok(Self(name));
        }
        Err(format!("a worker's name has 1 to {} letters, digits, - and _, unlike {name:?}", Self::LONGEST))
    }
}

impl std::str::FromStr for WorkerId {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        name.to_owned().try_into()
    }
}

impl From<WorkerId> for String {
    fn from(id: WorkerId) -> Self {
        id.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A leader's process: a sweep that is resumed has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaderId(pub u64);

/// One load that is fired, by its number among those of its leader, from 1. A step that is measured again is another
/// attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt(pub u64);

/// The description of a worker, for everyone on the bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerInfo {
    /// Its name.
    pub id: WorkerId,
    /// The start of its process: another one under the same name is another worker.
    pub incarnation: u64,
    /// [`PROTOCOL`] of its program.
    pub protocol: u32,
    /// Version of its program.
    pub version: String,
    /// SHA-256 of its program.
    pub binary: String,
    /// Name of its machine.
    pub host: String,
    /// Cores that it may use.
    pub cores: u32,
    /// Most open streams: the limit on its descriptors.
    pub streams: u64,
    /// Ephemeral ports: most connections to one address.
    pub ports: u32,
    /// Most requests per second by its calibration, if it was calibrated.
    pub max_rate: Option<u64>,
}

/// A request of a leader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The leader.
    pub leader: LeaderId,
    /// The command.
    pub command: Command,
}

/// A command of a leader to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// To know the worker's clock.
    Clock,
    /// To have the worker for itself, for the length of a lease; again and again, as long as it wants it. `holder` names
    /// the leader to people.
    Claim {
        /// Host and process of the leader.
        holder: String,
    },
    /// To have a load made ready: its files opened, its connections made.
    Prepare {
        /// The load's number.
        attempt: Attempt,
        /// The load.
        preparation: Box<Preparation>,
    },
    /// To have the prepared load fired at a time of the worker's clock.
    Fire {
        /// The load's number.
        attempt: Attempt,
        /// Time of the start in nanoseconds.
        start_ns: u64,
    },
    /// To have the load in a state, and its further records.
    Pull {
        /// The load's number.
        attempt: Attempt,
        /// Number of this request within the attempt: an older one that comes late changes nothing.
        seq: u64,
        /// The state of the load.
        wanted: Wanted,
        /// The first chunk of records that the leader does not have.
        from: u64,
    },
    /// To know the delays of the worker itself in a part of the step, once its load has ended.
    Delays {
        /// The load's number.
        attempt: Attempt,
        /// The part of the step.
        counted: Range<Duration>,
    },
    /// To have the load ended, if it is not, and forgotten.
    Release {
        /// The load's number.
        attempt: Attempt,
    },
    /// To give the worker back.
    Free,
}

/// A load to make ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preparation {
    /// This worker's part of the load.
    pub spec: Spec,
    /// Address of the server, if the plan does not have it.
    pub url: Option<BaseUrl>,
    /// Number of connections to open.
    pub connections: u32,
    /// The public servers that the user has allowed load on.
    pub allowed: Allowed,
}

/// The state in which a leader wants a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Length of the measured window.
    pub window: Duration,
    /// True if nothing more is to be sent.
    pub stop: bool,
    /// True if requests in flight are to be cancelled.
    pub cut: bool,
}

/// A worker's reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Its clock.
    Clock {
        /// Nanoseconds since the start of its process.
        at_ns: u64,
    },
    /// The leader has the worker until its lease ends.
    Claimed,
    /// The load is not ready yet.
    Preparing,
    /// The load is ready: the whole step in brief, as this worker would send it.
    Ready(Outline),
    /// The load starts at its time.
    Armed,
    /// The state of the load, and a chunk of its records if there is one.
    Progress(Progress),
    /// The delays of the worker itself.
    Delays(WorkerDelays),
    /// The load is forgotten.
    Released,
    /// The worker is given back.
    Freed,
    /// It does not do it.
    Refused(Refusal),
}

/// The state of a load that is being fired, or was.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// The counts of its requests.
    pub status: Status,
    /// The chunk whose bytes come with this reply.
    pub chunk: Option<ChunkHead>,
    /// Number of all chunks, once the load has ended.
    pub ended: Option<Ended>,
}

/// A load that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Number of its chunks.
    pub chunks: u64,
    /// Number of its requests.
    pub records: u64,
    /// Time by which the load started late, in microseconds.
    pub start_late_us: u64,
}

/// A chunk of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkHead {
    /// Its number within the load, from 0.
    pub number: u64,
    /// Checksum of its bytes.
    pub checksum: u64,
}

/// The delays of a worker in a part of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WorkerDelays {
    /// The delay of its worst sending thread.
    pub own: OwnDelay,
    /// Stretches in which the whole worker stood still, from the start of the step.
    pub halts: Vec<Range<Duration>>,
}

impl WorkerDelays {
    /// Returns the worse of each figure of two workers, and the stretches in which one of them stood still.
    pub fn worse(self, other: Self) -> Self {
        let mut all = [self.halts, other.halts].concat();
        all.sort_by_key(|halt| halt.start);
        let mut halts: Vec<Range<Duration>> = Vec::new();
        for halt in all {
            match halts.last_mut().filter(|last| halt.start <= last.end) {
                Some(last) => last.end = last.end.max(halt.end),
                None => halts.push(halt),
            }
        }
        Self { own: self.own.worse(other.own), halts }
    }
}

/// Why a worker does not do what a leader wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// Another leader has it.
    Held {
        /// Host and process of that leader.
        holder: String,
    },
    /// The leader does not have it: its lease has ended, or the worker's process is another one.
    NotClaimed,
    /// It has no such load, or not in this state.
    OutOfOrder,
    /// It has tried, and failed.
    Failed {
        /// Why, for people.
        why: String,
    },
}

/// A reply with the bytes of a chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The reply.
    pub reply: Reply,
    /// The bytes of the chunk that the reply names; empty if it names none.
    pub chunk: Bytes,
}

impl Answer {
    /// A reply without a chunk.
    pub const fn of(reply: Reply) -> Self {
        Self { reply, chunk: Bytes::new() }
    }

    /// Returns the answer as bytes: the length of the reply (little-endian, 4 bytes), the reply as JSON, and the chunk.
    ///
    /// # Errors
    /// The reply cannot be written as JSON.
    pub fn to_bytes(&self) -> serde_json::Result<Bytes> {
        let head = serde_json::to_vec(&self.reply)?;
        let mut all = BytesMut::with_capacity(4 + head.len() + self.chunk.len());
        all.put_u32_le(head.len() as u32);
        all.put_slice(&head);
        all.put_slice(&self.chunk);
        Ok(all.freeze())
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// The bytes are no answer.
    pub fn from_bytes(mut all: Bytes) -> Result<Self, String> {
        let whole = |n: usize, all: &Bytes| {
            (all.len() >= n).then_some(n).ok_or_else(|| "the reply of a worker is cut short".to_owned())
        };
        let length = all.split_to(whole(4, &all)?);
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let head = all.split_to(whole(length, &all)?);
        let reply =
            serde_json::from_slice(&head).map_err(|e| format!("the reply of a worker is no reply: {e}"))?;
        Ok(Self { reply, chunk: all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_in_subjects() {
        for (text, want) in [("node-3", "node-3"), ("a.b c>*", "a-b-c--"), ("", "worker"), ("é", "-")] {
            assert_eq!(WorkerId::from_text(text).as_str(), want);
            assert_eq!(text.parse::<WorkerId>().is_ok(), text == want, "{text}");
        }
        assert!("x".repeat(65).parse::<WorkerId>().is_err());
    }

    #[test]
    fn answers_survive_the_wire() {
        let chunk = Bytes::from_static(b"rows");
        let head = ChunkHead { number: 3, checksum: 9 };
        let progress = Progress { chunk: Some(head), ..Progress::default() };
        let answer = Answer { reply: Reply::Progress(progress), chunk };
        let bytes = answer.to_bytes().unwrap();
        assert_eq!(Answer::from_bytes(bytes.clone()).unwrap(), answer);
        for short in [0, 3, 4, 10] {
            assert!(Answer::from_bytes(bytes.slice(..short)).is_err(), "{short}");
        }
    }
}
