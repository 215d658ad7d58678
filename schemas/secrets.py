"""Secrets and addresses in text: keys of well-known form, credentials in URLs, passwords beside their name, e-mail.

What a publisher wants to hear of before strangers read it, with as few false alarms as can be: a gate that cries wolf
is switched off. So a value counts only where its own form or the name beside it says what it is. The password of a task
in prose (``the password "Ku8"``, as synthetic benchmarks write it) and what is merely typed are not found; nor are
placeholders, names reserved for examples (RFC 2606), and words in the place of a value (``password: required``).

Every pattern takes linear time: quantifiers are possessive or bounded, and no match begins inside what another start
has read already. JSON is read as the text it is, so that quotes may be escaped and ``\\n`` may stand before a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One secret. ``start`` and ``end`` are its place in the text; ``shown`` describes it and never holds it."""

    kind: str
    start: int
    end: int
    shown: str

    def __str__(self) -> str:
        """``an e-mail address: …@…``; a list of rows or lines is made of these."""
        if self.kind.endswith("credentials"):
            return f"{self.kind}: {self.shown}"
        return f"{'an' if self.kind.startswith(('A', 'e', 'npm')) else 'a'} {self.kind}: {self.shown}"


@dataclass(frozen=True)
class _Rule:
    """A pattern whose group ``v`` is the secret. It is only tried on texts that hold one of ``hints`` (lower case)."""

    kind: str
    hints: Sequence[str]
    pattern: re.Pattern[str]
    counts: Callable[[str], bool]
    show: Callable[[re.Match[str]], str]


def findings(text: str) -> Iterator[Finding]:
    """Yield what ``text`` holds that should not be published, in the order of the text, without overlaps.

    Where two rules meet at one place the first of `RULES` names it.
    """
    found = [
        (match.start("v"), rank, match)
        for rank in _hinted(text)
        for match in RULES[rank].pattern.finditer(text)
        if RULES[rank].counts(match["v"])
    ]
    end = 0
    for start, rank, match in sorted(found, key=lambda item: item[:2]):
        if start >= end:
            end = match.end("v")
            yield Finding(RULES[rank].kind, start, end, RULES[rank].show(match))


def possible(text: str) -> bool:
    """Whether anything could be found in ``text``; most texts are done with when it says no."""
    return bool(_hinted(text))


def _hinted(text: str) -> set[int]:
    """The ranks of the rules that must be tried."""
    lower = text.lower()
    return {rank for common, hints in _HINTED if common in lower for hint, of in hints if hint in lower for rank in of}


# -- what is no secret ------------------------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(
    r"""x{5}|\*{3}|•|\.{3}|…|example|placeholder|redacted|changeme|dummy|your[_-]|
    \A(?:pass(?:word|wd|phrase)?|pwd|secret|token|null|none|true|false|undefined|string|text|hidden|required|optional|
    (?:current|new)-password|off|on)\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_REFERENCE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[#.$%{@/\[].*|https?:.*", re.DOTALL)  # code, selectors, links
_RESERVED = re.compile(
    r"(?:\A|\.)(?:example\.(?:com|org|net)|test|invalid|example|localhost|local|internal|lan|arpa)\Z", re.IGNORECASE
)
# What looks like the end of an address and is the end of a file's name (`icon@2x.png`).
_EXTENSIONS = re.compile(
    r"png|jpe?g|gif|svg|webp|avif|ico|bmp|s?css|html?|m?[jt]s|[jt]sx|vue|json|map|md|txt|xml|ya?ml|"
    r"pdf|zip|gz|tar|whl|csv|parquet|log|conf|lock|woff|ttf"
)
_MACHINES = re.compile(r"git|hg|svn|(?:do-?not|no-?)reply")


def _varied(value: str) -> bool:
    """Whether it could be a generated key whose prefix says so already: of many characters, and no placeholder."""
    return len(set(value)) >= 10 and not _PLACEHOLDER.search(value)


def _random(value: str) -> bool:
    """The same where it could also be words: with digits among the letters."""
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value) and _varied(value)


def _dense(value: str) -> bool:
    """The same where words with dashes would pass (``sk-circle-fade-2``): 16 letters and digits without a break."""
    return _random(value) and bool(re.search(r"[A-Za-z0-9]{16}", value))


def _chosen(value: str) -> bool:
    """Whether a value that must be one (between quotes, in a URL) is a password."""
    return any(c.isalnum() for c in value) and not _PLACEHOLDER.search(value) and not _REFERENCE.fullmatch(value)


def _guarded(value: str) -> bool:
    """The same where words may follow the name, in prose, code and on pages: not a word, not a word with a mark."""
    value = value.strip("*_.!?:#-")
    if value.isdigit():
        return len(value) >= 4
    signs = re.search(r"[0-9!@#$%^*?]", value) and re.search(r"[A-Za-z]", value)
    return len(value) >= 6 and bool(signs) and _chosen(value)


def _address(value: str) -> bool:
    local, _, domain = value.lower().replace("%40", "@").rpartition("@")
    return not (
        _RESERVED.search(domain)
        or _EXTENSIONS.fullmatch(domain.rpartition(".")[2])
        or _MACHINES.fullmatch(local)
        or local.startswith("redacted-")  # what a redaction left of a password before a host
        or domain == "users.noreply.github.com"
    )


# -- what is one ------------------------------------------------------------------------------------------------------

_START = r"(?:(?<=\\[nrt])|(?<![A-Za-z0-9])(?!(?<=\\)[nrt]))"  # of a word; in JSON a line may begin as `\nword`
_QUOTE = r"\\{0,8}[\"']"  # escaped in JSON, in JSON inside JSON
_PASSWORD = "password|passwd|passphrase|pwd"  # noqa: S105 - the name, not one
_KEY_WORDS = (("access", "token"), ("auth", "token"), ("refresh", "token"), ("api", "key"))
_KEY = "|".join(f"{word}[_-]?{last}" for word, last in _KEY_WORDS)
_KEY += "|client[_-]?secret|secret[_-]?access[_-]?key|secret[_-]?key|secret"
_KEY_HINTS = "|".join(  # "token" and "key" alone stand in every prompt
    ["secret", *(f"{word}{between}{last}" for word, last in _KEY_WORDS for between in ("", "_", "-"))]
)
_IN_URL = f"{_KEY}|token|sig|signature|x-amz-signature|x-goog-signature|x-amz-security-token"
_WORD = "[A-Za-z0-9_-]"
_PLAIN = r"[^\s\"'<>\\,;()\[\]{}|&`]"


def _rule(kind: str, hint: str, pattern: str, counts: Callable[[str], bool], show: str = "") -> _Rule:
    """``show`` is the text shown; without it, the name beside the value (group ``k``) is."""
    return _Rule(
        kind, hint.split("|"), re.compile(pattern, re.IGNORECASE), counts, lambda m: show or f"{m['k'].lower()}=…"
    )


def _named(names: str, value: str) -> str:
    """The pattern of ``name: value``, ``name=value``, ``"name": "value"``; ``value`` begins at an opening quote."""
    return rf"{_START}(?P<k>{names})(?:{_QUOTE})?[ \t]{{0,3}}(?::|=>|=(?!=))[ \t]{{0,3}}{value}"


def _argument(names: str, value: str) -> str:
    """The pattern of one argument of a call, in JSON or in code; ``value`` begins after its opening quote."""
    return rf"\s{{0,3}}(?:{_QUOTE})?(?:{names})(?:{_QUOTE})?\s{{0,3}}[:=]\s{{0,3}}{_QUOTE}{value}"


_FILLED = rf"(?P<v>[^\s\"'<>\\]{{3,128}}+){_QUOTE}"
_OTHERS = (  # at most three arguments in between
    rf"(?:\s{{0,3}}(?:{_QUOTE})?\w{{1,24}}(?:{_QUOTE})?\s{{0,3}}[:=]\s{{0,3}}"
    rf"(?:[\w.-]{{1,24}}|{_QUOTE}[^\"'<>\\]{{0,64}}{_QUOTE})\s{{0,3}},){{0,3}}?"
)


def _token(kind: str, prefix: str, rest: str, counts: Callable[[str], bool] = _varied) -> _Rule:
    """A key that begins with ``prefix`` where a word begins; the ``\\n`` of JSON may stand before it.

    The prefix comes first in the pattern and the look back after it: the search for plain text is fast.
    """
    literal = re.escape(prefix)
    before = rf"(?:(?<![A-Za-z0-9_-]{literal})|(?<=\\[nrt]{literal}))"
    pattern = re.compile(rf"(?P<v>{literal}{before}{rest})")
    return _Rule(kind, [prefix.lower()], pattern, counts, lambda m: f"{prefix}… ({len(m['v'])} characters)")


RULES: tuple[_Rule, ...] = (
    _rule(
        "private key",
        "private key",
        r"(?P<v>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?!-----)[^\"'<>])*+(?:-----END [A-Z0-9 ]{0,60}-----)?)",
        lambda value: bool(re.search(r"[A-Za-z0-9+/=]{32}", value)),
        "-----BEGIN … PRIVATE KEY-----",
    ),
    # Typed twice, the second begins within the first word, and would stay without its prefix.
    _token("Hugging Face token", "hf_", "[A-Za-z0-9]{30,}+(?:_[A-Za-z0-9]{30,}+)*+"),
    *(_token("GitHub token", f"gh{kind}_", "[A-Za-z0-9]{36,}+(?:_[A-Za-z0-9]{36,}+)*+") for kind in "pousr"),
    _token("GitHub token", "github_pat_", "[A-Za-z0-9_]{40,}+"),
    _token("GitLab token", "glpat-", rf"{_WORD}{{20,}}+"),
    _token("AI provider key", "sk-", rf"{_WORD}{{20,}}+", _dense),
    *(_token("Stripe key", f"{kind}k_live_", "[A-Za-z0-9]{20,}+") for kind in "sr"),
    *(_token("AWS key id", prefix, "[A-Z0-9]{16}(?![A-Za-z0-9])") for prefix in ("AKIA", "ASIA")),
    *(
        _token("Slack token", prefix, "[A-Za-z0-9-]{20,}+", _random)
        for prefix in (*(f"xox{c}-" for c in "abeoprs"), "xapp-")
    ),
    _token("Google key", "AIza", rf"{_WORD}{{35}}(?!{_WORD})"),
    _token("Google token", "ya29.", rf"{_WORD}{{20,}}+"),
    _token("npm token", "npm_", "[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _token("PyPI token", "pypi-AgE", rf"{_WORD}{{50,}}+"),
    _token("JSON web token", "eyJ", rf"{_WORD}{{10,}}+\.eyJ{_WORD}{{10,}}+\.{_WORD}{{16,}}+"),
    _rule(
        "URL credentials", "://", r"://[^\s/?#@:\"'<>\\]{0,128}+:(?P<v>[^\s/?#@\"'<>\\]{1,256}+)@", _chosen, "://…:…@"
    ),
    _rule("URL credentials", "://", r"://(?P<v>[A-Za-z0-9_.~-]{16,256}+)@", _random, "://…@"),
    _rule("URL parameter", "=", rf"(?:[?&#;]|\\u0026)(?P<k>{_IN_URL})=(?P<v>{_PLAIN}{{12,4096}}+)", _random),
    _rule("URL parameter", "key=", rf"(?:[?&#;]|\\u0026)(?P<k>key)=(?P<v>{_PLAIN}{{16,4096}}+)", _dense),
    _rule("URL parameter", "=", rf"(?:[?&]|\\u0026)(?P<k>{_PASSWORD})=(?P<v>{_PLAIN}{{3,256}}+)(?![(\[{{])", _chosen),
    _rule(
        "API key",
        _KEY_HINTS,
        _named(_KEY, rf"(?:{_QUOTE})?(?P<v>[A-Za-z0-9_./+=~-]{{16,4096}}+)(?!\()"),
        _dense,
    ),
    _rule("API key", "bearer ", _START + r"(?P<k>Bearer) {1,2}(?P<v>[A-Za-z0-9_./+=~-]{20,4096}+)", _random),
    _rule(
        "password",
        "passw|passphrase|pwd",
        _named(f"[a-z0-9]{{0,32}}(?:{_PASSWORD})", rf"{_QUOTE}(?P<v>[^\s\"'<>\\]{{3,128}}+)(?={_QUOTE})"),
        _chosen,
    ),
    _rule(
        "password",
        "passw|passphrase|pwd",
        _named(f"[a-z0-9]{{0,32}}(?:{_PASSWORD})", rf"(?P<v>{_PLAIN}{{4,128}}+)(?![(\[{{])"),
        _guarded,
    ),
    _rule(  # a field that a tool call fills: {"label": "Password", "text": "..."}, label="Password", text="..."
        "password",
        "password",
        rf"(?P<k>password){_QUOTE}\s{{0,3}},{_OTHERS}{_argument('text|value', _FILLED)}",
        _chosen,
    ),
    _rule(  # the same, the other way round
        "password",
        "password",
        rf"{_argument('text|value', _FILLED)}\s{{0,3}},{_OTHERS}{_argument('label|field', f'(?P<k>password){_QUOTE}')}",
        _chosen,
    ),
    _rule(  # the same field in a page's HTML
        "password",
        "password",
        rf"type=(?:{_QUOTE})?(?P<k>password)\b[^<>]{{0,200}}?\svalue={_QUOTE}(?P<v>[^\"'<>\\]{{3,128}}+)",
        _chosen,
    ),
    _rule(
        "e-mail address",
        "@|%40",
        _START + r"(?<![._+@-])(?P<v>[A-Za-z0-9._+-]{1,64}(?:@|%40)(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})"
        r"(?![A-Za-z0-9@(-])",
        _address,
        "…@…",
    ),
)

# Hint -> the rules that have it. Most texts hold none, and looking for them is most of the work: what several have in
# common is looked for first.
_HINTS = {hint: [n for n, rule in enumerate(RULES) if hint in rule.hints] for rule in RULES for hint in rule.hints}
_COMMON = {hint: next((c for c in ("xox", "_live_", "token", "api", "pass") if c in hint), hint) for hint in _HINTS}
_HINTED = [
    (common, [(hint, of) for hint, of in _HINTS.items() if _COMMON[hint] == common])
    for common in dict.fromkeys(_COMMON.values())
]

# What a dataset can declare to be redacted -> the kinds of findings it covers.
GROUPS: Mapping[str, frozenset[str]] = {
    "secrets": frozenset(rule.kind for rule in RULES) - {"e-mail address"},
    "addresses": frozenset({"e-mail address"}),
}
