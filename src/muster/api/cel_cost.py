"""The most that an expression can cost for values of some size, known before it is evaluated.

Evaluation cannot be interrupted: ten letters more double what `cel.bind(b, a + a, ...)` builds, and
a chain of `replace` multiplies it. So it is calculated first how large every value on the way may
become and what is done with it, both branches taken, as Kubernetes estimates and meters its own
expressions; the units are Kubernetes' too: 1 for a step, a tenth for each letter that is looked at.
What cannot be known is taken at its largest.

A value is measured by level: how heavy (letters and parts, all that lies below it) and how long
(items or entries) it may be, then the same of whatever it holds, and so on down.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from muster.api.cel_tree import (
    Comprehension,
    Constant,
    Entries,
    Invocation,
    Items,
    Name,
    Select,
    Tree,
)


class Level(NamedTuple):
    weight: int
    length: int


Size = tuple[Level, ...]


class Estimate(NamedTuple):
    cost: int
    size: Size


_HUGE: Final = 1 << 62
_SMALL: Final[Size] = (Level(1, 0),)
_LEVELS_MAX: Final = 8
"""Whatever lies deeper is taken for as large as the last level."""


def cost_of(tree: Tree, variables: Mapping[str, Size]) -> int:
    """What evaluating it costs at most, taking variables in and giving the result out included."""
    taken_in = sum(_letters(size) for size in variables.values())
    estimate = _estimate(tree, variables)
    return _capped(taken_in + estimate.cost + _letters(estimate.size))


def size_of(value: Any) -> Size:
    """The size of a JSON value, rounded up a little, so that alike ones are equal."""
    return tuple(Level(_rounded(weight), _rounded(length)) for weight, length in _measured(value))


def _measured(value: Any) -> Size:
    """Layer by layer and without recursion: users nest.

    Of a layer with several values, the heaviest weighs at most its own and all that lies below.
    """
    layers: list[tuple[list[int], int]] = []
    layer: Sequence[Any] = [value]
    while layer:
        held = [_parts(one) for one in layer]
        layers.append(([_own(one) for one in layer], max(map(len, held))))
        layer = [part for parts in held for part in parts]
    levels, below = [], 0
    for own, length in reversed(layers):
        levels.append(Level(max(own) + below, length))
        below += sum(own)
    return _trimmed(levels[::-1])


def _parts(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return [*value, *value.values()]
    return value if isinstance(value, list | tuple) else ()


def _own(value: Any) -> int:
    return 1 + (len(value) if isinstance(value, str | bytes) else 0)


def _rounded(number: int) -> int:
    """To three binary digits."""
    spare = max(number.bit_length() - 3, 0)
    return -(-number >> spare) << spare


def _estimate(tree: Tree, known: Mapping[str, Size]) -> Estimate:
    match tree:
        case Constant(text):
            return Estimate(1, (Level(1 + len(text), 0),))
        case Name(name):
            return Estimate(1, known.get(name) or _any_of(list(known.values())))
        case Select(operand, only_tests):
            cost, size = _estimate(operand, known)
            return Estimate(cost + 1, _SMALL if only_tests else _held(size))
        case Items(items):
            return _built([_estimate(item, known) for item in items], len(items))
        case Entries(parts, count):
            return _built([_estimate(part, known) for part in parts], count)
        case Comprehension():
            return _looped(tree, known)
        case Invocation(function, arguments):
            return _invoked(function, arguments, known)


def _built(parts: Sequence[Estimate], length: int) -> Estimate:
    weight = _capped(1 + sum(part.size[0].weight for part in parts))
    below = _largest([part.size for part in parts])
    cost = _capped(1 + sum(part.cost + 1 for part in parts))
    return Estimate(cost, _trimmed((Level(weight, length), *below)))


def _looped(loop: Comprehension, known: Mapping[str, Size]) -> Estimate:
    """Accumulators of macros grow by the same in every turn: one turn tells."""
    over = _estimate(loop.range, known)
    before = _estimate(loop.initial, known)
    inside = {**known, **dict.fromkeys(loop.variables, _held(over.size))}
    inside[loop.accumulator] = before.size
    condition, step = _estimate(loop.condition, inside), _estimate(loop.step, inside)
    turns = over.size[0].length
    after = _accumulated(before.size, step.size, turns)
    result = _estimate(loop.result, {**known, loop.accumulator: after})
    in_turns = turns * (condition.cost + step.cost + 1)
    built = _letters(after) if turns else 0
    return Estimate(_capped(over.cost + before.cost + in_turns + built + result.cost), result.size)


def _accumulated(before: Size, after: Size, turns: int) -> Size:
    if not turns:
        return before
    first, then = before[0], after[0]
    grown = Level(
        _capped(first.weight + turns * max(then.weight - first.weight, 0)),
        _capped(first.length + turns * max(then.length - first.length, 0)),
    )
    return (grown, *_largest([before[1:], after[1:]]))


def _invoked(function: str, arguments: Sequence[Tree], known: Mapping[str, Size]) -> Estimate:
    given = [_estimate(argument, known) for argument in arguments]
    sizes = [one.size for one in given]
    costs = [one.cost for one in given]
    if function == "_?_:_" and len(given) == 3:
        return Estimate(_capped(costs[0] + max(costs[1:]) + 1), _largest(sizes[1:]))
    if function in _PATTERNS and len(given) > 1:
        work = _pattern_work(sizes, arguments[1])
    else:
        work = _WORK.get(function, _whole_work)(sizes)
    result = _RESULTS.get(function, _unknown)(sizes)
    return Estimate(_capped(sum(costs) + 1 + work), result)


# -- how large ------------------------------------------------------------------------------------


def _held(size: Size) -> Size:
    """What a list or map holds. Beyond the levels that are known it is as large as the last."""
    if len(size) > 1:
        return size[1:] if len(size) < _LEVELS_MAX else (*size[1:], size[-1])
    return size if size[0].length else _SMALL


def _trimmed(levels: Sequence[Level]) -> Size:
    """With the last level that is kept standing for all below it."""
    last = levels[_LEVELS_MAX - 1 :]
    if len(last) < 2:
        return tuple(levels)
    all_below = Level(max(one.weight for one in last), max(one.length for one in last))
    return (*levels[: _LEVELS_MAX - 1], all_below)


def _largest(sizes: Sequence[Size]) -> Size:
    """As large as the largest of them on each level."""
    deepest = max((len(size) for size in sizes), default=0)
    return tuple(
        Level(
            max(size[at].weight for size in sizes if at < len(size)),
            max(size[at].length for size in sizes if at < len(size)),
        )
        for at in range(deepest)
    )


def _small(sizes: Sequence[Size]) -> Size:
    return _SMALL


def _any_of(sizes: Sequence[Size]) -> Size:
    return _largest(sizes) or _SMALL


def _part_of_first(sizes: Sequence[Size]) -> Size:
    return _held(sizes[0]) if sizes else _SMALL


def _added(sizes: Sequence[Size]) -> Size:
    weight = _capped(sum(size[0].weight for size in sizes))
    length = _capped(sum(size[0].length for size in sizes))
    return (Level(weight, length), *_largest([size[1:] for size in sizes]))


def _longer(times: int, more: int = 0) -> Callable[[Sequence[Size]], Size]:
    """A text of so many times the letters of all that went in."""
    return lambda sizes: (Level(_capped(times * _weight(sizes) + more), 0),)


def _replaced(sizes: Sequence[Size]) -> Size:
    """Each letter may be what is replaced, and so may the gaps between letters."""
    text, new = sizes[0][0].weight, sizes[2][0].weight if len(sizes) > 2 else _HUGE
    return (Level(_capped(text + (text + 1) * new), 0),)


def _joined(sizes: Sequence[Size]) -> Size:
    between = sizes[1][0].weight if len(sizes) > 1 else 0
    items = sizes[0][0]
    return (Level(_capped(items.weight + items.length * between), 0),)


def _in_pieces(sizes: Sequence[Size]) -> Size:
    letters = sizes[0][0].weight
    return (Level(_capped(2 * letters + 2), letters + 1), Level(letters, 0))


def _formatted(sizes: Sequence[Size]) -> Size:
    """Each pair of letters may ask for a number with all its digits and a thousand decimals."""
    letters = sizes[0][0].weight
    shown = sum(size[0].weight for size in sizes[1:])
    return (Level(_capped(letters * 700 + 24 * shown), 0),)


def _tagged(sizes: Sequence[Size]) -> Size:
    """A map of one key and a text, as quantities and addresses travel."""
    text = Level(_capped(2 * _weight(sizes) + 64), 0)
    return (Level(_capped(text.weight + 16), 1), text)


def _unknown(sizes: Sequence[Size]) -> Size:
    """Of a function that nothing is known of: large, and full of parts as large."""
    weight = _capped(32 * _weight(sizes) + 64)
    return (Level(weight, weight),) * 4


# -- how much work --------------------------------------------------------------------------------


def _step(sizes: Sequence[Size]) -> int:
    return 0


def _light_work(sizes: Sequence[Size]) -> int:
    return sum(_letters(size) for size in sizes)


def _whole_work(sizes: Sequence[Size]) -> int:
    """Of our own functions: all that goes in is made anew for them, part by part."""
    return _capped(10 + 2 * _weight(sizes))


def _pairs_work(sizes: Sequence[Size]) -> int:
    """Each part of one with each of the other."""
    one, other = sizes[0][0], sizes[-1][0]
    pairs = one.weight * (other.length + 1) + other.weight * (one.length + 1)
    return _capped(10 + 2 * _weight(sizes) + pairs)


def _found_work(sizes: Sequence[Size]) -> int:
    """Each place of a text with each letter of what is looked for; a list is one of ours."""
    text, wanted = _letters(sizes[0]), _letters(sizes[1]) if len(sizes) > 1 else 1
    return _capped(text * wanted + (_whole_work(sizes) if sizes[0][0].length else 0))


def _replaced_work(sizes: Sequence[Size]) -> int:
    return _found_work(sizes) + _letters(_replaced(sizes))


def _joined_work(sizes: Sequence[Size]) -> int:
    return _letters(_joined(sizes))


def _formatted_work(sizes: Sequence[Size]) -> int:
    return _letters(_formatted(sizes)) + _whole_work(sizes)


def _pattern_work(sizes: Sequence[Size], pattern: Tree) -> int:
    """A pattern that counts (`a{1000}`) is as large as what it counts."""
    is_plain = isinstance(pattern, Constant) and b"{" not in pattern.text
    program = sizes[1][0].weight // 4 + 1
    return _capped(_letters(sizes[0]) * program * (1 if is_plain else 100) + _weight(sizes))


def _weight(sizes: Sequence[Size]) -> int:
    return _capped(sum(size[0].weight for size in sizes))


def _letters(size: Size) -> int:
    """What it costs to look at all of a value."""
    return size[0].weight // 10 + 1


def _capped(number: int) -> int:
    return min(number, _HUGE)


_PATTERNS: Final = frozenset({"matches", "find", "findAll"})

_Result = Callable[[Sequence[Size]], Size]
_Work = Callable[[Sequence[Size]], int]


def _table(*rows: tuple[str, Any]) -> dict[str, Any]:
    return {name: rule for names, rule in rows for name in names.split()}


_RESULTS: Final[Mapping[str, _Result]] = _table(
    ("_==_ _!=_ _<_ _<=_ _>_ _>=_ !_ -_ _-_ _*_ _/_ _%_ _&&_ _||_ @in in", _small),
    ("@not_strictly_false __not_strictly_false__ size int uint double bool type", _small),
    ("timestamp duration contains startsWith endsWith matches hasValue", _small),
    ("getFullYear getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear getHours", _small),
    ("getMinutes getSeconds getMilliseconds indexOf lastIndexOf optional.none", _small),
    ("isSorted sets.contains sets.equivalent sets.intersects isURL isQuantity", _small),
    ("isSemver sign isInteger asInteger asApproximateFloat isLessThan isGreaterThan", _small),
    ("compareTo major minor patch isIP isCIDR family containsIP containsCIDR", _small),
    ("math.abs math.sign math.ceil math.floor math.round math.trunc math.isNaN", _small),
    ("math.isInf math.isFinite math.bitAnd math.bitOr math.bitXor math.bitNot", _small),
    ("math.bitShiftLeft math.bitShiftRight math.sqrt", _small),
    ("math.greatest math.least math.@max math.@min dyn orValue or value", _any_of),
    ("optional.of optional.ofNonZeroValue", _any_of),
    ("_[_] _[?_] _?._ min max", _part_of_first),
    ("_+_", _added),
    ("lowerAscii upperAscii trim reverse charAt substring find", _longer(2)),
    ("strings.quote bytes string getEscapedPath", _longer(24)),
    ("replace", _replaced),
    ("join", _joined),
    ("split findAll", _in_pieces),
    ("format", _formatted),
    ("quantity semver ip cidr url add sub", _tagged),
)

_WORK: Final[Mapping[str, _Work]] = _table(
    ("!_ -_ _-_ _*_ _/_ _%_ _&&_ _||_ @not_strictly_false __not_strictly_false__", _step),
    ("size type _[_] _[?_] _?._ hasValue value orValue or optional.none optional.of dyn", _step),
    ("_==_ _!=_ _<_ _<=_ _>_ _>=_ @in in _+_ int uint double bool string bytes", _light_work),
    ("optional.ofNonZeroValue startsWith endsWith lowerAscii upperAscii trim reverse", _light_work),
    ("charAt substring timestamp duration split strings.quote", _light_work),
    ("math.greatest math.least math.@max math.@min math.abs math.sign", _light_work),
    ("sets.contains sets.equivalent sets.intersects", _pairs_work),
    ("contains indexOf lastIndexOf", _found_work),
    ("replace", _replaced_work),
    ("join", _joined_work),
    ("format", _formatted_work),
)
