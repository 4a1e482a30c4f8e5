"""Our named tuples are those of ``typing``, without the price of their annotations."""

from __future__ import annotations

import copy
import pickle
import typing

import pytest

from backends.record import NamedTuple


class Ours(NamedTuple):
    """What it holds."""

    name: str
    number: int = 3
    rows: tuple[str, ...] = ()

    @property
    def doubled(self) -> int:
        return self.number * 2

    def grown(self) -> Ours:
        return self._replace(number=self.number + 1)


class Theirs(typing.NamedTuple):
    """What it holds."""

    name: str
    number: int = 3
    rows: tuple[str, ...] = ()


def test_it_is_a_tuple_with_names_defaults_and_methods() -> None:
    one = Ours("a", rows=("x",))
    assert list(one) == ["a", 3, ("x",)] == list(Theirs("a", rows=("x",)))
    assert (one.doubled, one.grown().number, one._asdict()) == (6, 4, Theirs(*one)._asdict())
    assert (Ours._fields, Ours._field_defaults) == (Theirs._fields, Theirs._field_defaults)
    assert repr(one) == repr(Theirs(*one)).replace("Theirs", "Ours")
    assert (Ours.__doc__, Ours.__module__, Ours.__qualname__) == ("What it holds.", __name__, "Ours")
    assert Ours.__annotations__ == {"name": "str", "number": "int", "rows": "tuple[str, ...]"}


def test_it_can_be_copied_and_pickled() -> None:
    one = Ours("a")
    again = pickle.loads(pickle.dumps(one))
    assert type(again) is Ours and again == one
    assert type(copy.deepcopy(one)) is Ours


def test_a_wrong_number_of_values_and_a_default_in_the_middle_are_refused() -> None:
    with pytest.raises(TypeError, match="missing 1 required"):
        Ours()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="without a default follows"):
        exec(
            "class Bad(NamedTuple):\n    a: int = 1\n    b: int\n",
            {"NamedTuple": NamedTuple, "__name__": "x"},
        )
