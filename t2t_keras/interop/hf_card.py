"""The model card of a directory of Hugging Face's transformers."""

from typing import Any

from t2t_keras.export.model_card import markdown

_USE = """\
## Use

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

path = "."  # This directory, or the name of the model on a hub.
tokenizer = AutoTokenizer.from_pretrained(path)
model = AutoModelForSeq2SeqLM.from_pretrained(path)
sentences = ["The first sentence.", "The second sentence."]
batch = tokenizer(sentences, padding=True, return_tensors="pt")
found = model.generate(**batch)
print(tokenizer.batch_decode(found, skip_special_tokens=True))
```

It needs the packages transformers, torch and sentencepiece.
"""

_MARIAN_NOTE = """
Position 0 of the decoder's positional encoding contains the embedding of the start
token, since Marian models start with zeros. `save_pretrained` does not save positional
encodings of Marian models: after it, set `decoder_start_token_id` to 1 in `config.json`
and `generation_config.json`.
"""


def model_card_text(
    card: dict[str, Any], languages: tuple[str, str], model_type: str
) -> str:
    """Returns the model card, Markdown with YAML front matter.

    Args:
        card: The model card, see `t2t_keras.export.model_card`.
        languages: Source and target language; "und" if unknown.
        model_type: "marian" or "pegasus".
    """
    known = [language for language in dict.fromkeys(languages) if language != "und"]
    front = ["---"]
    if known:
        # Quoted: no is false in YAML.
        front += ["language:", *(f'- "{language}"' for language in known)]
    front += ["library_name: transformers", "pipeline_tag: translation", "tags:"]
    front += [f"- {tag}" for tag in ("translation", model_type, "t2t-keras")]
    title, _, description = markdown(card).partition("\n")
    note = _MARIAN_NOTE if model_type == "marian" else ""
    introduction, _, facts = description.partition("\n## ")
    return "\n".join(
        [*front, "---", "", title, f"{introduction}\n{_USE}{note}\n## {facts}"]
    )
