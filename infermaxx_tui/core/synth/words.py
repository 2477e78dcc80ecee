"""Words that names and sentences are built from, and the names of one imagined project."""

from __future__ import annotations

from infermaxx_tui.core.synth.draw import Draw

_LISTS = {
    "verb": """add apply assign attach batch bind build cancel check claim clear close collect commit compare compute
        convert copy count decode defer deliver detach discard drain drop emit encode enqueue ensure evict expand
        export extend fetch filter find finish flush fold format freeze gather guard handle hash import index infer
        insert inspect join keep lease limit link list load lock log map mark match measure merge migrate move name
        normalise notify open order pack parse patch pause plan poll prepare print promote prune publish pull push
        queue read rebuild record recover reduce refresh reject release reload remove rename render repair replace
        replay report request reserve reset resolve restart restore resume retry return revoke roll rotate route run
        sample scan schedule seal select send settle share shrink sign skip sort split start stop store stream strip
        submit sum swap sync tag take test tick trace track transfer trim unpack update validate verify wait walk warm
        watch wrap write""",
    "noun": """account address agent alarm answer archive argument array asset audit backlog balance bank bar basket
        batch beacon bill block board body book bound branch bridge bucket buffer build bundle bus cache call card
        cargo case cell chain change channel chart check chunk claim client clock cluster code column commit config
        contract copy cost counter course credit cursor customer cycle day deadline delta depot depth device digest
        disk document domain draft driver edge entry epoch error event export factor feed field file filter flag fleet
        flow folder form frame gate gauge grant graph grid group guard handle harbour header history hook host image
        index invoice item job journal key label lane layer lease ledger level limit line link list loader lock log
        manifest map margin marker matrix member menu message meter method metric mirror mode module monitor name node
        note notice number object offer offset option order owner package packet page pair parcel part partner path
        payload period permit phase pipe place plan point policy pool port portion prefix price probe process product
        profile project prompt proxy queue quota quote range rate ratio reader record region register relay reply
        report request reserve result retry return review role room root route row rule run sample schedule schema
        scope score season seat section segment series service session shard sheet shelf shift signal site slice slot
        snapshot socket source span stage stamp state station step stock store stream string summary switch table tag
        target task team tenant term ticket tile timer token topic total trace track trade trail tree trip unit update
        user value vault vector vendor version view voucher warehouse watch weight window worker zone""",
    "adjective": """active actual ancient available average base blank bounded brief broken broad cached central
        chosen clean closed cold common complete constant correct current daily damaged dense direct dirty distant
        double dry due early eager empty equal even exact expected external extra fair fast final first fixed flat
        foreign free frequent fresh full general global half hidden high hot idle inner internal known large last late
        lazy least legal linear live local lone long loose lost low main manual many maximal mean minimal missing mixed
        native near nested new next noisy old only open outer own partial past pending plain possible previous primary
        private proper public quick quiet random rare raw ready real recent regular related relative remote safe same
        secondary separate shared short silent simple single slow small soft spare sparse stable stale static steep
        still strict strong sudden tight tiny total true typed unique unknown unread unused upper usual valid vast
        visible warm weak whole wide""",
    "adverb": """again almost alone already also always apparently barely carefully clearly directly early easily
        elsewhere entirely eventually exactly fully gradually hardly here immediately indeed instead largely later
        mainly merely mostly nearly never normally now obviously often once only partly perhaps plainly possibly
        probably quickly quietly rarely really roughly seldom simply slowly sometimes soon still strictly suddenly
        then there twice usually very""",
}
VERBS, NOUNS, ADJECTIVES, ADVERBS = (tuple(_LISTS[kind].split()) for kind in ("verb", "noun", "adjective", "adverb"))
TYPES = ("int", "str", "float", "bool", "bytes", "list[str]", "list[int]", "dict[str, int]", "dict[str, str]", "object")
SUFFIXES = ("py", "py", "py", "ts", "ts", "go", "toml", "yaml", "md", "json", "sql", "sh")


def snake(draw: Draw) -> str:
    """A name such as `stale_lease_count`."""
    parts = [draw.pick(NOUNS)]
    if draw.chance(0.6):
        parts.insert(0, draw.pick(ADJECTIVES))
    if draw.chance(0.4):
        parts.append(draw.pick(NOUNS))
    return "_".join(parts)


def function(draw: Draw) -> str:
    """A name such as `drain_idle_queue`."""
    return f"{draw.pick(VERBS)}_{snake(draw)}"


def camel(name: str) -> str:
    """`drain_idle_queue` as `drainIdleQueue`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def title(draw: Draw) -> str:
    """A name such as `StaleLeaseCount`."""
    return "".join(part.capitalize() for part in snake(draw).split("_"))


def path(draw: Draw) -> str:
    """A relative path such as `src/harbour/lease_pool.py`."""
    top = draw.pick(("src", "lib", "tests", "tools", "internal", "packages"))
    deep = "/".join(draw.pick(NOUNS) for _ in range(draw.between(1, 2)))
    return f"{top}/{deep}/{snake(draw)}.{draw.pick(SUFFIXES)}"


def hexes(draw: Draw, digits: int) -> str:
    """That many hexadecimal digits."""
    return "".join(draw.pick("0123456789abcdef") for _ in range(digits))
