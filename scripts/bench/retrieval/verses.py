"""Prints the verses of Bible translations as JSON: for each wheel, the text by verse number. Reads the wheels without running their code."""
import ast
import json
import sys
import zipfile

QUOTES = '"""'


def verses(path):
    with zipfile.ZipFile(path) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith("/plain_text_readers_bible.py"))
        source = wheel.read(name).decode()
    start = source.index(QUOTES) + len(QUOTES)
    end = source.index(QUOTES, start)
    # The offsets count the backslashes of the source.
    text = source[start:end]
    call = ast.parse(source[:start] + source[end:]).body[-1].value
    tables = [ast.literal_eval(part) for part in call.args if isinstance(part, ast.Dict) and isinstance(part.keys[0], ast.Constant)]
    starts, ends = tables[:2]
    return {number: text[at:ends[number]].replace("\\", "").strip() for number, at in starts.items() if number in ends}


json.dump([verses(path) for path in sys.argv[1:]], sys.stdout)
