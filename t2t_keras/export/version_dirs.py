"""Version directories of a model, in TensorFlow Serving's layout."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files import user_path


def versions_of(base: str | Path) -> dict[int, Path]:
    """Finds the versions in a base directory, as TensorFlow Serving does.

    Returns:
        Directory by version number, ascending. Directories with other names are
        ignored.
    """
    base = Path(base)
    versions = {
        int(path.name): path
        for path in (base.iterdir() if base.is_dir() else ())
        if path.name.isascii() and path.name.isdecimal() and path.is_dir()
        # A version is an int64.
        if int(path.name) < 1 << 63
    }
    return dict(sorted(versions.items()))


def is_version(path: Path) -> bool:
    """Returns whether a directory holds a SavedModel."""
    names = ("saved_model.pb", "saved_model.pbtxt")
    return any((path / name).is_file() for name in names)


@contextlib.contextmanager
def new_version(base: str | Path, version: int = 0) -> Iterator[Path]:
    """Creates a version atomically: it gets its name only once it is complete.

    Args:
        base: Directory of the versions; created if it does not exist.
        version: Version number; 0 for the highest existing number plus one.

    Yields:
        The directory to write to. If the block raises, nothing is left behind.

    Raises:
        UserError: If the version already exists or `base` is not a directory.
    """
    base = Path(base)
    with user_path(base, "written to"):
        base.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.mkdtemp(dir=base, prefix=".exporting-")
    try:
        _check_free(base, version)
        yield Path(temporary)
        version = version or max(versions_of(base), default=0) + 1
        _check_free(base, version)
        Path(temporary).chmod(0o755)
        Path(temporary).rename(base / str(version))
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _check_free(base: Path, version: int) -> None:
    if version in versions_of(base):
        raise UserError(
            f"{base} already has a version {version}. Versions are never replaced; "
            "omit --version to use the next number."
        )
