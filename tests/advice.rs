//! First advice on simulated servers whose bottleneck is known: each was tried by the harness `examples/advice`, which has the goodput under
//! every other change too.

use goodput::diagnosis::{Advice, Finding, Kind};
use goodput::plan::Plan;
use goodput::rundir::{self, Run};
use goodput::sweep::{self, Options, forecast};
use tokio_util::sync::CancellationToken;

/// A server with its requests and limits, in lines of a plan.
struct Server {
    name: &'static str,
    /// Settings in `[server.simulated]`, beside the preset.
    settings: &'static str,
    /// The `[workload]` table.
    workload: &'static str,
    /// The `[slo]` table.
    slo: &'static str,
    /// The first finding.
    kind: Kind,
    /// Beginning of its first advice.
    advice: &'static str,
}

const CHAT: &str = "prompts.synthetic = { input-tokens = { fixed = 600 }, output-tokens = { fixed = 30 } }";
const SHARED: &str = "cache = \"warm\"\nprompts.synthetic = { input-tokens = { fixed = 600 }, output-tokens = { fixed = 30 }, \
     shared-prefix = { tokens = 500 } }";
const SEATS: &str =
    "All places of the batch are taken while requests wait: raise server.simulated.max-num-seqs from";

/// One test for each server, so that they run beside one another: its first finding, and the beginning of its first advice.
macro_rules! first_advice {
    ($($(#[$doc:meta])* $test:ident: $server:expr;)*) => {
        $($(#[$doc])* #[test] fn $test() {
            let server = $server;
            let run = swept(&server).unwrap();
            let (finding, advice) = first(&run);
            let said = goodput::report::words::advice(advice);
            assert_eq!(finding.kind, server.kind, "{said}");
            assert!(said.starts_with(server.advice), "{said}");
        })*
    };
}

first_advice! {
    four_seats: Server {
        name: "four seats, TTFT",
        settings: "max-num-seqs = 4",
        workload: CHAT,
        slo: "ttft.p99 = \"80ms\"",
        kind: Kind::BatchTooSmall,
        advice: SEATS,
    };
    eight_seats_and_two_limits: Server {
        name: "eight seats, TTFT and TPOT",
        settings: "max-num-seqs = 8",
        workload: CHAT,
        slo: "ttft.p99 = \"80ms\"\ntpot.p99 = \"20ms\"",
        kind: Kind::BatchTooSmall,
        advice: SEATS,
    };
    sixteen_seats_end_to_end: Server {
        name: "sixteen seats, e2e",
        settings: "max-num-seqs = 16",
        workload: "prompts.synthetic = { input-tokens = { fixed = 300 }, output-tokens = { fixed = 150 } }",
        slo: "e2e.p99 = \"2500ms\"",
        kind: Kind::BatchTooSmall,
        advice: SEATS,
    };
    a_small_kv_cache: Server {
        name: "a small KV cache",
        settings: "kv-blocks = 700",
        workload: CHAT,
        slo: "ttft.p99 = \"150ms\"",
        kind: Kind::Preemption,
        advice: "Give the KV cache more memory: raise server.simulated.kv-blocks from 700",
    };
    errors: Server {
        name: "errors",
        settings: "fault = { status-500 = 0.05 }\nfault-after = 30",
        workload: CHAT,
        slo: "ttft.p99 = \"80ms\"\nerror-rate = 0.01",
        kind: Kind::Errors,
        advice: "Find out why requests fail",
    };
    a_network_of_60_ms_each_way: Server {
        name: "a network of 60 ms each way",
        settings: "network = \"60ms\"",
        workload: CHAT,
        slo: "ttft.p99 = \"160ms\"",
        kind: Kind::Network,
        advice: "Measure, and serve, from nearer to the server",
    };
    the_prefix_cache_is_off: Server {
        name: "the prefix cache is off",
        settings: "prefix-cache = false",
        workload: SHARED,
        slo: "ttft.p99 = \"60ms\"",
        kind: Kind::CacheMisses,
        advice: "Turn the prefix cache on: server.simulated.prefix-cache (now off, by the plan).",
    };
    iterations_of_256_tokens: Server {
        name: "iterations of 256 tokens",
        settings: "max-num-batched-tokens = 256\nmax-num-seqs = 128",
        workload: "prompts.synthetic = { input-tokens = { fixed = 1500 }, output-tokens = { fixed = 30 } }",
        slo: "ttft.p99 = \"400ms\"",
        kind: Kind::SmallIterations,
        advice: "Read more prompt tokens in an iteration, so that its fixed part counts less: raise server.simulated.max-num-batched-tokens from 256",
    };
    prompts_that_keep_the_gpu_busy: Server {
        name: "prompts that keep the GPU busy",
        settings: "",
        workload: CHAT,
        slo: "ttft.p99 = \"80ms\"",
        kind: Kind::PrefillBound,
        advice: "Take a GPU that computes faster.",
    };
}

fn swept(server: &Server) -> anyhow::Result<Run> {
    let plan = format!(
        "name = \"{}\"\n[server.simulated]\npreset = \"a40-qwen3-0.6b\"\n{}\n[slo]\n{}\n[workload]\n{}\n\
         [search]\nadaptive = {{ budget = \"10m\" }}\nmax-rate = 500\n",
        server.name, server.settings, server.slo, server.workload
    );
    let plan = Plan::from_text(&plan)?;
    let dir = tempfile::tempdir()?;
    let options = Options { out: dir.path().join("run"), virtual_time: true, ..Options::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    let run = runtime.block_on(sweep::run(&plan, &options, CancellationToken::new()))?;
    forecast::write(&options.out, &plan, &run)?;
    rundir::read(&options.out)
}

/// Returns the first advice of a report, with the finding that gives it.
fn first(run: &Run) -> (&Finding, &Advice) {
    let finding = run.why.findings.first().expect("something is found");
    (finding, finding.advice.first().expect("a finding has advice"))
}

/// A warm cache with its hits is not advised to be switched on, and a server whose memory is full is not advised fewer sequences.
#[test]
fn what_does_not_help_is_not_advised() {
    let warm = Server {
        name: "a warm cache",
        settings: "",
        workload: SHARED,
        slo: "ttft.p99 = \"60ms\"",
        kind: Kind::DecodeBound,
        advice: "",
    };
    let full = Server {
        name: "preempted",
        settings: "kv-blocks = 1200",
        workload: "prompts.synthetic = { input-tokens = { fixed = 400 }, output-tokens = { fixed = 300 } }",
        slo: "ttft.p99 = \"400ms\"\ntpot.p99 = \"30ms\"",
        kind: Kind::Preemption,
        advice: "",
    };
    for (server, never) in [(warm, "prefix-cache"), (full, "max-num-seqs")] {
        let run = swept(&server).unwrap();
        assert!(!run.why.findings.is_empty(), "{}", server.name);
        for advice in run.why.findings.iter().flat_map(|f| &f.advice) {
            let said = goodput::report::words::advice(advice);
            assert!(!said.contains(never), "{}: {said}", server.name);
        }
    }
}
