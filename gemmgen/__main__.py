"""Where the command `gemmgen` and `python -m gemmgen` begin. Imports little: all else is imported when it can be
interrupted."""

import gc
import os
import signal
import sys
from types import FrameType

AGAIN_SECONDS = 0.01  # after which an interrupt that was dropped is raised again
YOUNG_OBJECTS = 50_000  # before garbage is looked for: a search makes as many records, and keeps them


def main() -> int:
    """Run the command line of this process; returns its exit code."""
    gc.set_threshold(YOUNG_OBJECTS)
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else it is ignored, as in what a shell starts in the background
        signal.signal(signal.SIGINT, _stop)
    from gemmgen.cli import main as run

    signal.signal(signal.SIGINT, usual)
    sys.unraisablehook = _interrupt_again
    return run()


def _stop(number: int, frame: object) -> None:
    """Nothing has begun that an exception would have to end, and modules half imported may turn it into another."""
    os.write(2, b"gemmgen: stopped: interrupted\n")
    os._exit(130)  # gemmgen.cli.output.INTERRUPTED


def _interrupt_again(lost: "sys.UnraisableHookArgs") -> None:
    """Python drops an interrupt that comes within a callback, such as hypothesis' at each collection of garbage."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS, AGAIN_SECONDS)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise the interrupt that was dropped, unless the hook still runs, from which it would be dropped again."""
    while frame is not None:
        if frame.f_code is _interrupt_again.__code__:
            return
        frame = frame.f_back
    signal.setitimer(signal.ITIMER_REAL, 0)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
