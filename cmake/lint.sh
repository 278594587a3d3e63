#!/usr/bin/env bash
# The style's checks that no compiler makes.
#   ./dev lint [REV]     lengths, layers, formatting of all files, and clang-tidy on what changed since REV (default: where this branch
#                        left main; on main: the commit before)
#   ./dev lint --all     clang-tidy on all files: over an hour on 2 cores
#   cmake/lint.sh --text without clang-tidy: seconds; what ctest's check.lint runs
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
status=0
mapfile -t sources < <(git ls-files --cached --others --exclude-standard '*.cc' '*.h' '*.cu')

while read -r lines file; do
  [ "$file" != total ] && [ "$lines" -gt 600 ] && { echo "$file: $lines lines (600 is the end: cut it by role or state machine)"; status=1; }
done < <(wc -l "${sources[@]}")

/usr/bin/python3 cmake/check_layers.py "$root" || status=1
clang-format-14 --dry-run -Werror "${sources[@]}" 2>&1 | head -40
[ "${PIPESTATUS[0]}" = 0 ] || { status=1; echo "try: ./dev format"; }

# A document that a source names is one that its reader has.
documents=$(git ls-files --cached --others --exclude-standard '*.md')
while IFS=: read -r file line name; do
  grep -qE "(^|/)${name#root/}\$" <<<"$documents" && continue
  echo "$file:$line: $name is no document of this tree (say it here, or name the one in docs/ that does)"
  status=1
done < <(git grep -InoE --untracked '[A-Za-z0-9_/-]+\.md\b' -- ':!*.md')

# What clang-tidy looks at; g++'s flags and precompiled headers are not clang's, so it has a tree of its own with the generated headers.
changed=()
case "${1:-}" in
  --text) ;;
  --all) mapfile -t changed < <(git ls-files '*.cc') ;;
  *)
    since=${1:-$(git merge-base HEAD main 2>/dev/null)}
    [ "$since" != "$(git rev-parse HEAD)" ] && [ -n "$since" ] || since=HEAD~1
    mapfile -t changed < <(git diff --name-only --diff-filter=d "$since" -- '*.cc') ;;
esac
if [ ${#changed[@]} -gt 0 ]; then
  tidy=build/tidy
  [ -f $tidy/build.ninja ] || cmake --preset debug -B $tidy -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >$tidy.configure.log || { cat $tidy.configure.log; exit 1; }
  ninja -C $tidy -t targets all | sed -n 's/^\(.*\.pb\.h\): CUSTOM_COMMAND$/\1/p' | xargs ninja -C $tidy >/dev/null || exit 1
  # Only what the tree compiles: fuzz targets and the CUDA sources are other presets'.
  printf '%s\n' "${changed[@]}" | grep -Fxf <(sed -n "s|^ *\"file\": \"$root/\(.*\)\".*|\1|p" $tidy/compile_commands.json) |
    xargs -r -P "${RAYO_JOBS:-$(nproc)}" -n 1 clang-tidy-14 --quiet -p $tidy 2>/dev/null || status=1
fi
[ $status = 0 ] && echo "lint: clean"
exit $status
