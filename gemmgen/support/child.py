"""A Python process that works through requests, and may die doing so.

Compilers get killed by the OOM killer and kernels hang or poison their context; both happen in a child, so
that they cost one request. Requests and replies are pickles over the child's stdin and stdout; arrays travel
beside the pickle, without a copy into it. No `multiprocessing`: that would import the caller's `__main__` again.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

from gemmgen.support.errors import CandidateFailed, Failure, GemmgenError

COUNT = struct.Struct("<Q")
MOST_ANSWER_BYTES = 2**29  # limit for a child that is not trusted
AHEAD = 2  # items of `in_order` for each child: the one that it works on, and the next
ReplyKind = Literal["done", "failed", "fatal", "error"]


class ChildDied(GemmgenError):
    """The child ended, or was killed at its time limit, before it replied."""

    def __init__(self, reason: str, *, timed_out: bool) -> None:
        super().__init__(reason)
        self.timed_out = timed_out


class FatalFailure(CandidateFailed):
    """Raised in a child for a failure that its process cannot outlive, such as a poisoned CUDA context."""


class Child:
    """A process that answers requests with `factory(*arguments)`, a callable; `factory` is "module:name".

    It starts with the first request and again after each death. `environment` is added to what it inherits. Only one
    thread at a time may use it.

    answers  for an untrusted child, which a third-party text may have taken over: the classes, besides plain values,
             that its answers may contain. None: the child is trusted
    """

    def __init__(
        self,
        factory: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        answers: Iterable[type] | None = None,
    ) -> None:
        self._environment = {**child_environment(), **(environment or {})}
        self._command = [sys.executable, "-c", f"from {__name__} import main; main()", factory, *arguments]
        self._answers = None if answers is None else (*answers, Failure)
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process before the first request, as imports take a while."""
        self._started()

    def request(self, message: object, timeout: float | None = None) -> Any:
        """The child's answer to `message`, within `timeout` seconds.

        Raises CandidateFailed with the child's Failure, ChildDied (the next request gets a new process),
        or GemmgenError with the child's traceback.
        """
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        with _Alarm(self.kill, timeout) as alarm:
            try:
                send(process.stdin, message)
                kind, payload = receive(process.stdout, self._answers)
            except (OSError, EOFError):
                raise self._died(alarm) from None
            except UnreadableAnswer as error:
                self.close()
                raise ChildDied(f"its answer cannot be read: {error}", timed_out=False) from None
            except BaseException:  # an interrupt: its answer must not be taken for the next request's
                self.close()
                raise
        if alarm.rang or kind == "fatal":
            self.close()
        return self._unpack(kind, payload)

    def close(self) -> None:
        """End the process, without a farewell message."""
        if self._process is None:
            return
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                _close_quietly(stream)
        self._process = None

    def kill(self) -> None:
        """Tell the process to end; `close` waits for that."""
        if (process := self._process) is not None:  # which another thread may close meanwhile
            process.kill()

    def _started(self) -> subprocess.Popen[bytes]:
        if not self.running:
            self.close()  # what is left of one that died between two requests: nobody's fault
        if self._process is None:
            # A file and not a pipe: nobody reads it while the child runs.
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=self._environment,
            )
        return self._process

    def _unpack(self, kind: ReplyKind, payload: Any) -> Any:
        if kind == "done":
            return payload
        if kind == "error":
            raise GemmgenError(f"{self._command[3]} failed:\n{payload}")
        raise CandidateFailed(payload)

    def _died(self, alarm: _Alarm) -> ChildDied:
        assert self._process is not None and self._stderr is not None
        # Its pipe is closed, so it is ending; the kill is for one that closed its stdout only.
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            code = -signal.SIGTERM
        self._stderr.seek(0)
        last_words = self._stderr.read().decode(errors="replace").strip().splitlines()
        self.close()
        if alarm.rang:
            return ChildDied(f"no answer in {alarm.seconds:g} s", timed_out=True)
        return ChildDied(": ".join([_exit_reason(code), *last_words[-1:]]), timed_out=False)


Item = TypeVar("Item")
Answer = TypeVar("Answer")


@contextlib.contextmanager
def crew(children: Sequence[Child]) -> Iterator[Sequence[Child]]:
    """Yield `children`, and end all of them with the block, together because each takes a while."""
    try:
        yield children
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.close()


def spread(
    children: Sequence[Child],
    items: Sequence[Item],
    ask: Callable[[Child, Item], Answer],
    on_done: Callable[[Item, Answer], None],
) -> list[Answer]:
    """Call `ask(child, item)` for each item on any idle child; return the answers in the items' order.

    `on_done` is called in the caller's thread as each answer is ready. If it raises, some children are still working.
    """
    ask_one = _by_whoever_is_idle(children, ask)
    pool = ThreadPoolExecutor(len(children))  # a thread waits for each process
    try:
        futures = {pool.submit(ask_one, item): item for item in items}
        for future in as_completed(futures):
            on_done(futures[future], future.result())
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def in_order(
    children: Sequence[Child], items: Iterable[Item], ask: Callable[[Child, Item], Answer]
) -> Generator[tuple[Item, Answer], None, None]:
    """Yield (item, `ask(child, item)`) in the items' order, each asked on any idle child.

    Items may be endless: AHEAD per child are taken, and no more while the first of them takes long. If `ask` raises, so
    does this in that item's turn. A caller that stops early must close the generator, which waits for running requests.
    """
    ask_one = _by_whoever_is_idle(children, ask)
    pool, waiting = ThreadPoolExecutor(len(children)), deque[tuple[Item, Future[Answer]]]()
    try:
        for item in items:
            waiting.append((item, pool.submit(ask_one, item)))
            while waiting and (len(waiting) >= AHEAD * len(children) or waiting[0][1].done()):
                first, future = waiting.popleft()
                yield first, future.result()
        for item, future in waiting:
            yield item, future.result()
    except BaseException as error:
        pool.shutdown(wait=isinstance(error, Exception | GeneratorExit), cancel_futures=True)
        raise
    pool.shutdown()


def as_done(
    children: Sequence[Child], items: Iterable[Item], ask: Callable[[Child, Item], Answer]
) -> Generator[tuple[Item, Answer], None, None]:
    """Yield (item, answer) as items are done, in any order; an item is taken when a child becomes idle."""
    ask_one, left = _by_whoever_is_idle(children, ask), iter(items)
    pool = ThreadPoolExecutor(len(children))
    futures = {pool.submit(ask_one, item): item for item in islice(left, len(children))}
    try:
        while futures:
            done, _ = wait(futures, return_when=FIRST_COMPLETED)
            for future in done:
                item = futures.pop(future)
                futures |= {pool.submit(ask_one, following): following for following in islice(left, 1)}
                yield item, future.result()
    except BaseException as error:
        pool.shutdown(wait=isinstance(error, Exception | GeneratorExit), cancel_futures=True)
        raise
    pool.shutdown()


def _by_whoever_is_idle(children: Sequence[Child], ask: Callable[[Child, Item], Answer]) -> Callable[[Item], Answer]:
    """A function that asks any idle child; as many threads as there are children may call it."""
    idle: queue.SimpleQueue[Child] = queue.SimpleQueue()
    for child in children:
        idle.put(child)

    def ask_one(item: Item) -> Answer:
        child = idle.get()
        try:
            return ask(child, item)
        finally:
            idle.put(child)

    return ask_one


class _Alarm:
    """Calls `kill` unless the block ends within `seconds` (None: never)."""

    def __init__(self, kill: Callable[[], None], seconds: float | None) -> None:
        self.seconds = seconds
        self.rang = False
        self._kill = kill
        self._timer = None if seconds is None else threading.Timer(seconds, self._ring)

    def _ring(self) -> None:
        self.rang = True
        self._kill()

    def __enter__(self) -> _Alarm:
        if self._timer is not None:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()


def serve(handle: Callable[[Any], Any]) -> None:
    """Answer requests on stdin with `handle(message)` until the parent is gone. The child's main loop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library or a kernel prints must not end up between the replies
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(sys.stdin.buffer, requests), daemon=True).start()
    while True:
        message = requests.get()
        unread = isinstance(message, _Unreadable)
        kind, payload = ("error", message.why) if unread else _answer(handle, message)
        send(replies, (kind, payload))


def send(stream: IO[bytes], message: object) -> None:
    """Write `message` as its pickle and the buffers of its arrays, each after its length."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    frames = [memoryview(head), *(buffer.raw() for buffer in buffers)]
    stream.write(COUNT.pack(len(frames)))
    for frame in frames:
        stream.write(COUNT.pack(frame.nbytes))
        stream.write(frame)
    stream.flush()


def receive(stream: IO[bytes], classes: Collection[type] | None = None) -> Any:
    """Read what `send` wrote. Raises EOFError if the stream ends early.

    With `classes`, from a sender that is not trusted: read only a reply's kind and its payload, of plain values and
    of `classes`. Raises UnreadableAnswer for anything else.
    """
    if classes is None:
        return _unpickled(_frames(stream))
    (count,), (size,) = (COUNT.unpack(_read_exactly(stream, COUNT.size)) for _ in range(2))
    if count != 1 or size > MOST_ANSWER_BYTES:
        raise UnreadableAnswer(f"{count} parts, of which the first has {size} bytes")
    data = _read_exactly(stream, size)
    try:
        kind, payload = _Plain(data, classes).load()
    except Exception as error:  # pickle raises what it meets
        raise UnreadableAnswer(str(error)) from error
    if not isinstance(payload, {"done": object, "error": str}.get(kind, Failure)):
        raise UnreadableAnswer(f"{kind!r:.20} and a {type(payload).__name__}")
    return kind, payload


class UnreadableAnswer(Exception):
    """The bytes from a child that is not trusted are not a valid answer."""


class _Plain(pickle.Unpickler):
    """Unpickles plain values and objects of `classes` only."""

    def __init__(self, data: bytearray, classes: Collection[type]) -> None:
        super().__init__(io.BytesIO(data))
        self._classes = {(one.__module__, one.__qualname__): one for one in classes}

    def find_class(self, module_name: str, global_name: str) -> Any:  # pickle's name
        if (module_name, global_name) not in self._classes:
            raise pickle.UnpicklingError(f"it names {module_name}.{global_name}")
        return self._classes[module_name, global_name]


def _frames(stream: IO[bytes]) -> list[bytearray]:
    (count,) = COUNT.unpack(_read_exactly(stream, COUNT.size))
    return [_read_exactly(stream, *COUNT.unpack(_read_exactly(stream, COUNT.size))) for _ in range(count)]


def _unpickled(frames: Sequence[bytearray]) -> Any:
    head, *buffers = frames
    return pickle.loads(head, buffers=buffers)


def _read_exactly(stream: IO[bytes], size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = stream.readinto(view)  # type: ignore[attr-defined]  # IO[bytes] leaves readinto out
        if not count:
            raise EOFError
        view = view[count:]
    return data


def _read_requests(stream: IO[bytes], requests: queue.SimpleQueue[Any]) -> None:
    """Feed `requests`; end the process with its parent, even while its main thread waits for a hung kernel."""
    while True:
        try:
            frames = _frames(stream)
        except EOFError:
            os._exit(0)
        except BaseException:  # of no memory, say: what follows would be read from the middle of a frame
            os._exit(1)
        try:
            message = _unpickled(frames)
        except Exception:
            message = _Unreadable(traceback.format_exc())
        requests.put(message)


@dataclass(frozen=True)
class _Unreadable:
    """A request that cannot be unpickled, and the reason."""

    why: str


def _answer(handle: Callable[[Any], Any], message: Any) -> tuple[ReplyKind, Any]:
    try:
        return "done", handle(message)
    except FatalFailure as error:
        return "fatal", error.failure
    except CandidateFailed as error:
        return "failed", error.failure
    except Exception:
        return "error", traceback.format_exc()


def _exit_reason(code: int) -> str:
    if code >= 0:
        return f"its process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    return f"its process was ended by {name}{hint}"


def child_environment() -> dict[str, str]:
    """The environment for a Python that imports the same modules as this process, with this very gemmgen first."""
    folders = [str(Path(__file__).parents[2]), *(entry for entry in sys.path if entry)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def _close_quietly(stream: IO[bytes]) -> None:
    """Close a pipe whose reader may be gone, and whose buffer may be full."""
    with contextlib.suppress(OSError):
        stream.close()


def main() -> None:
    """Run the child's program: the arguments are "module:name" of the factory, and the factory's arguments."""
    factory, *arguments = sys.argv[1:]
    module, _, name = factory.partition(":")
    serve(getattr(importlib.import_module(module), name)(*arguments))
