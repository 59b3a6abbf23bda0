//! Cross-check of the client's figures against the server's counters: both should agree when they count the same
//! requests over the same time.

use goodput_core::caveat::{Caveat, CountersCaveat};
use goodput_stats::stats::step::{ClientSide, Step, Verdict};

/// The allowed difference of two figures: a share of the larger one plus a constant.
#[derive(Debug, Clone, Copy)]
struct Tolerance {
    share: f64,
    least: f64,
}

/// Tolerance of the mean TTFT, in milliseconds: a quarter, plus the time of HTTP, tokenising and scheduling of a busy
/// API server on a small machine. Means are exact, however coarse the buckets.
const TTFT: Tolerance = Tolerance { share: 0.25, least: 25.0 };
/// Tolerance of tokens. A metrics page is read within some tens of milliseconds of its nominal time, and answers
/// across the ends count in part: the tokens of a quarter of a second and of two requests are added.
const TOKENS: Tolerance = Tolerance { share: 0.05, least: 0.25 };
/// Tolerance of requests in flight. Gauges are samples: three standard errors of a Poisson count are added.
const IN_FLIGHT: Tolerance = Tolerance { share: 0.25, least: 1.0 };

/// Minimum duration in seconds and minimum number of first tokens of a comparable step.
const SECONDS: f64 = 5.0;
const ENOUGH: u64 = 20;
/// Largest share of failed or cut requests: with more, the server has done work that the client cannot count.
const UNFINISHED: f64 = 0.01;
/// Largest ratio of the server's to the client's prompt tokens; beyond it the excess is reported as another client's
/// load, if the server has a prefix cache.
const OTHERS: f64 = 1.2;

/// A kind of disagreement: returns by how many times a step exceeds its tolerance, and the caveat that says so.
type Kind = fn(&Step, &ClientSide) -> Option<(f64, Caveat)>;

/// Returns the disagreements: for each kind the step with the largest difference. With several choices a request, engines count each
/// choice as a request with a prompt and a first token of its own, some of them a further one, so that only output tokens are comparable.
pub(super) fn disagreements(steps: &[Step], has_choices: bool) -> Vec<Caveat> {
    let told: Vec<(&Step, ClientSide)> = steps.iter().filter_map(|s| Some((s, comparable(s)?))).collect();
    let kinds: &[Kind] = if has_choices { &[output] } else { &[ttft, in_flight, output, prompt] };
    kinds.iter().copied().filter_map(|kind| worst(&told, kind)).collect()
}

/// Returns the client's figures of a step if they can be compared with the server's.
fn comparable(s: &Step) -> Option<ClientSide> {
    let calm = s.abort.is_none() && s.verdict != Verdict::Invalid && !s.server.restarted;
    let long = s.server.seconds.is_some_and(|t| t >= SECONDS);
    s.server.client.filter(|c| calm && long && c.first_tokens >= ENOUGH)
}

/// Returns the caveat of the step that disagrees most, with the number of steps that disagree.
fn worst(told: &[(&Step, ClientSide)], kind: Kind) -> Option<Caveat> {
    let found: Vec<(f64, Caveat)> = told.iter().filter_map(|(s, c)| kind(s, c)).collect();
    let n = found.len() as u32;
    let (_, mut most) = found.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    match &mut most {
        Caveat::Counters(CountersCaveat::TtftDiffers { steps, .. })
        | Caveat::Counters(CountersCaveat::TokensDiffer { steps, .. })
        | Caveat::Counters(CountersCaveat::InFlightDiffers { steps, .. }) => *steps = n,
        _ => {}
    }
    Some(most)
}

/// Returns the difference of two figures as a multiple of the tolerance; `None` if it is within the tolerance.
fn excess(a: f64, b: f64, tolerance: Tolerance, more: f64) -> Option<f64> {
    let allowed = tolerance.share * a.max(b) + tolerance.least + more;
    let off = (a - b).abs() / allowed;
    (off > 1.0 && off.is_finite()).then_some(off)
}

fn ttft(s: &Step, c: &ClientSide) -> Option<(f64, Caveat)> {
    let (client_ms, server_ms) = (c.ttft_mean_ms?, s.server.ttft?.mean_ms);
    let off = excess(client_ms, server_ms, TTFT, 0.0)?;
    let queue_ms = s.server.queue.map(|q| q.mean_ms);
    Some((
        off,
        Caveat::Counters(CountersCaveat::TtftDiffers {
            step: s.step,
            steps: 1,
            client_ms,
            server_ms,
            queue_ms,
        }),
    ))
}

fn in_flight(s: &Step, c: &ClientSide) -> Option<(f64, Caveat)> {
    let client = c.in_flight_mean?;
    // The waiting requests are needed too: without them the server's count is incomplete.
    let server = s.server.running_mean? + s.server.waiting_mean?;
    let error = 3.0 * (client.max(server) / s.server.samples.unwrap_or(1).max(1) as f64).sqrt();
    let off = excess(client, server, IN_FLIGHT, error)?;
    Some((off, Caveat::Counters(CountersCaveat::InFlightDiffers { step: s.step, steps: 1, client, server })))
}

fn output(s: &Step, c: &ClientSide) -> Option<(f64, Caveat)> {
    tokens(s, c, (c.output_tokens, s.server.generation_tokens?), false)
}

fn prompt(s: &Step, c: &ClientSide) -> Option<(f64, Caveat)> {
    let server = s.server.prompt_tokens?;
    // Preempted prompts may be counted again; and another client's load already has a caveat of its own.
    let again = s.server.preemptions.is_some_and(|n| n > 0.0);
    let said = s.server.hit_rate.is_some() && server > OTHERS * c.prompt_tokens;
    tokens(s, c, (c.prompt_tokens, server), true).filter(|_| !again && !said)
}

fn tokens(s: &Step, c: &ClientSide, (client, server): (f64, f64), prompt: bool) -> Option<(f64, Caveat)> {
    let unfinished = (s.failed + s.cut) as f64 / s.due_n.max(1) as f64;
    let (most, seconds) = (client.max(server), s.server.seconds?);
    let edges = most * TOKENS.least / seconds + 2.0 * most / c.first_tokens.max(1) as f64;
    let off = excess(client, server, Tolerance { least: 0.0, ..TOKENS }, edges)?;
    (unfinished <= UNFINISHED).then_some((
        off,
        Caveat::Counters(CountersCaveat::TokensDiffer { prompt, step: s.step, steps: 1, client, server }),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use goodput_stats::stats::step::{Abort, ServerLatency, ServerSide};

    /// A step in which both sides agree.
    fn agreed() -> Step {
        let (_, run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
        let latency = |mean_ms| Some(ServerLatency { n: 100.0, mean_ms, p50_ms: None, p99_ms: None });
        let server = ServerSide {
            samples: Some(61),
            seconds: Some(60.0),
            running_mean: Some(7.0),
            waiting_mean: Some(1.0),
            prompt_tokens: Some(60_000.0),
            generation_tokens: Some(3_000.0),
            ttft: latency(80.0),
            queue: latency(30.0),
            client: Some(ClientSide {
                first_tokens: 100,
                ttft_mean_ms: Some(84.0),
                prompt_tokens: 60_100.0,
                output_tokens: 3_010.0,
                in_flight_mean: Some(8.4),
            }),
            ..ServerSide::default()
        };
        Step { server, abort: None, ..run.steps[0].clone() }
    }

    fn told(change: impl Fn(&mut Step)) -> Vec<Caveat> {
        let mut step = agreed();
        change(&mut step);
        disagreements(&[agreed(), step], false)
    }

    fn client(s: &mut Step) -> &mut ClientSide {
        s.server.client.as_mut().unwrap()
    }

    #[test]
    fn what_agrees_is_not_told() {
        assert_eq!(told(|_| ()), []);
        assert_eq!(told(|s| client(s).ttft_mean_ms = Some(100.0)), [], "some work of the API server");
        assert_eq!(told(|s| s.server.generation_tokens = Some(3_150.0)), [], "the ends of the window");
        assert_eq!(told(|s| s.server.waiting_mean = Some(3.0)), [], "samples");
    }

    #[test]
    fn what_disagrees_is_told_once_with_the_step_that_does_most() {
        assert!(matches!(
            told(|s| client(s).ttft_mean_ms = Some(200.0))[..],
            [Caveat::Counters(CountersCaveat::TtftDiffers { steps: 1, queue_ms: Some(_), .. })]
        ));
        assert!(matches!(
            told(|s| s.server.generation_tokens = Some(4_000.0))[..],
            [Caveat::Counters(CountersCaveat::TokensDiffer { prompt: false, server, .. })] if server > 3_999.0
        ));
        assert!(matches!(
            told(|s| s.server.prompt_tokens = Some(50_000.0))[..],
            [Caveat::Counters(CountersCaveat::TokensDiffer { prompt: true, .. })]
        ));
        assert!(matches!(
            told(|s| s.server.running_mean = Some(0.5))[..],
            [Caveat::Counters(CountersCaveat::InFlightDiffers { .. })]
        ));
        let (mut a, mut b) = (agreed(), agreed());
        (client(&mut a).ttft_mean_ms, client(&mut b).ttft_mean_ms) = (Some(200.0), Some(900.0));
        (a.step, b.step) = (4, 5);
        assert!(matches!(
            disagreements(&[a.clone(), b.clone()], false)[..],
            [Caveat::Counters(CountersCaveat::TtftDiffers { step: 5, steps: 2, .. })]
        ));
        assert_eq!(disagreements(&[a.clone(), b], true), [], "the first tokens of single choices");
        client(&mut a).output_tokens *= 2.0;
        assert!(matches!(
            disagreements(&[a], true)[..],
            [Caveat::Counters(CountersCaveat::TokensDiffer { prompt: false, .. })]
        ));
    }

    /// Rows: conditions that make a comparison meaningless.
    #[test]
    fn what_cannot_be_compared_is_not() {
        let all_off = |s: &mut Step| {
            (client(s).ttft_mean_ms, s.server.running_mean) = (Some(900.0), Some(90.0));
            (s.server.generation_tokens, s.server.prompt_tokens) = (Some(9e5), Some(9e5));
        };
        assert_eq!(told(all_off).len(), 4);
        type Change = fn(&mut Step);
        let changes: [(Change, usize); 7] = [
            (|s| s.abort = Some(Abort::Gross), 0),
            (|s| s.verdict = Verdict::Invalid, 0),
            (|s| s.server.seconds = Some(2.0), 0),
            (|s| client(s).first_tokens = 5, 0),
            (|s| s.failed = s.due_n / 10, 2),
            (|s| s.server.preemptions = Some(3.0), 3),
            (|s| s.server.hit_rate = Some(0.1), 3),
        ];
        for (i, (change, left)) in changes.into_iter().enumerate() {
            let got = told(|s| {
                all_off(s);
                change(s);
            });
            assert_eq!(got.len(), left, "row {i}: {got:?}");
        }
    }
}
