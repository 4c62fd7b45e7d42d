"""Decoding with MarianMTModel of transformers on PyTorch."""

import common
import marian_model
import torch

sizes = common.decoding_sizes(__doc__)

model = marian_model.make(sizes).eval()
if sizes.precision == "bfloat16":
    model = model.to(torch.bfloat16)
ids = torch.tensor(common.random_ids(sizes.sentences, sizes.length, sizes.vocab_size))


def decode() -> list[list[int]]:
    """Translates batch by batch."""
    outputs = []
    for rows in ids.split(sizes.batch):
        with torch.inference_mode():
            found = model.generate(
                rows,
                attention_mask=torch.ones_like(rows),
                num_beams=sizes.beam_size,
                length_penalty=0.6,
                do_sample=False,
                min_new_tokens=sizes.output_length,
                max_new_tokens=sizes.output_length,
            )
        # Remove the start token.
        outputs += found[:, 1:].tolist()
    return outputs


common.report_decoding(decode, sizes, version=marian_model.VERSION)
