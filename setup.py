"""Packaging of t2t_keras.

The folders `flags` and `pipelines` are installed inside the package `t2t_keras`,
because other distributions on PyPI own their names.
"""

from itertools import chain
from pathlib import Path

from setuptools import find_packages, setup

STAGES = (
    "prepare",
    "train",
    "launch",
    "average",
    "evaluate",
    "score",
    "translate",
    "parse",
    "visualize",
    "variations",
    "complexity",
    "cost",
    "import_model",
    "export",
    "serve",
    "request",
)

# Requirements of training, decoding, scoring and export.
CORE = [
    "tensorflow>=2.21,<2.22",
    "tensorflow-text>=2.21,<2.22",
    "tensorflow-datasets>=4.9.9,<5",
    "keras-nlp>=0.32,<0.33",
    "sacrebleu>=2.5,<3",
    "absl-py>=2.3,<3",
    # Learns BPE and unigram vocabularies. keras-nlp requires it without a range.
    "sentencepiece>=0.2.2,<0.3",
    # Checksums of TFRecord files.
    "google-crc32c>=1.5,<2",
    # tf.summary uses it to write the training logs.
    "tensorboard>=2.21,<2.22",
    # Scripts of Unicode characters; sacrebleu requires it without a range.
    "regex>=2024.4.16",
    # Only for the protocol buffers of warm-up requests.
    "tensorflow-serving-api>=2.19,<3",
    # tensorflow-datasets imports it without declaring it.
    "importlib_resources>=6,<8",
    # TensorFlow and tensorflow-datasets require these with wider ranges.
    "keras>=3.15,<3.16",
    "numpy>=2,<3",
    "protobuf>=6",
    "tqdm>=4.66,<5",
    # The options of Marian's models; keras-nlp brings it with its hub clients.
    "pyyaml>=6,<7",
]

# Requirements of single stages. t2t_keras/optional_packages.py reports missing ones.
EXTRAS = {
    # t2t-serve.
    "server": [
        "grpcio>=1.74,<2",
        "grpcio-health-checking>=1.74,<2",
        "starlette>=1,<2",
        "uvicorn>=0.40,<1",
        "h11>=0.16,<0.17",
        "prometheus-client>=0.22,<1",
    ],
    # t2t-request. TensorFlow requires both with wider ranges.
    "client": ["grpcio>=1.74,<2", "urllib3>=2.2,<3"],
    # Plots of t2t-visualize and t2t-complexity.
    "visualize": ["matplotlib>=3.9,<4"],
    # The embedded corpus `cldr`.
    "cldr": ["babel>=2.17,<3", "num2words>=0.5.14,<0.6"],
    # Scores bleu_moses and bleu_moses_split.
    "moses": ["sacremoses>=0.2,<0.3"],
    # Presets from a hub. keras-nlp requires both with wider ranges.
    "hub": ["huggingface_hub>=0.30,<3", "kagglehub>=0.3.12,<2"],
    # The filter language_id of t2t-prepare.
    "langid": ["py3langid>=0.4,<0.5"],
    # t2t-prepare --runner. Older versions of Beam need protobuf 5. Beam excludes
    # protobuf 7, which sentencepiece 0.2.3 needs.
    "beam": ["apache-beam>=2.69,<3", "sentencepiece<0.2.3"],
    # t2t-export --format=ctranslate2.
    "convert": ["ctranslate2>=4.6,<5"],
}

ALL = sorted(set(chain.from_iterable(EXTRAS.values())))

# Further requirements of `make test`.
TOOLS = [
    "pytest>=9,<10",
    "pytest-xdist>=3.8,<4",
    "PYEVALB>=0.1.3,<0.2",
    "selenium>=4.30,<5",
    "ruff>=0.14",
    "mypy>=1.18",
    "setuptools>=77",
]

setup(
    name="t2t-keras",
    version="0.1.0",
    description=(
        "Train, evaluate, export and serve the Transformer of "
        '"Attention Is All You Need" on TensorFlow and Keras 3.'
    ),
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="the t2t_keras authors",
    license_expression="Apache-2.0",
    license_files=["LICENSE"],
    keywords=[
        "machine translation",
        "transformer",
        "attention",
        "sequence-to-sequence",
        "beam search",
        "tensorflow",
        "keras",
        "tensorflow serving",
    ],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    python_requires=">=3.11",
    packages=[
        *find_packages(include=["t2t_keras", "t2t_keras.*"]),
        "t2t_keras.flags",
        "t2t_keras.pipelines",
        "t2t_keras.pipelines.command_line",
    ],
    package_dir={
        "t2t_keras.flags": "flags",
        "t2t_keras.pipelines": "pipelines",
    },
    package_data={"t2t_keras": ["py.typed", "analysis/page/*", "server/page/*"]},
    install_requires=CORE,
    extras_require={
        **EXTRAS,
        "all": ALL,
        # CUDA, cuDNN and NCCL, which TensorFlow needs for NVIDIA GPUs.
        "gpu": ["tensorflow[and-cuda]>=2.21,<2.22"],
        "dev": ALL + TOOLS,
    },
    entry_points={
        "console_scripts": [
            # `import` is a Python keyword, so its module is named import_model.
            f"t2t-{stage.removesuffix('_model')} = t2t_keras.pipelines.{stage}:run"
            for stage in STAGES
        ]
    },
    # The default folder `build/` would clash with the file BUILD on a case-insensitive
    # file system.
    options={"build": {"build_base": ".build"}},
)
