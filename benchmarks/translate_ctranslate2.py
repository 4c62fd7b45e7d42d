"""CTranslate2 on 1,000 sentences, from the start of the program to its last line."""

import tempfile
import time
from pathlib import Path

import common
import ctranslate2
import ctranslate2_model
import multi30k
import sentencepiece

parser = common.sizes(__doc__)
parser.add_argument("--make", action="store_true", help="write the model and stop")
sizes = parser.parse_args()
directory = multi30k.DIRECTORY / f"ctranslate2.{sizes.precision}"
if sizes.make:
    words = multi30k.VOCABULARY.read_text().splitlines()
    ctranslate2_model.save(sizes, [*words, "<unk>"], str(directory), True)
    raise SystemExit

translator = ctranslate2.Translator(
    str(directory), compute_type=sizes.precision, inter_threads=2, intra_threads=1
)
pieces = sentencepiece.SentencePieceProcessor(str(multi30k.SENTENCEPIECE))
lines = multi30k.TEST.read_text().splitlines()
results = translator.translate_batch(
    pieces.encode(lines, out_type=str),
    max_batch_size=2048,
    batch_type="tokens",
    beam_size=4,
    length_penalty=0.6,
    min_decoding_length=multi30k.OUTPUT_TOKENS,
    max_decoding_length=multi30k.OUTPUT_TOKENS,
)
texts = [pieces.decode(result.hypotheses[0]) for result in results]
with tempfile.TemporaryDirectory() as output:
    Path(output, "output").write_text("\n".join(texts))
seconds = time.time() - common.process_started()
common.report(
    rate=len(texts) / seconds, seconds=seconds, version=ctranslate2.__version__
)
