"""The shape of a catalogue entry."""

from attrs import frozen


@frozen
class Entry:
    """A code's long form: `title` in a few words, `explanation` says why and what to do, `example` provokes it."""

    code: str
    title: str
    explanation: str
    example: str = ""
