"""Whose tags the embedded server has seen, so that a scripted leak gives away another conversation's real tag."""

from __future__ import annotations

from infermaxx_tui.sim.reading import Reading


class Family:
    """The tags that stood in prompts together: one conversation."""

    def __init__(self) -> None:
        self.tags: dict[str, str] = {}
        """Label to tag."""
        self.prompts = 0
        """Main-line prompts that held them."""
        self.in_flight = 0
        """Requests of this conversation that are being served."""
        self.last_seen_s = 0.0
        """When its latest request ended."""


class Memory:
    """All conversations that were ever served, as families of tags."""

    def __init__(self) -> None:
        self._by_tag: dict[str, Family] = {}
        self.first: dict[str, str] = {}
        """Label to tag of the first prompt that held any: an earlier run's, where a client planted one."""

    def meet(self, reading: Reading) -> Family | None:
        """The conversation of a prompt, None if it holds no tag that is known.

        Only main-line prompts teach tags: a question's own branch may hold a sentinel that nobody else ever sees.
        """
        tags = {label: told.tag for label, told in reading.told.items()}
        if not tags:
            return None
        self.first = self.first or tags
        known = [self._by_tag[tag] for tag in tags.values() if tag in self._by_tag]
        if reading.question is not None:
            return known[0] if known else None
        family = known[0] if known else Family()
        for other in known[1:]:
            if other is not family:
                self._merge(other, family)
        family.tags.update(tags)
        family.prompts += 1
        for tag in tags.values():
            self._by_tag[tag] = family
        return family

    def others(self, own: Family | None) -> list[Family]:
        """Conversations other than `own`; one that made a single request is none, but a warm-up."""
        found: dict[int, Family] = {}
        for family in self._by_tag.values():
            if family is not own and family.prompts >= 2:
                found[id(family)] = family
        return list(found.values())

    def _merge(self, other: Family, into: Family) -> None:
        into.tags.update(other.tags)
        into.prompts += other.prompts
        into.in_flight += other.in_flight
        for tag in other.tags.values():
            self._by_tag[tag] = into
