"""The shipped schemas: described, closed, self-contained, portable, and never fetched."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from action_reward_models.builders.importers import IMPORTERS
from action_reward_models.schemas import store
from action_reward_models.schemas.errors import UsageError
from action_reward_models.schemas.store import ID_FIELDS, TABLES
from action_reward_models.schemas.validate import compile_schema
from jsonschema import Draft202012Validator

FILES = sorted((Path(store.__file__).parent / "json").iterdir())
NAMES = store.names()
ANY_SHAPE = {  # what others wrote: further keys are kept, not refused
    *("episode/1", "molmoweb_result/1", "openwebrl_turn/1", "agent_chat/1", "rest_mcts_tree/1", "agentrm_sample/1"),
}
# One file each, with maps whose keys are names; no rows.
DOCUMENTS = {
    *("registry/1", "endpoints/1", "manifest/1", "prompt_template/1", "recipe/1", "model_manifest/1"),
    *("lock/1", "plan/1", "pick_request/1"),
}
# What importers read: their records are somebody else's, but for rows of our own tables.
SOURCE_RECORDS = {importer.schema for importer in IMPORTERS.values()} - {*store.TABLES.values()}
ROWS = sorted(set(NAMES) - DOCUMENTS - SOURCE_RECORDS)
# Patterns that end in "$" and match one length only: with that maxLength, no newline can follow.
ONE_LENGTH = {
    "^[0-9a-f]{40}$": 40,
    "^[0-9a-f]{64}$": 64,
    "^sha256:[0-9a-f]{64}$": 71,
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$": 20,
}


def fields(node: Any, path: str = "$") -> Iterator[tuple[str, Any]]:
    """Every schema node that describes a value; conditions only narrow those."""
    yield path, node
    for name, inner in node.get("properties", {}).items():
        yield from fields(inner, f"{path}.{name}")
    if "items" in node:
        yield from fields(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), dict):
        yield from fields(node["additionalProperties"], f"{path}.*")


def everything(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from everything(inner)


def test_all_are_there() -> None:
    assert len(FILES) == len(NAMES) + 1 >= 18
    assert len(ROWS) == 14
    assert "common/1" not in NAMES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_is_a_schema_under_its_own_name(file: Path) -> None:
    schema = json.loads(file.read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    stem, version = file.stem.rsplit("-", 1)
    assert schema["$id"] == f"urn:action-reward-models:{stem}:{version}"
    assert schema["title"]
    assert file.read_text("utf-8") == json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_schema_stands_alone(name: str) -> None:
    schema = store.load(name)
    Draft202012Validator.check_schema(schema)
    assert not [node for node in everything(schema) if "$ref" in node or "$defs" in node or "$dynamicRef" in node]
    assert store.load(name) is schema


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_described(name: str) -> None:
    poor = [path for path, node in fields(store.load(name)) if len(node.get("description", "").split()) < 1]
    assert poor == []
    unsaid = [path for path, node in fields(store.load(name)) if not node["description"].endswith((".", "..."))]
    assert unsaid == []


@pytest.mark.parametrize("name", NAMES)
def test_a_nullable_field_says_what_null_means(name: str) -> None:
    silent = [
        path
        for path, node in fields(store.load(name))
        if "null" in node["type"] and not re.search(r"null|if (it|any)|else", node["description"])
    ]
    assert silent == (
        []
        if name != "episode/1"
        else ["$.messages[].content", "$.messages[].tool_calls", "$.tools", "$.metadata", "$.metadata.elements"]
    )


@pytest.mark.parametrize("name", NAMES)
def test_stored_positions_say_where_they_count_from(name: str) -> None:
    nodes = [(path, node) for path, node in fields(store.load(name)) if path.endswith(("index", "turn", "_idx"))]
    assert [path for path, node in nodes if "0-based" not in node["description"]] == []


@pytest.mark.parametrize("name", NAMES)
def test_objects_are_closed(name: str) -> None:
    objects = [(path, node) for path, node in fields(store.load(name)) if "object" in node["type"]]
    assert objects
    open_ones = [path for path, node in objects if node.get("additionalProperties", True) is True]
    if name == "recipe/1":  # what TRL and PEFT take is held against their own signatures
        open_ones = [path for path in open_ones if path not in ("$.lora", "$.trainer")]
    if name in ("manifest/1", "model_manifest/1"):  # quotes settings and counts of other rooms as they are
        open_ones = [path for path in open_ones if path.count(".") < 2]
    assert open_ones == ([path for path, _ in objects] if name in ANY_SHAPE else [])
    maps = [path for path, node in objects if isinstance(node.get("additionalProperties"), dict)]
    assert not maps or name in DOCUMENTS


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_all_its_fields(name: str) -> None:
    optional = [
        f"{path}.{field}"
        for path, node in fields(store.load(name))
        for field in node.get("properties", {})
        if field not in node["required"]
    ]
    # Chat templates test for a block's keys, so that an image block must not have the key at all.
    assert all(
        re.fullmatch(r"\$\.(prompt|completion|chosen|rejected)\[\]\.content\[\]\.text", path) for path in optional
    )
    for path, node in fields(store.load(name)):
        assert sorted(node.get("required", [])) == sorted(set(node.get("required", []))), path
        assert set(node.get("required", [])) <= set(node.get("properties", {})), path


@pytest.mark.parametrize("name", ROWS)
def test_a_row_fits_arrow(name: str) -> None:
    for path, node in fields(store.load(name)):
        kinds = [node["type"]] if isinstance(node["type"], str) else node["type"]
        assert len([kind for kind in kinds if kind != "null"]) == 1, path
        if "integer" in kinds:  # exact as a JSON number for every reader, and within int64
            assert node["maximum"] <= 2**53 - 1, path
            assert node["minimum"] >= -(2**53) + 1, path


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_patterns_mean_the_same_to_every_engine(file: Path) -> None:
    for node in everything(json.loads(file.read_text("utf-8"))):
        pattern = node.get("pattern")
        if not isinstance(pattern, str):
            continue
        assert not re.search(r"\\[a-wyzA-Z]", pattern), pattern  # \d, \w, \s, \b, \p, \Z differ; \x00 does not
        assert pattern.isascii()
        if pattern.endswith("$"):
            forbidden = node.get("not", {}).get("pattern", "")
            assert node.get("maxLength") == ONE_LENGTH.get(pattern, -1) or forbidden.startswith("[\\x00-\\x1f"), pattern


def test_tables_name_shipped_schemas_and_their_id_fields() -> None:
    assert set(TABLES.values()) <= set(ROWS)
    assert set(TABLES) - set(ID_FIELDS) == {"exclusions"}
    for table, field in ID_FIELDS.items():
        assert field in store.load(TABLES[table])["required"]
    stages = store.load("exclusion/1")["properties"]["stage"]["enum"]
    assert set(stages) == set(TABLES) - {"exclusions"} | {"coverage", "candidate_scores", "reviews"}


def test_an_unknown_name_is_refused_and_the_known_ones_are_named() -> None:
    for name in ("state", "state/2", "common/1", "../state/1", "state-1", ""):
        with pytest.raises(UsageError) as caught:
            store.load(name)
        assert str(caught.value) == f"no schema {name!r}; there are {', '.join(NAMES)}"


class Listener(BaseHTTPRequestHandler):
    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"true")

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_an_unknown_reference_is_refused_and_nothing_is_fetched(tmp_path: Path) -> None:
    Listener.seen = []
    (tmp_path / "other.json").write_text("true")
    with HTTPServer(("127.0.0.1", 0), Listener) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        remote = f"http://127.0.0.1:{server.server_port}/other.json"
        for target in (remote, (tmp_path / "other.json").as_uri(), "urn:action-reward-models:state:1", "other.json"):
            for schema in ({"$ref": target}, {"properties": {"a": {"items": {"$ref": target}}}}):
                with pytest.raises(jsonschema_rs.ValidationError):
                    compile_schema(schema)
        server.shutdown()
    assert Listener.seen == []
