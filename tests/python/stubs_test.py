"""rayo/__init__.pyi against what is there: an editor that believes the stubs must not offer what does not exist, nor hide
what does."""

import ast
import inspect
import pathlib

import rayo
from rayo import _cluster, _cpp

_STUBS = pathlib.Path(rayo.__file__).with_name("__init__.pyi")
_CLASSES = {"ClientContext": _cluster.ClientContext, "RuntimeContext": _cluster.RuntimeContext, "CppProgram": _cpp.CppProgram,
            "CppRemote": _cpp.CppRemote}


def _public(names):
    return {name for name in names if not name.startswith("_")}


def _names(arguments):
    """(positional, by keyword) without self, underscores in front of names taken off."""
    named = [argument.arg.lstrip("_") for argument in [*arguments.posonlyargs, *arguments.args]]
    return [name for name in named if name != "self"], [argument.arg for argument in arguments.kwonlyargs]


def test_the_stubs_have_the_names_that_are_there():
    tree = ast.parse(_STUBS.read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    modules = {"exceptions"}
    assert _public(rayo.__all__) == _public({*functions, *classes, *modules}) - set(_CLASSES)
    for name, stub in functions.items():
        if any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in stub.decorator_list):
            continue
        parameters = inspect.signature(getattr(rayo, name)).parameters.values()
        positional, by_keyword = _names(stub.args)
        assert positional == [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD], name
        assert by_keyword == [p.name for p in parameters if p.kind is p.KEYWORD_ONLY], name
    for name, stub in classes.items():
        there = getattr(rayo, name, None) or _CLASSES[name]
        told = {node.name for node in stub.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        hidden = {"adopt"} if name == "ObjectRef" else set()
        assert _public(told) == _public(vars(there)) - hidden, name


def test_every_public_name_has_a_docstring_with_an_example():
    for name in rayo.__all__:
        text = inspect.getdoc(getattr(rayo, name))
        assert text, f"help(rayo.{name}) says nothing"
        told, _, rest = text.partition("\n\n")
        assert "ray." in rest or ".remote(" in rest, f"help(rayo.{name}) shows no example"
