"""Answers for tests: said on the spot, or asked of a server over plain HTTP."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from action_reward_models.builders.generate.asking import AskWork
from action_reward_models.builders.generate.log import AnswerLog
from action_reward_models.builders.generate.sampling import SampleWork
from action_reward_models.builders.generate.work import Work
from action_reward_models.servers.answers import Answer, Choice
from action_reward_models.servers.requests import Request


def said(request: Request, *texts: str, finish_reason: str = "stop", **more: Any) -> Answer:
    """An answer with these replies."""
    choices = tuple(Choice(text, finish_reason) for text in texts)
    known = {"model": "served", "engine": "vllm", "engine_version": "0.32.0", "usage": {"completion_tokens": 9}}
    return Answer(request.key, request.slot, "answered", choices, **(known | more))


def lost(request: Request, outcome: Any = "failed", detail: str = "500 no luck", **more: Any) -> Answer:
    return Answer(request.key, request.slot, outcome, detail=detail, **more)


def log(work: Work, answer: Callable[[Request], Answer | None], requests: Iterable[Request] | None = None) -> None:
    """Write what ``answer`` says to each request into the log of ``work``; None leaves one without an outcome."""
    answers = AnswerLog(work.folder)
    for request in work.requests() if requests is None else requests:
        if (given := answer(request)) is not None:
            answers.append(request.group, given)


def skipped(work: SampleWork | AskWork) -> dict[str, int]:
    """What is not asked for, by reason."""
    found: Counter[str] = Counter()
    for _ in work.plan(None, found):
        pass
    return dict(found)


def over_http(url: str) -> Callable[[Request], Answer]:
    """Answers of the server at ``url``, one request after another."""

    def ask(request: Request) -> Answer:
        data = json.dumps(request.wire()).encode()
        headers = {"Content-Type": "application/json"}
        sent = urllib.request.Request(f"{url}/chat/completions", data, headers)
        with urllib.request.urlopen(sent) as reply:
            body = json.load(reply)
        choices = tuple(
            Choice(c["message"]["content"] or "", c["finish_reason"], c["message"].get("refusal"))
            for c in body["choices"]
        )
        return Answer(request.key, request.slot, "answered", choices, model=body["model"], usage=body["usage"])

    return ask
