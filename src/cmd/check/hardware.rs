//! Hardware limits, if the plan describes the hardware.

use crate::plan::Plan;
use crate::units::short;

/// Returns a line with the fastest decode that the hardware allows; empty if the plan has no `[model]`.
pub(super) fn hardware(plan: &Plan) -> String {
    let Some((machine, model)) = plan.model.and_then(|m| Some((plan.hardware.machine(&m)?, m))) else {
        return String::new();
    };
    let least = machine.decode(&model, 1.0, 0.0).floor_ms;
    format!(
        "  hardware  {}: reading the weights takes at least {} ms per token, so one request gets at most {} tokens/s\n",
        machine.source,
        short(least),
        short(1e3 / least)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decode_limit_is_shown_if_model_and_hardware_are_known() {
        let plan = |rest: &str| {
            Plan::from_text(&format!(
                "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"200ms\"\nsearch.rates = [1]\n\
                 workload.prompts.synthetic = {{ input-tokens.fixed = 9, output-tokens.fixed = 3 }}\n{rest}"
            ))
        };
        let model = "model = { parameters = \"8B\", precision = \"fp16\" }\n";
        let line = hardware(&plan(&format!("{model}hardware.memory-bandwidth = \"600 GB/s\"")).unwrap());
        assert!(line.contains("the plan: reading the weights takes at least 26.7 ms per token"), "{line}");
        assert!(line.contains("at most 37.5 tokens/s"), "{line}");
        assert_eq!(hardware(&plan("hardware.gpu = \"A40\"").unwrap()), "", "no [model]");
        let e = format!("{:#}", plan(model).unwrap_err());
        assert!(e.contains("it names no gpu; write memory-bandwidth"), "{e}");
        let e = format!("{:#}", plan("model = { parameters = \"8B\" }").unwrap_err());
        assert!(e.contains("precision is missing") && e.contains("line "), "{e}");
    }
}
