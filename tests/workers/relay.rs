//! A worker that does wrong: a real one on a bus of its own, and a relay in its place on the leader's bus, which changes its answers.

use crate::fleet::{Fleet, USER};
use goodput::record::Finished;
use goodput_cluster::bus::{Bus, BusAddress, Credentials};
use goodput_cluster::chunk::{self, Chunks};
use goodput_cluster::message::{Answer, ChunkHead, Command, Reply, Request};
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The time that the relay gives the worker for an answer.
const WITHIN: Duration = Duration::from_millis(400);

/// Changes the answer to a command; `None` if there is to be none.
pub(crate) type Change = Box<dyn FnMut(&Command, Answer) -> Option<Answer> + Send>;

/// A leader's bus with a sound worker `w2`, and a relay that answers as `w1`.
pub(crate) struct RelayedFleet {
    pub(crate) fleet: Fleet,
    _hidden: Fleet,
    _stop: DropGuard,
}

impl RelayedFleet {
    /// Starts brokers, workers and the relay.
    pub(crate) fn start(change: Change) -> Self {
        let (mut fleet, hidden) = (Fleet::start(0), Fleet::start(1));
        let stop = CancellationToken::new();
        let (relay, url, hidden_url) = (stop.clone(), fleet.url(), hidden.url());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let relayed = async { relay_answers(&url, &hidden_url, change, || tell.send(()).unwrap()).await };
            runtime.block_on(relay.run_until_cancelled(relayed));
        });
        told.recv_timeout(Duration::from_secs(20)).expect("the relay offers the worker");
        fleet.add_worker("w2");
        Self { fleet, _hidden: hidden, _stop: stop.drop_guard() }
    }
}

/// Offers the worker of the hidden bus on the leader's, and passes requests and changed answers on.
async fn relay_answers(url: &str, hidden_url: &str, mut change: Change, is_offered: impl FnOnce()) {
    let [front, back] = [connect(url).await, connect(hidden_url).await];
    let info = back.discover().await.unwrap().remove(0);
    let mut offer = front.offer(&info).await.unwrap();
    is_offered();
    while let Some(asked) = offer.next().await {
        let payload = asked.payload().to_vec();
        let request: Request = serde_json::from_slice(&payload).unwrap();
        let Ok(answer) = back.request(&info.id, payload.into(), WITHIN).await else { continue };
        if let Some(answer) = change(&request.command, Answer::from_bytes(answer).unwrap()) {
            asked.answer(answer.to_bytes().unwrap()).await;
        }
    }
}

async fn connect(url: &str) -> Bus {
    let address = BusAddress { url: url.into(), ca: None, insecure: false };
    let credentials = Credentials::Password(USER[0].1.into(), USER[1].1.into());
    Bus::connect(&address, &credentials, "relay").await.unwrap()
}

/// Changes the records of a chunk. Its checksum is right.
pub(crate) fn with_records(answer: Answer, change: impl FnOnce(&mut Vec<Finished>)) -> Answer {
    let Reply::Progress(mut progress) = answer.reply else { return answer };
    let Some(head) = progress.chunk else { return Answer { reply: Reply::Progress(progress), ..answer } };
    let mut records = chunk::read(&answer.chunk).unwrap();
    change(&mut records);
    let mut chunks = Chunks::default();
    records.iter().for_each(|one| chunks.add(one));
    let (ChunkHead { checksum, .. }, chunk) = chunks.pull(0).unwrap();
    progress.chunk = Some(ChunkHead { checksum, ..head });
    Answer { reply: Reply::Progress(progress), chunk }
}
