"""Each file of these tests has a cluster of its own: `ray` is rayo, initialised with four CPUs on this machine."""

import os
import pathlib
import signal
import sys

import pytest

# A runner in the background hands an ignored SIGINT down to all that it starts; the programs under test must hear it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "build" / "release" / "python"))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home and runtime directory that nobody else uses."""
    folder = tmp_path_factory.mktemp("r")
    values = {"RAYO_HOME": str(folder / "home"), "RAYO_RUNTIME_DIR": str(folder / "run")}
    before = {name: os.environ.get(name) for name in [*values, "RAYO_ADDRESS"]}
    os.environ.pop("RAYO_ADDRESS", None)
    os.environ.update(values)
    yield folder
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture(scope="module")
def ray(home):
    import rayo

    rayo.init(num_cpus=4, resources={"tpu": 2})
    yield rayo
    rayo.shutdown()
