"""An exported toy translation model for serving tests."""

import numpy as np

from t2t_keras import Transformer
from t2t_keras.data.subwords import SentencePieceTokenizer, WordPieceTokenizer
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.translator import Translator
from t2t_keras.export.servable import TranslationServable
from t2t_keras.export.warmup import write_warmup

LINES = [f"{word} {number}" for number in range(40) for word in ("the", "a dog", "no")]
OPTIONS = SearchOptions(beam_size=3, max_extra_length=4, length_penalty=0.8)
MAX_INPUT_TOKENS = 20


def toy(seed=0, subword="bpe", **arguments):
    """Returns a random model whose outputs depend on its inputs, and tokenizers."""
    kind = {"bpe": SentencePieceTokenizer, "wordpiece": WordPieceTokenizer}[subword]
    tokenizer = kind.train(LINES, 40)
    model = Transformer(
        source_vocab_size=tokenizer.vocab_size,
        num_layers=2,
        d_model=16,
        d_ff=16,
        num_heads=2,
        seed=seed,
        **arguments,
    )
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:  # Far enough apart that no two tokens tie.
            variable.assign(rng.normal(0, 0.6, variable.shape))
    return model, TokenizerPair(tokenizer, tokenizer)


def translator(model, tokenizers):
    """Returns a translator with the options of the export."""
    return Translator(model, tokenizers, OPTIONS, max_input_tokens=MAX_INPUT_TOKENS)


def export(path, model, tokenizers, **arguments):
    """Writes a version with warm-up requests."""
    servable = TranslationServable(
        [model],
        tokenizers,
        OPTIONS,
        **{"n_best": 2, "max_input_tokens": MAX_INPUT_TOKENS, **arguments},
    )
    servable.save(path)
    write_warmup(path, [("serving_default", LINES[:2]), ("n_best", LINES[:1])])
