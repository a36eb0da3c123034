"""Import: a table with bad rows is uploaded; valid rows become results, and the bad ones a table of failures.

Every row is an item. Rows that cannot be read or do not match the schema become failures that name their line. The table
of failures is corrected and uploaded again; its rows keep their line numbers.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable
from pathlib import Path

from treeline import Client
from treeline.types import Job

from scenario import expect, prepare, run, say

BIRDS = "bird-strikes"
#: A real table of 10,000 rows, in this repository.
SAMPLE = Path(__file__).parents[3] / "examples" / "import" / "bird-strikes.csv"
ROWS = 10_000
#: The column of the costs, from 0.
COST = 12


def unfit(row: bytes) -> bytes:
    cells = row.split(b",")
    cells[COST] = b"a lot"
    return b",".join(cells)


#: Spoiled lines, the kind of the resulting failure, and the damage. Line 1 is the header.
SPOILED: dict[int, tuple[str, Callable[[bytes], bytes]]] = {
    3: ("too_few_fields", lambda row: row.rpartition(b",")[0]),
    57: ("bad_encoding", lambda row: b"\xff\xfe" + row),
    100: ("too_many_fields", lambda row: row + b",surplus"),
    512: ("invalid_row", unfit),
    2_000: ("open_quote", lambda row: b'"' + row),
}


def bird_import(client: Client) -> str:
    cost = {"type": "integer", "minimum": 0}
    schema = {"properties": {"Cost Other": cost, "Cost Repair": cost, "Cost Total $": cost}}
    prepare(client, {"name": BIRDS, "payload_schema": schema, "executor": {"kind": "builtin", "name": "validate"}})
    rows = [row.rstrip() for row in SAMPLE.read_bytes().splitlines()]
    with tempfile.TemporaryDirectory(prefix="treeline-import-") as folder:
        spoiled = Path(folder) / "bird-strikes.csv"
        lines = [SPOILED[line][1](row) if line in SPOILED else row for line, row in enumerate(rows, 1)]
        spoiled.write_bytes(b"\r\n".join(lines) + b"\r\n")

        done = upload(client, spoiled)
        good = ROWS - len(SPOILED)
        expect((done["tree"]["outcome"], done["counts"]["succeeded"]) == ("partial", good), "the good rows", done["counts"])
        found = {line["row"]: line["error"] for line in client.failures(done["id"])}
        kinds = {row: error["kind"] for row, error in found.items() if error is not None}
        expect(kinds == {line: kind for line, (kind, _) in SPOILED.items()}, "each failure has its line and kind", kinds)
        for row, error in found.items():
            expect(error is not None and error["message"].startswith(f"Line {row}"), f"row {row} names its line", error)
        results = [line["row"] or 0 for line in client.results(done["id"])]
        expect(len(results) == good and results == sorted(results), "the results are the good rows, in order")
        expect(not set(results) & set(SPOILED), "no bad row is among the results")

        failures = Path(folder) / "failures.csv"
        client.download(f"/jobs/{done['id']}/failures", failures, format="csv")
        say(f"{len(SPOILED)} failures came home")
        mended = Path(folder) / "mended.csv"
        mend(failures, rows, mended)
        again = upload(client, mended)
        expect(again["tree"]["outcome"] == "succeeded", "mended, they fit", again["tree"])
        kept = [line["row"] for line in client.results(again["id"])]
        expect(kept == list(SPOILED), "they keep the lines they had", kept)
    return f"{good:,} rows went through, {len(SPOILED)} came home, were mended, and went through"


def upload(client: Client, file: Path) -> Job:
    """Uploads a file, makes a job of its rows, and watches it to its end."""
    sent: list[int] = []
    job = client.import_file(file, BIRDS, name=file.name, progress=lambda so_far, _: sent.append(so_far))
    expect(sent[-1] == file.stat().st_size, "the whole file was sent", sent)
    say(f"{file.name} uploaded: {client.url}/imports/{job['id']}")
    message = ""
    for job in client.watch(job["id"]):
        is_complete = job["tree"]["status"] == "completed"
        expect(is_complete == (job["percent"] == 100), "100% is the end and nothing else", job["percent"])
        if job["message"] != message:
            message = job["message"]
            say(f"{file.name}: {message}")
    return job


def mend(failures: Path, rows: list[bytes], mended: Path) -> None:
    """Corrects the table of failures like a person would: fixes the cells, and keeps the columns with the errors."""
    with failures.open(newline="", encoding="utf-8-sig") as source, mended.open("w", newline="") as target:
        table, output = csv.reader(source), csv.writer(target)
        header = next(table)
        output.writerow(header)
        places = [header.index(name) for name in ("_line", "_code", "_problem")]
        for row in table:
            line = int(row[places[0]])
            output.writerow([cell.decode() for cell in rows[line - 1].split(b",")] + [row[place] for place in places])


if __name__ == "__main__":
    run("import", bird_import)
