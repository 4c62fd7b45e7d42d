"""Data directories that `prepare` created."""

from pathlib import Path

from t2t_keras.data.new_directory import is_being_filled
from t2t_keras.data.npz_index import NpzRecordExamples
from t2t_keras.data.record_examples import RecordExamples, ShardExamples
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.errors import UserError
from t2t_keras.files import user_path
from t2t_keras.json_file import read_object, require_keys
from t2t_keras.plurals import counted

_NEEDED = ("vocabulary_fingerprint", "target_lang", "splits")

FORMAT = 2
"""Format version of a data directory. Raise it when older code cannot read new ones."""

_FORMATS = (1, FORMAT)

MANIFEST = "manifest.json"
TOKENIZER_DIR = "tokenizer"


def text_path(directory: str | Path, split: str, side: str) -> Path:
    """Returns the path of the plain text of a held-out split.

    Args:
        directory: A data directory or a model directory.
        split: "dev" or "test".
        side: "source" or "target".
    """
    return Path(directory) / f"{split}.{side}.txt"


class PreparedData:
    """A data directory that `prepare` created.

    Args:
        data_dir: The directory.

    Attributes:
        manifest: The manifest that `prepare` returned.
        tokenizers: The tokenizers of both sides.

    Raises:
        UserError: If `prepare` did not create the directory, or its records were
            written with another vocabulary.
    """

    def __init__(self, data_dir: str | Path) -> None:
        self.data_dir = Path(data_dir)
        path = self.data_dir / MANIFEST
        with user_path(path, "read"):
            is_prepared = path.is_file()
        if not is_prepared:
            hint = "Run t2t-prepare first."
            if is_being_filled(self.data_dir):
                hint = "t2t-prepare is still writing it."
            raise UserError(
                f"{self.data_dir} holds no prepared data ({MANIFEST}). {hint}"
            )
        again = "Run t2t-prepare again."
        self.manifest = read_object(path, todo=again)
        if self.manifest.get("format") not in _FORMATS:
            raise UserError(
                f"The format of {self.data_dir} must be one of {_FORMATS}. Received: "
                f"{self.manifest.get('format')}. Another version of t2t-keras wrote "
                f"it. {again}"
            )
        require_keys(path, self.manifest, _NEEDED, again)
        expected = self.manifest["vocabulary_fingerprint"]
        self.tokenizers = TokenizerPair.load(self.data_dir / TOKENIZER_DIR)
        if self.tokenizers.fingerprint != expected:
            raise UserError(
                f"{self.data_dir} was prepared with another vocabulary: its records "
                f"were written with {expected}, its tokenizer is "
                f"{self.tokenizers.fingerprint}. Run t2t-prepare again."
            )

    def examples(self, split: str) -> RecordExamples:
        """Opens the records of a split.

        Raises:
            UserError: If they are missing, damaged, or do not match the manifest.
        """
        counts = self.manifest["splits"].get(split, {})
        examples: RecordExamples
        if self.manifest["format"] == 1:
            examples = NpzRecordExamples(self.data_dir, split)
        elif not counts:
            raise UserError(f"{self.data_dir} has no {split} split.")
        else:
            digests = counts.get("index_digests", [])
            examples = ShardExamples(self.data_dir, split, digests)
        expected = counts.get("pairs", 0)
        if len(examples) != expected:
            found = counted(len(examples), f"{split} pair")
            raise UserError(
                f"{self.data_dir} has {found}, but its {MANIFEST} counts {expected:,}: "
                "they were not written together. Run t2t-prepare again."
            )
        return examples
