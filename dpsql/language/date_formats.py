"""Read formats of dates of other dialects as those of strftime; none that pad or depend on a locale."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping


def _convert_to_char(text: str) -> str | None:
    """Return PostgreSQL's format as strftime's; None if a code pads or depends on the locale."""
    names = re.sub("FMMonth|FMDay|Mon|Dy", "", text)
    if re.search("MON|DAY|DY", names, re.IGNORECASE):
        return None
    return _convert(text, rf"FMMonth|FMDay|Mon|Dy|{_CODES}", _TO_CHAR)


def _convert_to_upper_char(text: str) -> str | None:
    """Return PostgreSQL's format with names in capitals as strftime's, whose result is put into capitals.

    >>> _convert_to_upper_char("MON-YYYY"), _convert_to_upper_char("MON yyyy 'x'")
    ('%b-%Y', None)
    """
    if any(char.islower() for char in text) or not re.search("MON(?!TH)|DY|FMMONTH|FMDAY", text):
        return None
    return _convert(text, rf"FMMONTH|FMDAY|MON|DY|{_CODES}", _TO_CHAR)


def _convert_date_format(text: str) -> str | None:
    """Return MySQL's or Java's format as strftime's; None if a code pads or depends on the locale."""
    if "%" in text:
        return _convert(text, "%.|.", _MYSQL, case=True)
    return _convert(text, "'[^']*'|([A-Za-z])\\1*|.", _JAVA, case=True)


def _convert_strftime(text: str) -> str | None:
    """Return the format if its codes are digits, the same in all dialects."""
    return _convert(text, "%.|.", _STRFTIME, case=True)


_CODES = r'IYYY|YYYY|SSSS+|HH24|DDD|IW|YY|MM|DD|MI|SS|"[^"]*"|[A-Z]+|.'
_TO_CHAR = {"YYYY": "%Y", "YY": "%y", "MM": "%m", "DD": "%d", "HH24": "%H", "MI": "%M", "SS": "%S"}
_TO_CHAR |= {"DDD": "%j", "IYYY": "%G", "IW": "%V"}
_TO_CHAR |= {"MON": "%b", "DY": "%a", "FMMONTH": "%B", "FMDAY": "%A"}
_JAVA = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "DDD": "%j"}
_STRFTIME = {f"%{c}": f"%{c}" for c in "YmdHMSyjGV"} | {"%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%%": "%%"}
_MYSQL = {**_STRFTIME, "%i": "%M", "%s": "%S", "%M": None, "%G": None, "%V": None, "%F": None}


def _convert(text: str, pattern: str, codes: Mapping[str, str | None], *, case: bool = False) -> str | None:
    out = []
    for match in re.finditer(pattern, text, re.DOTALL if case else re.DOTALL | re.IGNORECASE):
        word = match[0] if case else match[0].upper()
        if word in codes:
            code = codes[word]
            if code is None:
                return None
            out.append(code)
        elif len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
            out.append(match[0][1:-1].replace("%", "%%"))
        elif len(word) == 1 and not word.isalpha() and word != "%":
            out.append(word)
        else:
            return None
    return "".join(out)


FORMATS: Mapping[str, Callable[[str], str | None]] = {
    "TO_CHAR": _convert_to_char,
    "TO_CHAR_UPPER": _convert_to_upper_char,
    "DATE_FORMAT": _convert_date_format,
    "STRFTIME": _convert_strftime,
}
