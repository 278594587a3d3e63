#!/usr/bin/env bash
# The style's checks that the build does not make: lengths, formatting, and clang-tidy on what changed since REV (default HEAD~1).
#   ./dev lint [REV]
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
status=0
mapfile -t sources < <(git ls-files '*.cc' '*.h' '*.cu')

while read -r lines file; do
  [ "$file" != total ] && [ "$lines" -gt 600 ] && { echo "$file: $lines lines (600 is the end: cut it by role or state machine)"; status=1; }
done < <(wc -l "${sources[@]}")

python3 cmake/check_layers.py "$root" || status=1
clang-format-14 --dry-run -Werror "${sources[@]}" 2>&1 | head -40
[ "${PIPESTATUS[0]}" = 0 ] || status=1

mapfile -t changed < <(git diff --name-only --diff-filter=d "${1:-HEAD~1}" -- '*.cc')
if [ ${#changed[@]} -gt 0 ] && [ -f build/debug/compile_commands.json ]; then
  clang-tidy-14 --quiet -p build/debug "${changed[@]}" 2>/dev/null || status=1
fi
[ $status = 0 ] && echo "lint: clean"
exit $status
