#!/usr/bin/env bash
# Installs Ray into a throw-away environment under build/peers and prints the path of its Python: the peer that
# `./dev bench python` measures beside Rayo, and whose signatures tests/python/ray_signatures.json holds.
#   bench/peers/ray.sh            # exit 3 where PyPI does not have it
set -euo pipefail
version=2.60.0
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
home=${RAYO_PEERS:-$root/build/peers}/ray-$version
if [ ! -f "$home/.complete" ]; then
  rm -rf "$home"
  mkdir -p "$(dirname "$home")"
  /usr/bin/python3 -m venv "$home" >&2
  "$home/bin/pip" install --quiet --disable-pip-version-check "ray==$version" numpy >&2 || { rm -rf "$home"; exit 3; }
  touch "$home/.complete"
fi
echo "$home/bin/python3"
