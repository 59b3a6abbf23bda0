//! How many requests the server holds: whether it is empty before a step begins.

use super::prometheus::sum;

/// The gauges for running and waiting requests, by engine. Names: reference on server metrics.
const GAUGES: [(&str, &str); 4] = [
    ("vllm:num_requests_running", "vllm:num_requests_waiting"),
    ("sglang:num_running_reqs", "sglang:num_queue_reqs"),
    ("tgi_batch_current_size", "tgi_queue_size"),
    ("llamacpp:requests_processing", "llamacpp:requests_deferred"),
];

/// Requests within the server, summed over its engines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InServer {
    /// Being worked on.
    pub running: f64,
    /// Waiting for their turn.
    pub waiting: f64,
}

impl InServer {
    /// Reads the page; `None` where no known engine's gauges are on it. A gauge that is missing beside its partner is zero.
    pub fn read(text: &str) -> Option<Self> {
        GAUGES.into_iter().find_map(|(running, waiting)| {
            let (running, waiting) = (sum(text, running), sum(text, waiting));
            (running.is_some() || waiting.is_some())
                .then(|| Self { running: running.unwrap_or(0.0), waiting: waiting.unwrap_or(0.0) })
        })
    }

    /// Both together.
    pub fn total(self) -> f64 {
        self.running + self.waiting
    }
}

/// Requests running or waiting, from the text of `/metrics`; `None` where it does not tell.
pub fn in_server(text: &str) -> Option<f64> {
    InServer::read(text).map(InServer::total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_is_understood() {
        let sglang =
            "sglang:num_running_reqs{model_name=\"m\"} 3.0\nsglang:num_queue_reqs{model_name=\"m\"} 2.0\n";
        let tgi = "tgi_batch_current_size 4\ntgi_queue_size 5\n";
        for (text, running, waiting, why) in [
            (include_str!("../../tests/fixtures/metrics/vllm-busy.txt"), 8.0, 34.0, "vLLM under load"),
            (include_str!("../../tests/fixtures/metrics/vllm-idle.txt"), 0.0, 0.0, "vLLM at rest"),
            (
                include_str!("../../tests/fixtures/metrics/vllm-two-engines.txt"),
                11.0,
                34.0,
                "vLLM, data parallel",
            ),
            (include_str!("../../tests/fixtures/metrics/llamacpp.txt"), 0.0, 0.0, "llama.cpp"),
            (sglang, 3.0, 2.0, "SGLang"),
            (tgi, 4.0, 5.0, "TGI"),
            ("tgi_queue_size 5\n", 0.0, 5.0, "half of it"),
        ] {
            let got = InServer::read(text).expect(why);
            assert!((got.running - running).abs() + (got.waiting - waiting).abs() < 1e-9, "{why}: {got:?}");
            assert!((in_server(text).expect(why) - running - waiting).abs() < 1e-9, "{why}");
        }
    }

    #[test]
    fn a_page_without_gauges_tells_nothing() {
        for text in [
            "",
            "<html>",
            "# HELP vllm:num_requests_running x\n",
            "process_open_fds 9\nvllm:num_requests_running NaN\n",
        ] {
            assert_eq!(in_server(text), None, "{text}");
        }
    }
}
