"""Model card of a model exported to CTranslate2, with a program that runs it."""

from typing import Any

from t2t_keras.decoding.options import SearchOptions
from t2t_keras.model_dir import LoadedModel, ModelDir


def translation_options(
    options: SearchOptions, max_input_tokens: int
) -> dict[str, Any]:
    """Returns the arguments of `ctranslate2.Translator.translate_batch`.

    Args:
        options: Search options.
        max_input_tokens: Maximum number of source tokens, end token excluded.
    """
    arguments: dict[str, Any] = {
        "beam_size": options.beam_size,
        "length_penalty": options.length_penalty,
        "min_decoding_length": options.min_length,
        "no_repeat_ngram_size": options.no_repeat_ngram,
        "disable_unk": options.disable_unk,
        # The end token counts.
        "max_input_length": max_input_tokens + 1,
    }
    if options.sample:
        arguments |= {
            "beam_size": 1,
            "sampling_topk": options.top_k,
            "sampling_topp": options.top_p,
            "sampling_temperature": options.temperature,
        }
    return arguments


_CARD = """# {name}

A Transformer that translates from {source_lang} to {target_lang}, trained with
t2t-keras and exported for [CTranslate2](https://github.com/OpenNMT/CTranslate2).

- weights: {weights}, stored as {weights_dtype}
- parameters: {parameters:,}

## Run it

Install `ctranslate2` and `sentencepiece`. This program translates the lines of standard
input; run it in this directory.

```python
import itertools
import json
import re
import sys

import ctranslate2
import sentencepiece

translator = ctranslate2.Translator(".", device="auto")
source, target = (
    sentencepiece.SentencePieceProcessor(model_file=f"{{side}}.spm")
    for side in ("source", "target")
)
with open("config.json") as file:
    options = json.load(file)["translation_options"]


def split(sentence):
{split}


def translate(sentences):
    # White space and control characters become single spaces, as in training.
    clean = [re.sub(r"[\\s\\x00-\\x1f\\x7f-\\x9f]+", " ", line) for line in sentences]
    tokens = [split(line) for line in clean]
    translations = [""] * len(tokens)
    # Sentences of the same length have the same maximum length of the output.
    by_length = sorted((len(ids), number) for number, ids in enumerate(tokens) if ids)
    for length, group in itertools.groupby(by_length, key=lambda entry: entry[0]):
        numbers = [number for _, number in group]
        results = translator.translate_batch(
            [tokens[number] for number in numbers],
            max_decoding_length={limit},
            max_batch_size=4096,
            batch_type="tokens",
            **options,
        )
        for number, result in zip(numbers, results):
            ids = target.piece_to_id(result.hypotheses[0])
            translations[number] = target.decode(ids)
    return translations


for line in translate(sys.stdin.read().split("\\n")[:-1]):
    print(line)
```

## Search

`translation_options` in `config.json` are arguments of `translate_batch`. CTranslate2
divides the log-probability of an output of n tokens by n^length_penalty, and ends beam
search when `beam_size` outputs are finished. `t2t-translate` does the same with
`--length_penalty_beta=0 --early_stopping=first`; the values of this model are
`--length_penalty={length_penalty:g} --length_penalty_beta={length_penalty_beta:g}
--early_stopping={early_stopping}`.

An input may have {max_input:,} tokens, and an output {longest:,}. Longer inputs are
cut.
"""


_SPLIT = """\
    return source.id_to_piece(source.encode(sentence))"""

_SPLIT_AFTER_LANGUAGE = """\
    # A token for the language, such as >>fra<<, may come first.
    language, text = re.match(r"(?: ?(>>[^<>]+<<))?(.*)", sentence).groups()
    pieces = [language] * bool(language) + source.encode(text, out_type=str)
    # Text such as </s> is no special token.
    return source.id_to_piece([max(3, i) for i in source.piece_to_id(pieces)])"""


def model_card(
    model_dir: ModelDir,
    loaded: LoadedModel,
    options: SearchOptions,
    weights_dtype: str,
    max_input_tokens: int,
) -> str:
    """Returns the model card as Markdown.

    Args:
        model_dir: The model directory.
        loaded: The exported model.
        options: Search options.
        weights_dtype: Storage format of the weights.
        max_input_tokens: Maximum number of source tokens.
    """
    data = model_dir.config["data"]
    # A source of n tokens has an end token too. With force_end, the last token of the
    # longest outputs is an end token, which CTranslate2 would not cut.
    forced = int(options.force_end)
    longest = options.max_length(max_input_tokens + 1) - forced
    if options.max_output_tokens:
        longest = min(longest, options.max_output_tokens - forced)
    limit = f"length + {options.max_extra_length + 1 - forced}"
    if options.max_length_factor != 1:
        limit = f"int({options.max_length_factor:g} * (length + 1))"
        limit += f" + {options.max_extra_length - forced}"
    if options.min_length:
        limit = f"max({limit}, {options.min_length + 1 - forced})"
    has_languages = getattr(model_dir.tokenizers.source, "has_unused_pieces", False)
    return _CARD.format(
        split=_SPLIT_AFTER_LANGUAGE if has_languages else _SPLIT,
        name=model_dir.path.resolve().name,
        source_lang=data["source_lang"],
        target_lang=data["target_lang"],
        weights=loaded.weights,
        weights_dtype=weights_dtype,
        parameters=loaded.model.count_params(),
        limit=f"min({limit}, {longest})",
        longest=longest,
        max_input=max_input_tokens,
        length_penalty=options.length_penalty,
        length_penalty_beta=options.length_penalty_beta,
        early_stopping=options.early_stopping,
    )
