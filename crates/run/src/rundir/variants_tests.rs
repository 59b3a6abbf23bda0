use super::*;
use goodput_core::level::Control;
use goodput_stats::fixture::{answered, conclusion};
use goodput_stats::search::answer::Conclusion;

fn variant(name: &str, rate: Option<(f64, [f64; 2])>, peak: Option<(f64, Option<bool>)>) -> VariantAnswer {
    let goodput = |rate: Option<(f64, [f64; 2])>| {
        let found = |(rate, [low, high]): (f64, [f64; 2])| {
            conclusion(Status::Found, Some(rate), Some([low, high]), Some(low))
        };
        answered(rate.map_or(Conclusion::None, found), None, None)
    };
    let answer = Answer {
        series: name.into(),
        tier: "main".into(),
        class: "all".into(),
        control: Control::Rate,
        goodput: goodput(rate),
        joint_goodput: goodput(rate),
        knee: None,
    };
    let peak = peak.map(|(output_tokens_per_s, keeps_pace)| Peak {
        step: 1,
        in_flight: 4.0,
        output_tokens_per_s,
        achieved_rate: 1.0,
        tpot_p50_ms: None,
        tpot_p99_ms: None,
        preemptions: None,
        keeps_pace,
    });
    VariantAnswer {
        variant: name.into(),
        series: name.into(),
        state: State::Done,
        reason: None,
        out_of_memory: false,
        last_lines: vec![],
        log: None,
        answer: Some(answer),
        output_tokens_per_s: None,
        peak,
        preemptions: None,
        ready_s: None,
        room: None,
        at: None,
    }
}

#[test]
fn best_at_the_slo_and_best_at_raw_throughput_are_told_apart() {
    let all = [
        variant("a", Some((10.0, [9.0, 11.0])), Some((1000.0, Some(true)))),
        variant("b", Some((12.0, [10.5, 13.0])), Some((1500.0, Some(true)))),
        variant("c", Some((8.0, [7.0, 9.0])), Some((2000.0, Some(false)))),
        variant("d", None, None),
    ];
    let best = Best::of(&all);
    assert_eq!(
        best,
        Best { at_slo: Some(1), not_told_apart: vec![0], raw_peak: Some(2), peak_within_pace: Some(1) }
    );
    assert_eq!(Best::of(&all[3..]), Best::default());
    let mut failed = all[1].clone();
    failed.answer = None;
    assert_eq!(Best::of(&[failed, all[0].clone()]).at_slo, Some(1));
}

#[test]
fn a_rate_that_none_is_shown_to_fail_above_is_a_lower_bound() {
    let mut open = variant("a", Some((10.0, [9.0, 11.0])), None);
    let g = &mut open.answer.as_mut().unwrap().goodput;
    (g.conclusion, g.bracket.met) = (conclusion(Status::NotReached, Some(10.0), None, None), Some(10.0));
    assert_eq!(open.goodput(), Some((10.0, [10.0, f64::INFINITY])));
    let best = Best::of(&[open, variant("b", Some((12.0, [11.0, 13.0])), None)]);
    assert_eq!((best.at_slo, best.not_told_apart), (Some(1), vec![0]), "it may be as good");
}

#[test]
fn the_room_follows_from_what_the_server_reports() {
    let facts = |blocks: &str, size: &str, longest: Option<u32>| {
        let flags = [("num_gpu_blocks", blocks), ("block_size", size)];
        let flags = flags.into_iter().filter(|(_, value)| !value.is_empty());
        let flags = flags.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Facts { flags, max_model_len: longest, ..Facts::default() }
    };
    for (blocks, size, longest, want) in [
        ("1842", "16", Some(1024), Some((1842, Some(28)))),
        ("2473", "16", Some(1024), Some((2473, Some(38)))),
        ("2368", "16", Some(1000), Some((2368, Some(37)))), // 62.5 blocks take 63
        ("100", "16", Some(4096), Some((100, Some(0)))),
        ("100", "", Some(4096), Some((100, None))),
        ("100", "16", None, Some((100, None))),
        ("", "16", Some(4096), None),
        ("None", "16", Some(4096), None),
    ] {
        let got = room(&facts(blocks, size, longest)).map(|room| (room.blocks, room.sequences));
        assert_eq!(got, want, "{blocks} of {size} for {longest:?}");
    }
}
