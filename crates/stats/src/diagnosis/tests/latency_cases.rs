//! Cases that latencies decide.

use super::*;

pub(super) const CASES: &[Case] = &[
    ("all is well but for a limit", |_, _| (), ""),
    ("a server that is slower as a whole", |s, _| s[2] = step(3, Level::rate(30.0), (60.0, 80.0), 7.0), ""),
    // Queueing.
    ("the tail grows, the median holds", |s, _| queue(s), "prefill-bound medium, queueing medium"),
    (
        "and requests were seen waiting",
        |s, _| {
            queue(s);
            s[2].server.waiting_max = Some(3.0);
        },
        "prefill-bound medium, queueing high",
    ),
    (
        "and none was",
        |s, _| {
            queue(s);
            s[2].server.waiting_max = Some(0.0);
        },
        "prefill-bound medium, queueing low",
    ),
    (
        "by the server's own queue, though the median rises too",
        |s, _| {
            s[2] = step(3, Level::rate(30.0), (150.0, 200.0), 8.0);
            (s[2].server.queue, s[2].server.ttft) = (histogram(120.0), histogram(150.0));
        },
        "queueing high",
    ),
    (
        "its queue is a small part",
        |s, _| (s[2].server.queue, s[2].server.ttft) = (histogram(2.0), histogram(18.0)),
        "",
    ),
    (
        "a queue, but the limit is on TPOT",
        |s, f| {
            queue(s);
            f.curves[0].limit = Some("tpot.p99".into())
        },
        "decode-bound medium",
    ),
    (
        "a queue, and no limit was missed",
        |s, f| {
            queue(s);
            f.curves[0].limit = None
        },
        "",
    ),
    (
        "a queue, and nothing unloaded to hold it against",
        |s, _| {
            queue(s);
            s.drain(..2);
        },
        "",
    ),
    // Prefill.
    (
        "TTFT grows with the length",
        |_, f| f.lengths = lengths(&[(200.0, 8.0), (600.0, 15.0), (1200.0, 25.5)]),
        "prefill-bound high",
    ),
    ("it grows, but as a small part", |_, f| f.lengths = lengths(&[(200.0, 14.6), (1200.0, 15.6)]), ""),
    ("lengths are too near together", |_, f| f.lengths = lengths(&[(500.0, 12.0), (700.0, 17.0)]), ""),
    (
        "of another server",
        |_, f| {
            f.lengths = lengths(&[(200.0, 8.0), (1200.0, 25.5)]);
            f.lengths.iter_mut().for_each(|p| p.deployment = "two".into());
        },
        "",
    ),
    (
        "by the server's own times",
        |s, _| (s[0].server.prefill, s[0].server.ttft) = (histogram(11.0), histogram(14.0)),
        "prefill-bound medium",
    ),
    (
        "by the server's own times it is little",
        |s, _| (s[0].server.prefill, s[0].server.ttft) = (histogram(2.0), histogram(14.0)),
        "",
    ),
    (
        "it is there, and the wait is ten times as long",
        |s, f| {
            s[2] = step(3, Level::rate(30.0), (22.0, 200.0), 8.0);
            f.lengths = lengths(&[(200.0, 8.0), (600.0, 15.0), (1200.0, 25.5)]);
        },
        "prefill-bound medium, queueing medium",
    ),
    // Decode and batching.
    ("TPOT is as it is for one request alone", |s, f| on_tpot(s, f, 7.0), "decode-bound medium"),
    (
        "and that is the memory's pace",
        |s, f| {
            on_tpot(s, f, 7.0);
            f.curves[0].hardware = hardware(1, "parameters = \"1.5B\"\nprecision = \"fp16\"");
        },
        "decode-bound high",
    ),
    (
        "and that is not the memory's pace",
        |s, f| {
            on_tpot(s, f, 7.0);
            f.curves[0].hardware = hardware(1, "parameters = \"0.6B\"\nprecision = \"fp16\"");
        },
        "decode-bound medium",
    ),
    (
        "TPOT is four times as long, for six times the tokens",
        |s, f| on_tpot(s, f, 26.0),
        "batching-trade-off high",
    ),
    ("both", |s, f| on_tpot(s, f, 10.0), "decode-bound medium, batching-trade-off high"),
    (
        "TPOT is longer and no more is written",
        |s, f| {
            on_tpot(s, f, 26.0);
            s[2].output_tokens_per_s = s[1].output_tokens_per_s;
        },
        "",
    ),
    // Stability and the client.
    (
        "the backlog grows",
        |s, f| {
            f.curves[0].limit = Some("stability".into());
            (s[2].stable, s[2].achieved_rate) = (Some(false), 24.0);
        },
        "unstable high",
    ),
    (
        "it grows, and most is completed",
        |s, f| {
            f.curves[0].limit = Some("stability".into());
            s[2].stable = Some(false);
        },
        "unstable medium",
    ),
    (
        "it grows where no limit was missed",
        |s, f| {
            s[2].stable = Some(false);
            f.curves[0].limit = None
        },
        "",
    ),
    ("the client was the limit", |s, _| s[2].verdict = Verdict::Invalid, "client-limited high"),
    ("the client was the limit elsewhere", |s, _| s[1].verdict = Verdict::Invalid, ""),
];
