"""A stand-in for a server of models: chat completions, files and batches on loopback, wrong on demand.

::

    with StandIn(Script(latency_s=0.1, faults=(Fault("429", rate=0.05, retry_after=0),))) as server:
        OpenAI(base_url=server.url, api_key="none").chat.completions.create(model="stand-in", ...)
        server.counts()["chat"]

Replies depend on the request alone (model, messages with their pictures, seed, temperature, number of the choice).
"""

from action_reward_models.tests.servers.stand_in.process import Received, StandIn
from action_reward_models.tests.servers.stand_in.rows import run_batch
from action_reward_models.tests.servers.stand_in.script import BatchScript, Fault, Script

__all__ = ["BatchScript", "Fault", "Received", "Script", "StandIn", "run_batch"]
