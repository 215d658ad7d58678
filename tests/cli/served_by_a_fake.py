"""`arm serve`, with a model without weights in the place of the checkpoint: its arguments, as they are typed."""

from __future__ import annotations

from action_reward_models.cli import main, picking_models
from action_reward_models.tests.inference.serve.fakes import Fake, held_back

if __name__ == "__main__":
    fake = held_back(Fake())
    vars(picking_models)["local"] = lambda *_, **__: picking_models.Model(
        "fake", {**fake.contract, "kind": fake.kind}, dict, lambda: fake, lambda: fake.prompt, 1
    )
    main()
