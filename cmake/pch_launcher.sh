#!/usr/bin/env bash
# Compiles a precompiled header through ccache and leaves its checksum beside it, as HEADER.gch.sum. ccache compares that
# (CCACHE_PCH_EXTSUM) where it would compare the .gch, which holds paths of its tree: so another clone finds its objects too.
set -euo pipefail
output='' preprocess=()
skip=no
for argument in "$@"; do
  if [ "$skip" = output ]; then output=$argument; fi
  case "$skip,$argument" in
    no,-o) skip=output ;;
    no,-MF | no,-MT) skip=dependencies ;;
    no,-c) preprocess+=(-E -P -dD) ;;
    no,-MD) ;;
    no,*) preprocess+=("$argument") ;;
    *) skip=no ;;
  esac
done
if [[ $output == *.gch ]]; then
  rm -f "$output" "$output.sum"  # the preprocessor must see the headers and not their old .gch
  sum=$("${preprocess[@]}" | sha256sum)
fi
ccache "$@"
[[ $output != *.gch ]] || echo "$sum" >"$output.sum"
