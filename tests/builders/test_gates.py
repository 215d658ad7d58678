"""Gates: judged from a manifest, warnings of a build that nothing was published of yet, refusals with the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from action_reward_models.builders import runner
from action_reward_models.schemas import gates
from action_reward_models.schemas.errors import ArmError

from .conftest import Toy


def identity(leaks: dict[str, int] | None = None, **declared: Any) -> dict[str, Any]:
    def stage(into: int, out: int) -> dict[str, Any]:
        return {"in": into, "out": out, "unit": "labels", "excluded": {"abstain": into - out} if into - out else {}}

    return {
        "parameters": {"gates": declared} if declared else {},
        "statistics": {"leakage": leaks or {}},
        "ledger": {"states": stage(10, 10), "selection_sft": stage(8, 6), "bt_pairs": stage(0, 0)},
    }


@pytest.mark.parametrize(
    ("judged", "violated", "warned"),
    [
        (identity(), [], []),
        (identity({"selection_sft": 0, "bt_pairs": 0}), [], []),
        (identity({"selection_sft": 2}), ["$.gates.leakage"], []),
        (identity({"selection_sft": 2}, leakage="error"), ["$.gates.leakage"], []),
        (identity({"selection_sft": 2, "bt_pairs": 1}, leakage="error"), ["$.gates.leakage"] * 2, []),
        (identity({"selection_sft": 2}, leakage="warn"), [], ["selection_sft: 2 prompts with their pictures stand"]),
        (identity(max_excluded={"selection_sft": 0.25}), [], []),
        (identity(max_excluded={"selection_sft": 0.2}), ["$.gates.max_excluded.selection_sft"], []),
        (identity(max_excluded={"states": 0.0, "bt_pairs": 0.0, "unknown": 0.0}), [], []),
        (
            identity({"bt_pairs": 1}, max_excluded={"selection_sft": 0.2}),
            ["$.gates.leakage", "$.gates.max_excluded.selection_sft"],
            [],
        ),
    ],
)
def test_what_a_manifest_violates(judged: dict[str, Any], violated: list[str], warned: list[str]) -> None:
    assert [violation.path for violation in gates.violations(judged)] == violated
    assert [text[: len(start)] for text, start in zip(gates.warnings(judged), warned, strict=True)] == warned


def test_a_violation_names_what_allows_it() -> None:
    leak, excluded = gates.violations(identity({"bt_pairs": 1}, max_excluded={"selection_sft": 0.2}))
    assert leak.allow == "gates: {leakage: warn}   # publishes a leaky split; say why"
    assert excluded.allow == "gates: {max_excluded: {selection_sft: 0.25}}   # if that is right"
    assert excluded.message == "selection_sft: 25.0% of 8 labels are excluded, more than 20.0% (abstain 2)"
    assert gates.allowing([leak, excluded]) == (
        "gates: {leakage: warn, max_excluded: {selection_sft: 0.25}}   # publishes a leaky split; say why; "
        "if that is right"
    )


@pytest.mark.parametrize(("into", "out"), [(n, m) for n in (3, 7, 25, 117, 1000) for m in range(0, n, 1 + n // 9)])
def test_the_line_that_is_shown_does_allow(into: int, out: int) -> None:
    judged = identity(max_excluded={"selection_sft": 0.0})
    judged["ledger"]["selection_sft"] |= {"in": into, "out": out}
    (violation,) = gates.violations(judged)
    judged["parameters"]["gates"]["max_excluded"]["selection_sft"] = float(violation.value)
    assert gates.violations(judged) == []
    assert float(violation.value) <= 1


@pytest.mark.parametrize(
    ("declared", "stop"),
    [({}, True), ({"secrets": "error"}, True), ({"secrets": "warn"}, False), ({"x": "warn"}, True)],
)
def test_whether_secrets_stop(declared: dict[str, Any], stop: bool) -> None:
    assert gates.secrets_stop(identity(**declared)) is stop


# -- builds ------------------------------------------------------------------------------------------------------------


def excluding(toy: Toy) -> Any:
    """A third of the labels and half of the comparisons are excluded, and no label may be."""
    for name, pick in (("a", 0), ("b", 1), ("c", None)):
        toy.scene(name, "click(1, 1)", "click(1, 1)", "click(7, 7)", pick=pick)
    return toy.spec(max_excluded={"selection_sft": 0.0})


def build(spec: Any, out: Path, **how: Any) -> runner.Built:
    return runner.build(spec, out, card=lambda manifest: "", workers=1, **how)


def test_a_violated_gate_stops_a_build_that_is_enforced(toy: Toy) -> None:
    spec = excluding(toy)
    with pytest.raises(ArmError, match=r"33\.3% of 3 labels are excluded") as caught:
        build(spec, toy.folder / "out")
    assert caught.value.next_command == "gates: {max_excluded: {selection_sft: 0.34}}   # if that is right"
    assert not (toy.folder / "out").exists()


def test_without_enforcement_it_warns_and_says_what_publishing_will_ask(toy: Toy) -> None:
    built = build(excluding(toy), toy.folder / "out", enforce=False)
    assert built.warnings == (
        "selection_sft: 33.3% of 3 labels are excluded, more than 0.0% (null_in_source 1); publishing will refuse it "
        "without gates: {max_excluded: {selection_sft: 0.34}}   # if that is right",
    )
    assert [v.path for v in gates.violations(built.manifest["identity"])] == ["$.gates.max_excluded.selection_sft"]


def test_every_violated_gate_is_named(toy: Toy) -> None:
    excluding(toy)
    spec = toy.spec(max_excluded={"selection_sft": 0.0, "bt_pairs": 0.1})
    with pytest.raises(ArmError, match="2 gates are violated") as caught:
        build(spec, toy.folder / "out")
    assert [issue.path for issue in caught.value.issues] == [
        "$.gates.max_excluded.bt_pairs",
        "$.gates.max_excluded.selection_sft",
    ]
    assert "max_excluded: {selection_sft: 0.34, bt_pairs: 0.50}}" in (caught.value.next_command or "")


def test_a_check_names_them_too(toy: Toy) -> None:
    issues, _ = runner.check(excluding(toy), workers=1)
    assert [issue.path for issue in issues] == ["$.gates.max_excluded.selection_sft"]
