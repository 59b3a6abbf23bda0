#!/usr/bin/env python3
"""Make small models with random weights for vLLM, without any download.

  models.py [--size tiny|small] [NAME ...]

Writes $LAB/models/NAME-SIZE (LAB defaults to ~/lab): config, tokenizer and weights. The tokenizers are trained on the text of Python's own
documentation. `tiny` is for recordings; `small` is for measurements: a request takes tens of milliseconds on a CPU core.
Needs torch, transformers and tokenizers, which vLLM brings along.
"""
import argparse
import json
import os
import pathlib
import pydoc_data.topics

import safetensors.torch
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.models.whisper.tokenization_whisper import LANGUAGES

VOCAB = 4096
CHAT = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for part in m['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% else %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}{% endif %}"
    "{% endfor %}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# hidden size, layers, heads, size of the feed-forward layer. vLLM's attention on a CPU takes no heads below 32.
SIZES = {"tiny": (64, 2, 2, 128), "small": (384, 6, 12, 1536)}


def corpus():
    for topic in pydoc_data.topics.topics.values():
        yield from topic.split("\n\n")


def bert_tokenizer():
    """Returns a WordPiece tokenizer that adds [CLS] and [SEP], as BERT's does."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer()
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    tok.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=VOCAB, special_tokens=special, show_progress=False))
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(t, tok.token_to_id(t)) for t in ("[CLS]", "[SEP]")],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tok, model_max_length=512, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]", model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def chat_tokenizer(extra=()):
    """Returns a byte-level BPE tokenizer with a chat template."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *extra]
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=special, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    ))
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tok, model_max_length=4096, eos_token="<|im_end|>", pad_token="<|endoftext|>",
    )
    made.chat_template = CHAT
    return made


def bert_config(size, **more):
    hidden, layers, heads, ffn = SIZES[size]
    return transformers.BertConfig(
        vocab_size=VOCAB, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=ffn,
        max_position_embeddings=512, pad_token_id=0, **more,
    )


def embedder(size, path):
    transformers.BertModel(bert_config(size)).save_pretrained(path)
    bert_tokenizer().save_pretrained(path)


def sequence_classifier(size, path, labels):
    config = bert_config(size, num_labels=labels)
    transformers.BertForSequenceClassification(config).save_pretrained(path)
    bert_tokenizer().save_pretrained(path)


def chat(size, path):
    hidden, layers, heads, ffn = SIZES[size]
    tok = chat_tokenizer()
    config = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads // 2,
        intermediate_size=ffn, max_position_embeddings=4096, bos_token_id=0, eos_token_id=tok.eos_token_id,
    )
    # Larger than the default: with near-zero logits every answer would be the same token.
    config.initializer_range = 0.2
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    tok.save_pretrained(path)


def lora(size, path):
    """A LoRA adapter of rank 8 for the chat model, in the files that PEFT writes."""
    hidden, layers, heads, _ = SIZES[size]
    outputs = {"q_proj": hidden, "v_proj": hidden // heads * (heads // 2)}
    weights = {}
    for layer in range(layers):
        for target, out in outputs.items():
            name = f"base_model.model.model.layers.{layer}.self_attn.{target}"
            weights[f"{name}.lora_A.weight"] = 0.1 * torch.randn(8, hidden)
            weights[f"{name}.lora_B.weight"] = 0.1 * torch.randn(out, 8)
    path.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(weights, path / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 8, "lora_alpha": 16, "bias": "none", "target_modules": list(outputs)}
    (path / "adapter_config.json").write_text(json.dumps(config))


def vision(size, path):
    """A Qwen2-VL: an image is `image_grid / merge_size²` tokens in the prompt."""
    hidden, layers, heads, ffn = SIZES[size]
    extra = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tok = chat_tokenizer(extra)
    ids = [tok.convert_tokens_to_ids(t) for t in extra]
    config = transformers.Qwen2VLConfig(
        text_config=dict(
            vocab_size=VOCAB, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
            num_key_value_heads=heads // 2, intermediate_size=ffn, max_position_embeddings=4096, bos_token_id=0,
            eos_token_id=tok.eos_token_id, tie_word_embeddings=False,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": mrope(hidden // heads)},
        ),
        vision_config=dict(depth=2, embed_dim=hidden, hidden_size=hidden, num_heads=heads, mlp_ratio=2, in_channels=3),
        vision_start_token_id=ids[0], vision_end_token_id=ids[1], image_token_id=ids[2], video_token_id=ids[3],
        tie_word_embeddings=False,
    )
    transformers.Qwen2VLForConditionalGeneration(config).save_pretrained(path)
    transformers.Qwen2VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(min_pixels=56 * 56, max_pixels=448 * 448),
        video_processor=transformers.Qwen2VLVideoProcessor(), tokenizer=tok, chat_template=CHAT,
    ).save_pretrained(path)


def whisper(size, path):
    """A Whisper: audio is 1,500 tokens of the encoder for every window of 30 s."""
    hidden, layers, heads, ffn = SIZES[size]
    tasks = ["translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"]
    names = ["endoftext", "startoftranscript", *LANGUAGES, *tasks]
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=[f"<|{name}|>" for name in names], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    ))
    end = dict.fromkeys(["eos_token", "bos_token", "pad_token", "unk_token"], "<|endoftext|>")
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=tok, model_max_length=448, **end)
    ids = dict(
        decoder_start_token_id=made.convert_tokens_to_ids("<|startoftranscript|>"), bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )
    config = transformers.WhisperConfig(
        vocab_size=VOCAB, num_mel_bins=80, d_model=hidden, encoder_layers=layers, decoder_layers=layers,
        encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=ffn, decoder_ffn_dim=ffn,
        # As in `chat`.
        init_std=0.2, **ids,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    model.generation_config = transformers.GenerationConfig(**ids)
    model.save_pretrained(path)
    transformers.WhisperProcessor(transformers.WhisperFeatureExtractor(feature_size=80), made).save_pretrained(path)


def mrope(head):
    """Splits half of a head's size between time, height and width."""
    half = head // 2
    return [half - 2 * (half // 3), half // 3, half // 3]


KINDS = {
    "chat": chat,
    "lora-a": lora,
    "lora-b": lora,
    "embedder": embedder,
    "reranker": lambda size, path: sequence_classifier(size, path, 1),
    "classifier": lambda size, path: sequence_classifier(size, path, 5),
    "vision": vision,
    "whisper": whisper,
}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--size", choices=SIZES, default="tiny")
    ap.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(KINDS)}; all by default")
    args = ap.parse_args()
    lab = pathlib.Path(os.environ.get("LAB", pathlib.Path.home() / "lab"))
    torch.set_default_dtype(torch.float32)
    for name in args.names or KINDS:
        torch.manual_seed(1)
        path = lab / "models" / f"{name}-{args.size}"
        KINDS[name](args.size, path)
        print(path)


if __name__ == "__main__":
    main()
