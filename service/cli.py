"""The command line's composition root: which commands there are, and how every error ends in one line and a code."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence

import typer

from service.commands.devices import devices
from service.commands.doctor import doctor
from service.commands.lookup import lookup
from service.commands.records import records
from service.commands.replay import replay
from service.commands.show import show
from service.commands.targets import targets
from service.commands.tune import tune
from service.commands.version import version
from service.commands.workloads import workloads
from service.exits import BAD_USAGE, DONE, FAILED, INTERRUPTED, exit_code, print_error
from service.settings import wants_traceback
from service.streams import make_streams_safe, stdout_failure
from tuner.errors import TunesmithError


def _stoppable(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Says that a Ctrl-C ended the command; typer would end it without a word."""

    @functools.wraps(command)
    def stoppable(*args: object, **kwargs: object) -> int | None:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            print_error("interrupted")
            return INTERRUPTED

    return stoppable


app = typer.Typer(
    name="tunesmith",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: tunesmith tune matmul:m=512,n=512,k=512 --trials 64",
)
for command, example in (
    (tune, "tunesmith tune dense:m=128,n=3072,k=768,epilogue=bias+gelu --trials 256"),
    (lookup, "tunesmith lookup matmul:m=512,n=512,k=512 --strict --json"),
    (show, "tunesmith show 3fa9 --ir diff"),
    (replay, "tunesmith replay 3fa9"),
    (records, "tunesmith records --published"),
    (workloads, "tunesmith workloads matmul"),
    (targets, "tunesmith targets 'llvm -mcpu=skylake-avx512 -num-cores=8'"),
    (devices, "tunesmith devices --json"),
    (doctor, "tunesmith doctor"),
    (version, "tunesmith version --json"),
):
    app.command(name=command.__name__, epilog=f"Try: {example}")(_stoppable(command))


@app.callback()
def tunesmith() -> None:
    """Tunes tensor operators on this machine, proves the winner correct, and keeps it for build pipelines."""


def run(arguments: Sequence[str]) -> int:
    """Runs one command; returns its exit code. Whatever goes wrong is one line on stderr."""
    # numpy comes later. Its BLAS, which we hardly use here, would spin or raise SIGINT where it gets no thread.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = _run(arguments)
    failure = stdout_failure()
    if failure is None:
        return code
    if not isinstance(failure, BrokenPipeError):  # whoever read our output had enough
        reason = (failure.strerror or str(failure)).lower()
        print_error(f"can't write to stdout: {reason}; make room, or send it elsewhere")
    return code or FAILED


def _run(arguments: Sequence[str]) -> int:
    try:
        code = typer.main.get_command(app).main(list(arguments), prog_name="tunesmith", standalone_mode=False)
    except typer.TyperException as error:
        hint = getattr(error, "ctx", None)
        path = hint.command_path if hint is not None else "tunesmith"
        print_error(f"{error.format_message().rstrip('.')}; see: {path} --help")
        return BAD_USAGE
    except TunesmithError as error:
        print_error(str(error))
        return exit_code(error)
    except (KeyboardInterrupt, typer.Abort):
        print_error("interrupted")
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and stdout_failure() is not None:
            return FAILED
        if wants_traceback():
            raise
        what = f"{type(error).__name__}: {error}"
        print_error(f"this should not happen: {what}; please report it with TUNESMITH_TRACEBACK=1 set")
        return FAILED
    return code if isinstance(code, int) else DONE


if __name__ == "__main__":
    make_streams_safe()
    sys.exit(run(sys.argv[1:]))
