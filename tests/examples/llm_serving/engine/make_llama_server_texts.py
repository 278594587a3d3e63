#!/usr/bin/env python3
"""Writes llama_server_texts.VARIANT: what llama-server answers to prompts of our own, greedily, with how sure it was of each token.

usage: make_llama_server_texts.py VARIANT LLAMA_SERVER MODEL.gguf

VARIANT: x86-64-v4 or x86-64-v3, for which `bench/peers/llama_server.sh VARIANT` builds LLAMA_SERVER; other instructions add in
another order, and texts part at places that are no near ties (docs/decisions/0004-what-a-text-depends-on.md).
"""
import json
import pathlib
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = 40
PORT = 18571


def completion(prompt):
    body = {"prompt": prompt, "n_predict": TOKENS, "temperature": 0, "n_probs": 2, "cache_prompt": False}
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def wait_ready(server):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=5)
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("llama-server does not get ready")


def line(value):
    return json.dumps(value, ensure_ascii=False)[1:-1]


def main(variant, server_path, model):
    command = [server_path, "-m", model, "--threads", "1", "-np", "1", "--port", str(PORT)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kept = []
    try:
        wait_ready(server)
        for prompt in (HERE / "llama_server_prompts.txt").read_text(encoding="utf-8").splitlines():
            answer = completion(prompt.replace("\\n", "\n"))
            steps = answer["completion_probabilities"]
            leads = [step["top_logprobs"][0]["logprob"] - step["top_logprobs"][1]["logprob"] for step in steps]
            pairs = " ".join(f"{step['id']}:{lead:.3f}" for step, lead in zip(steps, leads))
            kept.append(f"prompt {prompt}\ntext {line(answer['content'])}\ntokens {pairs}\n")
    finally:
        server.terminate()
        server.wait()
    shown = " ".join(pathlib.Path(part).name if "/" in part else part for part in command)
    head = (f"# By {pathlib.Path(__file__).name} {variant}: {shown}\n"
            "# (llama-cpp-python 0.3.36's sources), temperature 0. tokens: each with its lead over the second best, in logits.\n")
    (HERE / f"llama_server_texts.{variant}").write_text(head + "".join(kept), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
