"""The PEP 517 backend of pyproject.toml: a wheel of build/release/python and the programs of build/release/bin.

    pip wheel --no-deps .                                            # builds what is missing first
    pip wheel --no-deps --config-settings build=no .                 # takes what is built

The extension links this system's Boost, Abseil, Protobuf, OpenSSL and xxHash, so the wheel is for machines of the same
distribution; nothing of pip's is needed but pip.
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sysconfig
import tomllib
import zipfile

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_BUILT = _ROOT / "build" / "release"
_PROGRAMS = ("rayo", "rayo-head", "rayo-raylet", "rayo-keeper", "rayo-gpu-probe")


def _version():
    return re.search(r"project\(rayo VERSION ([0-9.]+)", (_ROOT / "CMakeLists.txt").read_text())[1]


def _tag():
    abi = sysconfig.get_config_var("SOABI").split("-")[1]
    return f"cp{abi}-cp{abi}-linux_x86_64"


def _metadata():
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {_version()}",
             f"Summary: {project['description']}", f"License: {project['license']['text']}",
             f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {dependency}" for dependency in project["dependencies"]]
    return "\n".join(lines) + "\n\n" + (_ROOT / "docs" / "python.md").read_text()


def _files():
    """(name in the wheel, its bytes, whether it is a program)."""
    package = _BUILT / "python" / "rayo"
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package.parent)
        if path.is_file() and "bin" not in name.parts and "__pycache__" not in name.parts:
            yield name.as_posix(), path.read_bytes(), False
    for program in _PROGRAMS:
        if (_BUILT / "bin" / program).exists():
            yield f"rayo/bin/{program}", (_BUILT / "bin" / program).read_bytes(), True
    info = f"rayo-{_version()}.dist-info"
    yield f"{info}/METADATA", _metadata().encode(), False
    yield f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: rayo\nRoot-Is-Purelib: false\nTag: {_tag()}\n".encode(), False
    yield f"{info}/entry_points.txt", b"[console_scripts]\nrayo = rayo._program:main\n", False


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if (config_settings or {}).get("build") != "no":
        programs = [f"bin/{program}" for program in _PROGRAMS]
        subprocess.run(["./dev", "build", "release", "rayo_python", *programs], cwd=_ROOT, check=True)
    name = f"rayo-{_version()}-{_tag()}.whl"
    record = []
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content, program in _files():
            entry = zipfile.ZipInfo(path)  # the same input gives the same wheel
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if program else 0o100644) << 16
            wheel.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}")
        path = f"rayo-{_version()}.dist-info/RECORD"
        wheel.writestr(zipfile.ZipInfo(path), "\n".join([*record, f"{path},,"]) + "\n")
    return name


def get_requires_for_build_wheel(config_settings=None):
    return []
