"""Hugging Face's Marian as the reference for imported and exported models.

Runs in the environment of `make test-interop`, which has transformers and PyTorch. It
reads a request from a JSON file, and writes its answers beside it; see conftest.py.
"""

import json
import sys
from pathlib import Path

import numpy as np
import sentencepiece
import torch
from transformers import (
    LogitsProcessorList,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
)

NOISE = 1e-5
"""Standard deviation of the noise that stands for rounding in log-probabilities."""


def train_sentencepiece(path, lines, vocab_size, model_type="unigram"):
    """Trains a model with the special tokens of OPUS-MT: </s> 0, <unk> 1."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(path.with_suffix("")),
        model_type=model_type,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        pad_id=-1,
        bos_id=-1,
        eos_id=0,
        unk_id=1,
        minloglevel=2,
    )
    path.with_suffix(".model").rename(path)


def pieces_of(path):
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(i) for i in range(model.vocab_size())]


def write_vocabularies(directory, pieces, separate, languages=()):
    """Writes vocab.json as OPUS-MT does: both sides joined, `<pad>` last."""
    sides = [pieces["source"], pieces["target"]]
    if not separate:
        sides = [list(dict.fromkeys([*sides[0], *sides[1], *languages]))]
    sizes = []
    for name, tokens in zip(("vocab.json", "target_vocab.json"), sides, strict=False):
        ids = {token: i for i, token in enumerate([*tokens, "<pad>"])}
        (directory / name).write_text(json.dumps(ids))
        sizes.append(len(ids))
    return sizes


def make_model(directory, request):
    """Writes a model with random weights and real SentencePiece models."""
    directory.mkdir()
    for side in ("source", "target"):
        train_sentencepiece(directory / f"{side}.spm", request["lines"][side], 200)
    pieces = {s: pieces_of(directory / f"{s}.spm") for s in ("source", "target")}
    separate = request.get("separate", False)
    sizes = write_vocabularies(
        directory, pieces, separate, request.get("languages", ())
    )
    tokenizer = MarianTokenizer(
        *(str(directory / name) for name in ("source.spm", "target.spm", "vocab.json")),
        target_vocab_file=str(directory / "target_vocab.json") if separate else None,
        separate_vocabs=separate,
        source_lang="en",
        target_lang="de",
    )
    tokenizer.save_pretrained(directory)
    torch.manual_seed(request.get("seed", 0))
    config = MarianConfig(
        vocab_size=sizes[0],
        decoder_vocab_size=sizes[-1],
        d_model=32,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        pad_token_id=sizes[-1] - 1,
        decoder_start_token_id=sizes[-1] - 1,
        share_encoder_decoder_embeddings=not separate,
        **request["config"],
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" in name:
                continue
            if weight.dim() == 2:
                weight.copy_(torch.randn_like(weight) * weight.shape[1] ** -0.5)
            elif "norm.weight" in name:
                weight.copy_(1 + torch.randn_like(weight) * 0.2)
            else:
                weight.copy_(torch.randn_like(weight) * 0.2)
        # Random signs keep the model from repeating the previous token, whose
        # embedding is also its output row; the factor makes the distribution sharp.
        last = model.get_decoder().layers[-1].final_layer_norm.weight
        last.copy_(torch.randn_like(last) * 4)
        for table in (
            model.get_encoder().embed_tokens,
            model.get_decoder().embed_tokens,
        ):
            table.weight[-1] = 0
        bias = model.final_logits_bias
        bias.copy_(torch.randn_like(bias))
        bias[0, 0] += request["end_bias"]
        bias[0, -1] = 0
    for name, value in request.get("generation", {}).items():
        setattr(model.generation_config, name, value)
    model.generation_config.bad_words_ids = [[sizes[-1] - 1]]
    if request.get("half"):
        model.half()
    model.save_pretrained(directory, max_shard_size=request.get("shard", "5GB"))
    if request.get("torch_file"):
        torch.save(model.state_dict(), directory / "pytorch_model.bin")
        (directory / "model.safetensors").unlink()


def noise(seed):
    """Returns a logits processor that adds noise to the log-probabilities."""
    generator = torch.Generator().manual_seed(seed)
    return lambda _, log_probs: (
        log_probs + NOISE * torch.randn(log_probs.shape, generator=generator)
    )


def answer(directory, request):
    """Returns token ids, logits and translations of a saved model.

    The arguments in `request["generate"]` are those of `generate`, and `noise_seed`.
    """
    tokenizer = MarianTokenizer.from_pretrained(directory)
    model = MarianMTModel.from_pretrained(directory, dtype=torch.float32).eval()
    answers = {}
    batch = tokenizer(request["texts"], padding=True, return_tensors="pt")
    answers["source"] = batch["input_ids"].numpy()
    answers["source_mask"] = batch["attention_mask"].numpy()
    with torch.no_grad():
        for name, arguments in request["generate"].items():
            processors = LogitsProcessorList()
            if (seed := arguments.pop("noise_seed", None)) is not None:
                processors.append(noise(seed))
            found = model.generate(**batch, **arguments, logits_processor=processors)
            answers[f"ids.{name}"] = found.numpy()
            texts = tokenizer.batch_decode(found, skip_special_tokens=True)
            answers[f"text.{name}"] = np.array(texts)
        targets = model.generate(**batch, num_beams=1, max_length=12)
        answers["targets"] = targets.numpy()
        logits = model(**batch, decoder_input_ids=targets).logits
        answers["logits"] = logits.numpy()
    return answers


def main():
    path = Path(sys.argv[1])
    request = json.loads(path.read_text())
    directory = Path(request["directory"])
    if not directory.exists():
        make_model(directory, request)
    np.savez(path.with_suffix(".npz"), **answer(directory, request))


if __name__ == "__main__":
    main()
