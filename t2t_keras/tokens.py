"""The token ids that mean the same in every vocabulary."""

PAD_ID = 0
"""Fills a row up to the length of its batch."""
BOS_ID = 1
"""Starts the decoder's input."""
EOS_ID = 2
"""Ends a sentence."""
UNK_ID = 3
"""Stands for text that the vocabulary has no token for."""
