//! Requests of audio, answered with its text.

use crate::common::{column, goodput, result, rows, sweep};
use goodput::workload::wav;
use predicates::prelude::*;
use std::path::Path;

/// A server that transcribes one file after the other, 50 ms each, as in a queue M/D/1.
fn transcriber(audio: &str, search: &str) -> String {
    format!(
        "name = \"transcriber\"\nslo = {{ rtf.p99 = 0.1, error-rate = 0.01 }}\n[server]\napi = \"transcriptions\"\nwarmup-requests = 2\n\
         simulated = {{ preset = \"md1\" }}\n[workload.prompts.audio]\n{audio}\n[step]\nsettle = \"20s\"\nmeasure = \"30m\"\n\
         [search]\n{search}\n[hardware]\ngpus = 1\nprice-per-hour = 3.6\ncurrency = \"USD\"\n"
    )
}

#[test]
fn a_transcriber_is_judged_by_its_real_time_factor_and_told_in_seconds_of_audio() {
    let dir = tempfile::tempdir().unwrap();
    let audio = "seconds = { fixed = 2 }\nsample-rate = 8000\ncontent = \"silence\"";
    // A factor of 0.1 is 200 ms for 2 s of audio: 9.26 requests/s by the closed form for M/D/1.
    let (run, out) = sweep(dir.path(), &transcriber(audio, "rates = [8.4, 10.4]"), &["--virtual-time"]);
    let result = result(&run);
    let goodput = &result["goodput"];
    assert_eq!((&goodput["met"], &goodput["failed"]), (&8.4.into(), &10.4.into()), "{goodput}");
    assert_eq!(goodput["binding"], "rtf.p99");
    for step in result["steps"].as_array().unwrap() {
        let [seconds, requests] = ["items_per_s", "achieved_rate"].map(|key| step[key].as_f64().unwrap());
        assert!((seconds - 2.0 * requests).abs() < 1e-9, "{step}");
        let [e2e, factor] = ["e2e_ms", "rtf_ms"].map(|key| step[key]["p99"].as_f64().unwrap());
        assert!((factor - e2e / 2.0).abs() < 1e-6, "{step}");
        assert_eq!((&step["ttft_ms"]["n"], &step["output_tokens_per_s"]), (&0.into(), &0.0.into()), "{step}");
    }
    let capacity = &result["capacity"];
    let per_s = capacity["items_per_s"].as_f64().unwrap();
    assert!((capacity["cost_per_1000_items"].as_f64().unwrap() - 1.0 / per_s).abs() < 1e-9, "{capacity}");
    assert!(column(&run.join("requests.csv"), "audio_ms").iter().all(|ms| ms.parse() == Ok(2000.0)));
    assert!(out.contains("p99 RTF ≤ 0.1"), "{out}");
    let report = std::fs::read_to_string(run.join("report.md")).unwrap();
    for part in ["audio of 2 seconds (silence, 8 kHz)", "audio seconds/s", "RTF p99", "RTF is the limit"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    for word in ["TTFT", "TPOT", "[DONE]", "sent no usage", "NaN", "calibrated"] {
        assert!(!report.contains(word), "{word}: {report}");
    }
}

/// Writes a WAV file of 8 kHz.
fn write(path: &Path, samples: u32) {
    std::fs::write(path, [&wav::header(samples, 8_000)[..], &vec![3; 2 * samples as usize]].concat())
        .unwrap();
}

#[test]
fn recordings_are_sent_over_a_socket_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("clips")).unwrap();
    write(&dir.path().join("clips/a.wav"), 4_000);
    write(&dir.path().join("clips/b.wav"), 20_000);
    let checks = "[[check]]\nname = \"words\"\nregex = \"the\"\n";
    let plan = transcriber("file = \"clips\"", "rates = [30]").replace("30m", "1s").replace("20s", "200ms");
    let plan = plan.replace("50 ms", "5 ms").replace("\"md1\"", "\"md1\", service = \"5ms\"");
    let run = sweep(dir.path(), &format!("{plan}{checks}"), &[]).0;
    let step = &result(&run)["steps"][0];
    assert!(step["completed"].as_u64().unwrap() > 10 && step["failed"] == 0, "{step}");
    let requests = rows(&run.join("requests.csv"));
    for length in ["500", "2500"] {
        let own = |row: &&std::collections::HashMap<String, String>| {
            row["audio_ms"].parse::<f64>() == length.parse()
        };
        let n = requests.iter().filter(own).count();
        assert!(n.abs_diff(requests.len() / 2) <= 1, "{n} of {} have {length} ms", requests.len());
    }
    assert!(requests.iter().filter(|row| row["phase"] == "measure").all(|row| row["check"] == "true"));
    let report = std::fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("2 recordings of 0.5–2.5 s, 1.5 s on average (WAV)"), "{report}");
}

#[test]
fn a_recording_of_another_format_is_refused_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.mp3"), "ID3").unwrap();
    let path = dir.path().join("plan.toml");
    std::fs::write(&path, transcriber("files = [\"a.mp3\"]", "rates = [30]")).unwrap();
    let said = predicate::str::contains("a.mp3 is not a WAV file").and(predicate::str::contains("ffmpeg -i"));
    goodput().arg("check").arg(&path).assert().failure().stderr(said);
}
