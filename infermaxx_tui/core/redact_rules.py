"""What must not leave the machine, as patterns: keys of known services, passwords beside their names, who and where.

Written for this program from what the services say of their keys' shape (families: transcripts.md §6). Prefixed keys
have no left border on purpose: what stands before one may be the `n` of an escaped line end.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

FIRST = "[redacted"
"""How each placeholder begins; no rule takes one for a value."""


class Rule(msgspec.Struct, frozen=True):
    """One pattern; what its group 1 matches goes, or all of it where it has no group."""

    kind: str
    pattern: re.Pattern[str]
    needles: tuple[str, ...] = ()
    """Every match holds one of these, in lower case: a text without them need not be searched."""


_KEYS: Final = {
    "api-key": r"(?:sk-(?:ant|proj|svcacct|admin|or-v1|lf)-|(?:(?<![a-z])|(?<=\\[nrt]))[sr]k-)"
    r"(?=[A-Za-z_-]{0,80}[0-9])[A-Za-z0-9_-]{20,}",
    "stripe": r"(?:[srp]k_(?:live|test)_|whsec_)[A-Za-z0-9+/=]{12,}",
    "hugging-face": r"(?:hf|api_org)_[A-Za-z0-9]{20,}",
    "github": r"(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
    "gitlab": r"gl(?:pat|dt|rt|soat|ptt|cbt)-[A-Za-z0-9_.-]{16,}",
    "aws": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
    "google": r"(?:AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})",
    "slack": r"(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,})",
    "slack-hook": r"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{20,})",
    "npm": r"npm_[A-Za-z0-9]{30,}",
    "pypi": r"pypi-(?=[A-Za-z_-]{0,80}[0-9])[A-Za-z0-9_-]{30,}",
    "nvidia": r"nvapi-[A-Za-z0-9_-]{30,}",
    "groq": r"gsk_[A-Za-z0-9]{30,}",
    "replicate": r"r8_[A-Za-z0-9]{30,}",
    "sendgrid": r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    "digitalocean": r"do[opr]_v1_[a-f0-9]{40,}",
    "databricks": r"dapi[a-f0-9]{32}",
    "telegram": r"[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}",
    "age": r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
    "jwt": r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
}
_NAMED = r"pass(?:word|wd|phrase)|secret|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?token|access[_-]?token"
_VALUES: Final = {
    "private-key": r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*-----|\Z)",
    "authorization": r"(?i:\bauthorization\b[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token|digest)?\s*)"
    r"([A-Za-z0-9._~+/=-]{8,})",
    "bearer": r"(?i:\bbearer\s+)([A-Za-z0-9._~+/=-]{16,})",
    "header": r"(?i:\bx-[a-z-]*(?:key|token|secret)[\"']?\s*[:=]\s*[\"']?)([^\s\"',;\[\]{}]{6,})",
    "url-login": r"\b[a-z][a-z0-9+.-]{0,20}://([^\s/:@\"'\[\]]+:[^\s/@\"'\[\]]+)@",
    "variable": r"\b[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|DSN)(?:_[A-Z0-9]+)*"
    r"[\"']?[ \t]*[=:][ \t]*[\"']?([^\s\"'$<{(\[,;][^\s\"',;]{5,})",
    "password": rf"(?i:\b[a-z0-9_]*(?:{_NAMED})\\?[\"']?\s*[:=]\s*\\?[\"'])([^\"'\s\\\[]{{6,}})",
}
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_WHO: Final = {
    "e-mail": r"(?<![A-Za-z0-9._%+/\\-])([A-Za-z0-9][A-Za-z0-9._%+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,})",
    "home": rf"(?:/home/|/Users/|[A-Za-z]:(?:\\{{1,4}}|/)(?:Users|Documents and Settings)(?:\\{{1,4}}|/))({_NAME})",
    "dashed-home": r"(?<![A-Za-z0-9])-(?:home|Users)-([A-Za-z0-9_.]+)(?=-|\b)",
    "tilde": r"(?<![\w/~.^-])~([a-z_][a-z0-9_-]{2,})(?=/)",
    "prompt-user": r"(?m:^|[\s(\[])([a-z_][a-z0-9_-]{2,})@[A-Za-z][A-Za-z0-9-]*:(?=[~/])",
    "prompt-host": r"(?m:^|[\s(\[])[a-z_][a-z0-9_-]{2,}@([A-Za-z][A-Za-z0-9-]*):(?=[~/])",
    "host": r"\b((?:[A-Za-z0-9-]{1,63}\.){1,8}"
    r"(?:internal|corp|intra|intranet|lan|local|localdomain|home\.arpa|private))\b(?!\()",
    "ip": rf"(?<![\w.])((?:{_BYTE}\.){{3}}{_BYTE})(?!\w|\.[0-9])",
    "mac": r"(?<![\w:])((?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2})(?![\w:])",
    "remote": r"\bgit@[\w.-]+:([\w.-]+/[\w.-]+)",
}


_NEEDLES: Final[dict[str, tuple[str, ...]]] = {
    "api-key": ("sk-", "rk-"),
    "stripe": ("_live_", "_test_", "whsec_"),
    "hugging-face": ("hf_", "api_org_"),
    "github": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    "gitlab": ("glpat-", "gldt-", "glrt-", "glsoat-", "glptt-", "glcbt-"),
    "aws": ("akia", "asia", "abia", "acca"),
    "google": ("aiza", "ya29.", "gocspx-"),
    "slack": ("xox", "xapp-"),
    "slack-hook": ("hooks.slack",),
    "npm": ("npm_",),
    "pypi": ("pypi-",),
    "nvidia": ("nvapi-",),
    "groq": ("gsk_",),
    "replicate": ("r8_",),
    "sendgrid": ("sg.",),
    "digitalocean": ("_v1_",),
    "databricks": ("dapi",),
    "telegram": (":aa",),
    "age": ("age-secret",),
    "jwt": ("eyj",),
    "private-key": ("private key",),
    "authorization": ("authorization",),
    "bearer": ("bearer",),
    "header": ("x-",),
    "url-login": ("://",),
    "variable": ("key", "token", "secret", "passw", "credential", "dsn"),
    "password": ("pass", "secret", "key", "token"),
    "e-mail": ("@",),
    "home": ("/home/", "users", "documents and"),
    "dashed-home": ("-home-", "-users-"),
    "tilde": ("~",),
    "prompt-user": ("@",),
    "prompt-host": ("@",),
    "host": (".internal", ".corp", ".intra", ".lan", ".local", ".home.arpa", ".private"),
    "remote": ("git@",),
}


def _rules(table: dict[str, str]) -> tuple[Rule, ...]:
    return tuple(Rule(kind, re.compile(pattern), _NEEDLES.get(kind, ())) for kind, pattern in table.items())


KEYS, VALUES, WHO = _rules(_KEYS), _rules(_VALUES), _rules(_WHO)

NAMES: Final = ("user", "someone", "u", "the_user", "some_user_name", "usr", "nobody_known", "x")
"""What stands for a person's or a host's name: the first that has as many tokens."""
STANDS_FOR: Final[dict[str, tuple[str, ...]]] = {
    "e-mail": ("user@example.com", "u@example.org", "some.user@mail.example.com", "first.last.name@mail.example.org"),
    "home": NAMES,
    "dashed-home": ("user", "someone", "u", "the_user", "some_user_name", "usr", "nobody_known", "x"),
    "tilde": ("user", "someone", "usr", "the_user", "some_user_name", "nobody_known"),
    "name": NAMES,
    "prompt-user": ("user", "someone", "usr", "the_user", "some_user_name", "nobody_known"),
    "prompt-host": ("host", "somehost", "h", "the-host", "some-host-name", "hst", "host-x", "ho"),
    "host": ("host.example.com", "h.example.org", "some-host.site.example.com"),
    "ip": ("192.0.2.1", "192.0.2.10", "198.51.100.100", "203.0.113.7"),
    "mac": ("02:00:00:00:00:01", "02:00:5e:10:00:01"),
    "remote": ("owner/project", "owner/project.git", "some-owner/some-project"),
}
_COMMON = """root user users ubuntu debian dev developer admin app runner node home test tests public shared guest
    default www data daemon git nobody localhost host server docker vagrant ec2-user linuxbrew name username you me
    example someone your_name code main build work workspace src the opt"""
COMMON: Final = frozenset(_COMMON.split()) | {name for names in STANDS_FOR.values() for name in names}
"""Names that say nothing about anyone, and all that stands for others."""
_FREE_IP = re.compile(r"^(?:127|0|255|192\.0\.2|198\.51\.100|203\.0\.113)\.|^(?:8\.8\.[48]\.[48]|1\.1\.1\.1)$")
_FREE_MAIL = re.compile(
    r"(?i)^(?:git|noreply|no-reply)@|@(?:[a-z0-9-]+\.)*(?:example\.(?:com|org|net)|[a-z0-9-]+\.(?:py|js|ts))$"
)


def harmless_value(kind: str, value: str) -> bool:
    """Whether a match says nothing: a placeholder, a documentation address, a name that everybody has."""
    if value.startswith(FIRST):
        return True
    match kind:
        case "ip":
            return _FREE_IP.search(value) is not None
        case "e-mail":
            return _FREE_MAIL.search(value) is not None
        case "host" | "mac" | "remote":
            return value in STANDS_FOR[kind]
        case "home" | "dashed-home" | "tilde" | "prompt-user" | "prompt-host":
            return value.lower() in COMMON or value.startswith(".")
        case "variable":
            return value.isalpha() and value.lower() == value
        case _:
            return False
