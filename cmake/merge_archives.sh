#!/usr/bin/env bash
# merge_archives.sh OUT ARCHIVE...: one static archive of all members, without debug sections.
set -euo pipefail
out=$1
shift
mkdir -p "$(dirname "$out")"
rm -f "$out.part"
{
  echo "create $out.part"
  for archive in "$@"; do echo "addlib $archive"; done
  echo save
  echo end
} | ar -M
strip --strip-debug "$out.part"
ranlib "$out.part"
mv "$out.part" "$out"
