//! Refused requests, and defaults for omitted fields.

use super::*;

/// Route and body; then the expected status, type, param ("" for null), and part of the message.
const REFUSALS: &[(&str, &str, u16, &str, &str, &str)] = &[
    (CHAT, "{\"model\": ", 400, "Bad Request", "body.10", "JSON decode error"),
    (CHAT, r#"{"messages": 3}"#, 400, "Bad Request", "body.14", "wrong type"),
    (CHAT, r#"{"prompt": "x"}"#, 400, "Bad Request", "body.messages", "Field required"),
    (COMPLETIONS, r#"{"messages": []}"#, 400, "Bad Request", "body.prompt", "Field required"),
    (
        CHAT,
        r#"{"messages": [], "model": "m"}"#,
        404,
        "NotFoundError",
        "model",
        "The model `m` does not exist. Valid aliases: simulated.",
    ),
    (
        COMPLETIONS,
        r#"{"prompt": "x", "max_tokens": 21}"#,
        400,
        "BadRequestError",
        "max_tokens",
        "max_tokens=21 cannot be greater than max_model_len=20",
    ),
    (
        COMPLETIONS,
        r#"{"prompt": "x", "max_tokens": 20}"#,
        400,
        "BadRequestError",
        "input_tokens",
        "you requested 20 output tokens and your prompt contains 1",
    ),
    (
        COMPLETIONS,
        r#"{"prompt": "x", "max_tokens": 4, "min_tokens": 8}"#,
        400,
        "BadRequestError",
        "",
        "min_tokens must be less than or equal to max_tokens=4, got 8.",
    ),
    (
        COMPLETIONS,
        r#"{"prompt": "x", "max_tokens": 0}"#,
        400,
        "BadRequestError",
        "max_tokens",
        "at least 1, got 0.",
    ),
    (
        CHAT,
        r#"{"messages": [], "max_completion_tokens": 0}"#,
        400,
        "BadRequestError",
        "max_tokens",
        "at least 1, got 0.",
    ),
    (
        COMPLETIONS,
        r#"{"prompt": " \n", "max_tokens": 1}"#,
        400,
        "BadRequestError",
        "prompt",
        "cannot be empty",
    ),
    (COMPLETIONS, r#"{"prompt": [], "max_tokens": 1}"#, 400, "BadRequestError", "prompt", "cannot be empty"),
    (
        COMPLETIONS,
        r#"{"prompt": "x", "n": 33, "max_tokens": 1}"#,
        400,
        "BadRequestError",
        "n",
        "at most 32 choices",
    ),
    (
        COMPLETIONS,
        r#"{"prompt": "x", "n": 0, "max_tokens": 1}"#,
        400,
        "BadRequestError",
        "n",
        "at least 1, got 0.",
    ),
    (COMPLETIONS, r#"{"prompt": ["x", "y"], "max_tokens": 1}"#, 400, "BadRequestError", "", "one prompt"),
];

#[tokio::test(start_paused = true)]
async fn refusals_read_like_vllms() {
    let router = server("preset = \"null\"\nmax-model-len = 20");
    let long = format!(r#"{{"prompt": "{}"}}"#, "x ".repeat(21));
    let long = (
        COMPLETIONS,
        long.as_str(),
        400,
        "BadRequestError",
        "input_tokens",
        "maximum context length is 20 tokens. However, your prompt contains 21 input",
    );
    for (path, body, status, kind, param, said) in REFUSALS.iter().copied().chain([long]) {
        let response = post(&router, path, body).await;
        assert_eq!(response.status(), status, "{body}");
        let error: Value = serde_json::from_str(&text(response).await).unwrap();
        let error = &error["error"];
        assert_eq!(
            (error["type"].as_str(), error["param"].as_str().unwrap_or_default()),
            (Some(kind), param),
            "{body}"
        );
        assert_eq!(error["code"], status, "{body}");
        assert!(error["message"].as_str().unwrap().contains(said), "{body}: {error}");
    }
    let nope = call(&router, Method::GET, "/v1/nope", "").await;
    assert_eq!((nope.status().as_u16(), text(nope).await.as_str()), (404, r#"{"detail":"Not Found"}"#));
    let get = call(&router, Method::GET, CHAT, "").await;
    assert_eq!(
        (get.status().as_u16(), text(get).await.as_str()),
        (405, r#"{"detail":"Method Not Allowed"}"#)
    );
}

/// As in vLLM, a completion defaults to 16 tokens, or the room left in the context if less; a chat to all the room
/// left.
#[tokio::test(start_paused = true)]
async fn who_asks_for_no_number_of_tokens_gets_what_fits() {
    let router = server("preset = \"null\"\nmax-model-len = 40");
    let prompt = |words: usize| format!(r#"{{"prompt": "{}"}}"#, "x ".repeat(words));
    let chat = |words: usize| format!(r#"{{"messages": [{{"content": "{}"}}]}}"#, "x ".repeat(words));
    // The template has eight tokens.
    for (path, body, output) in [
        (COMPLETIONS, prompt(10), Some(16)),
        (COMPLETIONS, prompt(30), Some(10)),
        (COMPLETIONS, prompt(39), Some(1)),
        (COMPLETIONS, prompt(40), None),
        (CHAT, chat(2), Some(30)),
        (CHAT, chat(31), Some(1)),
        (CHAT, chat(32), None),
    ] {
        let response = post(&router, path, &body).await;
        let (status, text) = (response.status().as_u16(), text(response).await);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["usage"]["completion_tokens"].as_u64(), output, "{body}: {text}");
        assert_eq!(status, if output.is_some() { 200 } else { 400 }, "{body}");
    }
}
