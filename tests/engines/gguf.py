#!/usr/bin/env python3
"""Convert models of models.py for llama.cpp's llama-server.

  gguf.py NAME-SIZE ...

Writes $LAB/models/NAME-SIZE.gguf (LAB defaults to ~/lab) with llama.cpp's own converter, from its source tree in $LLAMA_CPP. That knows only the
tokenizers of published models: those of models.py are named after the kind that they are of. Needs what models.py needs.
"""
import os
import pathlib
import runpy
import sys

# Name of the splitting into words, by the architecture of a model.
SPLITTERS = {"BertModel": "jina-v2-en", "BertForSequenceClassification": "jina-v2-en", "LlamaForCausalLM": "gpt-2"}


def main():
    tree = pathlib.Path(os.environ["LLAMA_CPP"])
    models = pathlib.Path(os.environ.get("LAB", pathlib.Path.home() / "lab")) / "models"
    sys.path[:0] = [str(tree), str(tree / "gguf-py")]
    from conversion import base

    base.TextModel.get_vocab_base_pre = lambda self, tokenizer: SPLITTERS[self.hparams["architectures"][0]]
    for name in sys.argv[1:]:
        sys.argv = ["convert", str(models / name), "--outfile", str(models / f"{name}.gguf"), "--outtype", "bf16"]
        runpy.run_path(str(tree / "convert_hf_to_gguf.py"), run_name="__main__")


if __name__ == "__main__":
    main()
