"""Runs a stage as a command: flags, messages, exit status, TensorFlow's settings."""

import contextlib
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType

from absl import app, flags, logging

from t2t_keras import runtime
from t2t_keras.errors import UserError
from t2t_keras.files import WriteError
from t2t_keras.keras_backend import require_tensorflow
from t2t_keras.messages import report
from t2t_keras.pipelines.command_line.exit_status import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
)
from t2t_keras.pipelines.command_line.standard_streams import (
    flush_streams,
    name_standard_output,
    reopen_closed_streams,
    write_error_message,
    write_error_status,
)

SharedFlags = ModuleType | flags.FlagHolder
"""A module of `t2t_keras.flags`, or a single flag from one."""

_IMPORT_NOISE = re.compile(rb"^([IWE]0000 |WARNING: All log messages before absl)")


def run(
    main: Callable[..., int | None],
    module: str,
    shared_flags: Sequence[SharedFlags] = (),
    required: Sequence[str] = (),
    takes_arguments: bool = False,
    process: str = "training",
) -> None:
    """Runs a stage as a command and exits.

    Args:
        main: Function that does the work. It may return an exit status. Only a
            `UserError` is reported as an error in the flags or the input.
        module: `__name__` of the stage.
        shared_flags: Flags from `t2t_keras.flags` that the stage uses.
        required: Names of flags that must be given.
        takes_arguments: Whether `main` is called with the positional arguments of the
            command line. Default: False, positional arguments are an error.
        process: Kind of process, for `runtime.configure`. Default: "training", for
            every stage that neither decodes nor serves nor is a client.
    """
    reopen_closed_streams()
    name_standard_output()
    by_module = flags.FLAGS.flags_by_module_dict()
    used = [*by_module.get(sys.argv[0] if module == "__main__" else module, [])]
    for shared in shared_flags:
        if isinstance(shared, flags.FlagHolder):
            used.append(flags.FLAGS[shared.name])
        else:
            used += by_module[shared.__name__]
    # --help shows the key flags of the program.
    for flag in used:
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    sys.modules["__main__"].__doc__ = sys.modules[module].__doc__
    # Messages without absl's prefix of date and source line.
    logging.get_absl_handler().setFormatter(None)
    app.run(
        lambda argv: sys.exit(
            flush_streams(_call(main, argv[1:], takes_arguments, process))
        ),
        flags_parser=lambda argv: _parse_flags(argv, required, takes_arguments),
    )


def _parse_flags(
    argv: Sequence[str], required: Sequence[str], takes_arguments: bool
) -> list[str]:
    try:
        rest = flags.FLAGS(argv, known_only=False)
        for name in required:
            if not flags.FLAGS[name].value:
                raise flags.IllegalFlagValueError(f"--{name} must be given.")
        if rest[1:] and not takes_arguments:
            raise flags.Error(f"Unexpected arguments: {' '.join(rest[1:])}")
    except flags.Error as error:
        report(f"error: {error}\nTry --help for the flags of this stage.")
        sys.exit(flush_streams(EXIT_USAGE))
    except (BrokenPipeError, WriteError) as error:
        # A long help text is written before the streams are flushed.
        sys.exit(flush_streams(_report_write_error(error)))
    except SystemExit:
        # --help was given, for which absl exits with status 1.
        sys.exit(flush_streams(0))
    return rest


def _report_write_error(error: OSError) -> int:
    """Reports an error in writing output, and returns the exit status."""
    # A reader that closes the pipe early, such as head, is not reported.
    if not isinstance(error, BrokenPipeError):
        report(f"error: {write_error_message(error)}")
    return write_error_status(error)


def _call(
    main: Callable[..., int | None],
    arguments: list[str],
    takes_arguments: bool,
    process: str,
) -> int:
    """Calls `main`; turns exceptions into a message and an exit status."""
    if not flags.FLAGS["verbosity"].present:
        # Users cannot act on the warnings of libraries; --verbosity=1 shows them.
        logging.set_verbosity(logging.ERROR)
    try:
        require_tensorflow()
        runtime.configure(process)
        with _quiet_import(), _without_matplotlib():
            import tensorflow  # noqa: F401
        return (main(arguments) if takes_arguments else main()) or 0
    except (BrokenPipeError, WriteError) as error:
        return _report_write_error(error)
    except KeyboardInterrupt:
        status, message = EXIT_INTERRUPTED, "interrupted"
    except UserError as error:
        status, message = EXIT_USAGE, str(error)
        _print_traceback()
    except Exception as error:
        # A fault of the machine or a bug: the exception type helps to find it.
        status, message = EXIT_FAILURE, f"{type(error).__name__}: {error}"
        _print_traceback()
    report(f"error: {message}")
    if status == EXIT_FAILURE and not logging.level_debug():
        report("Run with --verbosity=1 for a traceback, and add it to a bug report.")
    return status


def _print_traceback() -> None:
    """Prints the traceback of the current exception if --verbosity is 1 or more."""
    if logging.level_debug():
        traceback.print_exc()


@contextlib.contextmanager
def _quiet_import() -> Iterator[None]:
    """Removes from standard error what TensorFlow's libraries log at import.

    They write to the file descriptor before their log level can be set. All other
    lines are passed on after the block.
    """
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as captured:
        os.dup2(captured.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(original, 2)
            os.close(original)
            captured.seek(0)
            for line in captured:
                if not _IMPORT_NOISE.match(line):
                    os.write(2, line)


@contextlib.contextmanager
def _without_matplotlib() -> Iterator[None]:
    """Hides matplotlib from Keras, which is imported with TensorFlow.

    Keras would import it for plots that no stage draws, which delays the start of every
    stage. Stages that draw import it themselves, after the block.
    """
    sys.modules.setdefault("matplotlib", None)  # type: ignore[arg-type]
    try:
        yield
    finally:
        if sys.modules["matplotlib"] is None:
            del sys.modules["matplotlib"]
