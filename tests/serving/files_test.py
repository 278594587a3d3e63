"""Where a model's files come from: parts, names in models/, and nodes that have them not, or others. What a user loses if these fail: a node
answers with another model than its neighbours, or a large model cannot be served.
"""
import filecmp
import shutil
import struct
import subprocess

import pytest

from conftest import MODEL, Service, cluster, cluster_of

NAMESPACES = pytest.mark.skipif(not cluster.can_make_namespaces(), reason="needs the right to make mount namespaces")
COUNT = [{"role": "user", "content": "Recite the numbers: 1, 2, 3, 4, 5 and so on up to 90."}]
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of GGUF's types; 8 is a text, 9 an array
TEXT, ARRAY, U16, I32 = 8, 9, 2, 5


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        value, = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def skip_value(self, kind):
        if kind == TEXT:
            self.text()
        elif kind == ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner in SIZES:
                self.at += SIZES[inner] * count
            else:
                for _ in range(count):
                    self.skip_value(inner)
        else:
            self.at += SIZES[kind]


def entry(name, kind, form, value):
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I" + form, kind, value)


def padded(data, alignment=32):
    return data + b"\0" * (-len(data) % alignment)


def split(model, folder, name, count):
    """What llama-gguf-split writes: all values in the first part, tensors over all. The path of the first."""
    read = Reader(model.read_bytes())
    read.at = 8
    tensors, values = read.number("Q"), read.number("Q")
    begin = read.at
    for _ in range(values):
        read.text()
        read.skip_value(read.number("I"))
    facts = read.data[begin:read.at]
    infos = []
    for _ in range(tensors):
        tensor = read.text()
        shape = [read.number("Q") for _ in range(read.number("I"))]
        infos.append((tensor, shape, read.number("I"), read.number("Q")))
    data = read.data[read.at + -read.at % 32:]
    ends = [*sorted(info[3] for info in infos), len(data)]
    paths = []
    for part in range(count):
        mine = infos[len(infos) * part // count:len(infos) * (part + 1) // count]
        own = entry("split.no", U16, "H", part) + entry("split.count", U16, "H", count) + entry("split.tensors.count", I32, "i", tensors)
        head = b"GGUF" + struct.pack("<IQQ", 3, len(mine), 3 + (values if part == 0 else 0)) + (facts if part == 0 else b"") + own
        body = b""
        for tensor, shape, kind, offset in mine:
            head += struct.pack("<Q", len(tensor)) + tensor + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(body))
            body = padded(body + data[offset:ends[ends.index(offset) + 1]])
        paths.append(folder / f"{name}-{part + 1:05}-of-{count:05}.gguf")
        paths[-1].write_bytes(padded(head) + body)
    return paths


def start_node(home, shell):
    """A node in a mount namespace of its own, in which `shell` has run before."""
    start = [str(home.program), "start", "--address", home.head["address"], "--node-port", "0", "--num-cpus", "2", "--json"]
    subprocess.run(["unshare", "--mount", "sh", "-c", shell + ' && exec "$@"', "sh", *start], env=home.env, check=True, stdout=subprocess.DEVNULL)


def told(one):
    """The first tokens of an answer: they are the model's."""
    answer = one.client.chat.completions.create(model=one.model, max_tokens=8, temperature=0, messages=COUNT)
    return answer.choices[0].message.content


@NAMESPACES
@pytest.mark.parametrize("there", ["nothing", "another file"])
def test_a_node_without_the_file_gets_it_from_the_commands_node(tmp_path, there):
    model = tmp_path / "away" / "tiny.gguf"
    model.parent.mkdir()
    shutil.copy(MODEL, model)
    other = "" if there == "nothing" else f" && printf GGUF > {model}"
    with cluster_of(0) as home:
        start_node(home, f"mount -t tmpfs none {model.parent}{other}")
        one = Service(home, "--replicas", "1", model=model, name="tiny")
        home.wait_for(lambda: one.replicas_ready() == 1, "the node has file and engine", timeout=60)
        assert told(one)
        one.stop()
        copied = home.root / "home" / "models" / "tiny.gguf"
        assert filecmp.cmp(copied, MODEL, shallow=False) and copied.with_name("tiny.gguf.sha256").exists()
        shutil.rmtree(copied.parent)


@NAMESPACES
def test_a_model_in_parts_is_one_model_here_and_on_a_node_that_has_half_of_it(tmp_path):
    away = tmp_path / "away"
    away.mkdir()
    paths = split(MODEL, away, "parts", 3)
    with cluster_of(1) as home:
        whole = Service(home, "--replicas", "1", name="whole")
        home.wait_for(lambda: whole.replicas_ready() == 1, "the whole one is ready", timeout=60)
        expected = told(whole)
        whole.stop()
        one = Service(home, "--replicas", "1", model=paths[0], name="parts")
        home.wait_for(lambda: one.replicas_ready() == 1, "the parts are loaded", timeout=60)
        assert told(one) == expected
        start_node(home, f"cp {paths[0]} {tmp_path}/first && mount -t tmpfs none {away} && mv {tmp_path}/first {paths[0]}")
        home.rayo("serve", "scale", "2", "--port", one.port, code=0)
        home.wait_for(lambda: one.replicas_ready() == 2, "the node has every part", timeout=60)
        copies = [home.root / "home" / "models" / path.name for path in paths]
        assert all(filecmp.cmp(copy, path, shallow=False) for copy, path in zip(copies, paths))
        one.stop()
        named = Service(home, "--replicas", "1", model="parts", name="named")  # in models/, by the name that its parts share
        home.wait_for(lambda: named.replicas_ready() == 1, "it is found in models/", timeout=60)
        assert told(named) == expected
        named.stop()
        shutil.rmtree(copies[0].parent)


@NAMESPACES
def test_a_node_without_room_for_the_file_says_so_with_figures(tmp_path):
    model = tmp_path / "away" / "tiny.gguf"
    model.parent.mkdir()
    shutil.copy(MODEL, model)
    with cluster_of(0) as home:
        models = home.root / "home" / "models"
        models.mkdir()
        start_node(home, f"mount -t tmpfs none {model.parent} && mount -t tmpfs -o size=16m none {models}")
        what, _ = home.rayo("serve", str(model), "--name", "tiny", "--replicas", "1", "--port", "0", code=1).error
        assert f"no_space: the model needs 93.8 MiB more in {models}, and " in what and "MiB is free there" in what, what
        shutil.rmtree(models)
