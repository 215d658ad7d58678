"""What a checkpoint was made from, as a picture and in words."""

from __future__ import annotations

from . import model_facts as facts
from .mermaid import flowchart
from .model_facts import Manifest
from .text import Markdown, code

_SHORT = 12  # characters of a commit or digest in a label


def picture(manifest: Manifest) -> Markdown:
    """A flowchart: what it rests on at the left, the checkpoint at the right."""
    identity, base = manifest["identity"], manifest["checkpoint"]["base"]
    data, parent = identity["dataset"], identity["init_from"]
    nodes = {
        "n1": [
            "base model",
            base["repo"] or "a folder",
            (base["commit"] or base["sha256"] or "")[:_SHORT] or "no commit",
        ],
        "n2": [
            "dataset",
            data["repo"] or "a folder",
            f"{data['revision'] or ''} {data['identity_sha256'][:_SHORT]}".strip(),
        ],
        "n3": ["checkpoint", facts.repo(manifest), f"v{identity['version']}"],
    }
    edges = [("n2", "n3")]
    if parent:
        nodes["n4"] = ["checkpoint", parent["repo"] or "a folder", parent["revision"] or "no version"]
        edges += [("n1", "n4"), ("n4", "n3")]
    else:
        edges.append(("n1", "n3"))
    return Markdown(f"```mermaid\n{flowchart(nodes, edges)}\n```")


def in_words(manifest: Manifest) -> list[Markdown]:
    """One line for each thing that it rests on, with what pins it."""
    identity, base = manifest["identity"], manifest["checkpoint"]["base"]
    data, parent = identity["dataset"], identity["init_from"]
    lines = []
    if parent:
        lines.append(f"**Trained further from** {_name(parent['repo'], parent['revision'], parent['commit'])}")
    declared = identity["base"]["revision"] if identity["base"] else None
    at = f", sha256 of its files {code(base['sha256'])}" if base["sha256"] else ""
    lines.append(f"**Base model:** {_name(base['repo'], declared, base['commit'])}{at}")
    lines.append(
        f"**Dataset:** {_name(data['repo'], data['revision'], facts.dataset_commit(manifest))}, identity "
        f"{code(data['identity_sha256'])}"
    )
    return [Markdown(line) for line in lines]


def _name(repo: str | None, revision: str | None, commit: str | None) -> str:
    said = code(repo) if repo else "a folder without a name on a Hub"
    if revision:
        said = Markdown(f"{said} {code(revision)}")
    return f"{said}, commit {code(commit)}" if commit else str(said)
