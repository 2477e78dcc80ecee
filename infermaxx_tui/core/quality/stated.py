"""What a sentence states: a chatty model that says `The remainder is 181.` has answered, although no line marks it.

Nothing is guessed: a value counts only where it ends the sentence right behind the word that states it, and a sentence
that denies, compares, doubts or takes back states nothing.
"""

from __future__ import annotations

import re
from typing import Final

_STATES: Final = re.compile(
    r"(?:\b(?:is|are|equals|be|gives|prints|returns|outputs|yields|it's)\b|=|->|→|⇒|:(?=[\s*]))"
    r"(?: *(?:equal to|therefore|thus|then|exactly|simply|called|named)\b)? *",
    re.IGNORECASE,
)
_DOUBTS: Final = re.compile(
    r"\b(?:not|\w+n't|n't|never|neither|nor|or|either|if|unless|than|cannot|wrong|incorrect|false|maybe|perhaps|might|"
    r"could|should|wait|actually|correction|mistake|instead|oops|hmm|no|but|however|almost|nearly|between)\b",
    re.IGNORECASE,
)
_TAKES_BACK: Final = re.compile(
    r"\b(?:wait|actually|correction|mistaken?|instead|oops|hmm|wrong|incorrect|let me (?:re)?(?:check|do|think))\b",
    re.IGNORECASE,
)
_COUNTS: Final = re.compile(
    r"\d|\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundred|thousand|million|"
    r"twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|half|dozen)(?:-\w+)?\b",
    re.IGNORECASE,
)
_REMARK: Final = re.compile(r"(?P<value>.+?)(?P<remark>(?:\.\s|!\s|,?\s+(?:because|since|as)\b|\s*\().*)", re.DOTALL)


def stated(sentence: str) -> str | None:
    """What stands behind the last word that states something; None if the sentence states nothing for certain."""
    if _DOUBTS.search(sentence) or sentence.rstrip("*_`\"' ").endswith("?"):
        return None
    found = list(_STATES.finditer(sentence))
    return sentence[found[-1].end() :].strip() or None if found else None


def taken_back(rest: str) -> bool:
    """Whether the text behind an answer takes it back or doubts it."""
    return _TAKES_BACK.search(rest) is not None


def without_remark(line: str) -> str:
    """A number's line without the remark behind it, if that speaks of no other number and doubts nothing."""
    found = _REMARK.fullmatch(line)
    if found is None or _COUNTS.search(found["remark"]) or _DOUBTS.search(found["remark"]):
        return line
    return found["value"]
