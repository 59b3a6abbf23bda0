//! Request bodies, built a little ahead of their time and never all before the step.

use crate::client::dialect::Encoder;
use crate::client::payload::Payload;
use crate::workload::chain::Chain;
use crate::workload::draw::Chains;
use crate::workload::prompts::Prompter;
use bytes::Bytes;
use std::collections::HashMap;
use tokio::sync::mpsc;

/// Bodies lie ready for this long at the step's rate …
const AHEAD_S: f64 = 2.0;
/// … but for no more bytes than this, …
const AHEAD_BYTES: usize = 64 << 20;
/// … and never for fewer chains than this.
const AHEAD_LEAST: usize = 16;

/// A chain and the body of each of its turns.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The chain.
    pub chain: Chain,
    /// A body per turn.
    pub payloads: Vec<Payload>,
}

/// Makes the bodies of one step's chains, in order.
pub struct Builder {
    chains: Chains,
    prompter: Prompter,
    encoder: Encoder,
    heads: HashMap<u32, Bytes>,
    left: usize,
}

impl Builder {
    /// Bodies for these chains, with this text, in this dialect.
    pub fn new(chains: Chains, prompter: Prompter, encoder: Encoder) -> Self {
        Self { chains, prompter, encoder, heads: HashMap::new(), left: usize::MAX }
    }

    /// Only the first `n` of them.
    pub fn first(mut self, n: usize) -> Self {
        self.left = n;
        self
    }
}

impl Iterator for Builder {
    type Item = Ready;

    fn next(&mut self) -> Option<Ready> {
        self.left = self.left.checked_sub(1)?;
        let chain = self.chains.next()?;
        let payloads = chain
            .turns
            .iter()
            .map(|turn| {
                let recipe = &turn.request;
                let text = self.prompter.text(recipe);
                let head = if text.shared {
                    // One copy in memory for all requests that begin alike.
                    self.heads
                        .entry(recipe.group)
                        .or_insert_with(|| self.encoder.prefix(text.system.as_deref()))
                        .clone()
                } else {
                    self.encoder.prefix(text.system.as_deref())
                };
                self.encoder.request(&head, &text.user, recipe.output_tokens)
            })
            .collect();
        Some(Ready { chain, payloads })
    }
}

/// Where the load takes its chains from.
pub enum Source {
    /// A thread builds ahead, so that the sending thread never does.
    Ahead(mpsc::Receiver<Ready>),
    /// Built when asked for: under the paused clock building takes no time.
    Inline(Box<Builder>),
}

impl Source {
    /// Starts the thread. `rate` is how many chains a second will be taken, as far as is known. Fails if the system gives no
    /// thread.
    pub fn ahead(mut builder: Builder, rate: Option<f64>) -> std::io::Result<Self> {
        let first = builder.next();
        let bytes = first.as_ref().map_or(1, |r| r.payloads.iter().map(Payload::len).sum::<usize>()).max(1);
        let wanted = rate.map_or(AHEAD_LEAST, |r| (r * AHEAD_S) as usize);
        let (send, chains) = mpsc::channel(wanted.min(AHEAD_BYTES / bytes).max(AHEAD_LEAST));
        std::thread::Builder::new().name("bodies".into()).spawn(move || {
            for ready in first.into_iter().chain(builder) {
                // The step is over when nobody takes them any more.
                if send.blocking_send(ready).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self::Ahead(chains))
    }

    /// The next chain; `None` when there are no more.
    pub async fn next(&mut self) -> Option<Ready> {
        match self {
            Self::Ahead(chains) => chains.recv().await,
            Self::Inline(builder) => builder.next(),
        }
    }
}
