"""Words of others as they may be shown: nothing in them moves a cursor, paints, hides, or turns
round what stands beside them.
"""

from typing import Final

_LEFT: Final = frozenset("\n\u00a0\u3000")
"""Not printable to Python, and harmless: ends of lines, and spaces of other scripts."""


def visible(text: str) -> str:
    """With what cannot be seen spelt out, as \\x1b: controls, marks of direction, letters without
    width, halves of letters, and what no letter is."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in _LEFT else _spelt(one) for one in text)


def _spelt(letter: str) -> str:
    return letter.encode("unicode_escape").decode()
