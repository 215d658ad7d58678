"""What is found in texts, what is not, that a report never repeats it, and that no text takes long.

The keys are put together here, so that no file holds one.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import random
import string
import time
from pathlib import Path

import pytest
from action_reward_models.schemas.secrets import GROUPS, RULES, findings

RNG = random.Random(7)
LETTERS = "".join(RNG.choices(string.ascii_letters, k=34))
ALNUM = "".join(RNG.choices(string.ascii_letters + string.digits, k=48))
UPPER = "".join(RNG.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", k=16))
HEX = hashlib.sha256(b"x").hexdigest()
UUID = "3f2b8c1e-9d4a-4f6b-8a57-0c1d2e3f4a5b"
BODY = base64.b64encode(bytes(range(90))).decode()
JWT = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b'{"alg":"HS256"}', b'{"sub":"1234567"}')
)
JWT += "." + ALNUM[:43]
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----"
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + RNG.randbytes(60_000)).decode()

# kind, text before the secret, secret, text after it
PLANTED = [
    ("Hugging Face token", "token ", f"hf_{LETTERS}", "."),
    ("Hugging Face token", "\\n", f"hf_{LETTERS}", "\\n"),  # in JSON
    ("Hugging Face token", "", f"hf_{LETTERS}" * 3, " "),  # typed again
    ("AI provider key", "", f"sk-{ALNUM}", ""),
    ("AI provider key", "'", f"sk-proj-{ALNUM[:30]}_{ALNUM[30:]}", "'"),
    ("AI provider key", "key=", f"sk-ant-api03-{ALNUM}", ""),
    ("AI provider key", "", f"sk-or-v1-{HEX}", " "),
    ("GitHub token", "x", "", ""),
    ("GitHub token", "(", f"ghp_{ALNUM[:36]}", ")"),
    ("GitHub token", "", f"ghs_{ALNUM[:36]}", ""),
    ("GitHub token", "", f"github_pat_{ALNUM[:22]}_{ALNUM}", ""),
    ("GitLab token", "", f"glpat-{ALNUM[:20]}", ""),
    ("AWS key id", "", f"AKIA{UPPER}", ""),
    ("AWS key id", "aws_access_key_id=", f"ASIA{UPPER}", "\n"),
    ("API key", "aws_secret_access_key = ", f"{ALNUM[:20]}/{ALNUM[20:39]}", ""),
    ("Slack token", "", f"xoxb-123456789012-{ALNUM[:24]}", ""),
    ("Google key", "key: ", f"AIza{ALNUM[:35]}", ""),
    ("Google token", "", f"ya29.{ALNUM}", ""),
    ("npm token", "", f"npm_{ALNUM[:36]}", ""),
    ("PyPI token", "", f"pypi-AgE{ALNUM}{ALNUM}", ""),
    ("Stripe key", "", f"sk_live_{ALNUM[:24]}", ""),
    ("JSON web token", "Authorization: Bearer ", JWT, ""),
    ("JSON web token", '\\"token\\": \\"', JWT, '\\"'),
    ("API key", "Authorization: bearer ", HEX, ""),
    ("API key", "OPENAI_API_KEY=", HEX[:32], ""),
    ("API key", '{"client_secret": "', ALNUM[:24], '"}'),
    ("API key", "x-api-key: ", ALNUM[:32], ""),
    ("private key", "a\n", PEM, "\nb"),
    ("private key", '"', PEM.replace("\n", "\\n"), '"'),
    ("private key", "", PEM.replace("RSA ", "OPENSSH "), ""),
    ("private key", "", f"-----BEGIN PRIVATE KEY-----\n{BODY}", ""),
    ("URL credentials", "https://bob:", "s3cret", "@shop.com/a"),
    ("URL credentials", "postgres://app:", "letmein", "@db:5432/x"),
    ("URL credentials", "git clone https://", ALNUM[:40], "@github.com/a/b"),
    ("URL parameter", "https://a.b/c?token=", HEX[:32], "&d=1"),
    ("URL parameter", "https://a.b/c?x=1&access_token=", ALNUM[:20], ""),
    ("URL parameter", "https://a.b/c?x=1\\u0026sig=", f"{ALNUM[:40]}%3D", ""),
    ("URL parameter", "https://a.b/c#access_token=", UUID, ""),
    ("URL parameter", "https://a.b/c?key=", HEX[:24], ""),
    ("URL parameter", "/login?user=bob&password=", "letmein", "&go=1"),
    ("password", "password: ", "hunter2", ""),
    ("password", "Password:  ", "12345678", "\nNext"),
    ("password", "DB_PASSWORD=", "pa55word", " make"),
    ("password", '{"password": "', "letmein", '"}'),
    ("password", '{\\"password\\": \\"', "letmein", '\\"}'),
    ("password", '{\\\\\\"user_password\\\\\\":\\\\\\"', "letmein", '\\\\\\"}'),
    ("password", "userPassword='", "open-sesame", "'"),
    ("password", "'passwd' => '", "letmein", "'"),
    ("password", "pwd = `", "", ""),
    ("password", '{"label": "Password", "text": "', "letmein", '"}'),
    ("password", 'fill(label="Password", text="', "letmein", '")'),
    ("password", '{"text": "', "letmein", '", "label": "Password"}'),
    ("password", 'fill(text="', "letmein", '", label="Password")'),
    ("password", '<input type="password" id="p" value="', "letmein", '">'),
    ("e-mail address", "Write to ", "jane.doe+web@gmail.com", ", please"),
    ("e-mail address", "<", "j@mail.uni-x.ac.uk", ">"),
    ("e-mail address", "mailto:", "sales@shop.io", "?subject=x"),
    ("e-mail address", "/u?mail=", "jane%40gmail.com", "&x=1"),
    ("e-mail address", "", "someone@notexample.com", "."),
]
PLANTED = [case for case in PLANTED if case[2]]

CLEAN = [
    HEX, f"sha256:{HEX}", f"data:image/png;base64,{PICTURE}", PICTURE, UUID, f"id={UUID}", "0123456789" * 20,
    "jane@example.com", "x@mail.example.org", "a@b.test", "root@nowhere.invalid", "me@shop.example", "root@localhost",
    "bob@printer.local", "user@host", "ssh user@host:22", "git@github.com:a/b.git", "noreply@github.com",
    "1+bob@users.noreply.github.com", "@media (max-width: 600px) {}", "thanks @name and @other.name",
    "@scope/pkg@1.2.3", "react@18.2.0", "logo@2x.png", "icon@3x.min.css", "@name@mastodon.social", "C = A@B.T",
    "@property.setter", "click(122, 281)", "type(122, 281, \"Ku8\")", "box [12.5, 3.25, 100, 40]",
    "hf_hub_download(repo_id)", "hf_" + "x" * 34, "hf_...", "HF_TOKEN=hf_your_token",
    "sk-spinner-double-bounce-2-inner-circle", "task-list-item-1", "sk-" + "x" * 40, "ghp_short",
    "AKIAIOSFODNN7EXAMPLE", "AKIAIS", "eyJhbGciOiJIUzI1NiJ9", "xoxb-", "AIza", "-----BEGIN PUBLIC KEY-----\n" + BODY,
    "-----BEGIN CERTIFICATE-----\n" + BODY, "-----BEGIN PRIVATE KEY-----\n...",
    'Enter the username "riley" and the password "Ku8" into the text fields and press login.',
    "I should put \"Ku8\" in the password field", "maybe \"Password\" is what I need", "Password:",
    "Password: required", "Password: must be at least 8 characters", "password: 8-20 characters",
    "Password: Forgot your password?", "password: ********", "password: ••••••••", "password=<password>",
    "password: ${DB_PASSWORD}", "pwd: /srv/data1", "password=getpass(1)", "password = os.environ['PASSWORD1']",
    "password: Optional[str2]", "password=self.form1.value", "#password:nth-child(2)", "input[type=password]:focus1",
    "#password:hover", 'type="password" name="password"', '"password": "string"', '"password": {"type": "string"}',
    '"password": "The password of user 1"', '"password": ""', '"password": "#password-field1"',
    "password reset for user 12345", "Passwords: 1024 stolen", "https://host:8080/a@b", "https://user:password@host/",
    "https://user:${TOKEN}@host/", "https://a.b/c?key=value", "https://a.b/c?key=chart-2024-overview-of-all",
    "https://a.b/c?page_token=CAUQAA12345678901234", "https://a.b/c?token=<your-token-here-123>",
    "https://a.b/?tokens=12345678901234567", "monkey=0123456789abcdef0123",
    "api_key: config/settings/v2-default.json", "api_key=os.environ.get('X')", "secret: the answer is 42",
    "Bearer of bad news, 1234567890", '{"text": "Go", "label": "Password"}', '{"text": "Log in", "label": "Password"}',
    "https://user:redacted-url-credentials@gmail.com/", "[redacted e-mail address]", "password: [redacted password]",
    "1.2.3.4:5678", "12:30:45 2026-01-02T03:04:05Z", "a" * 5000, "",
]  # fmt: skip


@pytest.mark.parametrize(("kind", "before", "secret", "after"), PLANTED)
def test_planted(kind: str, before: str, secret: str, after: str) -> None:
    text = before + secret + after
    (found,) = findings(text)
    assert found.kind == kind
    assert text[found.start : found.end] == secret
    assert secret not in found.shown
    assert len(found.shown) < 50
    in_json = json.dumps(f"\n{text}\n")
    (again,) = findings(in_json)
    assert again.kind == kind
    assert json.loads(f'"{in_json[again.start : again.end]}"').strip() == secret


def test_there_are_enough_cases() -> None:
    assert len(PLANTED) >= 50
    assert len(CLEAN) >= 90


@pytest.mark.parametrize("text", CLEAN, ids=lambda text: text[:40])
def test_clean(text: str) -> None:
    assert list(findings(text)) == []
    assert list(findings(f'"{text}"')) == []
    assert list(findings(json.dumps({"text": f"\n{text}\n"}))) == []


def test_every_kind_can_be_redacted_by_one_word() -> None:
    kinds = {rule.kind for rule in RULES}
    assert kinds == {kind for kind, *_ in PLANTED}
    assert {kind: [name for name, group in GROUPS.items() if kind in group] for kind in kinds} == {
        kind: ["addresses" if kind == "e-mail address" else "secrets"] for kind in kinds
    }
    assert frozenset().union(*GROUPS.values()) == kinds


def test_several_in_one_text_come_in_order_without_overlap() -> None:
    text = f"a@b.com token=hf_{LETTERS} https://u:pw1234@c.com/?password=hunter2 password: hf_{LETTERS}"
    found = list(findings(text))
    assert [f.kind for f in found] == [
        "e-mail address", "Hugging Face token", "URL credentials", "URL parameter", "Hugging Face token"
    ]  # fmt: skip
    assert all(first.end <= second.start for first, second in itertools.pairwise(found))


def test_the_bundled_example_is_clean() -> None:
    """Its logins are made up by the benchmark and stand in prose; a gate that stopped there would be switched off."""
    files = sorted((Path(__file__).parents[2] / "examples" / "miniwob").rglob("*.*"))
    texts = [file.read_text("utf-8") for file in files if file.suffix in (".jsonl", ".yaml", ".md")]
    assert sum(text.lower().count("password") for text in texts) > 30
    assert [found for text in texts for found in findings(text)] == []


HOSTILE = [
    "a", "hf_", "hf_a", "sk-", "sk-a-", "eyJ", "eyJaaaaaaaaaaaa.", " eyJaaaaaaaaaaa.eyJaaaaaaaaaaaa", "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN A PRIVATE KEY----- ", "://", "://a:", "://a:b", "a://b@", "?token=",
    "&token=a", "?key=1", "password", "password:", "password   :   ", 'password="a', "password\\\\\\\\", "pass",
    "type=password ", "type=password value", 'password","text":"', "a@", "a@a.", "@", "a.", " a@b.c.d.e.f.g.h.i.j.1",
    "a%40", "bearer ", "secret", "secret=", "\\", "\\n", '"', "-", "secret=a/", "=", "•",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_takes_long(piece: str) -> None:
    """A megabyte of what a pattern begins with, and of what it goes on with; backtracking would take hours."""
    many = piece * (1_000_000 // len(piece))
    part = many[:200_000]
    started = time.process_time()
    for text in (many, f"password={part}", f"https://u:{part}", f"hf_{part}", f"x@{part}", f"eyJ{part}.eyJ"):
        for _ in findings(text):
            pass
    assert time.process_time() - started < 10
