"""What TRL's trainers do on the side, and these do not."""

from __future__ import annotations

from typing import Any


class Quiet:
    """Nothing is told to anybody, and no card of another tool is written."""

    def _send_telemetry(self) -> None:
        return

    def create_model_card(self, *_: Any, **__: Any) -> None:
        return
