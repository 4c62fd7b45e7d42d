"""Hugging Face's transformers and CTranslate2 as references for exported models.

Runs in the environment of `make test-interop`. Usage: export_oracle.py REQUEST.json. It
writes REQUEST.npz.

The request has a model "directory", "texts", "targets" (translations to score),
"max_length", searches to "generate" with, and two directories to write: "saved" by
transformers, and "ctranslate2".
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer


def transformers_answers(directory, request):
    """Returns ids and logits of the targets, and translations of the texts."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSeq2SeqLM.from_pretrained(directory).float().eval()
    answers = translations(tokenizer, model, request)
    batch = tokenizer(request["texts"], padding=True, return_tensors="pt")
    targets = tokenizer(
        text_target=request["targets"], padding=True, return_tensors="pt"
    )["input_ids"]
    start = torch.full_like(targets[:, :1], model.config.decoder_start_token_id)
    inputs = torch.cat([start, targets], dim=1)
    logits = model(**batch, decoder_input_ids=inputs).logits
    answers["source"] = batch["input_ids"].numpy()
    answers["source_mask"] = batch["attention_mask"].numpy()
    answers["target"] = inputs.numpy()
    answers["logits"] = logits.numpy()
    return answers


def translations(tokenizer, model, request):
    """Returns the translations by each search."""
    batch = tokenizer(request["texts"], padding=True, return_tensors="pt")
    answers = {}
    for name, arguments in request["generate"].items():
        ids = model.generate(**batch, **arguments, max_length=request["max_length"])
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
        answers[name] = np.array(texts)
    return answers


def saved_answers(directory, request):
    """Returns the translations after transformers has saved and loaded the model."""
    for kind in (AutoTokenizer, AutoModelForSeq2SeqLM):
        kind.from_pretrained(directory).save_pretrained(request["saved"])
    tokenizer = AutoTokenizer.from_pretrained(request["saved"])
    model = AutoModelForSeq2SeqLM.from_pretrained(request["saved"]).eval()
    # As the model card says.
    for each in (model.config, model.generation_config):
        each.decoder_start_token_id = 1
    found = translations(tokenizer, model, request)
    return {f"saved.{name}": texts for name, texts in found.items()}


def ctranslate2_answers(directory, request):
    """Returns the translations of the converted model."""
    import ctranslate2

    converter = Path(sys.executable).with_name("ct2-transformers-converter")
    subprocess.run(
        [converter, "--model", directory, "--output_dir", request["ctranslate2"]],
        check=True,
    )
    tokenizer = AutoTokenizer.from_pretrained(directory)
    translator = ctranslate2.Translator(request["ctranslate2"], inter_threads=1)
    tokens = [
        tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
        for text in request["texts"]
    ]
    found = translator.translate_batch(
        tokens, beam_size=1, max_decoding_length=request["max_length"] - 1
    )
    texts = [
        tokenizer.decode(
            tokenizer.convert_tokens_to_ids(each.hypotheses[0]),
            skip_special_tokens=True,
        )
        for each in found
    ]
    return {"ctranslate2": np.array(texts)}


def main():
    path = Path(sys.argv[1])
    request = json.loads(path.read_text())
    directory = request["directory"]
    with torch.no_grad():
        answers = transformers_answers(directory, request)
        answers |= saved_answers(directory, request)
        answers |= ctranslate2_answers(directory, request)
    np.savez(path.with_suffix(".npz"), **answers)


if __name__ == "__main__":
    main()
