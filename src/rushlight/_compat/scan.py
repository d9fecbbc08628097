"""The uses of torch's names in one source text, found in its syntax tree.

Imports, ``from`` imports, aliases by assignment (``F = torch.nn.functional``) and ``getattr`` with
a literal name are followed through the scopes of a file. What is known to be a tensor (an
annotation says so, or an operation made it) has its attributes looked up in ``torch.Tensor``. What
cannot be told from the text is left out, so that what is listed is used.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

ROOTS = ("torch", "functorch")
TENSOR = "torch.Tensor"
INSTANCE = "<tensor>"  # what a name stands for when it holds a tensor
_TOLERANT = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"}

Value = str | None  # a path below torch, INSTANCE, or None when it is something else


class Use(NamedTuple):
    """One mention of a name; ``guarded`` when the program copes with its absence."""

    name: str
    line: int
    guarded: bool


class Scan(ast.NodeVisitor):
    """Reads a file; then ``uses``, ``imports`` (of any module) and ``tested`` (hasattr) are filled.

    ``gives_tensor`` says whether calling a path, or a method of a tensor, gives one tensor.

    >>> from rushlight._compat import Scan
    >>> scan = Scan("import torch.nn as nn; nn.Linear(1, 2)", "file.py")
    >>> [use.name for use in scan.uses]
    ['torch.nn', 'torch.nn.Linear']
    """

    def __init__(
        self, text: str, file: str, gives_tensor: Callable[[str], bool] = lambda path: False
    ) -> None:
        self.uses: list[Use] = []
        self.imports: list[tuple[int, str, tuple[str, ...]]] = []  # level, module, names
        self.tested: set[str] = set()
        self._gives_tensor = gives_tensor
        self._scopes: list[tuple[str, dict[str, Value]]] = [("module", {})]
        self._guards = 0
        self._tolerant = 0
        self._in_handler = 0
        self._later: list[Callable[[], None]] = []
        self.visit(ast.parse(text, file))
        while self._later:
            self._later.pop(0)()

    # -- names and what they stand for ----------------------------------------------------------

    def _record(self, path: str, node: ast.AST, guarded: bool = False) -> None:
        safe = guarded or bool(self._guards or self._tolerant)
        self.uses.append(Use(path, getattr(node, "lineno", 0), safe))

    def _lookup(self, name: str) -> Value:
        innermost = True
        for kind, names in reversed(self._scopes):
            if name in names and (innermost or kind != "class"):
                return names[name]
            innermost = False
        return None

    def _bind(self, name: str, value: Value) -> None:
        names = self._scopes[-1][1]
        if value is None and self._in_handler and names.get(name):
            return  # a fallback for when torch is not there
        names[name] = value

    def _bind_target(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for each in target.elts:
                self._bind_target(each, None)
        elif isinstance(target, ast.Starred):
            self._bind_target(target.value, None)
        else:
            self.visit(target)

    def _value(self, node: ast.expr | None) -> Value:
        """What an expression stands for; records nothing."""
        if isinstance(node, ast.Name):
            return self._lookup(node.id)
        if isinstance(node, ast.Attribute):
            base = self._value(node.value)
            return f"{base}.{node.attr}" if base and base != INSTANCE else None
        if isinstance(node, ast.Call):
            return self._value_of_call(node)
        if isinstance(node, ast.BinOp):
            sides = (self._value(node.left), self._value(node.right))
            return INSTANCE if INSTANCE in sides else None
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            return INSTANCE if self._value(node.operand) == INSTANCE else None
        if isinstance(node, ast.NamedExpr):
            return self._value(node.value)
        return None

    def _value_of_call(self, node: ast.Call) -> Value:
        found = self._named_by_getattr(node)
        if found:
            return found
        path = self._value(node.func)
        if isinstance(node.func, ast.Attribute) and self._value(node.func.value) == INSTANCE:
            path = f"{TENSOR}.{node.func.attr}"
        if path == TENSOR or (path and path != INSTANCE and self._gives_tensor(path)):
            return INSTANCE
        return None

    def _named_by_getattr(self, node: ast.Call, function: str = "getattr") -> str | None:
        """The path of ``getattr(torch, "name")``, or of another such function."""
        if not (isinstance(node.func, ast.Name) and node.func.id == function):
            return None
        if len(node.args) < 2 or not isinstance(node.args[1], ast.Constant):
            return None
        base, name = self._value(node.args[0]), node.args[1].value
        if not base or not isinstance(name, str):
            return None
        return f"{TENSOR if base == INSTANCE else base}.{name}"

    # -- imports --------------------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.imports.append((0, alias.name, ()))
            root = alias.name.partition(".")[0]
            ours = root in ROOTS
            if ours:
                self._record(alias.name, node)
            if alias.asname:
                self._bind(alias.asname, alias.name if ours else None)
            else:
                self._bind(root, root if ours else None)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        self.imports.append((node.level, module, tuple(alias.name for alias in node.names)))
        ours = node.level == 0 and module.partition(".")[0] in ROOTS
        for alias in node.names:
            if alias.name == "*":
                if ours:
                    self._record(module, node)
                continue
            path = f"{module}.{alias.name}"
            if ours:
                self._record(path, node)
            self._bind(alias.asname or alias.name, path if ours else None)

    # -- uses -----------------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._value(node)
        if path:
            self._record(path, node)
            self._visit_calls_inside(node)
            return
        loads = isinstance(node.ctx, ast.Load) and not _of_a_container(node.attr)
        if loads and self._value(node.value) == INSTANCE:
            self._record(f"{TENSOR}.{node.attr}", node)
        self.visit(node.value)

    def _visit_calls_inside(self, node: ast.expr) -> None:
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            self.visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        tested = self._named_by_getattr(node, "hasattr")
        if tested:
            self.tested.add(tested)
        named = self._named_by_getattr(node)
        if named:
            self._record(named, node, guarded=len(node.args) > 2)
        self._visit_import_by_name(node)
        self.generic_visit(node)

    def _visit_import_by_name(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else None
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name not in ("import_module", "__import__") or not node.args:
            return
        module = getattr(node.args[0], "value", None)  # of a literal
        if isinstance(module, str) and module.partition(".")[0] in ROOTS:
            self._record(module, node)

    # -- what binds names -----------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        value = self._value(node.value)
        for target in node.targets:
            self._bind_target(target, value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        annotated = self._annotation(node.annotation)
        if node.value is not None:
            self.visit(node.value)
        self._bind_target(node.target, annotated or self._value(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.target)
        self.visit(node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._bind_target(node.target, self._value(node.value))

    def _visit_for(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._bind_target(node.target, None)
        for each in (*node.body, *node.orelse):
            self.visit(each)

    visit_For = visit_AsyncFor = _visit_for

    def visit_withitem(self, node: ast.withitem) -> None:
        self.visit(node.context_expr)
        if node.optional_vars is not None:
            self._bind_target(node.optional_vars, None)

    def _annotation(self, node: ast.expr | None) -> Value:
        """Records the names in an annotation; INSTANCE when it says ``torch.Tensor``."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                parsed = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                return None
            for each in ast.walk(parsed):
                ast.copy_location(each, node)
            node = parsed
        if node is None:
            return None
        self.visit(node)
        return INSTANCE if self._value(node) == TENSOR else None

    # -- scopes ---------------------------------------------------------------------------------

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._bind(node.name, None)
        names = self._parameters(node.args)
        self._annotation(node.returns)
        self._defer(names, node.body)

    visit_FunctionDef = visit_AsyncFunctionDef = _visit_function

    def _parameters(self, given: ast.arguments) -> dict[str, Value]:
        for default in (*given.defaults, *given.kw_defaults):
            if default is not None:
                self.visit(default)
        named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        names = {each.arg: self._annotation(each.annotation) for each in named}
        for each in (given.vararg, given.kwarg):
            if each is not None:
                self._annotation(each.annotation)
                names[each.arg] = None
        return names

    def _defer(self, names: dict[str, Value], body: list[ast.stmt]) -> None:
        """A function's body is read when the names around it are known."""
        around, guards = list(self._scopes), self._guards

        def read() -> None:
            self._scopes, self._guards = [*around, ("function", names)], guards
            self._tolerant = self._in_handler = 0
            for each in body:
                self.visit(each)

        self._later.append(read)

    @contextmanager
    def _scope(self, kind: str, names: dict[str, Value]) -> Iterator[None]:
        self._scopes = [*self._scopes, (kind, names)]
        try:
            yield
        finally:
            self._scopes = self._scopes[:-1]

    def visit_Lambda(self, node: ast.Lambda) -> None:
        names = self._parameters(node.args)
        with self._scope("function", names):
            self.visit(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for each in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(each)
        self._bind(node.name, None)
        with self._scope("class", {}):
            for statement in node.body:
                self.visit(statement)

    def _visit_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> None:
        with self._scope("function", {}):
            for part in node.generators:
                self.visit(part.iter)
                self._bind_target(part.target, None)
                for condition in part.ifs:
                    self.visit(condition)
            if isinstance(node, ast.DictComp):
                self.visit(node.key)
                self.visit(node.value)
            else:
                self.visit(node.elt)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _visit_comprehension

    # -- guards ---------------------------------------------------------------------------------

    def _visit_try(self, node: ast.Try | ast.TryStar) -> None:
        tolerant = any(map(_catches_absence, node.handlers))
        self._tolerant += tolerant
        for each in node.body:
            self.visit(each)
        self._tolerant -= tolerant
        self._in_handler += 1
        for handler in node.handlers:
            self.visit(handler)
        self._in_handler -= 1
        for each in (*node.orelse, *node.finalbody):
            self.visit(each)

    visit_Try = visit_TryStar = _visit_try

    def _visit_if(self, node: ast.If | ast.IfExp) -> None:
        self.visit(node.test)
        guarded = self._asks(node.test)
        self._guards += guarded
        branches = [node.body, node.orelse]
        for branch in branches:
            for each in branch if isinstance(branch, list) else [branch]:
                self.visit(each)
        self._guards -= guarded

    visit_If = visit_IfExp = _visit_if

    def _asks(self, test: ast.expr) -> bool:
        """Whether a condition asks for a version, a device or a type checker."""
        for each in ast.walk(test):
            name = getattr(each, "attr", None) or getattr(each, "id", None)
            if name == "TYPE_CHECKING":
                return True
            if name in ("__version__", "is_available", "is_built"):
                path = self._value(each) if isinstance(each, ast.expr) else None
                if path and path.partition(".")[0] in ROOTS:
                    return True
        return False


def _of_a_container(attribute: str) -> bool:
    """Whether it tells that an annotation is wrong: a list or a dictionary is called a tensor."""
    from rushlight._C import Tensor

    found = any(hasattr(kind, attribute) for kind in (list, dict, str))
    return found and not hasattr(Tensor, attribute)


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {getattr(kind, "id", None) or getattr(kind, "attr", None) for kind in kinds}
    return bool(names & _TOLERANT)
