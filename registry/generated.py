"""What `sample:` and `label:` below a source declare, and which files they make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..builders.generate.spec import AskSpec, Draws, GenerateSpec, SampleSpec
from ..builders.spec import PromptSpec, SourceSpec
from .training import Complain

Verb = Literal["sample", "label"]
HOLDS: Mapping[Verb, tuple[str, str]] = {  # what a model makes, and in which format it is written
    "sample": ("candidate_sets", "sampled"),
    "label": ("teacher_labels", "table"),
}
RESTS_ON: Mapping[Verb, tuple[str, ...]] = {  # kinds of what is shown to the model
    "sample": ("states",),
    "label": ("states", "candidate_sets"),
}
LOG = ".requests"  # of the folder beside the file in which its answers are kept
BUILDS = "build"  # beside the registry
_DONE: Mapping[Verb, str] = {"sample": "sampled", "label": "labelled"}
ReadPrompt = Callable[[Mapping[str, Any], str], PromptSpec]  # (options with `prompt`, place) -> what it names


@dataclass(frozen=True)
class Made:
    """A file that ``arm sample`` or ``arm label`` writes: for the source ``number`` of ``dataset``.

    name: its path as declared. path: where it lies.
    """

    dataset: str
    number: int
    verb: Verb
    name: str
    path: Path

    @property
    def absent(self) -> str:
        return f"{self.name} is not {_DONE[self.verb]} yet"


def made(data: Mapping[str, Any], folder: Path) -> Iterator[Made]:
    """Every file that a registry declares to be made, rightly or not."""
    for dataset in data["datasets"]:
        for number, source in enumerate(dataset["sources"]):
            verb = next((verb for verb in HOLDS if verb in source), None)
            if verb and "path" in source:
                yield Made(dataset["name"], number, verb, source["path"], folder / source["path"])


def generate(
    data: Mapping[str, Any], where: str, folder: Path, complain: Complain, prompt: ReadPrompt
) -> GenerateSpec | None:
    """How the file of a source is made; None where nothing says so, or says it wrongly."""
    verbs = [verb for verb in HOLDS if verb in data]
    if not verbs:
        return None
    if len(verbs) > 1:
        complain(where, "says sample and label; a file is made by one of them")
        return None
    (verb,) = verbs
    kind, form = HOLDS[verb]
    if (data["kind"], data["format"]) != (kind, form):
        said = f"{data['kind']} with format: {data['format']}"
        complain(f"{where}.{verb}", f"means nothing for {said}; only for {kind} with format: {form}")
        return None
    if "path" not in data:
        complain(f"{where}.{verb}", "says how a file is made, and nothing says which: add path")
    elif wrong := _path_problem(data["path"], folder):
        complain(f"{where}.path", wrong)
    if verb == "sample" and "sampling" in data:
        complain(f"{where}.sampling", "means nothing beside sample, which says it, and its records do")
    if verb == "label" and "teacher" not in data:
        complain(where, "lacks the field 'teacher': the name under which its labels are known")
    declared, place = data[verb], f"{where}.{verb}"
    if declared.get("top_p") == 0:
        complain(f"{place}.top_p", "is 0, which keeps no token; 1 keeps all, and null sends none")
    if verb == "sample":
        return SampleSpec(**{**declared, "draws": tuple(Draws(**draws) for draws in declared["draws"])})
    asked = {name: value for name, value in declared.items() if name not in ("prompt", "options")}
    return AskSpec(**asked, prompt=prompt(declared, place))


def lacking(source: SourceSpec, kinds: Collection[str]) -> Iterator[tuple[Verb, str]]:
    """(What makes the source, kind of what it is made from) for kinds that its dataset has not."""
    if source.generate:
        verb: Verb = "sample" if isinstance(source.generate, SampleSpec) else "label"
        yield from ((verb, kind) for kind in RESTS_ON[verb] if kind not in kinds)


def _path_problem(text: str, folder: Path) -> str | None:
    """Why nothing is written there: a registry that somebody sends must not say where on this machine."""
    path = Path(text)
    if any(character in text for character in "*?["):
        return "names one file that is written, so that it holds none of * ? ["
    if not text.endswith(".jsonl") or path.name == ".jsonl":
        return "is written as JSON lines: let it end in .jsonl"
    if path.is_absolute() or ".." in path.parts or "\\" in text:
        return "is written, and only inside the registry's folder"
    inside = [part.lower() for part in path.parts[:-1]]
    if inside[:1] == [BUILDS]:
        return f"lies in {BUILDS}/, where builds are made anew, and it would be gone with one"
    if any(part.endswith(LOG) for part in inside):
        return f"lies in a folder of answers ({LOG}), whose files are kept as they are"
    written = (folder / path, (folder / path).with_suffix(LOG))
    if not all(place.resolve().is_relative_to(folder.resolve()) for place in written):
        return "leads out of the registry's folder through a link, and is written"
    return None
