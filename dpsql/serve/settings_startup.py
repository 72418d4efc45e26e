"""Read the settings that a client asks for in the `options` of its startup packet."""

from __future__ import annotations

from dpsql.serve.settings_table import SettingError


def read_options(text: str) -> dict[str, str]:
    r"""Read the `options` of a startup packet: `-c name=value` and `--name=value`; `\ ` stands for a space.

    >>> read_options("-c dp_epsilon=0.5 --search-path=public")
    {'dp_epsilon': '0.5', 'search_path': 'public'}
    """
    found: dict[str, str] = {}
    words = iter(_split(text))
    for word in words:
        if word == "-c":
            name, separator, value = next(words, "").partition("=")
        elif word.startswith("--"):
            name, separator, value = word[2:].partition("=")
            name = name.replace("-", "_")
        elif word.startswith("-c"):
            name, separator, value = word[2:].partition("=")
        else:
            name, separator, value = "", "", ""
        if not (name and separator):
            raise SettingError(
                f'invalid command-line argument for server process: "{word[:63]}"', "42601", "-c name=value"
            )
        found[name] = value
    return found


def _split(text: str) -> list[str]:
    """Split at spaces that have no backslash before them."""
    words: list[str] = []
    current: list[str] = []
    escaped = False
    for c in text:
        if escaped:
            current.append(c)
            escaped = False
        elif c == "\\":
            escaped = True
        elif c.isspace():
            words += ["".join(current)] if current else []
            current = []
        else:
            current.append(c)
    return words + (["".join(current)] if current else [])
