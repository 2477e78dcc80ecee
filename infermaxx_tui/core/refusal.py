"""Tells a model that declines to say a lot tag from one that says it has none: the first says nothing about memory."""

from __future__ import annotations

import re
from typing import Final

_DECLINES: Final = re.compile(
    r"\b(?:can't|cannot|can not|won't|will not|unable to|not able to|not allowed to|not permitted to|must not|"
    r"shouldn't|should not|not authori[sz]ed to|refuse to|decline to|not comfortable|not going to)\s(?:\w+\s){0,3}?"
    r"(?:share|sharing|disclose|disclosing|reveal|divulge|provide|providing|give|tell|discuss|help|assist|comply|"
    r"answer|fulfil|fulfill|release|repeat|output|expose)\b"
)
_POLICY: Final = re.compile(
    r"\bconfidential|\bsensitive (?:information|data)|\bprivate information|\bprivacy|\bsecurity (?:reasons|polic)|"
    r"\bagainst (?:my|the|our) (?:polic|guideline)|\bhave permission|\bnot authori[sz]ed|\bproprietary"
)
_UNAWARE: Final = re.compile(
    r"(?:\bnot|n't)(?: \w+){0,2}? (?:given|told|provided|mentioned|specified|stated|found|present|included|available|"
    r"shown|recorded|listed|aware|sure|certain|contain|mention|specify|include)\b"
    r"|(?:\bdo not|\bdoes not|don't|doesn't|\bdidn't|\bdid not)(?: \w+)? "
    r"(?:have(?! permission)|know|see|recall|remember|find)\b"
    r"|\bno (?:\w+ )?(?:lot tag|tag|record|mention|information|data|memory|entry|such)\b"
    r"|(?:can't|cannot|couldn't|could not|unable to|not able to) (?:find|locate|recall|remember|see|determine|retrieve|"
    r"identify|access)\b|\bforgot"
)


def refuses(text: str) -> bool:
    """Whether a reply without a tag declines to tell it, and does not say that it has none.

    English phrases only. What is not recognised counts as no refusal, so a miss is never excused by mistake.
    """
    said = " ".join(text.casefold().replace("\u2019", "'").split())
    declines, policy = _DECLINES.search(said), _POLICY.search(said)
    if declines and policy:
        return True
    return bool(declines or policy) and not _UNAWARE.search(said)
