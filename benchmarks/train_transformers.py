"""Training steps of MarianMTModel of transformers on PyTorch."""

import common
import marian_model
import torch

sizes = common.training_sizes(__doc__)

model = marian_model.make(sizes).train()
optimizer = torch.optim.Adam(model.parameters(), lr=common.LEARNING_RATE, fused=True)
source, target = (
    torch.tensor(common.random_ids(sizes.batch, sizes.length, sizes.vocab_size, seed))
    for seed in (0, 1)
)
criterion = torch.nn.CrossEntropyLoss(label_smoothing=sizes.label_smoothing)
shifted = torch.nn.functional.pad(target[:, :-1], (1, 0), value=1)
mask = torch.ones_like(source)


def step() -> float:
    """Runs a step with bfloat16 matrix products by autocast, like its trainer."""
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=sizes.precision == "bfloat16"):
        logits = model(
            input_ids=source,
            attention_mask=mask,
            decoder_input_ids=shifted,
            use_cache=False,
        ).logits
    loss = criterion(logits.float().flatten(0, 1), target.flatten())
    loss.backward()
    optimizer.step()
    return loss.item()


common.report_training(step, sizes, version=marian_model.VERSION)
