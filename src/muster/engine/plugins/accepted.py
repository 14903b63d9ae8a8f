"""Names that configurations may hold and that need nothing of a cycle.

KAI's `snapshot` serves a debug page, which the scheduler service does by itself; its `sg-*` plugins
generate scenarios, and our search needs no generators. `reflectjoborder` is accepted and has no
effect (`api.validation.no_effect`).
"""

from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View


class Accepted:
    """A plugin that says nothing."""

    name = "accepted"

    def __init__(self, arguments: Reader) -> None:
        """Arguments of any kind are accepted too."""

    def open(self, view: View) -> SessionPlugin:
        return SessionPlugin()
