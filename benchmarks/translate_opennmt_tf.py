"""`onmt-main infer` of OpenNMT-tf on 1,000 sentences, through its Python class."""

import tempfile
import time
from pathlib import Path

import common
import multi30k
import opennmt
import opennmt_tf_model
import tensorflow as tf
from opennmt.utils.checkpoint import Checkpoint

parser = common.sizes(__doc__)
parser.add_argument("--make", action="store_true", help="write the model and stop")
sizes = parser.parse_args()
config = {
    "model_dir": str(multi30k.DIRECTORY / "opennmt-tf"),
    "data": opennmt_tf_model.text_data(),
    "params": {
        "beam_width": 4,
        "length_penalty": 0.6,
        "minimum_decoding_length": multi30k.OUTPUT_TOKENS,
        "maximum_decoding_length": multi30k.OUTPUT_TOKENS,
    },
    "infer": {
        "batch_size": 2048,
        "batch_type": "tokens",
        "length_bucket_width": 1,
    },
}
model = opennmt_tf_model.base(sizes)
if sizes.make:
    model.initialize(config["data"], params=config["params"])
    model.create_variables()
    Checkpoint.from_config(config, model).save(0)
    raise SystemExit
with tempfile.TemporaryDirectory() as directory:
    output = Path(directory, "output")
    opennmt.Runner(model, config).infer(str(multi30k.TEST), str(output))
    lines = len(output.read_text().splitlines())
seconds = time.time() - common.process_started()
common.report(
    rate=lines / seconds,
    seconds=seconds,
    version=f"{opennmt.__version__}, tensorflow {tf.__version__}",
)
