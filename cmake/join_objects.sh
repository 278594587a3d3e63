#!/usr/bin/env bash
# join_objects.sh OUT SYMBOL NEW_NAME OBJECT...: one relocatable object in which SYMBOL, as NEW_NAME, is all that others see.
set -euo pipefail
out=$1 symbol=$2 name=$3
shift 3
mkdir -p "$(dirname "$out")"
ld.bfd -r --force-group-allocation -o "$out.joined" "$@"
objcopy --redefine-sym "$symbol=$name" --keep-global-symbol="$name" "$out.joined" "$out"
rm "$out.joined"
if objdump -h "$out" | grep -E '\.(init_array|ctors)' >&2; then
  rm "$out"
  echo "join_objects.sh: $out has static initialisers: they would run on every CPU" >&2
  exit 1
fi
