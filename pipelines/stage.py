"""What every stage does around its work: flags, messages, exit status."""

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
from t2t_keras.pipelines.command_line.input_output import (
    EXIT_FAILURE,
    EXIT_USAGE,
    exit_of,
    flush_streams,
    message_of,
    name_standard_output,
    reopen_closed,
)

SharedFlags = ModuleType | flags.FlagHolder
"""A module of `t2t_keras.flags`, or a single flag of one."""

EXIT_SAVED = 75
"""Ended by a signal after saving: the same command line goes on (EX_TEMPFAIL)."""
EXIT_INTERRUPTED = 130
"""Stopped from the keyboard."""

_START_UP_NOISE = re.compile(rb"^([IWE]0000 |WARNING: All log messages before absl)")


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
        main: The stage's work. It may return an exit status. Only a `UserError` is
            reported as a mistake in the flags or the input.
        module: The stage's `__name__`.
        shared_flags: What the stage uses of `t2t_keras.flags`.
        required: Names of flags that must be given.
        takes_arguments: Whether `main` is given what is left on the command line.
            Default False: nothing may be left.
        process: What `runtime.configure` sets this process up for. Default "training",
            which suits every stage that neither decodes nor serves nor is a client.
    """
    reopen_closed()
    name_standard_output()
    by_module = flags.FLAGS.flags_by_module_dict()
    used = [*by_module.get(sys.argv[0] if module == "__main__" else module, [])]
    for shared in shared_flags:
        if isinstance(shared, flags.FlagHolder):
            used.append(flags.FLAGS[shared.name])
        else:
            used += by_module[shared.__name__]
    # What --help shows are the key flags of the program.
    for flag in used:
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    sys.modules["__main__"].__doc__ = sys.modules[module].__doc__
    # Messages are this project's own, without date and line of code.
    logging.get_absl_handler().setFormatter(None)
    app.run(
        lambda argv: sys.exit(
            flush_streams(_guarded(main, argv[1:], takes_arguments, process))
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
    except SystemExit:
        # A request for help, which absl counts as a failure.
        sys.exit(flush_streams(0))
    return rest


def _guarded(
    main: Callable[..., int | None],
    arguments: list[str],
    takes_arguments: bool,
    process: str,
) -> int:
    """Runs the work and turns what it raises into a message and an exit status."""
    if not flags.FLAGS["verbosity"].present:
        # Libraries warn of what no user can change; --verbosity=1 shows it all.
        logging.set_verbosity(logging.ERROR)
    try:
        require_tensorflow()
        runtime.configure(process)
        with _quiet_start(), _without_pictures():
            import tensorflow  # noqa: F401
        return (main(arguments) if takes_arguments else main()) or 0
    except BrokenPipeError:
        # Whoever read the output has seen enough; nothing can be told to them.
        return EXIT_FAILURE
    except KeyboardInterrupt:
        status, message = EXIT_INTERRUPTED, "interrupted"
    except UserError as error:
        status, message = EXIT_USAGE, str(error)
        _print_traceback()
    except WriteError as error:
        report(f"error: {message_of(error)}")
        return exit_of(error)
    except Exception as error:
        # The machine's fault or a bug of ours: the type helps whoever looks for it.
        status, message = EXIT_FAILURE, f"{type(error).__name__}: {error}"
        _print_traceback()
    report(f"error: {message}")
    if status == EXIT_FAILURE and not logging.level_debug():
        report("--verbosity=1 shows where it happened: add that to a bug report.")
    return status


def _print_traceback() -> None:
    """Prints where the exception that is being handled was raised, if asked to."""
    if logging.level_debug():
        traceback.print_exc()


@contextlib.contextmanager
def _quiet_start() -> Iterator[None]:
    """Holds back what TensorFlow's libraries print while they are loaded.

    They write to the file descriptor before their log level can be set. Lines that
    are no such notes are passed on.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            held_back.seek(0)
            for line in held_back:
                if not _START_UP_NOISE.match(line):
                    os.write(2, line)


@contextlib.contextmanager
def _without_pictures() -> Iterator[None]:
    """Has Keras, which comes with TensorFlow, go without matplotlib.

    Its own pictures, which no stage draws, would cost every start of one the time that
    matplotlib takes to load. Stages that draw import it themselves.
    """
    sys.modules.setdefault("matplotlib", None)  # type: ignore[arg-type]
    try:
        yield
    finally:
        if sys.modules["matplotlib"] is None:
            del sys.modules["matplotlib"]
