//! Precedence of verdicts if the client was late, starved, or at a limit of its own (design §6, rule 9).

use super::tests::{FAST, TTFT, every, fail, input, step, tiers};
use super::*;
use crate::stats::compact_record::compact;
use crate::stats::itl::ItlTally;
use crate::stats::queues::{Queue, Service};
use goodput_core::record::{Failure, Finished, Record};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Changes a request so that it is sent `late` ms late, its first token is seen `first` ms after that, and its last 500 ms later.
fn request(late: u64, first: u64) -> impl Fn(&mut Record) {
    move |r| {
        let sent = r.due + ms(late);
        (r.sent, r.first_token) = (Some(sent), Some(sent + ms(first)));
        r.last_token = Some(sent + ms(first + 500));
        r.end = sent + ms(first + 500);
    }
}

/// The client holds back requests due from second `from` on.
fn held_back(from: u64, before: impl Fn(&mut Record)) -> impl Fn(&mut Record) {
    move |r| {
        if r.due < Duration::from_secs(from) {
            return before(r);
        }
        (r.sent, r.end) = (None, r.due);
        fail(r, Failure::ClientLimit);
    }
}

fn at_max(i: &mut StepInput<'_>) {
    (i.client_limit, i.in_flight_limit) = (true, Some(4096));
}

fn keep(_: &mut StepInput<'_>) {}

#[track_caller]
fn check(what: &str, s: &Step, want: Verdict, say: &str) {
    assert_eq!(s.verdict, want, "{what}: {}", s.reason);
    assert!(s.reason.contains(say), "{what}: {}", s.reason);
}

/// p99 TTFT ≤ 100 ms; 5 ms of lateness and 5 ms of lag are tolerated.
#[test]
fn a_delay_of_the_client_decides_no_verdict() {
    use Verdict::{Fails, Invalid, Meets};
    let lag = |ms| move |i: &mut StepInput<'_>| i.receive_lag_p99_ms = Some(ms);
    let waiting = |share| move |i: &mut StepInput<'_>| i.client_waiting = Some(share);
    let e2e = "e2e.p99 = \"600ms\"";
    for (what, s, want, say) in [
        (
            "late, and missed only for that",
            step(TTFT, request(50, 60), keep),
            Invalid,
            "p99 lateness of 50 ms",
        ),
        ("late, and missed from sent too", step(TTFT, request(50, 120), keep), Fails, "p99 TTFT"),
        ("late, and met with it", step(TTFT, request(30, 60), keep), Meets, "p99 TTFT"),
        ("late by less than is allowed", step(TTFT, request(4, 98), keep), Fails, "p99 TTFT"),
        (
            "the plan allows more",
            step(TTFT, request(50, 60), |i| i.allowed.lateness = 0.6),
            Fails,
            "p99 TTFT",
        ),
        (
            "the plan allows less",
            step(TTFT, request(4, 98), |i| i.allowed.lateness = 0.01),
            Invalid,
            "1 ms is allowed",
        ),
        // Lag delays the timestamp of the first token as lateness delays sending.
        (
            "read late, and missed only for that",
            step(TTFT, request(0, 103), lag(6.0)),
            Invalid,
            "receive lag of 6 ms",
        ),
        ("read late, and missed without it too", step(TTFT, request(0, 120), lag(6.0)), Fails, "p99 TTFT"),
        ("read late by less than is allowed", step(TTFT, request(0, 103), lag(4.0)), Fails, "p99 TTFT"),
        ("e2e suffers once from each", step(e2e, request(0, 140), lag(39.0)), Fails, "p99 e2e"),
        ("and may flip for it", step(e2e, request(0, 130), lag(39.0)), Invalid, "receive lag of 39 ms"),
        // Starved threads: the observed lateness and lag need not be complete.
        (
            "starved, late by less than is allowed",
            step(TTFT, request(4, 98), waiting(0.5)),
            Invalid,
            "waited for a core 50 %",
        ),
        ("starved, and missed from sent too", step(TTFT, request(4, 120), waiting(0.5)), Fails, "p99 TTFT"),
        ("starved, and met with it", step(TTFT, request(4, 60), waiting(0.5)), Meets, "p99 TTFT"),
        ("not that starved", step(TTFT, request(4, 98), waiting(0.1)), Fails, "p99 TTFT"),
        (
            "starvation explains a lateness",
            step(TTFT, request(50, 60), waiting(0.5)),
            Invalid,
            "the tightest limit of 100 ms); a sending thread waited for a core 50 % of the time and had one 20 %. Stop other programs",
        ),
        // TPOT counts from the first token, so it excludes lateness.
        (
            "late, under a limit on TPOT",
            step("tpot.p99 = \"10ms\"", |r| (request(150, 60)(r), r.output_tokens = Some(11)).0, keep),
            Fails,
            "p99 TPOT",
        ),
    ] {
        check(what, &s, want, say);
    }
}

/// Requests that the client never sent say nothing about the server, however long they were due.
#[test]
fn unsent_requests_are_not_slow() {
    let unsent = every(2, |r| {
        (r.sent, r.first_token, r.last_token, r.outcome) = (None, None, None, Outcome::Cut);
        r.end = r.due + Duration::from_secs(5);
    });
    // A broken-off step lacks sends only because it ended early: no fault of the client.
    let s = step(TTFT, unsent, |i| i.abort = Some(Abort::Gross));
    check("half of them waited in the client", &s, Verdict::Invalid, "p99 lateness of 5000 ms");
    assert_eq!(s.lateness_p99_ms, Some(5000.0));
}

/// The timestamps of a client far beyond its ceiling, or without a core, say nothing about the server, even counted from `sent`.
#[test]
fn a_client_behind_is_trusted_while_it_has_a_core_to_spare() {
    use Verdict::{Fails, Invalid};
    let late = |sent_within: u64| {
        move |r: &mut Record| {
            let late = if r.id % 10 < sent_within { 0 } else { 600_000 };
            request(late, 150)(r);
        }
    };
    let had = |busy, waiting| {
        move |i: &mut StepInput<'_>| (i.client_busy, i.client_waiting) = (Some(busy), Some(waiting))
    };
    for (what, s, want) in [
        ("a tenth short, idle", step(TTFT, late(9), had(0.3, 0.0)), Fails),
        ("a tenth short, busy", step(TTFT, late(9), had(0.9, 0.0)), Invalid),
        ("a tenth short, starved", step(TTFT, late(9), had(0.3, 0.4)), Invalid),
        ("less than half, and its threads know of nothing", step(TTFT, late(4), had(0.1, 0.0)), Invalid),
        ("all sent, busy", step(TTFT, late(10), had(0.9, 0.0)), Fails),
    ] {
        let say = if want == Invalid { "the client sent" } else { "p99 TTFT" };
        check(what, &s, want, say);
    }
}

#[test]
fn a_limit_of_the_client_voids_later_requests() {
    use Verdict::{Fails, Invalid};
    for (what, s, want, say) in [
        ("slow before", step(TTFT, held_back(40, request(0, 150)), at_max), Fails, "p99 TTFT"),
        (
            "slow and a little late before",
            step(TTFT, held_back(40, request(20, 150)), at_max),
            Fails,
            "p99 TTFT",
        ),
        (
            "only late before",
            step(TTFT, held_back(40, request(150, 50)), at_max),
            Invalid,
            "max-in-flight of 4,096",
        ),
        ("well before", step(TTFT, held_back(40, request(0, 50)), at_max), Invalid, "step.max-in-flight"),
        (
            "from the start",
            step(TTFT, held_back(0, request(0, 150)), at_max),
            Invalid,
            "max-in-flight of 4,096",
        ),
        (
            "descriptors",
            step(TTFT, held_back(40, request(0, 50)), |i| i.client_limit = true),
            Invalid,
            "ran out of descriptors or ports",
        ),
    ] {
        check(what, &s, want, say);
    }
}

/// A step at 24 requests/s of a server with a capacity of 20.
fn overloaded(slo: &str, change: impl Fn(&mut Record), set: impl Fn(&mut StepInput<'_>)) -> Step {
    let mut records =
        Queue { servers: 1, mean_s: 0.05, service: Service::Fixed }.records(24.0, 10.0, 60.0, 1);
    records.iter_mut().for_each(change);
    let records = compact(&records);
    let (tiers, itl) = (tiers(slo), ItlTally::new(&[]));
    let mut input = input(24.0, &records, &itl, &tiers);
    set(&mut input);
    summarize(&input)
}

#[test]
fn a_backlog_that_grew_without_the_client_is_the_servers() {
    const E2E: &str = "e2e.p99 = \"1h\"";
    let all_held = held_back(45, |_| ());
    let s = overloaded(E2E, all_held, at_max);
    check("it grew until the client held requests back", &s, Verdict::Fails, "not stable");
    assert_eq!((s.binding.as_deref(), s.stable), (Some("stability"), Some(false)));
    let s = overloaded(E2E, held_back(12, |_| ()), at_max);
    check("too soon to tell", &s, Verdict::Invalid, "max-in-flight");
    let closed = |i: &mut StepInput<'_>| {
        at_max(i);
        i.level = Level::concurrency(8);
    };
    let s = overloaded(E2E, held_back(45, |_| ()), closed);
    check("a closed loop has no backlog", &s, Verdict::Invalid, "max-in-flight");
    // Unread answers look like a queue: 3 % of the window is the smallest growth that counts.
    for (lag_ms, want) in [(100.0, Verdict::Fails), (1_700.0, Verdict::Fails), (3_000.0, Verdict::Invalid)] {
        let s = overloaded(TTFT, |_| (), |i| i.receive_lag_p99_ms = Some(lag_ms));
        assert_eq!(s.row("main", "stability").map(|r| r.verdict), Some(want), "lag of {lag_ms} ms");
    }
}

/// The server sends the first token after `first` ms and the last after 2 s; the client is halted from the 40th second until `to` ms.
fn stopped(first: u64, to: u64) -> impl Fn(&mut Record) {
    move |r| {
        let see = |t: Duration| if (ms(40_000)..ms(to)).contains(&t) { ms(to) } else { t };
        let sent = see(r.due);
        (r.sent, r.first_token) = (Some(sent), Some(see(sent + ms(first))));
        (r.last_token, r.end) = (Some(see(sent + ms(2_000))), see(sent + ms(2_000)));
        r.output_tokens = Some(1001);
    }
}

/// Every request in flight has one gap as long as the halt. However late the client was otherwise, that gap is not the server's.
#[test]
fn gaps_during_a_halt_are_not_the_servers() {
    let tiers = tiers("ttft.p99 = \"1h\"\nitl.p99 = \"50ms\"");
    let mut itl = ItlTally::new(&tiers);
    let mut records = FAST.records(100.0, 10.0, 60.0, 3);
    for r in &mut records {
        stopped(60, 43_000)(r);
        (r.output_asked, r.output_tokens) = (30, Some(30));
        let mut gaps_us = vec![2_000; 29];
        if r.sent.is_some_and(|t| t < ms(40_000)) && r.end >= ms(43_000) {
            gaps_us[0] = 2_995_000;
        }
        itl.add(&Finished::new(r.clone(), gaps_us));
    }
    let records = compact(&records);
    let lagging = |i: &mut StepInput<'_>| i.receive_lag_p99_ms = Some(100.0);
    let starved = |i: &mut StepInput<'_>| i.client_waiting = Some(0.5);
    let judged = |set: &dyn Fn(&mut StepInput<'_>)| {
        let mut input = input(100.0, &records, &itl, &tiers);
        set(&mut input);
        summarize(&input)
    };
    for (what, s) in [
        ("alone", judged(&keep)),
        ("lagging", judged(&lagging)),
        ("starved", judged(&starved)),
        ("at its own limit", judged(&at_max)),
    ] {
        let joint = s.row("main", "joint").unwrap();
        assert!(joint.misses > 150 && joint.verdict == Verdict::Invalid, "{what}: {joint:?}");
    }
}

/// Rows: the longest gap of each request in µs, and the verdict of all limits together, of which the gaps miss 10 ms with a receive lag of 0.6 ms.
#[test]
fn gaps_that_the_client_lengthened_do_not_fail_all_limits_together() {
    let tiers = tiers("ttft.p99 = \"1h\"\nitl.p99 = \"10ms\"");
    for (longest, want) in [(9_900, Verdict::Meets), (10_500, Verdict::Invalid), (10_700, Verdict::Fails)] {
        let mut itl = ItlTally::new(&tiers);
        let mut records = FAST.records(100.0, 10.0, 60.0, 3);
        for r in &mut records {
            (r.output_asked, r.output_tokens) = (30, Some(30));
            itl.add(&Finished::new(r.clone(), [vec![2_000; 28], vec![longest]].concat()));
        }
        let records = compact(&records);
        let mut input = input(100.0, &records, &itl, &tiers);
        input.receive_lag_p99_ms = Some(0.6);
        let step = summarize(&input);
        let joint = step.row("main", "joint").unwrap();
        assert_eq!(joint.verdict, want, "{longest}: {joint:?}");
    }
}

/// A halt of the client is never the server's fault, whichever limit the requests then miss.
#[test]
fn a_halted_client_decides_nothing() {
    for (slo, first, to, blamed) in [
        (TTFT, 60, 43_000, false),
        (TTFT, 60, 41_000, false),
        (TTFT, 60, 40_800, false),
        ("e2e.p99 = \"2050ms\"", 60, 43_000, false),
        ("tpot.p99 = \"2100us\"", 60, 43_000, false),
        // A server that is slow without the halt is slow.
        (TTFT, 160, 43_000, true),
        ("e2e.p99 = \"1500ms\"", 60, 43_000, true),
    ] {
        let s = step(slo, stopped(first, to), keep);
        let fails: Vec<&str> =
            s.limits.iter().filter(|r| r.verdict == Verdict::Fails).map(|r| &*r.limit).collect();
        assert_eq!(!fails.is_empty(), blamed, "{slo}, {first} ms, to {to}: {fails:?}, {}", s.reason);
    }
    // The halt is the fault reported, also if the client was late for no other reason; lateness does not show it between tokens.
    for slo in [TTFT, "tpot.p99 = \"2100us\""] {
        let s = step(slo, stopped(60, 43_000), keep);
        check(slo, &s, Verdict::Invalid, "stood still for 2,995 ms");
    }
    // A server that sustains the load of the plan but is slow with a second of it at once: its behaviour then is unknown.
    let at_once = |r: &mut Record| {
        stopped(60, 41_000)(r);
        let held = match r.due.as_millis() {
            40_000..41_000 => ms(600),
            41_000..49_000 => ms(600).saturating_sub((r.due - ms(41_000)) / 14),
            _ => Duration::ZERO,
        };
        r.first_token = r.first_token.map(|t| t + held);
    };
    check("at once", &step(TTFT, at_once, keep), Verdict::Invalid, "stood still for 995 ms");
}

/// The stretch in which the client of [`timed_out_in_a_halt`] stands still, as its threads notice it.
static STILL: [Range<Duration>; 1] = [Duration::from_secs(40)..Duration::from_secs(43)];

/// The client stands still from the 40th second to the 43rd, and what is in flight then times out. In a closed loop nothing is due meanwhile.
fn timed_out_in_a_halt(closed: bool) -> impl Fn(&mut Record) {
    move |r| {
        if closed && (ms(40_000)..ms(43_000)).contains(&r.due) {
            r.due = ms(43_000);
        }
        stopped(60, 43_000)(r);
        r.output_asked = 1001;
        let sent = r.sent.unwrap_or(r.due);
        if sent < ms(40_000) && r.end >= ms(40_000) {
            let first = r.first_token.filter(|t| *t < ms(40_000));
            fail(r, Failure::Timeout);
            (r.first_token, r.output_tokens, r.end) = (first, None, ms(43_000));
        }
    }
}

/// Rows: the loop, and limits that the timed-out requests miss.
#[test]
fn timeouts_during_a_halt_are_the_clients() {
    for closed in [false, true] {
        let set = |i: &mut StepInput<'_>| {
            i.halts = &STILL;
            if closed {
                i.level = Level::concurrency(200);
            }
        };
        for slo in ["e2e.p99 = \"2500ms\"", "error-rate = 0.01", "ttft.p99 = \"1h\"\nerror-rate = 0.01"] {
            let s = step(slo, timed_out_in_a_halt(closed), set);
            assert!(s.failed > 150 && s.halted_ms == Some(3000.0), "{slo}, {closed}: {} failed", s.failed);
            check(slo, &s, Verdict::Invalid, "stood still for 3,000 ms");
            let fails = s.limits.iter().filter(|r| r.verdict == Verdict::Fails).count();
            assert_eq!(fails, 0, "{slo}, {closed}: {:?}", s.limits);
        }
        // What misses without the halt is the server's, and what nothing of the halt can change stands.
        let slow = step("e2e.p99 = \"1500ms\"", timed_out_in_a_halt(closed), set);
        check("slow", &slow, Verdict::Fails, "p99 e2e");
        let loose = step("ttft.p90 = \"10s\"", timed_out_in_a_halt(closed), set);
        check("loose", &loose, Verdict::Meets, "p90 TTFT");
    }
}
