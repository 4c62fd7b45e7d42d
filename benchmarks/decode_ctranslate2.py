"""Decoding with CTranslate2 and random weights."""

import tempfile

import common
import ctranslate2
import ctranslate2_model

sizes = common.decoding_sizes(__doc__)

words = ["<blank>", "<s>", "</s>", *(f"w{i}" for i in range(3, sizes.vocab_size))]
directory = tempfile.mkdtemp()
ctranslate2_model.save(sizes, words, directory)
translator = ctranslate2.Translator(
    directory,
    compute_type=sizes.precision,
    inter_threads=sizes.streams,
    intra_threads=sizes.threads,
)
ids = common.random_ids(sizes.sentences, sizes.length, sizes.vocab_size)
sentences = [[words[i] for i in row] for row in ids]


def decode() -> list[list[str]]:
    """Translates all sentences. CTranslate2 forms the batches."""
    results = translator.translate_batch(
        sentences,
        max_batch_size=sizes.batch,
        beam_size=sizes.beam_size,
        length_penalty=0.6,
        min_decoding_length=sizes.output_length,
        max_decoding_length=sizes.output_length,
    )
    return [result.hypotheses[0] for result in results]


common.report_decoding(decode, sizes, version=ctranslate2.__version__)
