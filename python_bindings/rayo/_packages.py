"""Folders that init(runtime_env=) names travel to the nodes: zipped by the driver, an object of the cluster, unpacked once a
node beside its other packages, which go with the session."""

import fnmatch
import hashlib
import io
import os
import zipfile

from rayo import _remote

_LARGEST = 512 << 20  # bytes of one folder, as in Ray
_SKIPPED = {"__pycache__", ".git", ".venv", "node_modules"}

_kept = []  # the driver's refs: they live until its session ends


def _zip(path, prefix, left_out):
    """The folder (or file) as a zip, its names under `prefix`, without what a pattern of `left_out` fits."""
    path = os.path.abspath(path)
    if not os.path.exists(path):
        raise ValueError(f"runtime_env names {path}, which does not exist")
    names = []
    if os.path.isfile(path):
        names.append((path, os.path.basename(path)))
    names += [(full, name) for full, name in files_below(path, prefix) if not _fits(os.path.relpath(full, path), left_out)]
    if (size := sum(os.path.getsize(full) for full, _ in names)) > _LARGEST:
        raise ValueError(f"{path} has {size} bytes; a folder of runtime_env may have {_LARGEST}: leave data out of it")
    return packed_files(names)


def _fits(name, patterns):
    """Whether a file, or a folder above it, is named by one of the patterns (as in .gitignore; a '/' inside: from the top)."""
    parts = name.split(os.sep)
    for pattern in patterns:
        from_top, pattern = "/" in pattern.rstrip("/"), pattern.strip("/")
        if any(fnmatch.fnmatch("/".join(parts[: i + 1]) if from_top else parts[i], pattern) for i in range(len(parts))):
            return True
    return False


def files_below(path, prefix):
    """[(file, its name under `prefix`)]"""
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(set(folders) - _SKIPPED)
        for name in sorted(files):
            full = os.path.join(folder, name)
            yield full, os.path.join(prefix, os.path.relpath(full, path))


def packed_files(names):
    """[(file, its name there)] as a zip."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for full, name in names:
            entry = zipfile.ZipInfo(name)  # without times: the same files have the same hash
            entry.external_attr = os.stat(full).st_mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            with open(full, "rb") as file:
                archive.writestr(entry, file.read())
    return packed.getvalue()


def pack(runtime_env):
    """[(is it the working_dir, hash, bytes)] of what a runtime_env names; before the session."""
    packed, left_out = [], runtime_env.get("excludes") or []
    if folder := runtime_env.get("working_dir"):
        packed.append((True, _zip(folder, "", left_out)))
    for module in runtime_env.get("py_modules") or []:
        path = module if isinstance(module, (str, os.PathLike)) else os.path.dirname(module.__file__)
        packed.append((False, _zip(path, os.path.basename(os.path.abspath(path)), left_out)))
    return [(is_working_dir, hashlib.sha256(content).hexdigest()[:32], content) for is_working_dir, content in packed]


def publish(packed):
    """In the driver, once it has joined: before any worker can ask for them."""
    _kept.clear()
    for _, digest, content in packed:
        _kept.append(_remote.store_large("package " + digest, content))


def unpack(wanted):
    """In a worker: [(is it the working_dir, the folder)] of [(is it the working_dir, hash)]."""
    return [(is_working_dir, place_of(digest, lambda: _remote.load_large("package " + digest))) for is_working_dir, digest in wanted]


def place_of(digest, content):
    """The folder that holds what `content()`, a zip with that hash, has; in a worker."""
    place = os.path.join(os.path.dirname(os.environ["RAYO_WORKER_SOCKET"]), "packages", "python", digest)
    if os.path.isdir(place):
        return place
    fresh = f"{place}.{os.getpid()}"
    with zipfile.ZipFile(io.BytesIO(content())) as archive:
        for entry in archive.infolist():
            path = archive.extract(entry, fresh)
            os.chmod(path, (entry.external_attr >> 16) & 0o777 | 0o600)
    os.makedirs(fresh, exist_ok=True)  # an empty one
    try:
        os.rename(fresh, place)
    except OSError:  # another worker was quicker
        import shutil

        shutil.rmtree(fresh, ignore_errors=True)
    return place
