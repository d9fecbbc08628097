"""A machine for pickles that builds plain data and tensors, and runs nothing else."""

from __future__ import annotations

import pickle
import pickletools
import struct
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

from rushlight import _C
from rushlight._serialization.allowed import UnknownGlobal, allowed_globals, known, python3_name
from rushlight._serialization.building import CALLS, Builder, check_key, set_attributes
from rushlight.nn.parameter import Parameter

_DICTS = (dict, OrderedDict, Counter, defaultdict)
_NAMES = {op.code.encode("latin1"): op.name for op in pickletools.opcodes}
_MAX_DEFAULTDICTS = 2000  # their destruction is recursive in CPython


class _Stop(Exception):
    """The pickle ended."""

    def __init__(self, value: Any) -> None:
        self.value = value


_table: dict[bytes, Callable[[Unpickler], None]] = {}


def _on(*codes: bytes) -> Callable[[Any], Any]:
    def register(method: Any) -> Any:
        for code in codes:
            _table[code] = method
        return method

    return register


class Unpickler:
    """Reads one pickle from ``file``, which has ``read`` and ``readline``; ``size`` bounds it.

    ``persistent_load`` gives the storage for a persistent id.
    """

    def __init__(
        self,
        file: Any,
        size: int,
        persistent_load: Callable[[Any], Any],
        encoding: str = "utf-8",
    ) -> None:
        self._file = file
        self._left = size
        self._persistent_load = persistent_load
        self._encoding = encoding
        self._allowed = allowed_globals()
        self.stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._protocol = 0
        self._defaultdicts = 0
        self._outside = False  # code of the user runs: what it raises is its own affair

    def load(self) -> Any:
        """The object."""
        code = b""
        try:
            while True:
                code = self.read(1)
                method = _table.get(code)
                if method is None:
                    name = _NAMES.get(code, f"{code!r}")
                    raise UnpicklingError(f"Weights only load failed. Unsupported operand {name}")
                method(self)
        except _Stop as stop:
            return stop.value
        except UnpicklingError:
            raise
        except (IndexError, KeyError, TypeError, ValueError, OverflowError, struct.error) as error:
            if self._outside:
                raise
            raise UnpicklingError(
                f"Weights only load failed. The pickle in the file is corrupt (at "
                f"{_NAMES.get(code)}: {type(error).__name__}: {error})"
            ) from error

    def read(self, n: int) -> bytes:
        """Exactly ``n`` bytes."""
        if n > self._left:
            raise UnpicklingError("Weights only load failed. The pickle in the file is truncated")
        self._left -= n
        data = self._file.read(n)
        if len(data) != n:
            raise UnpicklingError("Weights only load failed. The pickle in the file is truncated")
        return data

    def readline(self) -> bytes:
        """A line without its end."""
        line = self._file.readline(self._left)
        self._left -= len(line)
        if line[-1:] != b"\n":
            raise UnpicklingError("Weights only load failed. The pickle in the file is truncated")
        return line[:-1]

    def unsigned(self, width: int) -> int:
        return int.from_bytes(self.read(width), "little")

    def byte(self) -> int:
        return self.read(1)[0]

    def pop_mark(self) -> list[Any]:
        items = self.stack
        if not self._marks:
            raise UnpicklingError("Weights only load failed. The pickle lacks a mark")
        self.stack = self._marks.pop()
        return items

    # -- control

    @_on(pickle.PROTO)
    def _proto(self) -> None:
        self._protocol = self.byte()
        if self._protocol > pickle.HIGHEST_PROTOCOL:
            raise ValueError(f"unsupported pickle protocol: {self._protocol}")

    @_on(pickle.FRAME)
    def _frame(self) -> None:
        self.read(8)

    @_on(pickle.STOP)
    def _stop(self) -> None:
        raise _Stop(self.stack.pop())

    @_on(pickle.MARK)
    def _mark(self) -> None:
        self._marks.append(self.stack)
        self.stack = []

    @_on(pickle.POP)
    def _pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.pop_mark()

    @_on(pickle.POP_MARK)
    def _pop_to_mark(self) -> None:
        self.pop_mark()

    @_on(pickle.DUP)
    def _dup(self) -> None:
        self.stack.append(self.stack[-1])

    # -- memo

    @_on(pickle.BINPUT)
    def _binput(self) -> None:
        self._memo[self.byte()] = self.stack[-1]

    @_on(pickle.LONG_BINPUT)
    def _long_binput(self) -> None:
        self._memo[self.unsigned(4)] = self.stack[-1]

    @_on(pickle.PUT)
    def _put(self) -> None:
        self._memo[int(self.readline())] = self.stack[-1]

    @_on(pickle.MEMOIZE)
    def _memoize(self) -> None:
        self._memo[len(self._memo)] = self.stack[-1]

    @_on(pickle.BINGET)
    def _binget(self) -> None:
        self.stack.append(self._memo[self.byte()])

    @_on(pickle.LONG_BINGET)
    def _long_binget(self) -> None:
        self.stack.append(self._memo[self.unsigned(4)])

    @_on(pickle.GET)
    def _get(self) -> None:
        self.stack.append(self._memo[int(self.readline())])

    # -- numbers and strings

    @_on(pickle.NONE)
    def _none(self) -> None:
        self.stack.append(None)

    @_on(pickle.NEWTRUE)
    def _true(self) -> None:
        self.stack.append(True)

    @_on(pickle.NEWFALSE)
    def _false(self) -> None:
        self.stack.append(False)

    @_on(pickle.BININT)
    def _binint(self) -> None:
        self.stack.append(int.from_bytes(self.read(4), "little", signed=True))

    @_on(pickle.BININT1)
    def _binint1(self) -> None:
        self.stack.append(self.byte())

    @_on(pickle.BININT2)
    def _binint2(self) -> None:
        self.stack.append(self.unsigned(2))

    @_on(pickle.INT)
    def _int(self) -> None:
        line = self.readline()
        self.stack.append(line == b"01" if line in (b"00", b"01") else int(line))

    @_on(pickle.LONG)
    def _long(self) -> None:
        self.stack.append(int(self.readline().removesuffix(b"L")))

    @_on(pickle.LONG1)
    def _long1(self) -> None:
        self.stack.append(int.from_bytes(self.read(self.byte()), "little", signed=True))

    @_on(pickle.LONG4)
    def _long4(self) -> None:
        self.stack.append(int.from_bytes(self.read(self.unsigned(4)), "little", signed=True))

    @_on(pickle.FLOAT)
    def _float(self) -> None:
        self.stack.append(float(self.readline()))

    @_on(pickle.BINFLOAT)
    def _binfloat(self) -> None:
        self.stack.append(struct.unpack(">d", self.read(8))[0])

    def _text(self, width: int) -> None:
        data = self.read(self.unsigned(width))
        self.stack.append(data.decode("utf-8", "surrogatepass"))

    @_on(pickle.SHORT_BINUNICODE)
    def _text1(self) -> None:
        self._text(1)

    @_on(pickle.BINUNICODE)
    def _text4(self) -> None:
        self._text(4)

    @_on(pickle.BINUNICODE8)
    def _text8(self) -> None:
        self._text(8)

    @_on(pickle.UNICODE)
    def _unicode(self) -> None:
        self.stack.append(self.readline().decode("raw-unicode-escape"))

    def _old_string(self, data: bytes) -> None:
        """A string of Python 2: text or bytes, as the caller of load says."""
        bytes_wanted = self._encoding == "bytes"
        self.stack.append(data if bytes_wanted else data.decode(self._encoding))

    @_on(pickle.SHORT_BINSTRING)
    def _string1(self) -> None:
        self._old_string(self.read(self.byte()))

    @_on(pickle.BINSTRING)
    def _string4(self) -> None:
        self._old_string(self.read(self.unsigned(4)))

    @_on(pickle.STRING)
    def _string(self) -> None:
        line = self.readline()
        if len(line) < 2 or line[0] != line[-1] or line[:1] not in (b"'", b'"'):
            raise UnpicklingError("Weights only load failed. A string in the pickle has no quotes")
        self._old_string(line[1:-1].decode("unicode-escape").encode("latin1"))

    @_on(pickle.SHORT_BINBYTES)
    def _bytes1(self) -> None:
        self.stack.append(self.read(self.byte()))

    @_on(pickle.BINBYTES)
    def _bytes4(self) -> None:
        self.stack.append(self.read(self.unsigned(4)))

    @_on(pickle.BINBYTES8)
    def _bytes8(self) -> None:
        self.stack.append(self.read(self.unsigned(8)))

    @_on(pickle.BYTEARRAY8)
    def _bytearray8(self) -> None:
        self.stack.append(bytearray(self.read(self.unsigned(8))))

    # -- containers

    @_on(pickle.EMPTY_TUPLE)
    def _empty_tuple(self) -> None:
        self.stack.append(())

    @_on(pickle.TUPLE1)
    def _tuple1(self) -> None:
        self.stack[-1] = (self.stack[-1],)

    @_on(pickle.TUPLE2)
    def _tuple2(self) -> None:
        self.stack[-2:] = [(self.stack[-2], self.stack[-1])]

    @_on(pickle.TUPLE3)
    def _tuple3(self) -> None:
        self.stack[-3:] = [(self.stack[-3], self.stack[-2], self.stack[-1])]

    @_on(pickle.TUPLE)
    def _tuple(self) -> None:
        items = self.pop_mark()
        self.stack.append(tuple(items))

    @_on(pickle.EMPTY_LIST)
    def _empty_list(self) -> None:
        self.stack.append([])

    @_on(pickle.LIST)
    def _list(self) -> None:
        items = self.pop_mark()
        self.stack.append(items)

    @_on(pickle.EMPTY_DICT)
    def _empty_dict(self) -> None:
        self.stack.append({})

    @_on(pickle.DICT)
    def _dict(self) -> None:
        items = self.pop_mark()
        self.stack.append({})
        self._set_items(items)

    @_on(pickle.EMPTY_SET)
    def _empty_set(self) -> None:
        self.stack.append(set())

    @_on(pickle.FROZENSET)
    def _frozenset(self) -> None:
        items = self.pop_mark()
        for item in items:
            check_key(item)
        self.stack.append(frozenset(items))

    @_on(pickle.APPEND)
    def _append(self) -> None:
        item = self.stack.pop()
        self._list_on_top().append(item)

    @_on(pickle.APPENDS)
    def _appends(self) -> None:
        items = self.pop_mark()
        self._list_on_top().extend(items)

    def _list_on_top(self) -> Any:
        target = self.stack[-1]
        if type(target) is not list and type(target) not in self._allowed.values():
            raise UnpicklingError(f"Can only append to lists, but got {type(target)}")
        return target

    @_on(pickle.ADDITEMS)
    def _additems(self) -> None:
        items = self.pop_mark()
        if type(self.stack[-1]) is not set:
            raise UnpicklingError(f"Can only add to sets, but got {type(self.stack[-1])}")
        for item in items:
            check_key(item)
        self.stack[-1].update(items)

    @_on(pickle.SETITEM)
    def _setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set_items([key, value])

    @_on(pickle.SETITEMS)
    def _setitems(self) -> None:
        self._set_items(self.pop_mark())

    def _set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in _DICTS and type(target) not in self._allowed.values():
            raise UnpicklingError(
                "Can only SETITEM for dict, collections.OrderedDict, collections.Counter, "
                f"collections.defaultdict, but got {type(target)}"
            )
        for i in range(0, len(items), 2):
            check_key(items[i])
            target[items[i]] = items[i + 1]

    # -- names, calls and state: nothing is imported, and only what is known or allowed is called

    @_on(pickle.GLOBAL)
    def _global(self) -> None:
        module = self.readline().decode("utf-8")
        self._push_global(module, self.readline().decode("utf-8"))

    @_on(pickle.STACK_GLOBAL)
    def _stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise UnpicklingError("STACK_GLOBAL requires str")
        self._push_global(module, name)

    def _push_global(self, module: str, name: str) -> None:
        if self._protocol < 3:
            module, name = python3_name(module, name)
        full_name = f"{module}.{name}"
        value = known(full_name)
        if value is None:
            value = self._allowed.get(full_name)
        if value is None:
            raise UnknownGlobal([full_name])
        self.stack.append(value)

    def _call(self, function: Any, args: Any) -> Any:
        if type(args) is not tuple:
            raise UnpicklingError(f"the arguments of a call must be a tuple, got {type(args)}")
        if isinstance(function, Builder):
            return function(*args)
        build = CALLS.get(function) if isinstance(function, type) else None
        if build is not None:
            if function is defaultdict:
                self._defaultdicts += 1
                if self._defaultdicts > _MAX_DEFAULTDICTS:
                    raise UnpicklingError(
                        f"a file can hold at most {_MAX_DEFAULTDICTS} defaultdicts"
                    )
            return build(*args)
        if any(function is value for value in self._allowed.values()):
            return self._outside_call(function, *args)
        raise UnpicklingError(f"Trying to call reduce for unrecognized function {function!r:.200}")

    def _outside_call(self, function: Any, *args: Any, **keywords: Any) -> Any:
        self._outside = True
        result = function(*args, **keywords)
        self._outside = False
        return result

    @_on(pickle.REDUCE)
    def _reduce(self) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        self.stack.append(self._call(function, args))

    @_on(pickle.NEWOBJ)
    def _newobj(self) -> None:
        args, kind = self.stack.pop(), self.stack.pop()
        self.stack.append(self._new(kind, args, {}))

    @_on(pickle.NEWOBJ_EX)
    def _newobj_ex(self) -> None:
        keywords, args, kind = self.stack.pop(), self.stack.pop(), self.stack.pop()
        if type(keywords) is not dict:
            raise UnpicklingError("the keywords of a call must be a dict")
        self.stack.append(self._new(kind, args, keywords))

    def _new(self, kind: Any, args: Any, keywords: dict[str, Any]) -> Any:
        mine = isinstance(kind, type) and any(kind is v for v in self._allowed.values())
        if not mine and not keywords and (kind in CALLS if isinstance(kind, type) else True):
            return self._call(kind, args)
        if not mine or type(args) is not tuple:
            raise UnpicklingError(
                "Can only create new object for nn.Parameter or classes allowlisted via "
                f"`add_safe_globals` but got {kind!r:.200}"
            )
        return self._outside_call(kind.__new__, kind, *args, **keywords)

    @_on(pickle.BUILD)
    def _build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        kind = type(target)
        if kind in (OrderedDict, _C.Tensor, Parameter):
            set_attributes(target, state)
        elif any(isinstance(v, type) and issubclass(kind, v) for v in self._allowed.values()):
            self._outside_call(_set_state, target, state)
        else:
            raise UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
                f"`add_safe_globals`, but got {kind}"
            )

    @_on(pickle.BINPERSID)
    def _binpersid(self) -> None:
        self.stack.append(self._outside_call(self._persistent_load, self.stack.pop()))


def _set_state(target: Any, state: Any) -> None:
    """What pickle does for an object of a class that the user allowed."""
    set_state = getattr(target, "__setstate__", None)
    if set_state is not None:
        set_state(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        target.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(target, name, value)
