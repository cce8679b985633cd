"""Text to rows of strings: which delimiter, how quotes work, what to do with rows of the wrong length."""

from tablekit.errors import ReadError

CANDIDATES = (",", "\t", ";", "|")
SAMPLE_LINES = 20


def read_rows(text, delimiter=None):
    """
    Return (header, rows): a list of column names and a list of rows of strings, all as long as the header.

    `delimiter` is found by `sniff` if it is not given. Blank lines are skipped. Raises ReadError for an empty input, for
    a repeated column name, for a row that is longer than the header and for a quote that is never closed.
    """
    text = text.removeprefix("\ufeff")
    delimiter = delimiter or sniff(text)
    records = list(split_records(text, delimiter))
    if not records:
        raise ReadError("the input is empty")
    (_, header), body = records[0], records[1:]
    header = [name.strip() for name in header]
    _check_header(header)
    return header, [_fit(row, len(header), line) for line, row in body]


def sniff(text):
    """
    Return the delimiter of `text`: the candidate that splits most of the first lines into the same number of fields.

    Ties go to the candidate named first in CANDIDATES; a text without any candidate is a table of one column, for which
    the comma is as good as any other.
    """
    lines = [line for line in text.splitlines()[:SAMPLE_LINES] if line.strip()]
    best, best_score = ",", (0, 0)
    for candidate in CANDIDATES:
        counts = [_count_outside_quotes(line, candidate) for line in lines]
        if not counts or max(counts) == 0:
            continue
        common = max(set(counts), key=counts.count)
        score = (counts.count(common) if common else 0, common)
        if score > best_score:
            best, best_score = candidate, score
    return best


def _count_outside_quotes(line, delimiter):
    """Return how often the delimiter occurs in a line, not counting quoted parts."""
    count, quoted = 0, False
    for character in line:
        if character == '"':
            quoted = not quoted
        elif character == delimiter and not quoted:
            count += 1
    return count


def split_records(text, delimiter):
    """Yield (line number, fields) of each record that is not blank."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield number, split_fields(line, delimiter, number)


def split_fields(line, delimiter, number=None):
    """Return the fields of one record; quotes are taken off and doubled quotes become single ones."""
    fields, field, position, quoted = [], [], 0, False
    while position < len(line):
        character = line[position]
        if quoted:
            if character != '"':
                field.append(character)
            elif line[position + 1 : position + 2] == '"':
                field.append('"')
                position += 1
            else:
                quoted = False
        elif character == '"' and not field:
            quoted = True
        elif character == delimiter:
            fields.append("".join(field))
            field = []
        else:
            field.append(character)
        position += 1
    if quoted:
        raise ReadError("a quote is opened and never closed", number)
    fields.append("".join(field))
    return fields


def _check_header(header):
    seen = set()
    for name in header:
        if not name:
            raise ReadError("a column has no name", 1)
        if name in seen:
            raise ReadError(f"two columns are called {name!r}", 1)
        seen.add(name)


def _fit(row, width, line):
    """Return a row of exactly `width` cells: short rows are filled, long rows refused."""
    if len(row) > width:
        raise ReadError(f"{len(row)} cells where the header has {width}", line)
    return row + [""] * (width - len(row))
