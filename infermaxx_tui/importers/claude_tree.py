"""Lay a Claude Code tree out as the line of messages that was really sent, window by window.

A session file is a tree: rewinds and retries branch, hooks and attachments stand in the chain of parents, parents can
be missing, and a compaction begins anew with a summary and perhaps some messages carried over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

from infermaxx_tui.importers.claude_records import Node


class Segment(NamedTuple):
    """The nodes of one window, in the order in which they were sent."""

    reason: Literal["start", "compaction", "clear"]
    nodes: tuple[Node, ...]
    carried: frozenset[str] = frozenset()
    """Uuids of the nodes that a compaction carried over: part of the first prompt, not requests of this window."""


def segments(nodes: list[Node], loss: Counter[str]) -> tuple[Segment, ...]:
    """The windows of one conversation, oldest first.

    Every root of the file begins a window of its own. Inside one tree the path runs from the last message to the root;
    it follows `logicalParentUuid` across compactions, and file order where a parent was never written.
    """
    tree = _Tree(nodes, loss)
    out: list[Segment] = []
    for component in tree.components():
        leaf = next((node for node in reversed(component) if node.kind in {"user", "assistant"}), None)
        if leaf is not None:
            out.extend(tree.windows(leaf, first="clear" if out else "start"))
    return tuple(out)


class _Tree:
    def __init__(self, nodes: list[Node], loss: Counter[str]) -> None:
        self._nodes = nodes
        self._by_uuid = {node.uuid: node for node in nodes}
        self._before = {node.uuid: before for before, node in pairwise(nodes)}
        self._boundaries = [node for node in nodes if node.kind == "boundary"]
        self._loss = loss
        self._parents: dict[str, Node | None] = {node.uuid: self._parent(node) for node in nodes}

    def _parent(self, node: Node) -> Node | None:
        before = self._before.get(node.uuid)
        if node.parent is None:
            return before if node.summary else None
        parent = self._by_uuid.get(node.parent)
        if parent is None or (node.kind == "boundary" and parent.at > node.at):
            self._loss["broken_parent"] += 1
            return before
        return parent

    def components(self) -> list[list[Node]]:
        """The nodes of each tree in file order, the trees in the order of their first node."""
        roots: dict[str, str] = {}
        out: dict[str, list[Node]] = {}
        for node in self._nodes:
            trail: list[str] = []
            here: Node | None = node
            while here is not None and here.uuid not in roots and here.uuid not in trail:
                trail.append(here.uuid)
                here = self._parents[here.uuid]
            root = roots.get(here.uuid, here.uuid) if here is not None else trail[-1]
            roots.update(dict.fromkeys(trail, root))
            out.setdefault(root, []).append(node)
        return list(out.values())

    def windows(self, leaf: Node, first: Literal["start", "clear"]) -> list[Segment]:
        """The windows on the way from the root to a leaf, oldest first."""
        out: list[Segment] = []
        here: Node | None = leaf
        while here is not None:
            boundary = self._last_boundary(here)
            links = self._carry_links(boundary)
            path, opened = self._walk(here, links)
            carried: tuple[Node, ...] = ()
            if boundary is not None and opened is boundary:
                carried = self._carried(boundary)
                path = self._with_carried(path, carried, boundary)
            reason = "compaction" if opened is not None else first
            out.append(Segment(reason, tuple(path), frozenset(node.uuid for node in carried)))
            here = self._parents[opened.uuid] if opened is not None else None
            if opened is not None and here is not None and here.at > opened.at:
                here = self._before.get(opened.uuid)
        return out[::-1]

    def _walk(self, leaf: Node, links: dict[str, Node]) -> tuple[list[Node], Node | None]:
        """The path to a leaf from the node that opened its window (None: from a root), that node included."""
        path: list[Node] = []
        seen: set[str] = set()
        here: Node | None = leaf
        while here is not None and here.uuid not in seen:
            seen.add(here.uuid)
            path.append(here)
            parent = links.get(here.uuid) or self._parents[here.uuid]
            if here.kind == "boundary" or (here.summary and (parent is None or parent.kind != "boundary")):
                return path[::-1], here
            here = parent
        return path[::-1], None

    def _last_boundary(self, node: Node) -> Node | None:
        return next((b for b in reversed(self._boundaries) if b.at < node.at), None)

    def _anchor(self, boundary: Node) -> Node:
        """The node that carried messages come after: the named one, else the summary, else the boundary itself."""
        named = self._by_uuid.get(boundary.preserved.anchor)
        summaries = (n for n in self._nodes if n.summary and self._parents[n.uuid] is boundary)
        return named or next(summaries, boundary)

    def _carried(self, boundary: Node) -> tuple[Node, ...]:
        """The messages that a compaction carried over, in order."""
        keep = boundary.preserved
        if keep.uuids:
            return tuple(self._by_uuid[uuid] for uuid in keep.uuids if uuid in self._by_uuid)
        tail = self._by_uuid.get(keep.tail)
        chain = list(self._back(tail, keep.head)) if tail is not None and keep.head in self._by_uuid else []
        if not chain or chain[-1].uuid != keep.head:
            self._loss["preserved_lost"] += bool(keep.head or keep.tail)
            return ()
        return tuple(chain[::-1])

    def _back(self, tail: Node, head: str) -> Iterator[Node]:
        seen: set[str] = set()
        here: Node | None = tail
        while here is not None and here.uuid not in seen:
            seen.add(here.uuid)
            yield here
            here = None if here.uuid == head else self._parents[here.uuid]

    def _carry_links(self, boundary: Node | None) -> dict[str, Node]:
        """Parents that hold after a compaction: carried messages hang below the anchor, one below another."""
        if boundary is None or not (boundary.preserved.head or boundary.preserved.uuids):
            return {}
        lost = self._loss["preserved_lost"]
        carried = self._carried(boundary)
        self._loss["preserved_lost"] = lost
        above = [self._anchor(boundary), *carried]
        return {node.uuid: parent for parent, node in pairwise(above)}

    def _with_carried(self, path: list[Node], carried: tuple[Node, ...], boundary: Node) -> list[Node]:
        """The path with the carried messages after their anchor, where the parents do not lead through them."""
        if not carried or carried[0] in path:
            return path
        anchor = self._anchor(boundary)
        place = path.index(anchor) + 1 if anchor in path else 1
        return [*path[:place], *carried, *path[place:]]
