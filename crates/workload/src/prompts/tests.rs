use super::*;
use crate::data::Counter;

fn plain(p: &Prompter, turn: &Turn) -> PromptText {
    match p.prompt(turn) {
        Prompt::Plain(text) => text,
        other => panic!("{other:?}"),
    }
}

fn prompter(extra: &str, step: u32) -> Prompter {
    let workload = toml::from_str(&format!(
        "{extra}\nprompts.synthetic = {{ input-tokens = {{ fixed = 200 }}, output-tokens = {{ fixed = 3 }}, \
         shared-prefix = {{ tokens = 50, groups = 2 }} }}"
    ))
    .unwrap();
    let key = StepKey { seed: 1, series: "main".into(), step };
    let traffic = Traffic::open(&workload, &Counter::default()).unwrap();
    Prompter::new(&traffic, key, WordRate { overhead: 8.0, per_word: 1.25, per_char: None })
}

fn recipe(id: u64, group: u32) -> Turn {
    turn(id, Text::Words { group })
}

fn turn(id: u64, text: Text) -> Turn {
    let request = Recipe { id, input_tokens: 200, output_tokens: 3, text };
    Turn { after: Duration::ZERO, class: 0, request }
}

#[test]
fn a_later_turn_has_the_words_it_adds_and_no_nonce() {
    let text = plain(&prompter("cache = \"cold\"", 1), &turn(7, Text::FollowUp { tokens: 50, images: None }));
    assert_eq!((text.words(), text.system), (40, None));
}

#[test]
fn prompts_have_the_requested_words() {
    for extra in ["cache = \"cold\"", "cache = \"warm\""] {
        let words = plain(&prompter(extra, 1), &recipe(3, 0)).words();
        assert_eq!(words, 154, "{extra}: (200 − 8) / 1.25 rounded");
    }
}

#[test]
fn prompts_shorter_than_the_prefix_have_the_requested_length() {
    for (extra, nonce) in [("cache = \"cold\"", NONCE_WORDS), ("cache = \"warm\"", 0)] {
        let p = prompter(extra, 1);
        for tokens in [20, 40, 50, 57, 58] {
            let mut turn = recipe(3, 0);
            turn.request.input_tokens = tokens;
            let text = plain(&p, &turn);
            let want = ((f64::from(tokens) - 8.0) / 1.25).round() as usize;
            assert!(text.words().abs_diff(want) <= 1, "{extra}, {tokens}: {} for {want}", text.words());
            let whole = plain(&p, &recipe(3, 0)).system.unwrap();
            let (whole, system) = (whole.split(' ').skip(nonce), text.system.unwrap());
            assert!(whole.zip(system.split(' ').skip(nonce)).all(|(a, b)| a == b), "{system}");
            assert!(!text.shared, "no other prompt has this part of the prefix");
        }
    }
}

#[test]
fn a_warming_prompt_has_the_whole_prefix() {
    let p = prompter("cache = \"warm\"", 0);
    let mut warm = turn(0, Text::Prefix { group: 1 });
    warm.request.input_tokens = 9;
    let text = plain(&p, &warm);
    assert_eq!((text.system, text.user.split(' ').count()), (plain(&p, &recipe(7, 1)).system, 1));
}

#[test]
fn blocks_of_a_cold_trace_differ_after_a_resume() {
    let blocks = turn(1, Text::Blocks { ids: Arc::from([1, 2, 3]), tokens: 16, round: 0 });
    for (cache, same) in [("cold", false), ("warm", true)] {
        let p = prompter(&format!("cache = \"{cache}\""), 1);
        let (a, b) = (plain(&p, &blocks), plain(&p.clone().resumed(1), &blocks));
        let first = |t: &PromptText| t.user.split(' ').take(12).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!((first(&a) == first(&b), a.words()), (same, b.words()), "{cache}");
    }
}

#[test]
fn a_class_has_equal_prefixes_in_every_series() {
    let p = prompter("cache = \"warm\"", 1);
    let other = Prompter { key: StepKey { series: "other".into(), ..p.key.clone() }, ..p.clone() };
    let again = Prompter::new(&other.traffic, other.key, p.rates.clone());
    assert_eq!(plain(&p, &recipe(1, 0)).system, plain(&again, &recipe(1, 0)).system);
}

#[test]
fn cold_prompts_share_no_prefix() {
    let p = prompter("cache = \"cold\"", 1);
    let (a, b) = (plain(&p, &recipe(1, 0)), plain(&p, &recipe(2, 0)));
    let first =
        |t: &PromptText| t.system.as_deref().map(|s| s.split(' ').take(3).collect::<Vec<_>>().join(" "));
    assert_ne!(first(&a), first(&b));
    assert_ne!(first(&a), first(&plain(&prompter("cache = \"cold\"", 2), &recipe(1, 0))), "another step");
    assert_eq!(a, plain(&p, &recipe(1, 0)), "deterministic");
    let again = plain(&p.resumed(1), &recipe(1, 0));
    assert_ne!(first(&a), first(&again), "another nonce after a resume");
    assert_eq!((a.words(), &a.user), (again.words(), &again.user), "equal length and words");
}

#[test]
fn warm_prompts_share_the_prefix_of_their_group() {
    let (p, q) = (prompter("cache = \"warm\"", 1), prompter("cache = \"warm\"", 2));
    assert_eq!(plain(&p, &recipe(1, 0)).system, plain(&q, &recipe(9, 0)).system);
    assert_ne!(plain(&p, &recipe(1, 0)).system, plain(&p, &recipe(1, 1)).system);
    assert_ne!(plain(&p, &recipe(1, 0)).user, plain(&p, &recipe(2, 0)).user);
}
