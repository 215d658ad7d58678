"""A process with torch, which the tests themselves do without: it runs a module of this folder."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from action_reward_models.tests import processes
from action_reward_models.tests.tiny_vlm import cached


def run(name: str, *given: Any, **more: str) -> Any:
    """What ``main`` of ``tests.inference.<name>`` returns. given: its arguments. more: for its environment."""
    module = f"action_reward_models.tests.inference.{name}"
    if not more:
        words = (module, json.dumps(given, default=str))
        done = processes.torch("action_reward_models.tests.inference.process", *words)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.rsplit("\n", 2)[-2])
    code = f"import json, sys, {module} as m; out = m.main(*json.loads(sys.argv[1])); print('\\n' + json.dumps(out))"
    env = {**cached.environment(), **more}
    env.pop("USE_TORCH", None)  # which the tests set
    command = [sys.executable, "-c", code, json.dumps(given, default=str)]
    done = subprocess.run(command, env=env, cwd=cached.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.rsplit("\n", 2)[-2])


def base(*, sees: bool = True) -> Path:
    """The tiny base model, or the one that sees no pictures."""
    from action_reward_models.tests.tiny_vlm.model import Size

    return cached.made(Size(sees=sees))


if __name__ == "__main__":
    print("\n" + json.dumps(importlib.import_module(sys.argv[1]).main(*json.loads(sys.argv[2]))))
