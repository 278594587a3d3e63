#!/usr/bin/env bash
# build/rayo-VERSION-linux-x86_64.tar.gz: what `cmake --install` installs, stripped, in one folder. The programs need glibc and
# libstdc++ and nothing else: checked here.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
version=$(sed -nE 's/^project\(rayo VERSION ([0-9.]+).*/\1/p' "$root/CMakeLists.txt")
name=rayo-$version-linux-x86_64
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

cmake --install "$root/build/release" --prefix "$stage/$name" --strip >/dev/null
cp "$root/LICENSE" "$root/README.md" "$stage/$name/"
if [ -d "$root/build/release/python" ]; then  # there its files are links into the tree
  mkdir "$stage/$name/python"
  tar -C "$root/build/release/python" -chf - --exclude=rayo/bin --exclude=__pycache__ . | tar -C "$stage/$name/python" -xf -
  ln -s ../../bin "$stage/$name/python/rayo/bin"
fi

status=0
for program in "$stage/$name"/bin/*; do
  others=$(objdump -p "$program" | awk '$1 == "NEEDED" { print $2 }' |
    grep -vE '^(libc|libm|libstdc\+\+|libgcc_s|libpthread|libdl|librt|ld-linux-x86-64)\.so' || true)
  [ -z "$others" ] || { echo "dist: $(basename "$program") needs $others" >&2; status=1; }
done
[ $status = 0 ] || exit 1

# The same input gives the same archive: sorted names, one owner, the commit's time.
when=$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)
tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$when" -cf - "$name" | gzip -n -9 >"$root/build/$name.tar.gz"
echo "build/$name.tar.gz ($(du -h "$root/build/$name.tar.gz" | cut -f1))"
