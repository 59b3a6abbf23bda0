//! Closed forms, and the published figures.

use super::*;
use crate::roofline::{Gpu, Precision};

/// Returns a built-in model on so many GPUs, with prompts of 512 and answers of 128 tokens.
pub(super) fn setup(model: &str, gpu: &str, tensor_parallel: u32) -> Setup {
    let model = Served::known(Known::find(model).unwrap(), None).unwrap();
    on(model, gpu, tensor_parallel)
}

fn on(model: Served, gpu: &str, tensor_parallel: u32) -> Setup {
    let machine = Machine::of(Some(gpu), None, None, tensor_parallel, &model.model).unwrap();
    Setup {
        machine,
        copies: 1,
        memory: Gpu::find(gpu).unwrap().usable_gib * GIB,
        utilization: UTILIZATION,
        reserved: RESERVED,
        kv_bytes: 2.0,
        block_tokens: BLOCK_TOKENS,
        max_model_len: 8192,
        input_tokens: 512.0,
        output_tokens: 128.0,
        model,
    }
}

/// The published 28,626 blocks: (0.9 · 79.15 GiB − 70.55e9 · 2 / 4 − 3.69 GB) / (16 · 2 · 80 · 2 · 128 · 2 bytes).
#[test]
fn llama_70b_on_four_a100_has_the_published_blocks() {
    let setup = setup("llama-3.1-70b", "A100 80GB", 4);
    let fit = setup.fit().unwrap();
    assert_eq!((fit.blocks, fit.tokens), (28_626, 458_016));
    assert!((fit.token_bytes - 81_920.0).abs() < 1e-6 && (fit.block_bytes - 1_310_720.0).abs() < 1e-6);
    assert!((fit.weights - 35_276_853_248.0).abs() < 1.0);
    assert!((fit.kv_room - (fit.budget - fit.weights - 3.69e9)).abs() < 1.0);
    // 512 blocks of 8,192 tokens, 40 of 640, beside the block that vLLM keeps.
    assert_eq!((fit.longest, fit.sequences), (28_625 / 512, 28_625 / 40));
    assert_eq!(fit.longest_tokens, 28_625 * 16);
}

/// The published 26.7 ms and 37.5 tokens/s of 8 billion parameters in FP16 at 600 GB/s, without a context.
#[test]
fn eight_billion_parameters_on_an_a10_take_the_published_time() {
    let mut model = Served::known(Known::find("llama-3.1-8b").unwrap(), None).unwrap();
    (model.weights, model.read) = (16e9, 16e9);
    let fit = Setup { input_tokens: 0.0, output_tokens: 0.0, ..on(model, "A10", 1) }.fit().unwrap();
    assert!((fit.alone.floor_ms - 26.667).abs() < 0.001 && (fit.tokens_per_s - 37.5).abs() < 0.01, "{fit:?}");
}

/// vLLM's profile of Llama 3 8B on an H100 (pull request 10511): 71.29 − 14.96 − 1.79 − 1.26 = 53.29 GiB for the cache; the
/// assumed 3.69 GB leave 0.7 % less.
#[test]
fn the_room_is_close_to_a_profile_of_vllm() {
    let fit = setup("llama-3.1-8b", "H100", 1).fit().unwrap();
    assert!((fit.kv_room / GIB / 53.29 - 1.0).abs() < 0.01, "{}", fit.kv_room / GIB);
    let exact = Setup { reserved: (1.79 + 1.26) * GIB, ..setup("llama-3.1-8b", "H100", 1) }.fit().unwrap();
    assert!((exact.kv_room / GIB - 53.29).abs() < 0.01, "{}", exact.kv_room / GIB);
}

#[test]
fn heads_on_several_gpus_take_room_and_time_on_each() {
    let [eight, sixteen] = [8, 16].map(|gpus| setup("llama-3.1-70b", "H100", gpus).fit().unwrap());
    assert_eq!((eight.share, sixteen.share.copies), (Share { kv_heads: 1, copies: 1 }, 2));
    assert!((eight.token_bytes - sixteen.token_bytes).abs() < 1e-9, "no less on each of 16");
    let kv = |fit: &Fit| fit.alone.kv_ms.unwrap();
    assert!((kv(&eight) - kv(&sixteen)).abs() < 1e-12, "each reads as much");
    assert!((eight.alone.weights_ms / sixteen.alone.weights_ms - 2.0).abs() < 1e-9);
}

/// 61 layers of 512 + 64 numbers, the same on every GPU.
#[test]
fn a_latent_cache_is_small_and_whole_on_every_gpu() {
    let fit = setup("deepseek-r1", "H200", 8).fit().unwrap();
    assert!((fit.token_bytes - 61.0 * 576.0 * 2.0).abs() < 1e-6, "{fit:?}");
}

#[test]
fn what_does_not_fit_says_what_would() {
    let too_large = |setup: Setup| match setup.fit() {
        Err(Refusal::TooLarge { remedies, .. }) => remedies,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        too_large(setup("llama-3.1-70b", "H100", 1)),
        [Remedy::TensorParallel(2), Remedy::Precision(Precision::Fp8)]
    );
    // 16.38 + 3.69 GB and two blocks more than the 40 of a sequence are 85.2 % of 23.68 GB.
    assert_eq!(
        too_large(Setup { utilization: 0.8, ..setup("qwen3-8b", "A10", 1) }),
        [Remedy::Utilization(0.86), Remedy::TensorParallel(2), Remedy::Precision(Precision::Fp8)]
    );
    assert_eq!(too_large(setup("llama-3.1-405b", "A10", 8)), [Remedy::TensorParallel(64)]);
    let uneven = setup("llama-3.1-70b", "H100", 3).fit();
    assert_eq!(
        uneven,
        Err(Refusal::UnevenKvHeads {
            kv_heads: 8,
            tensor_parallel: 3,
            possible: vec![1, 2, 4, 8, 16, 32, 64]
        })
    );
    let heads = setup("llama-3.2-3b", "H100", 16).fit();
    assert_eq!(heads, Err(Refusal::UnevenHeads { heads: 24, tensor_parallel: 16 }));
}
