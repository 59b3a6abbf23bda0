use super::*;

/// Loads a fixture with one token per word, for the words that prompts and the simulated server use.
fn fixture() -> Tokenizer {
    Tokenizer::open(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tokenizer.json")))
        .expect("fixture")
}

#[test]
fn words_encode_to_tokens_and_back() {
    let t = fixture();
    let ids = t.encode("able about the  server\nunheardof");
    assert_eq!((ids.len(), t.count("able about the  server\nunheardof"), t.count("")), (5, 5, 0));
    assert_eq!(t.decode(&ids[..4]), "able about the server");
    let [begin, end, unknown] = ["<s>", "</s>", "<unk>"].map(|word| t.encode(word)[0]);
    assert!(t.is_special(begin) && t.is_special(end) && t.is_special(unknown) && !t.is_special(ids[0]));
    assert_eq!(ids[4], unknown);
    assert!(t.vocabulary() > 256, "{t:?}");
}

#[test]
fn prompts_have_the_exact_number_of_tokens() {
    let t = fixture();
    let ids = t.encode("able about above");
    for (text, n, expected) in [
        ("able about above", 3, ids.clone()),
        ("able about above", 2, ids[..2].to_vec()),
        ("able about above", 7, [&ids[..], &ids[..], &ids[..1]].concat()),
        ("able <s> about </s> above unheardof", 3, ids.clone()),
        ("able", 0, vec![]),
    ] {
        assert_eq!(t.exact_ids(text, n), expected, "{text} {n}");
    }
    let prompt = t.prompt(Some("able about"), "above", 5);
    assert_eq!(prompt, [&ids[..2], &t.exact_ids("above", 3)].concat());
    assert_eq!(
        (t.prompt(Some("able about"), "above", 1), t.prompt(None, "able about", 2)),
        (ids[..1].to_vec(), ids[..2].to_vec())
    );
    let any = t.exact_ids("", 1000);
    assert!(any.len() == 1000 && any.iter().all(|id| !t.is_special(*id)));
}

#[test]
fn errors_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("broken.json");
    std::fs::write(&broken, "{\"model\": 5}").unwrap();
    for (path, message) in
        [(dir.path().join("none.json"), "failed to read"), (broken, "is not a Hugging Face tokenizer.json")]
    {
        let e = format!("{:#}", Tokenizer::open(&path).unwrap_err());
        assert!(e.contains(message) && e.contains(&path.display().to_string()), "{e}");
    }
}
