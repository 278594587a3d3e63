"""What Rayo raises, under Ray's names. All are RayError.

What a task or method raised arrives as RayTaskError; where the type allows it, the exception is an instance of that type
too, so `except ValueError:` works on this side.

    try:
        ray.get(counter.add.remote("three"), timeout=10)
    except ray.exceptions.GetTimeoutError:
        ...                                 # it may still come
    except ray.exceptions.ActorDiedError as error:
        print(error.death["kind"], error.death["last_log_lines"])
    except ray.exceptions.RayTaskError as error:
        print(error.cause, error.remote_traceback)
"""

import os
import traceback


class RayError(Exception):
    """Base of all errors. `next_step` is what to do about it, or empty; `death` the record of what died, or None."""

    next_step = ""
    death = None

    def __str__(self):
        text = Exception.__str__(self)  # not that of a user's type, which may want other arguments
        return f"{text}\ntry: {self.next_step}" if self.next_step else text


class RayTaskError(RayError):
    """The user's code raised in a task, a method or a constructor. `cause` is what it raised, where it could travel;
    `remote_type` names its type, `remote_traceback` where it was raised."""

    cause = None
    remote_type = ""
    remote_traceback = ""

    def as_instanceof_cause(self):
        """This error, which is an instance of its cause's type already where that allows it."""
        return self

    def __str__(self):
        text = RayError.__str__(self)
        return f"{text}\n\n{self.remote_traceback.rstrip()}" if self.remote_traceback else text


class WorkerCrashedError(RayError):
    """The process that ran a task ended; `death` says how."""


class RayActorError(RayError):
    """The actor cannot answer."""


class ActorDiedError(RayActorError):
    """The process in which the actor lived has ended; `death` says how. With max_restarts a later call may succeed."""


class ActorUnavailableError(RayActorError):
    """The actor cannot be reached at the moment."""


class ActorUnschedulableError(RayError):
    """No living node could ever hold the actor: the text names why, node by node."""


class TaskUnschedulableError(RayError):
    """No living node could ever hold the task."""


class TaskCancelledError(RayError):
    """The task was cancelled."""


class RayTaskCancelledError(RayTaskError, TaskCancelledError):
    """What get() of a cancelled call raises: in Ray that of a running one is both, and scripts catch it by either name."""


class GetTimeoutError(RayError, TimeoutError):
    """The value was not there in time."""


class ObjectLostError(RayError):
    """No copy of the value is left and it cannot be made again."""


class OutOfMemoryError(RayError):
    """The process was ended for lack of memory."""


class ObjectStoreFullError(OutOfMemoryError):
    """A value does not fit into the node's object store."""


class PendingCallsLimitExceeded(RayError):
    """This process has 1,024 calls under way to that actor and none ended within 60 s, or it has max_pending_calls of them."""


class RaySystemError(RayError):
    """Something is wrong with the cluster itself."""


class ClusterConnectionError(RaySystemError, ConnectionError):
    """init() found no cluster that answers."""

    @classmethod
    def of(cls, error):
        made = cls(*error.args)
        made.next_step = error.next_step
        return made


class RuntimeEnvSetupError(RayError):
    """What a job asked for its workers could not be set up."""


class CrossLanguageError(RayError):
    """A value or call does not fit between two languages."""


class DeadlockError(RayError):
    """The call would wait for itself: the text names the cycle."""


# Ray's family has more members, for causes that Rayo tells by another of its errors: scripts may name them in `except`.
class ActorAlreadyExistsError(ValueError, RayError):
    """Of Ray: the name of an actor is taken (here a ValueError)."""


class ActorHandleNotFoundError(ValueError, RayError):
    """Of Ray: a handle of an actor of another cluster."""


class AsyncioActorExit(RayError):
    """Of Ray: an asyncio actor was told to end."""


class NodeDiedError(RayError):
    """Of Ray: a node died (here the error of what it held, with `death`)."""


class LocalRayletDiedError(RayError):
    """Of Ray: this node's raylet died (here RaySystemError)."""


class ObjectFetchTimedOutError(ObjectLostError):
    """Of Ray: a value could not be brought in time."""


class ObjectFreedError(ObjectLostError):
    """Of Ray: a value was freed by hand."""


class ObjectReconstructionFailedError(ObjectLostError):
    """Of Ray: a lost value could not be made again."""


class OwnerDiedError(ObjectLostError):
    """Of Ray: the process that made a ref died (here nothing is lost by that)."""


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """Of Ray: a ref was counted wrongly."""


class OutOfDiskError(RayError):
    """Of Ray: nothing can be spilled any more."""


class RpcError(RayError):
    """Of Ray: the cluster cannot be reached (here RaySystemError)."""


class UnserializableException(RayError):
    """Of Ray: what a task raised cannot travel (here RayTaskError, with its text)."""


class UserCodeException(RayError):
    """Of Ray: code of the user that the cluster ran has raised."""


# By ErrorKind of <rayo/error.h>.
_BY_KIND = {
    0: RaySystemError,
    1: RayTaskError,
    2: WorkerCrashedError,
    3: ActorDiedError,
    4: ObjectLostError,
    5: OutOfMemoryError,
    6: ActorUnschedulableError,
    7: RayTaskCancelledError,
    8: GetTimeoutError,
    9: RaySystemError,
    10: PendingCallsLimitExceeded,
    11: DeadlockError,
    12: CrossLanguageError,
    13: ValueError,
}

_OUT_OF_MEMORY = 5  # of a process that died, whose record there is, or of a store

_HERE = os.path.dirname(os.path.abspath(__file__))
_SLOTS = ("errno", "strerror", "filename", "filename2", "name", "path")  # of OSError and ImportError
_duals = {}


def _dual_of(cause_type):
    """A class that is RayTaskError and the user's type, made once a type; None where that type does not allow it."""
    if cause_type not in _duals:
        dual = None
        if not issubclass(cause_type, (RayTaskError, KeyboardInterrupt, SystemExit, GeneratorExit)):
            try:
                dual = type(
                    f"RayTaskError({cause_type.__name__})",
                    (RayTaskError, cause_type),
                    {"__init__": lambda self, *_: None, "__module__": __name__, "__str__": RayTaskError.__str__},
                )
            except TypeError:  # layouts that do not go together
                dual = None
        _duals[cause_type] = dual
    return _duals[cause_type]


def _task_error(text, payload):
    cause = _load_cause(payload)
    if isinstance(cause, RayTaskError):  # raised further on, and passed through
        return cause
    if cause is not None and (dual := _dual_of(type(cause))) is not None:
        try:
            error = dual.__new__(dual, *cause.args)
            error.__dict__.update(cause.__dict__)
            for name in _SLOTS:  # which are in no __dict__
                if hasattr(cause, name):
                    setattr(error, name, getattr(cause, name))
        except Exception:
            error = RayTaskError(text)
        else:
            error.args = (text,)
    else:
        error = RayTaskError(text)
    error.cause = cause
    return error


def _load_cause(payload):
    if not payload:
        return None
    import pickle

    try:
        return pickle.loads(payload)
    except Exception:  # its module is not here: the text has to do
        return None


def _of(kind, text, next_step, remote_type, stack, payload, death):
    """The exception for an ErrorRecord; called by the native part."""
    if death is not None and death["kind"] == "start_failed" and death["last_log_lines"]:
        text = f"{text}, on node {death['node'][:8]}: {_why_not_started(death['last_log_lines'][-1])}"
    if kind == 1:
        error = _task_error(text, payload)
        if not error.remote_traceback:
            error.remote_traceback = stack
            error.remote_type = remote_type
    else:
        made = ObjectStoreFullError if kind == _OUT_OF_MEMORY and death is None else _BY_KIND.get(kind, RaySystemError)
        error = made(text)
        if made is RayTaskCancelledError:
            error.cause = TaskCancelledError(text)
    if isinstance(error, RayError):
        error.next_step = next_step
        error.death = death
    elif next_step:
        error.add_note(f"try: {next_step}")
    return error


def _why_not_started(line):
    """The last line of a worker that never came up: its interpreter's words."""
    import sys

    if "No module named 'rayo" not in line:
        return line
    here = f"{sys.executable} (Python {sys.version_info.major}.{sys.version_info.minor})"
    return f"python_mismatch: the driver's {here} has rayo, and this node's Python has not: {line}"


def _told(error, seen=()):
    """The traceback of an exception and of those that it came of, with the user's frames alone."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_HERE)]
    text = "".join(traceback.format_exception_only(type(error), error))
    if frames:
        text = f"Traceback (most recent call last):\n{''.join(traceback.format_list(frames))}{text}"
    before, link = error.__cause__, "The above exception was the direct cause of the following exception:"
    if before is None and not error.__suppress_context__:
        before, link = error.__context__, "During handling of the above exception, another exception occurred:"
    if before is None or before in seen:
        return text
    return f"{_told(before, (*seen, error))}\n{link}\n\n{text}"


def _describe(error):
    """(type, one line, traceback, pickled exception) of what user code raised; called by the native part in a worker."""
    type_name = type(error).__name__
    text = _told(error)
    payload = _packed(error)
    line = str(error).split("\n", 1)[0]
    if isinstance(error, ModuleNotFoundError):
        line = f"{line} {_this_python()}"
    return type_name, _encodable(line), _encodable(text), payload


def _encodable(text):
    """Names of files may hold halves of surrogate pairs, for bytes that are no UTF-8: shown as Python shows them on stderr."""
    return text.encode("utf-8", "backslashreplace").decode()


def _packed(error):
    """The exception as a pickle that can be read; empty where there is none. Many of users' types cannot: unpickling calls
    their constructor with `args` alone. Of those go type, args and attributes, what does not pickle left out."""
    import pickle

    import cloudpickle

    try:
        payload = cloudpickle.dumps(error)
        pickle.loads(payload)
        return payload
    except Exception:
        pass
    state = {}
    for name, value in error.__dict__.items():
        try:
            cloudpickle.dumps(value)
            state[name] = value
        except Exception:  # it stays behind
            pass
    try:
        return cloudpickle.dumps(_Parts(type(error), error.args, state))
    except Exception:
        return b""


class _Parts:
    """Arrives as the exception that it was made of."""

    def __init__(self, *parts):
        self._parts = parts

    def __reduce__(self):
        return (_put_together, self._parts)


def _put_together(cls, args, state):
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


def _this_python():
    """Where code of the user did not find what it has at home."""
    import platform
    import sys

    from rayo import _native

    node = _native.context()["node_id"][:8]
    return f"(on {platform.node()}, node {node}, in {sys.executable}, Python {platform.python_version()})"
