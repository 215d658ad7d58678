"""endpoints.yaml: addresses in one spelling, and errors that say where and what to write, never a secret."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.servers.endpoints import BatchLimits, Endpoints, Price, Server, read_endpoints
from action_reward_models.servers.urls import host_of, is_loopback, normal

SECRET = "hunter2-Secret"
WHOLE = """
endpoints: 1
servers:
  actor:
    urls: ["http://127.0.0.1:8000/v1", http://127.0.0.1:8001/v1/]
    in_flight: 128
    timeout_s: 90.5
    engine: vllm
    engine_version: 1.10
  my-teacher:
    urls: [https://API.Example.com:443/v1]
    key: EXAMPLE_API_KEY
    prices:
      gpt-x: {input: 2.50, output: 10, cached_input: 1.25, batch: 0.5, image_tokens: 1500, added_tokens: 40}
      1.5: {input: 0, output: 0}
    batch: {requests: 1000, bytes: 50000000, tokens: 90000}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "endpoints.yaml"
    path.write_text(text, "utf-8")
    return path


def server_of(folder: Path, lines: str) -> Server:
    indented = "".join(f"    {line}\n" for line in lines.splitlines())
    return read_endpoints(written(folder, f"endpoints: 1\nservers:\n  s:\n{indented}")).server("s")


def problems(folder: Path, lines: str) -> list[str]:
    with pytest.raises(ArmError) as caught:
        server_of(folder, lines)
    assert SECRET not in str(caught.value)
    return [str(issue).removeprefix(f"{folder / 'endpoints.yaml'}") for issue in caught.value.issues]


def test_everything_that_it_says(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)
    endpoints = read_endpoints(path)
    assert endpoints.server("actor") == Server(
        "actor", ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8001/v1"), in_flight=128, timeout_s=90.5,
        engine="vllm", engine_version="1.10", where=f"{path}:4 $.servers.actor",
    )  # fmt: skip
    teacher = endpoints.server("my-teacher")
    assert teacher == Server(
        "my-teacher", ("https://api.example.com/v1",), key="EXAMPLE_API_KEY", key_hosts=("api.example.com:443",),
        prices={"gpt-x": Price(2.5, 10, 1.25, 0.5, 1500, 40), "1.5": Price(0, 0)},
        batch=BatchLimits(1000, 50_000_000, 90_000), where=f"{path}:10 $.servers['my-teacher']",
    )  # fmt: skip
    assert (teacher.in_flight, teacher.timeout_s, teacher.plain_http) == (64, 600, False)
    assert endpoints.server("actor").batch == BatchLimits(50_000, 200_000_000, None)


def test_a_server_is_sent_to_workers_without_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_API_KEY", SECRET)
    server = read_endpoints(written(tmp_path, WHOLE)).server("my-teacher")
    sent = pickle.dumps(server)
    assert pickle.loads(sent) == server
    assert SECRET.encode() not in sent
    assert SECRET not in repr(server)


@pytest.mark.parametrize(
    ("given", "expected", "host"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1", "127.0.0.1:8000"),
        ("HTTPS://Api.Example.COM.:443/v1/", "https://api.example.com/v1", "api.example.com:443"),
        ("https://api.example.com:8443", "https://api.example.com:8443", "api.example.com:8443"),
        ("http://api.example.com:80/", "http://api.example.com", "api.example.com:80"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1", "[::1]:8000"),
        ("http://[0:0:0:0:0:0:0:1]:8000/v1", "http://[::1]:8000/v1", "[::1]:8000"),
        ("https://Bücher.example/v1", "https://xn--bcher-kva.example/v1", "xn--bcher-kva.example:443"),
        ("https://XN--bcher-kva.example/v1", "https://xn--bcher-kva.example/v1", "xn--bcher-kva.example:443"),
        ("https://ｅｘａｍｐｌｅ.com/v1", "https://example.com/v1", "example.com:443"),
        ("https://x.example/openai/GPT-x/V1", "https://x.example/openai/GPT-x/V1", "x.example:443"),
        ("http://node_7:8000/v1", "http://node_7:8000/v1", "node_7:8000"),
    ],
)  # fmt: skip
def test_one_spelling(given: str, expected: str, host: str) -> None:
    assert normal(given) == expected
    assert normal(expected) == expected
    assert host_of(expected) == host


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (f"https://user:{SECRET}@api.example.com/v1", "holds an @"),
        (f"https://{SECRET}@api.example.com/v1", "holds an @"),
        (f"https://api.example.com\\@{SECRET}.example/v1", "holds an @"),
        (f"http://user/{SECRET}@host/v1", "holds an @"),
        (f"https://api.example.com/v1?key={SECRET}", "goes on after the path"),
        ("https://api.example.com/v1?", "goes on after the path"),
        (f"https://api.example.com/v1#{SECRET}", "goes on after the path"),
        (f"api.example.com/{SECRET}", "does not begin with http:// or https://"),
        ("ftp://api.example.com/v1", "does not begin with http:// or https://"),
        ("file:///etc/passwd", "does not begin with http:// or https://"),
        ("unix:/run/server.sock", "does not begin with http:// or https://"),
        ("", "does not begin with http:// or https://"),
        (f"https://api.example.com/v1 {SECRET}", "holds a space"),
        ("https://api.example.com\\.evil.example/v1", "holds a space, a backslash"),
        (f"https://api.example.com/v1\n{SECRET}", "holds a space"),
        (f"https://api.example.com:{SECRET}/v1", "has no host and port"),
        ("https://api.example.com:99999/v1", "has no host and port"),
        ("https://api.example.com:0/v1", "has the port 0"),
        ("https:///v1", "has no host"),
        ("https://./v1", "has no host"),
        ("https://a..b/v1", "has no host"),
        ("https://-a.example/v1", "has no host"),
        ("https://a%2eexample/v1", "has no host"),
        ("https://[::1/v1", "has no host"),
        ("https://[fe80::1%25eth0]/v1", "has no host"),
        ("https://a.example/v1/../v2", "has a path"),
        ("https://a.example//v1", "has a path"),
        ("https://a.example/vü", "has a path"),
        ("https://a.example/" + "v" * 2048, "is longer than 2,048"),
    ],
)
def test_what_is_no_address_is_said_without_quoting_it(tmp_path: Path, given: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        normal(given)
    assert SECRET not in str(caught.value)
    if "\n" not in given:
        quoted = given.replace("\\", "\\\\")
        (problem,) = problems(tmp_path, f'urls: [http://127.0.0.1/v1, "{quoted}"]')
        assert problem.startswith(f":4 $.servers.s.urls[1] {said}")


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("http://127.0.0.1:1/v1", True), ("http://127.8.9.1/v1", True), ("http://localhost:8000/v1", True),
        ("http://[::1]:8000/v1", True), ("http://x.localhost/v1", True), ("http://10.0.0.1/v1", False),
        ("http://0.0.0.0:8000/v1", False), ("http://localhost.example/v1", False), ("http://127.1/v1", False),
        ("http://127.0.0.1.example/v1", False), ("http://2130706433/v1", False),
    ],
)  # fmt: skip
def test_what_stays_on_this_machine(url: str, inside: bool) -> None:
    assert is_loopback(normal(url)) is inside


def test_problems_of_a_file_have_their_lines(tmp_path: Path) -> None:
    lines = """\
urls: [http://127.0.0.1:8000/v1, HTTP://127.0.0.1:8000/v1/]
key: sk-hunter2-Secret
in_flight: 0
prices: {m: {input: -1, output: 1}}
colour: red"""
    with pytest.raises(ArmError) as caught:
        server_of(tmp_path, lines)
    assert [f"{issue.line} {issue.path} {issue.message}" for issue in caught.value.issues] == [
        "6 $.servers.s.in_flight is 0, below the least allowed 1",
        "7 $.servers.s.prices.m.input is -1, below the least allowed 0",
        "8 $.servers.s.colour is not a known field",
    ]
    assert SECRET not in str(caught.value)
    second, first = problems(tmp_path, "\n".join(lines.splitlines()[:2]))
    assert first.startswith(":5 $.servers.s.key is not the name of an environment variable")
    assert second == ":4 $.servers.s.urls[1] stands twice: http://127.0.0.1:8000/v1"


@pytest.mark.parametrize("key", [f"sk-{SECRET}", SECRET, "AIzaSyDabc", "9KEY", "MY KEY", "MY-KEY", "K" * 129, '""'])
def test_a_key_that_stands_in_the_file_is_not_shown(tmp_path: Path, key: str) -> None:
    (problem,) = problems(tmp_path, f"urls: [http://127.0.0.1:8000/v1]\nkey: {key}")
    assert problem.startswith(":5 $.servers.s.key is not the name of an environment variable")
    assert key not in problem.replace(" ", "") or key == '""'


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (f"urls: https://u:{SECRET}@api.example.com/v1", ":4 $.servers.s.urls is not as it should be: write urls: ["),
        (f"urls: [[https://u:{SECRET}@api.example.com/v1]]", ":4 $.servers.s.urls[0] is not as it should be"),
        (f"urls: [{{u: {SECRET}}}]", ":4 $.servers.s.urls[0] is not as it should be"),
        (f"urls: [http://a/v1]\nkey: [{SECRET}]", ":5 $.servers.s.key is not the name of an environment variable"),
        (f"urls: [http://a/v1]\napi_key: {SECRET}", ":5 $.servers.s.api_key is not a known field"),
    ],
)
def test_what_a_schema_would_quote(tmp_path: Path, lines: str, said: str) -> None:
    (problem,) = problems(tmp_path, lines)
    assert problem.startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("endpoints: 2\nservers: {}\n", ":1 $.endpoints is 2, must be 1"),
        ("endpoints: 1\n", ":1 $ lacks the field 'servers'"),
        ("endpoints: 1\nservers:\n  Big: {urls: [http://a/v1]}\n", ":3 $.servers.Big is \"Big\", does not match"),
        ("endpoints: 1\nservers:\n  a: {urls: []}\n", ":3 $.servers.a.urls is an empty list"),
        ("endpoints: 1\nservers:\n  a: {}\n", ":3 $.servers.a lacks the field 'urls'"),
        ("endpoints: 1\nservers:\n  a: &x {urls: [http://a/v1]}\n  b: *x\n", ":4 $.servers.b is an alias"),
        ("", ":1 $ is empty"),
    ],
)  # fmt: skip
def test_files_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ArmError) as caught:
        read_endpoints(path)
    assert any(str(issue).startswith(f"{path}{said}") for issue in caught.value.issues), caught.value.issues


def test_a_name_that_is_nowhere(tmp_path: Path) -> None:
    endpoints = read_endpoints(written(tmp_path, WHOLE))
    with pytest.raises(UsageError) as caught:
        endpoints.server("teacher")
    assert str(caught.value) == (
        f"{tmp_path / 'endpoints.yaml'}: no server is called 'teacher': it names actor, my-teacher; did you mean "
        "'my-teacher'?\n  next: write into endpoints.yaml where it is, or set ARM_ENDPOINT_TEACHER=URL:\n"
        "    servers:\n      teacher:\n        urls: [http://127.0.0.1:8000/v1]"
    )


def test_what_it_says_to_write_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "endpoints.yaml"
    endpoints = read_endpoints(path)
    assert endpoints == Endpoints(path, {})
    with pytest.raises(UsageError, match="there is no such file") as caught:
        endpoints.server("teacher")
    lines = (caught.value.next_command or "").splitlines()[1:]
    written(tmp_path, "\n".join(line.removeprefix("    ") for line in lines))
    assert read_endpoints(path).server("teacher").urls == ("http://127.0.0.1:8000/v1",)


def test_the_environment_moves_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoints = read_endpoints(written(tmp_path, WHOLE))
    monkeypatch.setenv("ARM_ENDPOINT_ACTOR", " http://node7:8000/v1/, http://node8:8000/v1,http://node7:8000/v1, ")
    moved = endpoints.server("actor")
    assert moved.urls == ("http://node7:8000/v1", "http://node8:8000/v1")
    assert (moved.engine, moved.in_flight) == ("vllm", 128)
    monkeypatch.setenv("ARM_ENDPOINT_NEW_ONE", "http://node9:8000/v1")
    assert endpoints.server("new-one") == Server("new-one", ("http://node9:8000/v1",), where="ARM_ENDPOINT_NEW_ONE")
    monkeypatch.setenv("ARM_ENDPOINT_ACTOR", "")
    assert endpoints.server("actor").urls[0] == "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize("value", [f"http://u:{SECRET}@node7/v1", f"http://node7/v1,node8/{SECRET}", ","])
def test_an_environment_that_names_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ARM_ENDPOINT_ACTOR", value)
    with pytest.raises(UsageError, match="ARM_ENDPOINT_ACTOR names") as caught:
        read_endpoints(written(tmp_path, WHOLE)).server("actor")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/v1", "https://api.example.com.evil.example/v1", "https://api.example.com:8443/v1",
        "http://api.example.com/v1", "https://xapi.example.com/v1", "http://127.0.0.1:8000/v1",
    ],
)  # fmt: skip
def test_a_key_does_not_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    endpoints = read_endpoints(written(tmp_path, WHOLE))
    monkeypatch.setenv("EXAMPLE_API_KEY", SECRET)
    monkeypatch.setenv("ARM_ENDPOINT_MY_TEACHER", f"https://api.example.com/v1,{url}")
    with pytest.raises(ArmError) as caught:
        endpoints.server("my-teacher")
    said = str(caught.value)
    assert f"the key EXAMPLE_API_KEY is for api.example.com:443, and {url} is another host" in said
    assert f"add {url} to the urls of 'my-teacher'" in said
    assert "ARM_ENDPOINT_MY_TEACHER" in said
    assert SECRET not in said


def test_a_key_stays_with_another_path_of_its_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARM_ENDPOINT_MY_TEACHER", "https://API.example.com./other/v1")
    server = read_endpoints(written(tmp_path, WHOLE)).server("my-teacher")
    assert server.urls == ("https://api.example.com/other/v1",)


def test_a_key_is_not_sent_as_plain_text(tmp_path: Path) -> None:
    lines = "urls: [http://node7:8000/v1]\nkey: NODE_KEY"
    with pytest.raises(ArmError) as caught:
        server_of(tmp_path, lines)
    assert "the key NODE_KEY would go to http://node7:8000/v1 as plain text" in str(caught.value)
    assert "`plain_http: true` below 's'" in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'endpoints.yaml'}:3 $.servers.s: ")
    allowed = server_of(tmp_path, f"{lines}\nplain_http: true")
    assert allowed.refusal("http://node7:8000/v1") is None
    assert server_of(tmp_path, "urls: [http://localhost:8000/v1]\nkey: NODE_KEY").key == "NODE_KEY"
    assert server_of(tmp_path, "urls: [http://node7:8000/v1]").key is None
