"""Ids of the special tokens, the same in every vocabulary."""

PAD_ID = 0
"""Padding."""
BOS_ID = 1
"""Start token of the decoder input."""
EOS_ID = 2
"""End of a sentence."""
UNK_ID = 3
"""Unknown token, for text that the vocabulary does not cover."""
