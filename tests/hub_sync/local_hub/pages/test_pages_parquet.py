"""Parquet files come from anyone, too: another process reads them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from action_reward_models.hub_sync.local_hub.errors import HubError
from action_reward_models.hub_sync.local_hub.pages import parquet_facts

if TYPE_CHECKING:
    from tests.hub_sync.local_hub.pages.conftest import Make


def test_rows_are_those_of_the_footer_and_a_broken_file_hides_no_other(make: type[Make], tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.write_bytes(make.parquet({"a": [1, 2, 3]}))
    files: dict[str, parquet_facts.Source] = {
        "counts/good": good,
        "counts/blob": make.parquet({"a": [1]}),
        "counts/empty": b"",
        "counts/footer": b"PAR1" + b"\xff" * 100 + b"\xff\xff\xff\x7fPAR1",
        "counts/missing": tmp_path / "missing",
    }
    counted = parquet_facts.row_counts(files)
    assert counted == {
        "counts/good": 3,
        "counts/blob": 1,
        "counts/empty": None,
        "counts/footer": None,
        "counts/missing": None,
    }
    good.unlink()
    assert parquet_facts.row_counts({"counts/good": good}) == {"counts/good": 3}  # what is known is not read again


def test_a_file_that_kills_the_reader_hides_no_other(
    make: type[Make], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader dies of the second file, as it would of a flaw in the Parquet library."""
    child = tmp_path / "child.py"
    real = Path(parquet_facts.__file__).with_name("parquet_child.py").read_text("utf-8")
    deadly = 'def _open(source: Any) -> Any:\n    if "deadly" in str(source):\n        import os\n        os.abort()\n'
    assert "def _open(source: Any) -> Any:\n" in real
    child.write_text(real.replace("def _open(source: Any) -> Any:\n", deadly))
    monkeypatch.setattr(parquet_facts, "_CHILD", child)
    for name in ("one", "deadly", "two"):
        (tmp_path / name).write_bytes(make.parquet({"a": [1, 2]}))
    files: dict[str, parquet_facts.Source] = {f"kills/{name}": tmp_path / name for name in ("one", "deadly", "two")}
    assert parquet_facts.row_counts(files) == {"kills/one": 2, "kills/deadly": None, "kills/two": 2}


def test_files_that_hang_the_reader_cost_a_bounded_time(
    make: type[Make], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What there was no time for is asked again the next time; and nobody waits for long behind another page."""
    child = tmp_path / "child.py"
    child.write_text("import time\ntime.sleep(60)\n")
    good = Path(parquet_facts.__file__).with_name("parquet_child.py")
    monkeypatch.setattr(parquet_facts, "_CHILD", child)
    monkeypatch.setattr(parquet_facts, "_SECONDS", 0.2)
    monkeypatch.setattr(parquet_facts, "_ALL_SECONDS", 0.5)
    files: dict[str, parquet_facts.Source] = {f"hangs/{n}": make.parquet({"a": [n]}) for n in range(64)}
    begin = time.monotonic()
    assert set(parquet_facts.row_counts(files).values()) == {None}
    assert time.monotonic() - begin < 20
    monkeypatch.undo()
    assert Path(parquet_facts._CHILD) == good
    assert parquet_facts.row_counts({"hangs/63": files["hangs/63"]}) == {"hangs/63": 1}
    monkeypatch.setattr(parquet_facts, "_WAIT_SECONDS", 0)
    with parquet_facts._lock, pytest.raises(HubError) as caught:
        parquet_facts.row_counts(files)
    assert caught.value.status == 503


def test_a_preview_shows_pictures_first_and_cuts_texts(make: type[Make]) -> None:
    pictures = [{"bytes": make.png(), "path": None}, {"bytes": b"no picture", "path": None}, None] * 10
    data = make.parquet(
        {
            "id": [f"row {number}" for number in range(30)],
            "text": ["long " * 1000] * 30,
            "nested": [[{"a": 1, "b": b"\0\xff", "c": None}]] * 30,
            "screenshot": pictures,
        }
    )
    found = parquet_facts.preview("preview/pictures", data)
    assert found is not None
    assert found["columns"] == ["screenshot", "id", "text", "nested"]
    assert len(found["rows"]) == 20
    first, second = found["rows"][:2]
    assert first[0] == {"picture": 0}
    assert second[0] == {"text": '{"bytes": "<10 bytes>", "path": null}'}
    assert first[1] == {"text": "row 0"}
    assert len(first[2]["text"]) == 161
    assert first[3] == {"text": '[{"a": 1, "b": "<2 bytes>", "c": null}]'}
    assert parquet_facts.picture("preview/pictures", data, 0) == (make.png(), "image/png")
    assert parquet_facts.picture("preview/pictures", data, 7) is None


def test_a_picture_of_too_many_pixels_is_not_shown(make: type[Make]) -> None:
    huge = make.png((9000, 9000))
    assert len(huge) < 2**20
    found = parquet_facts.preview("preview/huge", make.parquet({"image": [{"bytes": huge, "path": None}]}))
    assert found is not None
    assert found["pictures"] == []


def test_a_drawing_is_no_picture(make: type[Make]) -> None:
    drawing = b"<svg xmlns='http://www.w3.org/2000/svg' onload='evil()'/>"
    found = parquet_facts.preview("preview/svg", make.parquet({"image": [{"bytes": drawing, "path": "a.svg"}]}))
    assert found is not None
    assert found["pictures"] == []


def test_the_hub_itself_never_loads_the_parquet_library() -> None:
    code = (
        "import sys\nfrom action_reward_models.hub_sync.local_hub.pages import parquet_facts as facts\n"
        "facts.row_counts({'x': b''}), facts.preview('x', b'')\n"
        "print([name for name in ('pyarrow', 'PIL') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
