"""The configuration of a Transformer."""

import dataclasses

from t2t_keras.config.config_base import Config, option
from t2t_keras.errors import UserError

ACTIVATIONS = ("relu", "gelu", "quick_gelu", "swish")
"""Activations of the feed-forward networks."""

POSITIONS = ("sinusoidal", "sinusoidal_concat", "sinusoidal_marian", "learned")
"""Kinds of positional encoding."""

AUTOREGRESSIONS = ("self_attention", "ssru")
"""Sub-layers of the decoder that see the previous target tokens."""


@dataclasses.dataclass(frozen=True)
class TransformerConfig(Config):
    """Architecture of a Transformer.

    The defaults are the paper's base model (Vaswani et al., 2017, Table 3). Fields
    with help texts are flags of `t2t-train`, with the same names.

    Attributes:
        source_vocab_size: Number of source tokens. Default None: those of the
            tokenizer that the model is trained with.
        target_vocab_size: Number of target tokens. Default None: `source_vocab_size`.

    Raises:
        UserError: If a value has the wrong type, is out of range, or contradicts
            another.
    """

    source_vocab_size: int | None = None
    target_vocab_size: int | None = None
    share_embeddings: bool = option(
        True,
        "Use one matrix for source and target embeddings (section 3.4), rather than "
        "one for each.",
    )
    tie_output: bool = option(
        True,
        "Compute the logits with the matrix of the target embeddings (section 3.4), "
        "rather than with a matrix of their own.",
    )
    logits_bias: bool = option(False, "Add a bias to the logits.")
    num_layers: int = option(6, "Number of encoder layers (N).", minimum=1)
    num_decoder_layers: int | None = option(
        None, "Number of decoder layers.", minimum=1, unset="num_layers"
    )
    d_model: int = option(512, "Size of the output of every layer.", minimum=1)
    d_ff: int = option(2048, "Inner size of the feed-forward networks.", minimum=1)
    num_heads: int = option(8, "Number of attention heads (h).", minimum=1)
    d_k: int | None = option(
        None,
        "Size of the queries and keys of a head.",
        minimum=1,
        unset="d_model / num_heads",
    )
    d_v: int | None = option(
        None, "Size of the values of a head.", minimum=1, unset="d_k"
    )
    dropout: float = option(
        0.1,
        "Dropout rate of the output of each sub-layer and of the sums of embeddings "
        "and positional encodings (section 5.4).",
        minimum=0,
        maximum=1,
    )
    attention_dropout: float = option(
        0.0, "Dropout rate of the attention weights.", minimum=0, maximum=1
    )
    relu_dropout: float = option(
        0.0,
        "Dropout rate of the activations inside the feed-forward networks.",
        minimum=0,
        maximum=1,
    )
    activation: str = option(
        "relu",
        "Activation inside the feed-forward networks: relu (equation 2), gelu, "
        "quick_gelu (x sigmoid(1.702 x), the gelu of Marian) or swish.",
        choices=ACTIVATIONS,
    )
    attention_bias: bool = option(
        False, "Add a bias to each projection of the attention layers."
    )
    attention_window: int | None = option(
        None,
        "Restrict self-attention to positions at most half of this many tokens away (r "
        "in section 4).",
        minimum=1,
        unset="no restriction",
    )
    decoder_autoregression: str = option(
        "self_attention",
        "First sub-layer of the decoder layers: self_attention (section 3.1), or ssru, "
        "a recurrent unit (Kim et al., 2019) that decodes faster.",
        choices=AUTOREGRESSIONS,
    )
    position: str = option(
        "sinusoidal",
        "Positional encoding: sinusoidal (section 3.5); sinusoidal_concat, which has "
        "all sines before all cosines, as Marian models of Hugging Face; "
        "sinusoidal_marian, likewise with the frequencies of Marian, fairseq and "
        "tensor2tensor; or learned (Table 3, row E).",
        choices=POSITIONS,
    )
    max_length: int = option(
        1024, "Number of positions of a learned positional encoding.", minimum=1
    )
    pre_norm: bool = option(
        False,
        "Normalize the input of each sub-layer (pre-norm) rather than the sum after "
        "it (post-norm, as in the paper).",
    )
    norm_epsilon: float = option(
        1e-6, "Epsilon added to the variance in layer normalization.", minimum=0
    )
    seed: int = option(
        0,
        "Random seed of weights and dropout; in training, of the data order too.",
        minimum=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        source, target = self.source_vocab_size, self.target_vocab_size
        if self.share_embeddings and target is not None and source != target:
            raise UserError(
                "With share_embeddings, target_vocab_size must equal source_vocab_size "
                f"or be None. Received: source_vocab_size={source}, "
                f"target_vocab_size={target}"
            )
        if self.d_k is None and self.d_model % self.num_heads:
            raise UserError(
                "d_model must be a multiple of num_heads unless d_k is given. "
                f"Received: d_model={self.d_model}, num_heads={self.num_heads}"
            )

    def vocab_sizes(self) -> tuple[int, int]:
        """Returns the number of source and of target tokens.

        Raises:
            UserError: If they are not set.
        """
        if self.source_vocab_size is None:
            raise UserError(
                "source_vocab_size must be set to build a model. Received: None"
            )
        return self.source_vocab_size, self.target_vocab_size or self.source_vocab_size

    def depths(self) -> tuple[int, int]:
        """Returns the number of encoder and of decoder layers."""
        return self.num_layers, self.num_decoder_layers or self.num_layers
