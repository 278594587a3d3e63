#!/usr/bin/env python3
"""If this fails, a wrong call compiles, or the compiler's answer to it tells its author nothing.

usage: misuse_check.py COMPILER ROOT     Each wrong use must be refused with Rayo's own words; the right one beside it must compile.
"""
import subprocess
import sys

PRELUDE = """#include <rayo/rayo.h>
struct Counter { int add(int n) { return n; } void grow(std::string& text) { text += 'x'; } int* raw() { return nullptr; } };
struct Other { int go() { return 1; } };
class Closed { public: explicit Closed(int n) : n_(n) {} private: int n_; };
struct Inherits : Counter { int extra = 0; };
int twice(int n) { return 2 * n; }
double half(double x) { return x / 2; }
int closed(const Closed&) { return 0; }
struct WithName { explicit WithName(std::string) {} int go() { return 1; } };
void use(rayo::ActorHandle<Counter> counter, rayo::ObjectRef<std::string> text, rayo::ObjectRef<double> real, rayo::ObjectRef<int> whole) {
  static_cast<void>(counter); static_cast<void>(text); static_cast<void>(real); static_cast<void>(whole);
"""
RIGHT = """counter.call<&Counter::add>(3); counter.call<&Counter::add>(whole); rayo::remote<half>(whole); rayo::remote<half>(real);
rayo::remote<twice>(2.0f); rayo::spawn<WithName>("x"); rayo::spawn<WithName>(text); rayo::put(std::vector<Other>{});"""
WRONG = [
    ("counter.call<&Other::go>();", "the method belongs to another class than the actor"),
    ("counter.call<&Counter::add>();", "another number of arguments"),
    ("counter.call<&Counter::add>(1, 2);", "another number of arguments"),
    ("counter.call<&Counter::add>(std::string());", "an argument does not fit the parameter's type"),
    ("counter.call<&Counter::add>(text);", "an argument does not fit the parameter's type"),
    ("rayo::remote<twice>(real);", "an argument does not fit the parameter's type"),
    ("counter.call<&Counter::grow>(std::string());", "a reference to non-const"),
    ("counter.call<&Counter::raw>();", "the result's type cannot travel"),
    ("rayo::remote<closed>(Closed(1));", "a parameter's type cannot travel"),
    ("rayo::put(Closed(1));", "specialise rayo::Codec"),
    ("rayo::put(Inherits());", "without constructors, bases and private members"),
    ("rayo::put(\"text\");", "put takes a value"),
    ("rayo::spawn<WithName>(5.0, 3);", "no constructor of the actor's class takes these arguments"),
    ("counter.call<twice>(1);", "names a method of the actor's class"),
]


def compiles(compiler, root, line):
    source = PRELUDE + line + "\n}\n"
    return subprocess.run([compiler, "-std=c++20", "-x", "c++", "-fsyntax-only", "-I", root + "/runtime/include", "-"], input=source,
                          capture_output=True, text=True, check=False)


def main(compiler, root):
    failures = 0
    right = compiles(compiler, root, RIGHT)
    if right.returncode != 0:
        print(f"right use is refused:\n{right.stderr}", file=sys.stderr)
        failures += 1
    for line, words in WRONG:
        ended = compiles(compiler, root, line)
        if ended.returncode == 0:
            print(f"compiles: {line}", file=sys.stderr)
            failures += 1
        elif words not in ended.stderr:
            print(f"{line}\n  was refused without the words '{words}':\n{ended.stderr[:3000]}", file=sys.stderr)
            failures += 1
    print(f"{len(WRONG)} wrong uses, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
